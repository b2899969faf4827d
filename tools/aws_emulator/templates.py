"""What CloudFormation does and moto does not: policy documents as text, policies attached to a role by its template, policies
of queues."""

import json

from moto.core.common_models import CloudFormationModel
from moto.iam.models import ManagedPolicy, Role, iam_backends
from moto.sqs.models import sqs_backends
from moto.utilities.utils import get_partition


def _wrap(kind, name, around):
    original = getattr(kind, name).__func__
    setattr(kind, name, classmethod(lambda cls, *arguments, **more: around(original, cls, *arguments, **more)))


def _create_policy(original, cls, name, resource, account_id, region_name, **more):
    properties = resource.get("Properties", {})
    if isinstance(properties.get("PolicyDocument"), str):
        resource = {**resource, "Properties": {**properties, "PolicyDocument": json.loads(properties["PolicyDocument"])}}
    return original(cls, name, resource, account_id, region_name, **more)


def _create_role(original, cls, name, resource, account_id, region_name, **more):
    role = original(cls, name, resource, account_id, region_name, **more)
    backend = iam_backends[account_id][get_partition(region_name)]
    # AWS's own policies are there with MOTO_IAM_LOAD_MANAGED_POLICIES only.
    known = {policy.arn for policy in backend.managed_policies.values()}
    for arn in resource["Properties"].get("ManagedPolicyArns", []):
        if arn in known:
            backend.attach_role_policy(arn, role.name)
    return role


def _delete_role(original, cls, name, resource, account_id, region_name):
    backend = iam_backends[account_id][get_partition(region_name)]
    for role in backend.roles.values():
        if role.name == name:
            for arn in list(role.managed_policies):
                backend.detach_role_policy(arn, name)
    return original(cls, name, resource, account_id, region_name)


class QueuePolicy(CloudFormationModel):
    """Found by moto as a subclass."""

    def __init__(self, name):
        self.physical_resource_id = name

    @staticmethod
    def cloudformation_name_type():
        return ""

    @staticmethod
    def cloudformation_type():
        return "AWS::SQS::QueuePolicy"

    @classmethod
    def create_from_cloudformation_json(cls, resource_name, cloudformation_json, account_id, region_name, **_):
        properties = cloudformation_json["Properties"]
        for url in properties["Queues"]:
            sqs_backends[account_id][region_name].set_queue_attributes(url.rsplit("/", 1)[-1], {"Policy": json.dumps(properties["PolicyDocument"])})
        return cls(resource_name)

    @classmethod
    def update_from_cloudformation_json(cls, original_resource, new_resource_name, cloudformation_json, account_id, region_name):
        return cls.create_from_cloudformation_json(new_resource_name, cloudformation_json, account_id, region_name)

    @classmethod
    def delete_from_cloudformation_json(cls, resource_name, cloudformation_json, account_id, region_name):
        """Goes with its queue."""


def install():
    _wrap(ManagedPolicy, "create_from_cloudformation_json", _create_policy)
    _wrap(Role, "create_from_cloudformation_json", _create_role)
    _wrap(Role, "delete_from_cloudformation_json", _delete_role)
