"""The CloudFormation template, deployed."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

import yaml
from account import ROOT, Account, Emulator, Template, expect_infrastructure, iam

TEMPLATE = (ROOT / "deploy/cloudformation/karpenter.yaml").read_text()


def setUpModule():
    global emulator
    emulator = Emulator()


def tearDownModule():
    emulator.stop()


class Stack(unittest.TestCase):
    def deploy(self, cluster, **parameters):
        account = Account(emulator)
        self.client = account.client("cloudformation")
        parameters = [{"ParameterKey": k, "ParameterValue": v} for k, v in {"ClusterName": cluster, **parameters}.items()]
        self.client.create_stack(StackName=cluster, TemplateBody=TEMPLATE, Capabilities=["CAPABILITY_NAMED_IAM"], Parameters=parameters)
        [stack] = self.client.describe_stacks(StackName=cluster)["Stacks"]
        self.assertEqual(stack["StackStatus"], "CREATE_COMPLETE")
        self.outputs = {o["OutputKey"]: o["OutputValue"] for o in stack["Outputs"]}
        return account

    def profiles(self, account):
        return [p["InstanceProfileName"] for p in account.client("iam").list_instance_profiles()["InstanceProfiles"]]

    def test_it_makes_role_policies_queue_and_rules(self):
        """AWS-239, AWS-240, AWS-243, AWS-244."""
        account = self.deploy("eks-cluster", OldNames="false")
        expect_infrastructure(self, account, "eks-cluster")
        self.assertEqual(self.outputs["QueueName"], "eks-cluster")
        self.assertEqual(self.outputs["NodeRoleArn"], account.values("eks-cluster")["node_role_arn"])
        for logical in iam.CONTROLLER.values():
            self.assertEqual(self.outputs[f"{logical.removeprefix('Karpenter')}PolicyArn"],
                             f"arn:aws:iam::{account.number}:policy/{logical}Policy-eks-cluster")
        self.assertEqual(self.profiles(account), [])

    def test_the_tutorials_command_gets_the_names_that_it_goes_on_with(self):
        """SEED-2-13 and SEED-2-17: one parameter, an instance profile and a single policy of the old names; also SEED-0-17."""
        account = self.deploy("demo")
        expect_infrastructure(self, account, "demo")
        made = account.policy("KarpenterControllerPolicy-demo")
        self.assertEqual(iam.normal(made), iam.normal(iam.fill(iam.combined_policy(), account.values("demo"))))
        self.assertEqual(self.profiles(account), ["KarpenterNodeInstanceProfile-demo"])
        profile = account.client("iam").get_instance_profile(InstanceProfileName="KarpenterNodeInstanceProfile-demo")["InstanceProfile"]
        self.assertEqual([r["RoleName"] for r in profile["Roles"]], ["KarpenterNodeRole-demo"])

    def test_events_arrive_in_the_queue(self):
        """SEED-3-13: a spot warning, a state change and a health event get through, other things do not."""
        account = self.deploy("demo")
        events, queue = account.client("events"), account.client("sqs")
        for source, kind in (("aws.ec2", "EC2 Spot Instance Interruption Warning"), ("aws.ec2", "EC2 Instance State-change Notification"),
                             ("aws.health", "AWS Health Event"), ("aws.ec2", "EBS Volume Notification")):
            events.put_events(Entries=[{"Source": source, "DetailType": kind, "Detail": "{}"}])
        url = queue.get_queue_url(QueueName="demo")["QueueUrl"]
        bodies = [yaml.safe_load(m["Body"]) for m in queue.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])]
        self.assertEqual(sorted(b["detail-type"] for b in bodies),
                         ["AWS Health Event", "EC2 Instance State-change Notification", "EC2 Spot Instance Interruption Warning"])

    def test_a_deleted_stack_leaves_nothing(self):
        account = self.deploy("demo")
        self.client.delete_stack(StackName="demo")
        self.assertEqual(account.client("sqs").list_queues().get("QueueUrls", []), [])
        # moto leaves managed policies; everything else is to go.
        self.assertEqual(account.rules(), {})
        self.assertEqual(account.client("iam").list_roles()["Roles"], [])
        self.assertEqual(self.profiles(account), [])


class Text(unittest.TestCase):
    def test_a_linter_finds_nothing(self):
        done = subprocess.run([Path(sys.executable).parent / "cfn-lint", ROOT / "deploy/cloudformation/karpenter.yaml"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_every_variable_of_a_substitution_is_something(self):
        template = yaml.load(TEMPLATE, Loader=Template)
        known = set(template["Parameters"]) | set(template["Resources"]) | {"AWS::Partition", "AWS::Region", "AWS::AccountId", "AWS::URLSuffix"}
        found = set(re.findall(r"\$\{([\w:]+)", TEMPLATE))
        self.assertTrue(found)
        self.assertLessEqual(found, known)

    def test_names_fit_where_the_cluster_has_the_longest_name(self):
        """AWS-240: roles have at most 64 characters; a longer cluster name is refused at once, not halfway."""
        template = yaml.load(TEMPLATE, Loader=Template)
        longest = "c" * template["Parameters"]["ClusterName"]["MaxLength"]
        self.assertEqual(len(f"KarpenterNodeRole-{longest}"), 64)


if __name__ == "__main__":
    unittest.main()
