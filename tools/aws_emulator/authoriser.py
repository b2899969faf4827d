"""Refuses what an account's IAM statements do not allow, from the calls as they are sent.

A call needs permission for each thing it touches: CreateFleet for the template, subnets, groups and images that it names and
for the instances, volumes and interfaces that it makes, and CreateTags for what it tags meanwhile. Where AWS decides by tags
of something that exists, its tags are taken from moto.
"""

import fnmatch
import json
import re
import urllib.parse
from dataclasses import dataclass, field

from moto.ec2.models import ec2_backends
from moto.iam.models import iam_backends

from .signed_request import list_of


@dataclass
class Touched:
    action: str
    resource: str
    context: dict = field(default_factory=dict)


def _arn(request, number, kind, name="*", own=True):
    return f"arn:aws:ec2:{request.region}:{number if own else '*'}:{kind}/{name}"


def _request_tags(request):
    """{resource type: {key: value}}"""
    tags = {}
    for entry in list_of(request.parameters, "TagSpecification"):
        of = tags.setdefault(entry.get("ResourceType", ""), {})
        for tag in list_of(entry, "Tag") or list_of(entry, "Tags"):
            of[tag.get("Key", "")] = tag.get("Value", "")
    return tags


def _tag_context(prefix, tags):
    return {f"{prefix}/{key}": value for key, value in tags.items()}


def _template_touched(request, number, name, identifier, action):
    backend = ec2_backends[number][request.region]
    for template in backend.launch_templates.values():
        if template.name == name or template.id == identifier:
            tags = {t["key"]: t["value"] for t in template.get_tags()} if hasattr(template, "get_tags") else {}
            touched = [Touched(action, _arn(request, number, "launch-template", template.id), _tag_context("aws:ResourceTag", tags))]
            if action in ("ec2:CreateFleet", "ec2:RunInstances"):
                touched += _passed(number, template.versions[-1].data)
            return touched
    return []  # the call itself fails with not found


def _passed(number, data):
    """Whoever launches with a profile gives its role away."""
    name = (data.get("IamInstanceProfile") or {}).get("Name")
    profiles = [p for p in iam_backends[number]["aws"].instance_profiles.values() if p.name == name]
    return [Touched("iam:PassRole", role.arn, {"iam:PassedToService": "ec2.amazonaws.com"}) for p in profiles for role in p.roles]


def _creates(request, number, kinds, action, create_action):
    tags = _request_tags(request)
    touched = []
    for kind in kinds:
        context = {**_tag_context("aws:RequestTag", tags.get(kind, {})), "aws:TagKeys": sorted(tags.get(kind, {}))}
        touched.append(Touched(action, _arn(request, number, kind), context))
        if tags.get(kind):
            touched.append(Touched("ec2:CreateTags", _arn(request, number, kind), {**context, "ec2:CreateAction": create_action}))
    return touched


def _touched_by_ec2(request, number):
    p, action = request.parameters, f"ec2:{request.operation}"
    if request.operation == "CreateFleet":
        # A fleet's volumes and interfaces are tagged by its template, which was authorised when it was made.
        touched = []
        for config in list_of(p, "LaunchTemplateConfigs"):
            touched += _template_touched(request, number, config.get("LaunchTemplateSpecification.LaunchTemplateName"),
                                         config.get("LaunchTemplateSpecification.LaunchTemplateId"), action)
            for override in list_of(config, "Overrides"):
                touched.append(Touched(action, _arn(request, number, "subnet", override.get("SubnetId", "*"))))
                if override.get("ImageId"):
                    touched.append(Touched(action, f"arn:aws:ec2:{request.region}::image/{override['ImageId']}"))
        kinds = [k for k in ("fleet", "instance") if k in _request_tags(request)] or ["fleet", "instance"]
        return touched + _creates(request, number, kinds, action, "CreateFleet")
    if request.operation == "RunInstances":
        touched = _template_touched(request, number, p.get("LaunchTemplate.LaunchTemplateName"), p.get("LaunchTemplate.LaunchTemplateId"), action)
        if p.get("ImageId"):
            touched.append(Touched(action, f"arn:aws:ec2:{request.region}::image/{p['ImageId']}"))
        return touched + _creates(request, number, ("instance", "volume", "network-interface"), action, "RunInstances")
    if request.operation == "CreateLaunchTemplate":
        return _creates(request, number, ("launch-template",), action, "CreateLaunchTemplate")
    if request.operation == "CreateTags":
        asked = {t.get("Key", ""): t.get("Value", "") for t in list_of(p, "Tag")}
        context = {**_tag_context("aws:RequestTag", asked), "aws:TagKeys": sorted(asked)}
        return [Touched(action, _arn(request, number, _kind_of(i), i), {**context, **_instance_tags(request, number, i)})
                for i in list_of(p, "ResourceId")]
    if request.operation in ("TerminateInstances", "RebootInstances"):
        return [Touched(action, _arn(request, number, "instance", i), _instance_tags(request, number, i)) for i in list_of(p, "InstanceId")]
    if request.operation == "DeleteLaunchTemplate":
        return _template_touched(request, number, p.get("LaunchTemplateName"), p.get("LaunchTemplateId"), action)
    return [Touched(action, "*", {"aws:RequestedRegion": request.region})]


