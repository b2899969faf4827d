#!/usr/bin/env python3
"""The controller's image as an OCI archive, without a daemon: what the last stage of the Dockerfile holds, from this machine.

image.py --binary FILE --output FILE --version V --commit C --time SECONDS
"""

import argparse
import hashlib
import json
import platform
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from archive import tar, zipped

USER = 65532
CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def libraries(binary):
    """Shared libraries of a program, the loader included; none for a static one."""
    done = subprocess.run(["ldd", binary], capture_output=True, text=True)
    if "not a dynamic executable" in done.stderr + done.stdout or "statically linked" in done.stdout:
        return []
    missing = re.findall(r"(\S+) => not found", done.stdout)
    if done.returncode or missing:
        raise SystemExit(f"image: {binary} needs {', '.join(missing) or done.stderr}, which is not here")
    return sorted(set(re.findall(r"(/\S+) \(0x", done.stdout)))


def root(binary):
    """The file system: the program, what it is linked with, certificates, a user; nothing that could be run otherwise."""
    files = {"karpenter-controller": (Path(binary).read_bytes(), 0o755),
             "etc/passwd": f"root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n".encode(),
             "etc/group": f"root:x:0:\nnonroot:x:{USER}:\n".encode()}
    for library in libraries(binary):
        # Where the program looks for it, with what is there in the end.
        files[library.lstrip("/")] = (Path(library).resolve().read_bytes(), 0o755)
    bundle = next((c for c in CERTIFICATES if Path(c).exists()), None)
    if not bundle:
        raise SystemExit(f"image: no certificates at {', '.join(CERTIFICATES)}; install ca-certificates")
    files["etc/ssl/certs/ca-certificates.crt"] = Path(bundle).resolve().read_bytes()
    for name in list(files):
        for parent in Path(name).parents:
            if str(parent) != ".":
                files.setdefault(str(parent), None)
    return files


def image(binary, version, commit, time):
    """The OCI archive."""
    layer = tar(root(binary), time)
    packed = zipped(layer)
    created = datetime.fromtimestamp(time, UTC).isoformat().replace("+00:00", "Z")
    config = _json({
        "created": created, "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux",
        "config": {"User": f"{USER}:{USER}", "Entrypoint": ["/karpenter-controller"], "WorkingDir": "/", "ExposedPorts": {"8080/tcp": {}, "8081/tcp": {}},
                   "Env": ["PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"],
                   "Labels": {"org.opencontainers.image.title": "karpenter-controller", "org.opencontainers.image.licenses": "Apache-2.0",
                              "org.opencontainers.image.version": version, "org.opencontainers.image.revision": commit}},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        "history": [{"created": created, "created_by": "tools/release/image.py"}],
    })
    manifest = _json({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
        "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar+gzip", packed)],
    })
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
             "manifests": [{**_descriptor("application/vnd.oci.image.manifest.v1+json", manifest), "annotations": {"org.opencontainers.image.ref.name": version}}]}
    files = {f"blobs/sha256/{_digest(b)[7:]}": b for b in (packed, config, manifest)}
    files.update({"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(index), "blobs": None, "blobs/sha256": None})
    return tar(files, time)


def _json(value):
    return json.dumps(value, sort_keys=True).encode()


def _digest(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _descriptor(media_type, content):
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("binary", "output", "version", "commit"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--time", type=int, required=True)
    given = parser.parse_args()
    Path(given.output).write_bytes(image(given.binary, given.version, given.commit, given.time))


if __name__ == "__main__":
    main()
