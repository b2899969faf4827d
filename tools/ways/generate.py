#!/usr/bin/env python3
"""Writes what every way of installing takes from deploy/iam: generate.py [--check]. With --check nothing is written, and
files that would change are named."""

import json
import sys
from pathlib import Path
from textwrap import indent

sys.path.insert(0, str(Path(__file__).parent))
import iam

ROOT = Path(__file__).resolve().parents[2]
GENERATED = "generated from deploy/iam by tools/ways/generate.py; change it there"
CLOUDFORMATION = {
    "partition": "${AWS::Partition}", "region": "${AWS::Region}", "account_id": "${AWS::AccountId}", "url_suffix": "${AWS::URLSuffix}",
    "cluster_name": "${ClusterName}", "node_role_arn": "${KarpenterNodeRole.Arn}", "queue_arn": "${KarpenterInterruptionQueue.Arn}",
}
RULES = "event-rules"


def pretty(value):
    return json.dumps(value, indent=2, ensure_ascii=False)


def cloudformation():
    parts = [f"""\
# {GENERATED}
AWSTemplateFormatVersion: "2010-09-09"
Description: What Karpenter needs in an AWS account - a role for nodes, policies for the controller, a queue of interruptions
Parameters:
  ClusterName:
    Type: String
    Description: Name of the EKS cluster; at most 46 characters, since names of roles have at most 64
    AllowedPattern: "[0-9A-Za-z][0-9A-Za-z_-]*"
    MaxLength: 46
  OldNames:
    Type: String
    Description: Also make the instance profile and the single controller policy that older instructions name
    AllowedValues: ["true", "false"]
    Default: "true"
Conditions:
  WithOldNames: !Equals [!Ref OldNames, "true"]
Resources:
  KarpenterNodeRole:
    Type: AWS::IAM::Role
    Properties:
      RoleName: !Sub KarpenterNodeRole-${{ClusterName}}
      Path: /
      AssumeRolePolicyDocument:
{indent(_trust(), "        ")}
      ManagedPolicyArns:
{indent(_managed(), "        ")}
"""]
    for name, logical in iam.CONTROLLER.items():
        parts.append(_managed_policy(f"{logical}Policy", iam.document(f"controller/{name}")))
    parts.append(_managed_policy("KarpenterControllerPolicy", iam.combined_policy(), condition="WithOldNames"))
    parts.append("""\
  KarpenterNodeInstanceProfile:
    Type: AWS::IAM::InstanceProfile
    Condition: WithOldNames
    Properties:
      InstanceProfileName: !Sub KarpenterNodeInstanceProfile-${ClusterName}
      Path: /
      Roles: [!Ref KarpenterNodeRole]
  KarpenterInterruptionQueue:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: !Ref ClusterName
      MessageRetentionPeriod: 300
      SqsManagedSseEnabled: true
""")
    queue_policy = indent(pretty(iam.document("queue-policy")), "        ")
    queue_policy = queue_policy.replace('"${queue_arn}"', '{ "Fn::GetAtt": ["KarpenterInterruptionQueue", "Arn"] }').lstrip()
    parts.append(f"""\
  KarpenterInterruptionQueuePolicy:
    Type: AWS::SQS::QueuePolicy
    Properties:
      Queues: [!Ref KarpenterInterruptionQueue]
      PolicyDocument:
        {queue_policy}
""")
    for name, pattern in iam.document(RULES).items():
        parts.append(f"""\
  {name}Rule:
    Type: AWS::Events::Rule
    Properties:
      EventPattern: {json.dumps(pattern)}
      Targets:
        - Id: KarpenterInterruptionQueueTarget
          Arn: !GetAtt KarpenterInterruptionQueue.Arn
""")
    outputs = ["""\
Outputs:
  NodeRoleArn:
    Value: !GetAtt KarpenterNodeRole.Arn
  QueueName:
    Value: !GetAtt KarpenterInterruptionQueue.QueueName
"""]
    for logical in iam.CONTROLLER.values():
        outputs.append(f"  {logical.removeprefix('Karpenter')}PolicyArn:\n    Value: !Ref {logical}Policy\n")
    return "".join(parts + outputs)


