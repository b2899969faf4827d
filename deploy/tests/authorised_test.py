"""The controller's calls under its own policies, as the emulator's authoriser decides: AC-281 in outline, AC-282."""

import json
import unittest
import urllib.request

from account import REGION, Account, Emulator
from botocore.exceptions import ClientError

CLUSTER = "demo"
OWNED = {f"kubernetes.io/cluster/{CLUSTER}": "owned", "eks:eks-cluster-name": CLUSTER}
LAUNCHED = {**OWNED, "karpenter.sh/nodepool": "default"}


def tags(values):
    return [{"Key": k, "Value": v} for k, v in values.items()]


def setUpModule():
    global emulator
    emulator = Emulator()


def tearDownModule():
    emulator.stop()


class Authorised(unittest.TestCase):
    def setUp(self):
        self.account = Account(emulator)
        self.ec2, self.iam = self.account.client("ec2"), self.account.client("iam")
        self.account.client("eks").create_cluster(name=CLUSTER, roleArn="arn:aws:iam::123456789012:role/x", resourcesVpcConfig={})
        self.account.client("sqs").create_queue(QueueName=CLUSTER)
        for role in (f"KarpenterNodeRole-{CLUSTER}", "Administrator"):
            self.iam.create_role(RoleName=role, AssumeRolePolicyDocument="{}")
        self.template("other", {})
        settings = {"policy_of": {"cluster": CLUSTER, "account": self.account.number, "region": REGION},
                    "parameters": {"/aws/service/x": "ami-1", "/mine/x": "ami-1"}}
        urllib.request.urlopen(urllib.request.Request(f"{emulator.url}/_test/{self.account.number}", data=json.dumps(settings).encode())).close()

    def template(self, name, values):
        specification = [{"ResourceType": "launch-template", "Tags": tags(values)}] if values else []
        self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData={"ImageId": "ami-1"}, TagSpecifications=specification)

    def launch(self, values):
        subnet = self.ec2.describe_subnets()["Subnets"][0]["SubnetId"]
        made = self.ec2.create_fleet(
            Type="instant", TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": "spot"},
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": {"LaunchTemplateName": "ours", "Version": "$Latest"},
                                    "Overrides": [{"InstanceType": "m5.large", "SubnetId": subnet}]}],
            TagSpecifications=[{"ResourceType": kind, "Tags": tags(values)} for kind in ("instance", "fleet", "spot-instances-request")])
        return made["Instances"][0]["InstanceIds"][0]

    def refused(self, call, **parameters):
        with self.assertRaises(ClientError) as caught:
            call(**parameters)
        self.assertIn(caught.exception.response["Error"]["Code"], ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException"))

    def test_a_node_comes_and_goes(self):
        self.template("ours", LAUNCHED)
        self.refused(self.launch, values=OWNED)
        node = self.launch(LAUNCHED)
        self.ec2.create_tags(Resources=[node], Tags=tags({"Name": "node", "karpenter.sh/nodeclaim": "default-1", "eks:eks-cluster-name": CLUSTER}))
        self.refused(self.ec2.create_tags, Resources=[node], Tags=tags({"owner": "me"}))
        self.ec2.reboot_instances(InstanceIds=[node])
        self.ec2.terminate_instances(InstanceIds=[node])
        self.ec2.delete_launch_template(LaunchTemplateName="ours")
        # AC-282: what does not carry the tags is not touched.
        self.refused(self.ec2.delete_launch_template, LaunchTemplateName="other")
        self.refused(self.template, name="bare", values=OWNED)

    def test_profiles_are_the_clusters_and_of_its_role(self):
        name = {"InstanceProfileName": "demo_1"}
        own = {**OWNED, "topology.kubernetes.io/region": REGION, "karpenter.k8s.aws/ec2nodeclass": "default"}
        self.refused(self.iam.create_instance_profile, **name, Tags=tags(OWNED))
        self.iam.create_instance_profile(**name, Path="/karpenter/us-west-2/demo/1/", Tags=tags(own))
        self.refused(self.iam.add_role_to_instance_profile, **name, RoleName="Administrator")
        self.iam.add_role_to_instance_profile(**name, RoleName=f"KarpenterNodeRole-{CLUSTER}")
        self.assertEqual(len(self.iam.get_instance_profile(**name)["InstanceProfile"]["Roles"]), 1)
        self.assertEqual(len(self.iam.list_instance_profiles()["InstanceProfiles"]), 1)
        self.iam.remove_role_from_instance_profile(**name, RoleName=f"KarpenterNodeRole-{CLUSTER}")
        self.iam.delete_instance_profile(**name)
        self.refused(self.iam.delete_role, RoleName="Administrator")

    def test_what_is_read(self):
        """AWS-242: parameters of one's own are not."""
        ssm, sqs, eks = (self.account.client(s) for s in ("ssm", "sqs", "eks"))
        self.assertEqual(ssm.get_parameter(Name="/aws/service/x")["Parameter"]["Value"], "ami-1")
        self.refused(ssm.get_parameter, Name="/mine/x")
        url = sqs.get_queue_url(QueueName=CLUSTER)["QueueUrl"]
        sqs.receive_message(QueueUrl=url)
        self.refused(sqs.send_message, QueueUrl=url, MessageBody="x")
        eks.describe_cluster(name=CLUSTER)
        self.refused(eks.describe_cluster, name="another")
        for operation in ("capacity_reservations", "images", "instances", "instance_status", "instance_type_offerings", "launch_templates",
                          "placement_groups", "security_groups", "spot_price_history", "subnets"):
            getattr(self.ec2, f"describe_{operation}")(**({"Owners": ["self"]} if operation == "images" else {}))
        self.refused(self.ec2.describe_vpcs)
        self.account.client("pricing").get_products(ServiceCode="AmazonEC2")


if __name__ == "__main__":
    unittest.main()
