#!/usr/bin/env python3
"""An archive: programs.py OUTPUT SECONDS FOLDER FILE... where a FILE may be path@name-inside."""

import sys
from pathlib import Path

from archive import tar, zipped

if __name__ == "__main__":
    output, time, folder, *files = sys.argv[1:]
    content = {}
    for file in files:
        path, _, name = file.partition("@")
        name = f"{folder}/{name or Path(path).name}"
        content[name] = (Path(path).read_bytes(), 0o755 if Path(path).stat().st_mode & 0o100 else 0o644)
        content[str(Path(name).parent)] = None
    Path(output).write_bytes(zipped(tar(content, int(time))))