def _kind_of(identifier):
    return {"i": "instance", "vol": "volume", "eni": "network-interface", "lt": "launch-template"}.get(identifier.split("-")[0], "*")


def _instance_tags(request, number, identifier):
    instance = ec2_backends[number][request.region].get_instance_by_id(identifier)
    tags = {t["key"]: t["value"] for t in instance.get_tags()} if instance else {}
    return _tag_context("aws:ResourceTag", tags)


def _touched_by_iam(request, number):
    p, action = request.parameters, f"iam:{request.operation}"
    name = p.get("InstanceProfileName")
    if not name:
        return [Touched(action, "*")]
    profile = next((x for x in iam_backends[number]["aws"].instance_profiles.values() if x.name == name), None)
    path = profile.path if profile else p.get("Path", "/")
    resource = f"arn:aws:iam::{number}:instance-profile{path}{name}"
    asked = {t.get("Key", ""): t.get("Value", "") for t in list_of(p, "Tags.member")}
    context = _tag_context("aws:RequestTag", asked)
    if profile:
        tags = profile.tags.values() if isinstance(profile.tags, dict) else profile.tags
        context.update(_tag_context("aws:ResourceTag", {t["Key"]: t["Value"] for t in tags}))
    touched = [Touched(action, resource, context)]
    if request.operation == "AddRoleToInstanceProfile":
        touched.append(Touched("iam:PassRole", f"arn:aws:iam::{number}:role/{p.get('RoleName')}", {"iam:PassedToService": "ec2.amazonaws.com"}))
    return touched


def _touched(request, number):
    if request.service == "ec2":
        return _touched_by_ec2(request, number)
    if request.service == "iam":
        return _touched_by_iam(request, number)
    if request.service == "sqs":
        queue = (request.parameters.get("QueueUrl") or request.parameters.get("QueueName", "")).rsplit("/", 1)[-1]
        return [Touched(f"sqs:{request.operation}", f"arn:aws:sqs:{request.region}:{number}:{queue}")]
    if request.service == "ssm":
        name = request.parameters.get("Name", "").lstrip("/")
        return [Touched(f"ssm:{request.operation}", f"arn:aws:ssm:{request.region}::parameter/{name}")]
    if request.service == "eks":
        name = request.parameters.get("path", "/").rsplit("/", 1)[-1]
        return [Touched(f"eks:{request.operation}", f"arn:aws:eks:{request.region}:{number}:cluster/{name}")]
    if request.service == "arc-zonal-shift":
        arn = urllib.parse.unquote(request.parameters.get("path", "").removeprefix("/managedresources/"))
        return [Touched(f"arc-zonal-shift:{request.operation}", "*", {"arc-zonal-shift:ResourceIdentifier": arn})]
    return [Touched(f"{request.service}:{request.operation}", "*")]


def _matches(pattern, value):
    # fnmatch knows [...] too, which IAM does not.
    return fnmatch.fnmatchcase(value, re.sub(r"\[", "[[]", pattern))


def _as_list(value):
    return value if isinstance(value, list) else [value]


def _holds(operator, key, wanted, context):
    wanted = [str(w) for w in _as_list(wanted)]
    every = operator.startswith("ForAllValues:")
    operator = operator.removeprefix("ForAllValues:")
    lenient = operator.endswith("IfExists")
    operator = operator.removesuffix("IfExists")
    found = context.get(key)
    if operator == "Null":
        return (found is None) == (wanted[0].lower() == "true")
    if found is None:
        return lenient or every
    values = [str(v) for v in _as_list(found)]
    test = {"StringEquals": lambda w, v: w == v, "ArnEquals": _matches, "ArnLike": _matches, "StringLike": _matches}.get(operator)
    if test is None:
        raise ValueError(f"the authoriser does not know the condition {operator}")
    ok = [any(test(w, v) for w in wanted) for v in values]
    return all(ok) if every else any(ok)


def _applies(statement, touched):
    if not any(_matches(a.lower(), touched.action.lower()) for a in _as_list(statement["Action"])):
        return False
    if not any(_matches(r, touched.resource) or touched.resource.endswith(":*") or r == "*" for r in _as_list(statement.get("Resource", "*"))):
        return False
    return all(_holds(operator, key, wanted, touched.context)
               for operator, keys in statement.get("Condition", {}).items() for key, wanted in keys.items())


def refusal(account, number, request):
    """None, or what was refused and why."""
    if account.policy is None or request.service == "sts":
        return None
    for touched in _touched(request, number):
        applying = [s for s in account.policy if _applies(s, touched)]
        if any(s.get("Effect") == "Deny" for s in applying):
            why = "with an explicit deny in an identity-based policy"
        elif any(s.get("Effect", "Allow") == "Allow" for s in applying):
            continue
        else:
            why = f"because no identity-based policy allows the {touched.action} action"
        message = f"You are not authorized to perform: {touched.action} on resource: {touched.resource} {why}"
        return {"operation": request.operation, "action": touched.action, "resource": touched.resource, "message": message,
                "context": json.loads(json.dumps(touched.context))}
    return None
