"""The Terraform modules: formatted, valid, tested with mocked providers, and applied to the emulator and destroyed again."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import crd
import yaml
from account import REGION, ROOT, Account, Emulator, expect_infrastructure

FOLDERS = ("modules/karpenter", "modules/karpenter-aws", "examples/terraform")
PLUGINS = [os.environ.get("KARPENTER_TERRAFORM_PLUGINS"), "/opt/tf-plugins", "/usr/local/share/terraform/plugins", Path.home() / ".terraform.d/plugins"]

MISSING = "the Terraform provider hashicorp/aws is missing: neither in a plugin folder (KARPENTER_TERRAFORM_PLUGINS) nor in a registry"


def setUpModule():
    global work, environment
    # Terraform writes beside what it reads, so it gets a copy.
    work = Path(tempfile.mkdtemp(prefix="karpenter-terraform-"))
    for folder in ("modules", "examples", "charts"):
        shutil.copytree(ROOT / folder, work / folder)
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": str(work / "terraformrc"), "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1"}
    (work / "terraformrc").write_text(configuration())


def tearDownModule():
    shutil.rmtree(work)


def configuration():
    """The Helm provider is the stand-in; AWS's is where it lies on this machine, else Terraform fetches it."""
    places = [f'  filesystem_mirror {{\n    path = "{os.environ["KARPENTER_HELM_PROVIDER"]}"\n    include = ["hashicorp/helm"]\n  }}\n']
    aws = next((p for p in PLUGINS if p and (Path(p) / "registry.terraform.io/hashicorp/aws").is_dir()), None)
    if aws:
        places.append(f'  filesystem_mirror {{\n    path = "{aws}"\n    include = ["hashicorp/aws"]\n  }}\n')
    else:
        places.append('  direct {\n    include = ["hashicorp/aws"]\n  }\n')
    return "provider_installation {\n" + "".join(places) + "}\n"


