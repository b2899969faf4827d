"""Whether an object fits its CRD: the schema, and no field that it does not have. Rules in CEL are for tests with an API server."""

from functools import lru_cache

import jsonschema
import yaml
from account import ROOT


@lru_cache
def schemas():
    """{(apiVersion, kind): schema}"""
    found = {}
    for file in (ROOT / "charts/karpenter/crds").glob("*.yaml"):
        spec = yaml.safe_load(file.read_text())["spec"]
        for version in spec["versions"]:
            found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = version["schema"]["openAPIV3Schema"]
    return found


def unknown(value, schema, path=""):
    if isinstance(value, dict) and "properties" in schema:
        for key, inner in value.items():
            if path == "" and key in ("metadata", "apiVersion", "kind"):
                continue
            if key not in schema["properties"]:
                yield f"{path}.{key} is no field"
            else:
                yield from unknown(inner, schema["properties"][key], f"{path}.{key}")
    elif isinstance(value, list) and "items" in schema:
        for n, item in enumerate(value):
            yield from unknown(item, schema["items"], f"{path}[{n}]")


def problems(thing):
    schema = schemas().get((thing.get("apiVersion"), thing.get("kind")))
    if schema is None:
        return [f"there is no kind {thing.get('kind')} in {thing.get('apiVersion')}"]
    said = [f"{'.'.join(map(str, e.absolute_path))}: {e.message}" for e in jsonschema.Draft202012Validator(schema).iter_errors(thing)]
    return said + list(unknown(thing, schema))
