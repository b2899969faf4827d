#!/usr/bin/env python3
"""What the programs are made of, as CycloneDX: sbom.py VERSION SECONDS < output of cargo metadata"""

import json
import sys
import uuid
from datetime import UTC, datetime

PROGRAMS = ("karpenter-operator", "karpenter-cli")


def reached(metadata):
    """Ids of the packages that end up in the programs: dependencies of builds and tests do not."""
    nodes = {n["id"]: n for n in metadata["resolve"]["nodes"]}
    todo = [p["id"] for p in metadata["packages"] if p["name"] in PROGRAMS]
    found = {}
    while todo:
        identifier = todo.pop()
        if identifier in found:
            continue
        found[identifier] = sorted(d["pkg"] for d in nodes[identifier]["deps"] if any(k["kind"] is None for k in d["dep_kinds"]))
        todo += found[identifier]
    return found


def document(metadata, version, time):
    found = reached(metadata)
    packages = sorted((p for p in metadata["packages"] if p["id"] in found), key=lambda p: (p["name"], p["version"]))
    if not packages:
        raise SystemExit(f"sbom: none of {', '.join(PROGRAMS)} is in the workspace")
    reference = {p["id"]: f"pkg:cargo/{p['name']}@{p['version']}" for p in packages}
    components = [{"type": "library", "bom-ref": reference[p["id"]], "name": p["name"], "version": p["version"], "purl": reference[p["id"]],
                   **({"licenses": [{"expression": p["license"].replace("/", " OR ")}]} if p.get("license") else {})} for p in packages]
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        # The same content has the same number.
        "serialNumber": "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_URL, version + "".join(sorted(reference.values())))),
        "metadata": {"timestamp": datetime.fromtimestamp(time, UTC).isoformat().replace("+00:00", "Z"),
                     "component": {"type": "application", "bom-ref": "karpenter", "name": "karpenter", "version": version}},
        "components": components,
        "dependencies": [{"ref": "karpenter", "dependsOn": sorted(reference[p["id"]] for p in packages if p["name"] in PROGRAMS)}]
        + [{"ref": reference[p["id"]], "dependsOn": sorted(reference[d] for d in found[p["id"]])} for p in packages],
    }


if __name__ == "__main__":
    json.dump(document(json.load(sys.stdin), sys.argv[1], int(sys.argv[2])), sys.stdout, indent=1, sort_keys=True)
