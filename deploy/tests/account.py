"""The emulated AWS that ways of installing are tried on, and what their documents are to be there."""

import json
import os
import subprocess
import sys
from itertools import count
from pathlib import Path

import boto3
import yaml
from botocore.config import Config

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "ways"))
import iam

REGION = "us-west-2"
_number = count(300000000001)


class Emulator:
    """A server of its own, ended with `stop`."""

    def __init__(self):
        # Roles have policies of AWS's own, which moto only knows when asked to.
        environment = {**os.environ, "MOTO_IAM_LOAD_MANAGED_POLICIES": "true"}
        self.process = subprocess.Popen([sys.executable, "-m", "aws_emulator"], cwd=ROOT / "tools", env=environment, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), line
        self.url = line.removeprefix("listening on ").strip()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


class Account:
    """One account of the emulator."""

    def __init__(self, emulator):
        self.number, self.url = str(next(_number)), emulator.url

    def client(self, service):
        return boto3.client(service, endpoint_url=self.url, region_name=REGION, aws_access_key_id=f"TEST{self.number}",
                            aws_secret_access_key="secret", config=Config(retries={"total_max_attempts": 1}))

    def values(self, cluster):
        """What the placeholders of deploy/iam are for a cluster in this account."""
        return {"partition": "aws", "region": REGION, "account_id": self.number, "cluster_name": cluster, "url_suffix": "amazonaws.com",
                "node_role_arn": f"arn:aws:iam::{self.number}:role/KarpenterNodeRole-{cluster}",
                "queue_arn": f"arn:aws:sqs:{REGION}:{self.number}:{cluster}"}

    def policy(self, name):
        """The document of a managed policy, as IAM has it."""
        client = self.client("iam")
        arn = f"arn:aws:iam::{self.number}:policy/{name}"
        version = client.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        return client.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]

    def role(self, name):
        client = self.client("iam")
        role = client.get_role(RoleName=name)["Role"]
        attached = client.list_attached_role_policies(RoleName=name)["AttachedPolicies"]
        return role["AssumeRolePolicyDocument"], sorted(p["PolicyName"] for p in attached)

    def rules(self):
        """{pattern as text: ARNs that it sends to}"""
        client = self.client("events")
        return {json.dumps(json.loads(r["EventPattern"]), sort_keys=True):
                [t["Arn"] for t in client.list_targets_by_rule(Rule=r["Name"])["Targets"]] for r in client.list_rules()["Rules"]}

    def queue(self, name):
        client = self.client("sqs")
        url = client.get_queue_url(QueueName=name)["QueueUrl"]
        return client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]


def expect_infrastructure(test, account, cluster):
    """AWS-240, AWS-243 and AWS-244, and the six policies of section 9, whatever made them."""
    values = account.values(cluster)
    trust, attached = account.role(f"KarpenterNodeRole-{cluster}")
    test.assertEqual(iam.normal(trust), iam.normal(iam.fill(iam.document("trust-node"), values)))
    test.assertEqual(attached, sorted(iam.document("node-role")["managedPolicies"]))
    for name, logical in iam.CONTROLLER.items():
        made = account.policy(f"{logical}Policy-{cluster}")
        test.assertEqual(iam.normal(made), iam.normal(iam.fill(iam.document(f"controller/{name}"), values)), name)
    queue = account.queue(cluster)
    test.assertEqual(queue["MessageRetentionPeriod"], "300")
    test.assertEqual(queue["SqsManagedSseEnabled"].lower(), "true")
    test.assertEqual(iam.normal(queue["Policy"]), iam.normal(iam.fill(iam.document("queue-policy"), values)))
    patterns = {json.dumps(p, sort_keys=True): [values["queue_arn"]] for p in iam.document("event-rules").values()}
    test.assertEqual(account.rules(), patterns)


class Template(yaml.SafeLoader):
    """Reads a CloudFormation template with its short forms (!Sub and the like)."""


def _short(loader, suffix, node):
    value = loader.construct_scalar(node) if isinstance(node, yaml.ScalarNode) else loader.construct_sequence(node, deep=True)
    if suffix == "GetAtt":
        return {"Fn::GetAtt": value.split(".", 1)}
    return {"Ref" if suffix == "Ref" else f"Fn::{suffix}": value}


Template.add_multi_constructor("!", _short)