def _trust():
    text = pretty(iam.document("trust-node"))
    # The one value with a variable in it is a string for CloudFormation to fill.
    return text.replace('"ec2.${url_suffix}"', '{ "Fn::Sub": "ec2.${AWS::URLSuffix}" }')


def _managed():
    names = iam.document("node-role")["managedPolicies"]
    return "\n".join(f"- !Sub arn:${{AWS::Partition}}:iam::aws:policy/{name}" for name in names)


def _managed_policy(logical, document, condition=None):
    # Keys of conditions hold the cluster's name, and only text can have that filled in.
    text = pretty(iam.fill(document, CLOUDFORMATION))
    condition = f"    Condition: {condition}\n" if condition else ""
    return f"""\
  {logical}:
    Type: AWS::IAM::ManagedPolicy
{condition}    Properties:
      ManagedPolicyName: !Sub {logical}-${{ClusterName}}
      PolicyDocument: !Sub |
{indent(text, "        ")}
"""


def terraform(name):
    """The documents as they are: Terraform's templates have the same form."""
    return pretty(iam.document(name)) + "\n"


def typescript():
    documents = {name: iam.document(f"controller/{name}") for name in iam.CONTROLLER}
    return f"""\
// {GENERATED}

/** Controller policies by name, with `${{name}}` where values belong. */
export const controllerPolicies: Record<string, object> = {pretty(documents)};

/** Who may be a node. */
export const nodeTrust = {pretty(iam.document("trust-node"))};

/** Names of AWS's own policies for nodes. */
export const nodePolicies: string[] = {pretty(iam.document("node-role")["managedPolicies"])};

/** Who may send to the queue of interruptions. */
export const queuePolicy = {pretty(iam.document("queue-policy"))};

/** What arrives in the queue of interruptions. */
export const eventRules: Record<string, {{ source: string[]; "detail-type": string[] }}> = {pretty(iam.document(RULES))};
"""


def kops():
    # A kOps cluster is not known to EKS: nothing to ask there, and no shift to ask for. Its nodes have a role of kOps's own.
    values = {
        "partition": "aws", "region": "${AWS_REGION}", "account_id": "${AWS_ACCOUNT_ID}", "cluster_name": "${NAME}",
        "node_role_arn": "arn:aws:iam::${AWS_ACCOUNT_ID}:role/nodes.${NAME}",
        "queue_arn": "arn:aws:sqs:${AWS_REGION}:${AWS_ACCOUNT_ID}:${QUEUE_NAME}",
    }
    statements = [s for name in KOPS for s in iam.fill(iam.document(f"controller/{name}"), values)["Statement"]]
    return f"""\
# {GENERATED}
#
# The part of a kOps cluster's spec that gives the controller's service account its rights, for `kops edit cluster` (after
# `envsubst`, which fills in AWS_REGION, AWS_ACCOUNT_ID, NAME and QUEUE_NAME; names of queues have no dots).
spec:
  iam:
    serviceAccountExternalPermissions:
      - name: karpenter
        namespace: kube-system
        aws:
          inlinePolicy: |
{indent(pretty(statements), "            ")}
"""


KOPS = ("node-lifecycle", "iam-integration", "interruption", "resource-discovery")


def files():
    """{path: content}"""
    made = {
        "deploy/cloudformation/karpenter.yaml": cloudformation(),
        "deploy/iam/controller-policy.json": pretty(iam.combined_policy()) + "\n",
        "deploy/kops/permissions.yaml": kops(),
        "cdk/lib/policies.ts": typescript(),
    }
    for name in [*(f"controller/{n}" for n in iam.CONTROLLER), "trust-node", "trust-irsa", "trust-pod-identity", "queue-policy", "node-role", RULES]:
        made[f"modules/karpenter-aws/policies/{name.removeprefix('controller/')}.json"] = terraform(name)
    return made


def main():
    check = sys.argv[1:] == ["--check"]
    stale = []
    for path, content in files().items():
        file = ROOT / path
        if file.exists() and file.read_text() == content:
            continue
        stale.append(path)
        if not check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
    for path in stale:
        print(f"{path} is {'not what tools/ways/generate.py writes; run it' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
