"""Policies say what AWS-240's table says, and the same in every form."""

import json
import os
import re
import subprocess
import unittest

import yaml
from account import ROOT, iam

CLUSTER = "my-cluster.example.com"
# Queues have no dots in their names.
QUEUE = "my-cluster-example-com"
ENVIRONMENT = {"CLUSTER_NAME": CLUSTER, "AWS_REGION": "eu-central-1", "AWS_ACCOUNT_ID": "123456789012", "OIDC_ENDPOINT": "https://oidc.example.com/id/1",
               "NAME": CLUSTER, "QUEUE_NAME": QUEUE, "AWS_PARTITION": "aws", "K8S_VERSION": "1.35", "KARPENTER_NAMESPACE": "kube-system"}
VALUES = {"partition": "aws", "region": "eu-central-1", "account_id": "123456789012", "cluster_name": CLUSTER, "url_suffix": "amazonaws.com",
          "node_role_arn": f"arn:aws:iam::123456789012:role/KarpenterNodeRole-{CLUSTER}", "queue_arn": f"arn:aws:sqs:eu-central-1:123456789012:{QUEUE}",
          "oidc_provider": "oidc.example.com/id/1", "namespace": "kube-system", "service_account": "karpenter"}
# The operations that the controller calls (the table of section 10), as actions.
CALLED = {
    "ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeImages", "ec2:DescribeSubnets", "ec2:DescribeSecurityGroups",
    "ec2:DescribeCapacityReservations", "ec2:DescribePlacementGroups", "ec2:DescribeLaunchTemplates", "ec2:DescribeInstances",
    "ec2:DescribeInstanceStatus", "ec2:DescribeSpotPriceHistory", "ec2:CreateFleet", "ec2:RunInstances", "ec2:CreateLaunchTemplate",
    "ec2:DeleteLaunchTemplate", "ec2:CreateTags", "ec2:TerminateInstances", "ec2:RebootInstances", "iam:GetInstanceProfile",
    "iam:CreateInstanceProfile", "iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile",
    "iam:ListInstanceProfiles", "iam:PassRole", "eks:DescribeCluster", "ssm:GetParameter", "pricing:GetProducts", "sqs:GetQueueUrl",
    "sqs:ReceiveMessage", "sqs:DeleteMessage", "arc-zonal-shift:GetManagedResource",
}


def statements(*policies):
    return [s for p in policies for s in p["Statement"]]


def actions(*policies):
    return {a for s in statements(*policies) for a in ([s["Action"]] if isinstance(s["Action"], str) else s["Action"])}


def envsubst(text):
    return re.sub(r"\$\{(\w+)\}", lambda m: ENVIRONMENT[m[1]], text)


class Policies(unittest.TestCase):
    def test_what_is_called_is_allowed_and_little_else(self):
        """Section 10, and AWS-248: tagging of instance profiles is allowed and not called."""
        self.assertEqual(actions(*iam.controller_policies().values()), CALLED | {"iam:TagInstanceProfile"})
        self.assertEqual(actions(iam.combined_policy()), CALLED)

    def test_nothing_is_made_or_removed_without_the_clusters_tags(self):
        """AWS-241 and AWS-309: what changes something depends on tags, which the controller must send."""
        reads = ("Describe", "Get", "List", "PassRole", "DeleteMessage", "ReceiveMessage")
        exempt = {"AllowScopedEC2InstanceAccessActions"}
        for statement in statements(*iam.controller_policies().values()):
            if statement["Sid"] in exempt or all(a.split(":")[1].startswith(reads) for a in actions({"Statement": [statement]})):
                continue
            with self.subTest(statement["Sid"]):
                keys = {k for keys in statement["Condition"].values() for k in keys}
                self.assertTrue(keys & {"aws:ResourceTag/kubernetes.io/cluster/${cluster_name}", "aws:RequestTag/kubernetes.io/cluster/${cluster_name}"})
                self.assertTrue(any(k.endswith(("karpenter.sh/nodepool", "karpenter.k8s.aws/ec2nodeclass")) for k in keys))

    def test_parameters_are_those_of_aws_only(self):
        """AWS-242: parameters of one's own need a grant of one's own."""
        ssm = [s for s in statements(*iam.controller_policies().values()) if s["Action"] == "ssm:GetParameter"]
        self.assertEqual([s["Resource"] for s in ssm], ["arn:${partition}:ssm:${region}::parameter/aws/service/*"])

    def test_the_combined_policy_fits_into_one(self):
        """SEED-2-17. The longest name of a cluster is 46 characters, since the node role's has at most 64 (AWS-240)."""
        longest = {**VALUES, "region": "ap-southeast-2", "cluster_name": "c" * 46,
                   "node_role_arn": VALUES["node_role_arn"].replace(CLUSTER, "c" * 46), "queue_arn": VALUES["queue_arn"].replace(QUEUE, "c" * 46)}
        self.assertLessEqual(iam.size(iam.fill(iam.combined_policy(), longest)), iam.MANAGED_POLICY_LIMIT)
        for name, policy in iam.controller_policies().items():
            self.assertLessEqual(iam.size(iam.fill(policy, longest)), iam.MANAGED_POLICY_LIMIT, name)

    def test_the_combined_policy_allows_what_the_six_do(self):
        """Every action with a condition of the six has that condition in the combined one."""
        def grants(*policies):
            return {(a, json.dumps(s.get("Condition"), sort_keys=True)) for s in statements(*policies) for a in actions({"Statement": [s]})}
        dropped = {g for g in grants(*iam.controller_policies().values()) if g[0] == "iam:TagInstanceProfile"}
        self.assertEqual(grants(iam.combined_policy()), grants(*iam.controller_policies().values()) - dropped)

    def test_trust_is_for_one_service_account(self):
        """AWS-245, SEED-0-18 and SEED-0-19: the issuer without its scheme, audience, subject."""
        [statement] = iam.fill(iam.document("trust-irsa"), VALUES)["Statement"]
        self.assertEqual(statement["Principal"], {"Federated": "arn:aws:iam::123456789012:oidc-provider/oidc.example.com/id/1"})
        self.assertEqual(statement["Condition"], {"StringEquals": {
            "oidc.example.com/id/1:aud": "sts.amazonaws.com", "oidc.example.com/id/1:sub": "system:serviceaccount:kube-system:karpenter"}})
        self.assertEqual(actions(iam.document("trust-pod-identity")), {"sts:AssumeRole", "sts:TagSession"})