def terraform(folder, *arguments, **more):
    done = subprocess.run(["terraform", arguments[0], "-no-color", *arguments[1:]], cwd=work / folder, env={**environment, **more}, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if done.returncode and "hashicorp/aws" in said and "init" in arguments:
        said = f"{MISSING}\n{said}"
    return done.returncode, said


class TerraformTest(unittest.TestCase):
    def run_terraform(self, folder, *arguments, **more):
        code, said = terraform(folder, *arguments, **more)
        if code and said.startswith(MISSING):
            # No package registry has it, and not every machine can fetch it: said aloud, and the rest is tested.
            print(f"\nNOT TESTED: {self.id()}: {MISSING}", file=sys.stderr, flush=True)
            self.skipTest(MISSING)
        self.assertEqual(code, 0, f"terraform {' '.join(arguments)} in {folder}:\n{said}")
        return said


class Modules(TerraformTest):
    def test_all_is_formatted(self):
        self.run_terraform("modules", "fmt", "-check", "-recursive", "-diff")
        self.run_terraform("examples", "fmt", "-check", "-recursive", "-diff")

    def test_all_is_valid_and_passes_its_tests(self):
        """The assertions are in the tests folders of the modules, beside what they are about. The example holds all modules."""
        for folder in FOLDERS:
            with self.subTest(folder):
                self.run_terraform(folder, "init", "-input=false")
                said = self.run_terraform(folder, "test")
                self.assertRegex(said, r"Success! [1-9]\d* passed, 0 failed")
        self.run_terraform("examples/terraform", "validate")

    def test_the_values_are_those_that_a_cluster_gets(self):
        """Those of the module as the example calls it; crates/operator/tests/it/installing installs the file."""
        folder = "modules/karpenter"
        self.run_terraform(folder, "init", "-input=false")
        variables = {"cluster_name": "shop", "queue_name": "shop", "karpenter_role": "KarpenterNodeRole-shop", "replicas": "1"}
        self.run_terraform(folder, "plan", "-input=false", "-out=values.plan", *[f"-var={k}={v}" for k, v in variables.items()])
        said = json.loads(self.run_terraform(folder, "show", "-json", "values.plan"))
        self.assertEqual(said["planned_values"]["outputs"]["values"]["value"], json.loads((ROOT / "deploy/tests/values/terraform.json").read_text()))


# Does what `helm` does as far as the stand-in provider goes: renders with the real one, notes what it was asked.
HELM = """#!/bin/sh
set -e
echo "$@" >> "$RECORD/helm"
case "$1" in
  upgrade) shift 2; exec "$KARPENTER_HELM/helm4" template $(echo "$@" | sed 's/ --wait//;s/ --create-namespace//') > "$RECORD/$1.yaml" ;;
esac
"""
KUBECTL = """#!/bin/sh
echo "$@" >> "$RECORD/kubectl"
"""
# The three commands of drain.sh, carried out on the emulator.
AWS = """#!{python}
import boto3, os, sys
with open(os.environ["RECORD"] + "/aws", "a") as file:
    print(*sys.argv[1:], file=file)
ec2 = boto3.client("ec2", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
a = sys.argv[1:]
def after(flag):
    rest = a[a.index(flag) + 1:]
    return rest[:next((n for n, x in enumerate(rest) if x.startswith("--")), len(rest))]
if a[1] == "describe-instances":
    filters = [dict(part.split("=", 1) for part in f.split(",", 1)) for f in after("--filters")]
    filters = [{{"Name": f["Name"], "Values": f["Values"].split(",")}} for f in filters]
    found = ec2.describe_instances(Filters=filters)["Reservations"]
    print(*[i["InstanceId"] for r in found for i in r["Instances"]])
elif a[1] == "terminate-instances":
    ec2.terminate_instances(InstanceIds=after("--instance-ids"))
"""


class Applied(TerraformTest):
    """The example on the emulator, with Helm that renders and a kubectl that notes what it is asked."""

    def setUp(self):
        self.emulator = Emulator()
        self.addCleanup(self.emulator.stop)
        self.account = Account(self.emulator)
        self.record = work / "record"
        programs = work / "bin"
        programs.mkdir()
        self.record.mkdir()
        for name, text in (("helm", HELM), ("kubectl", KUBECTL), ("aws", AWS.format(python=sys.executable))):
            (programs / name).write_text(text)
            (programs / name).chmod((programs / name).stat().st_mode | stat.S_IXUSR)
        self.environment = {"PATH": f"{programs}:{os.environ['PATH']}", "RECORD": str(self.record), "AWS_ENDPOINT_URL": self.emulator.url,
                            "AWS_ACCESS_KEY_ID": f"TEST{self.account.number}", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": REGION,
                            "AWS_DEFAULT_REGION": REGION}

    def instance(self, cluster, pool):
        tags = {f"kubernetes.io/cluster/{cluster}": "owned", "karpenter.sh/nodepool": pool}
        ec2 = self.account.client("ec2")
        return ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1, InstanceType="m5.large", TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": k, "Value": v} for k, v in tags.items()]}])["Instances"][0]["InstanceId"]

    def states(self):
        found = self.account.client("ec2").describe_instances()["Reservations"]
        return {i["InstanceId"]: i["State"]["Name"] for r in found for i in r["Instances"]}

    def rendered(self, chart):
        [file] = [f for f in self.record.glob("*.yaml") if f.name == f"{chart}.yaml"]
        return [o for o in yaml.safe_load_all(file.read_text()) if o]

    def test_the_example_is_applied_and_destroyed(self):
        folder = "examples/terraform"
        ec2 = self.account.client("ec2")
        subnets = [s["SubnetId"] for s in ec2.describe_subnets()["Subnets"][:2]]
        group = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
        # Not of a name that Terraform takes by itself: the example has tests of its own.
        (work / "shop.json").write_text(json.dumps({
            "cluster_name": "shop", "private_subnet_ids": subnets, "node_security_group_id": group, "oidc_provider": "https://oidc.example.com/id/1",
            # What moto does not have.
            "create_system_node_group": False, "create_pod_identity_association": False, "create_access_entry": False}))
        variables = f"-var-file={work / 'shop.json'}"
        self.run_terraform(folder, "init", "-input=false")
        self.run_terraform(folder, "apply", "-auto-approve", "-input=false", variables, **self.environment)

        expect_infrastructure(self, self.account, "shop")
        self.check_tags(ec2, [*subnets, group])
        self.check_charts(subnets, group)
        said = self.run_terraform(folder, "plan", "-detailed-exitcode", "-input=false", variables, **self.environment)
        self.assertIn("No changes", said, "SEED-3-20: a second plan differs")

        # SEED-3-23 and SEED-3-24: what a pool left behind goes, whichever pool, and nothing of another cluster.
        ours = [self.instance("shop", "spot-pool"), self.instance("shop", "ondemand-pool")]
        other = self.instance("another", "spot-pool")
        self.run_terraform(folder, "destroy", "-auto-approve", "-input=false", variables, **self.environment)
        states = self.states()
        self.assertEqual([states[i] for i in ours], ["terminated", "terminated"])
        self.assertEqual(states[other], "running")
        self.check_order()
        self.assertEqual(self.account.client("sqs").list_queues().get("QueueUrls", []), [])
        self.assertEqual(self.account.client("iam").list_policies(Scope="Local")["Policies"], [])

    def check_tags(self, ec2, identifiers):
        """SEED-3-14."""
        tags = ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": identifiers}, {"Name": "key", "Values": ["karpenter.sh/discovery"]}])["Tags"]
        self.assertEqual(sorted(t["ResourceId"] for t in tags), sorted(identifiers))
        self.assertEqual({t["Value"] for t in tags}, {"shop"})

    def check_charts(self, subnets, group):
        """SEED-3-26, SEED-3-27, SEED-3-28, SEED-3-30 and SEED-3-41: what the chart makes of the module's values."""
        objects = {(o["kind"], o["metadata"]["name"]): o for o in self.rendered("karpenter")}
        account = objects["ServiceAccount", "karpenter-sa"]
        self.assertTrue(account["metadata"]["annotations"]["eks.amazonaws.com/role-arn"].endswith(":role/KarpenterControllerRole-shop"))
        deployment = objects["Deployment", "karpenter"]["spec"]
        pod = deployment["template"]["spec"]
        [container] = pod["containers"]
        variables = {e["name"]: e.get("value") for e in container["env"]}
        self.assertEqual(deployment["replicas"], 1)
        self.assertEqual(pod["serviceAccountName"], "karpenter-sa")
        self.assertEqual(pod["nodeSelector"]["workload-type"], "system")
        self.assertEqual(pod["tolerations"], [{"key": "workload-type", "operator": "Equal", "value": "system", "effect": "NoSchedule"}])
        self.assertEqual(container["resources"], {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}})
        self.assertEqual((variables["CLUSTER_NAME"], variables["INTERRUPTION_QUEUE"]), ("shop", "shop"))
        pools = {o["metadata"]["name"]: o for o in self.rendered("karpenter-node-pools")}
        self.assertEqual(sorted(pools), ["default", "ondemand-pool", "spot-pool"])
        self.assertEqual([p for o in pools.values() for p in crd.problems(o)], [])
        self.assertEqual(pools["default"]["spec"]["role"], "KarpenterNodeRole-shop")
        self.assertEqual(pools["default"]["spec"]["subnetSelectorTerms"], [{"id": s} for s in subnets])
        self.assertEqual(pools["default"]["spec"]["securityGroupSelectorTerms"], [{"id": group}])
        crds = {o["metadata"]["name"] for o in self.rendered("karpenter-crd")}
        self.assertLessEqual({"nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "ec2nodeclasses.karpenter.k8s.aws"}, crds)

    def check_order(self):
        """SEED-3-22 and SEED-3-40: pools are deleted, and waited for, while the controller still runs."""
        self.assertRegex((self.record / "kubectl").read_text(), r"^delete nodepools.karpenter.sh --all .*\nwait nodeclaims.karpenter.sh --all --for=delete --timeout=5m\ndelete ec2nodeclasses")
        drained = (self.record / "kubectl").stat().st_mtime_ns
        self.assertGreater((self.record / "helm").stat().st_mtime_ns, drained, "the charts went before the nodes")
        removed = [line.split()[1] for line in (self.record / "helm").read_text().splitlines() if line.startswith("uninstall")]
        self.assertEqual(removed, ["karpenter-node-pools", "karpenter", "karpenter-crd"])


if __name__ == "__main__":
    unittest.main()
