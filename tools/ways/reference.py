#!/usr/bin/env python3
"""Writes docs/reference/kinds.md from the CRDs of the chart: reference.py [--check]"""

import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/reference/kinds.md"
ORDER = ("nodepools", "nodeclaims", "ec2nodeclasses", "nodeoverlays", "capacitybuffers", "kwoknodeclasses")


def kind_of(schema):
    """A few words for what a value may be."""
    if schema.get("x-kubernetes-int-or-string"):
        return "number or text"
    if schema.get("type") == "array":
        return f"list of {kind_of(schema['items'])}"
    if schema.get("type") == "object" and "additionalProperties" in schema:
        return f"map to {kind_of(schema['additionalProperties'])}"
    if "enum" in schema:
        return " or ".join(f"`{v}`" for v in schema["enum"])
    return {"string": "text", "boolean": "true or false", "integer": "integer", "number": "number", "object": "object"}.get(schema.get("type"), "anything")


def bounds(schema):
    said = []
    for key, words in (("minimum", "at least {}"), ("maximum", "at most {}"), ("minItems", "at least {} items"), ("maxItems", "at most {} items"),
                       ("minLength", "at least {} characters"), ("maxLength", "at most {} characters")):
        if key in schema:
            said.append(words.format(schema[key]))
    if "default" in schema:
        default = schema["default"]
        said.append(f"default `{yaml.safe_dump(default, default_flow_style=True).strip().removesuffix('...').strip()}`")
    return said


def rows(schema, path=""):
    """(field, type, meaning) of everything below a schema."""
    required = set(schema.get("required", []))
    for name, field in sorted(schema.get("properties", {}).items()):
        here = f"{path}.{name}" if path else name
        meaning = [field.get("description", "").strip()] if field.get("description") else []
        said = (["required"] if name in required else []) + bounds(field)
        if said:
            meaning.append(f"({', '.join(said)})")
        rules = [r["message"] for r in field.get("x-kubernetes-validations", []) if r.get("message")]
        if rules:
            meaning.append("Rules: " + "; ".join(rules) + ".")
        yield here, kind_of(field), " ".join(meaning)
        inner, ending = field, ""
        while inner.get("type") == "array":
            inner, ending = inner["items"], ending + "[]"
        yield from rows(inner, here + ending)


def page():
    parts = ["""\
# Kinds

Written by `tools/ways.sh generate` from the CRDs in `charts/karpenter/crds`; do not edit. Fields of `status` that the controllers
fill in are listed, too. `[]` stands for each item of a list.
"""]
    files = {f.name.split(".")[0]: f for f in (ROOT / "charts/karpenter/crds").glob("*.yaml")}
    if set(files) != set(ORDER):
        raise SystemExit(f"reference: the CRDs are {sorted(files)}, the page has {sorted(ORDER)}")
    for name in ORDER:
        definition = yaml.safe_load(files[name].read_text())["spec"]
        for version in definition["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            scope = "in a namespace" if definition["scope"] == "Namespaced" else "cluster-wide"
            parts.append(f"\n## {definition['names']['kind']}\n\n`{definition['group']}/{version['name']}`, {scope}. {schema.get('description', '')}\n")
            rules = [r["message"] for r in schema.get("x-kubernetes-validations", []) if r.get("message")]
            if rules:
                parts.append("\nRules: " + "; ".join(rules) + ".\n")
            parts.append("\n| field | type | meaning |\n|---|---|---|\n")
            for part in ("spec", "status"):
                for field, kind, meaning in rows({"properties": {part: schema["properties"].get(part, {})}}):
                    if "." in field:
                        text = meaning.replace("|", "\\|").replace("\n", " ")
                        parts.append(f"| `{field}` | {kind} | {text} |\n")
    return "".join(parts)


def main():
    new = page()
    if PAGE.exists() and PAGE.read_text() == new:
        return 0
    if sys.argv[1:] == ["--check"]:
        print(f"{PAGE.relative_to(ROOT)} is not what tools/ways/reference.py writes; run tools/ways.sh generate")
        return 1
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