class ByHand(unittest.TestCase):
    def render(self, name, **more):
        return subprocess.run([ROOT / "deploy/iam/render.sh", name], env={"PATH": os.environ["PATH"], **ENVIRONMENT, **more}, capture_output=True, text=True)

    def test_rendered_documents_are_the_source_with_values(self):
        """SEED-0-21: what the guide ships is JSON, unlike the printed original."""
        for name in [*(f"controller/{n}" for n in iam.CONTROLLER), "trust-node", "trust-irsa", "trust-pod-identity", "queue-policy"]:
            with self.subTest(name):
                done = self.render(name)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(json.loads(done.stdout), iam.fill(iam.document(name), VALUES))
        self.assertEqual(json.loads(self.render("controller-policy").stdout), iam.fill(iam.combined_policy(), VALUES))

    def test_what_is_missing_is_named(self):
        done = self.render("trust-irsa", OIDC_ENDPOINT="")
        self.assertEqual((done.returncode, done.stderr), (1, "render.sh: OIDC_ENDPOINT is not set\n"))
        done = self.render("controller/eks-integration", CLUSTER_NAME="")
        self.assertEqual((done.returncode, done.stderr), (1, "render.sh: CLUSTER_NAME is not set\n"))


class OtherForms(unittest.TestCase):
    def test_eksctl_attaches_the_six_policies_and_lets_nodes_join(self):
        """SEED-2-12, SEED-2-15, AWS-245 and AWS-246."""
        config = yaml.safe_load(envsubst((ROOT / "deploy/eksctl/cluster.yaml").read_text()))
        self.assertEqual(config["metadata"]["tags"], {"karpenter.sh/discovery": CLUSTER})
        self.assertTrue(config["iam"]["withOIDC"])
        [association] = config["iam"]["podIdentityAssociations"]
        self.assertEqual((association["namespace"], association["serviceAccountName"]), ("kube-system", "karpenter"))
        self.assertEqual(association["permissionPolicyARNs"], [f"arn:aws:iam::123456789012:policy/{n}Policy-{CLUSTER}" for n in iam.CONTROLLER.values()])
        [mapping] = config["iamIdentityMappings"]
        self.assertEqual(mapping, {"arn": VALUES["node_role_arn"], "username": "system:node:{{EC2PrivateDNSName}}",
                                   "groups": ["system:bootstrappers", "system:nodes"]})

    def test_kops_permissions_are_the_source_without_eks(self):
        """SEED-4-2, SEED-4-7 and SEED-4-17: no EKS call, a role of kOps's, names with dots."""
        spec = yaml.safe_load(envsubst((ROOT / "deploy/kops/permissions.yaml").read_text()))
        [account] = spec["spec"]["iam"]["serviceAccountExternalPermissions"]
        values = {**VALUES, "node_role_arn": f"arn:aws:iam::123456789012:role/nodes.{CLUSTER}"}
        wanted = [iam.fill(p, values) for n, p in iam.controller_policies().items() if n not in ("eks-integration", "zonal-shift")]
        self.assertEqual(json.loads(account["aws"]["inlinePolicy"]), statements(*wanted))

    def test_terraform_and_cdk_have_the_source(self):
        """What is filled in by Terraform and CDK is the source; terraform_test.py and cdk/test look at the result."""
        for name in [*(f"controller/{n}" for n in iam.CONTROLLER), "trust-node", "trust-irsa", "trust-pod-identity", "queue-policy"]:
            copy = ROOT / "modules/karpenter-aws/policies" / f"{name.removeprefix('controller/')}.json"
            self.assertEqual(json.loads(copy.read_text()), iam.document(name), name)
        generated = subprocess.run([ROOT / "tools/ways/generate.py", "--check"], capture_output=True, text=True)
        self.assertEqual((generated.returncode, generated.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
