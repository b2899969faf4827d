"""Archives that are the same byte for byte for the same content: names in order, no owner, one time."""

import gzip
import io
import tarfile


def tar(files, time):
    """A tar of {name: bytes or (bytes, mode) or {"link": target} or None for a folder}."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            content = files[name]
            info = tarfile.TarInfo(name)
            info.mtime, info.mode = time, 0o644
            if content is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            elif isinstance(content, dict):
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, content["link"], 0o777
            else:
                content, info.mode = content if isinstance(content, tuple) else (content, 0o644)
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content) if info.isreg() else None)
    return out.getvalue()


def zipped(content):
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0, compresslevel=9) as file:
        file.write(content)
    return out.getvalue()
