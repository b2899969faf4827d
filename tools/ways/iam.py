"""The IAM documents of deploy/iam, which every way of installing takes its policies from.

They are JSON with `${name}` in values and keys; `fill` puts values in. Nothing but the standard library is needed.
"""

import json
import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "deploy" / "iam"
# File, and what the policy is called before `Policy-<cluster>` and in code.
CONTROLLER = {
    "node-lifecycle": "KarpenterControllerNodeLifecycle",
    "iam-integration": "KarpenterControllerIAMIntegration",
    "eks-integration": "KarpenterControllerEKSIntegration",
    "interruption": "KarpenterControllerInterruption",
    "zonal-shift": "KarpenterControllerZonalShift",
    "resource-discovery": "KarpenterControllerResourceDiscovery",
}
# IAM counts characters of a managed policy without white space.
MANAGED_POLICY_LIMIT = 6144


def text(name):
    return (SOURCE / f"{name}.json").read_text()


def document(name):
    return json.loads(text(name))


def fill(value, values):
    """The document with values in the place of `${name}`; a name without a value is an error."""
    def put(match):
        if match[1] not in values:
            raise KeyError(f"no value for ${{{match[1]}}}")
        return values[match[1]]
    return json.loads(re.sub(r"\$\{(\w+)\}", put, json.dumps(value)))


def controller_policies():
    """{file name: document} of the six policies."""
    return {name: document(f"controller/{name}") for name in CONTROLLER}


def combined_policy():
    """All six as one document that fits into one managed policy, under the name that v0.5 gave it.

    Sids are left out, statements that differ in their actions only are made one, and so are those on resources of the same
    tags (an action on a kind of resource that it does not take allows nothing). Tagging of instance profiles is left out: the
    controller gives tags when it makes them.
    """
    merged = []
    for policy in controller_policies().values():
        for statement in policy["Statement"]:
            actions, resources = _list(statement["Action"]), _list(statement["Resource"])
            if actions == ["iam:TagInstanceProfile"]:
                continue
            condition = statement.get("Condition")
            for other in merged:
                same_resources = sorted(other["Resource"]) == sorted(resources)
                by_resource_tag = condition and condition == other["Condition"] and _only_resource_tags(condition)
                if condition == other["Condition"] and (same_resources or by_resource_tag):
                    other["Action"] += [a for a in actions if a not in other["Action"]]
                    other["Resource"] += [r for r in resources if r not in other["Resource"]]
                    break
            else:
                merged.append({"Action": list(actions), "Resource": list(resources), "Condition": condition})
    return {"Version": "2012-10-17", "Statement": [_statement(m) for m in merged]}


def _only_resource_tags(condition):
    return all(key.startswith("aws:ResourceTag/") for keys in condition.values() for key in keys)


def _statement(merged):
    statement = {"Effect": "Allow", "Action": _one(merged["Action"]), "Resource": _one(merged["Resource"])}
    if merged["Condition"]:
        statement["Condition"] = merged["Condition"]
    return statement


def _one(values):
    return values[0] if len(values) == 1 else values


def _list(value):
    return value if isinstance(value, list) else [value]


def size(policy):
    return len(re.sub(r"\s", "", json.dumps(policy)))


def normal(policy):
    """The same for documents that mean the same: lists where there may be one or many, and in order."""
    def walk(value, key=None):
        if isinstance(value, dict):
            return {k: walk(v, k) for k, v in sorted(value.items())}
        if isinstance(value, list):
            walked = [walk(v) for v in value]
            return walked if key == "Statement" else sorted(walked, key=json.dumps)
        return [value] if key not in ("Version", "Sid", "Effect", "Principal") else value
    whole = walk(policy if isinstance(policy, dict) else json.loads(policy))
    whole["Statement"] = sorted(whole["Statement"], key=json.dumps)
    return whole
