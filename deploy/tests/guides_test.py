"""Commands of the guides: those of EKS by hand are run on the emulator, the others are checked without an account."""

import json
import os
import re
import shlex
import stat
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from pathlib import Path

import crd
import yaml
from account import ROOT, Account, Emulator, iam
from aws_shim import PROGRAM, Aws, Usage

AWS = Aws()
GUIDES = sorted((ROOT / "docs/guides").glob("*.md"))
HELM = Path(os.environ["KARPENTER_HELM"])
# Commands of `karpenter`; a test of the crate cli knows each with its options.
KARPENTER = {"sandbox", "plan", "validate", "convert", "crds", "demo"}


def blocks(path, language):
    """Fenced blocks of a guide, also of those that stand in a list."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```$", path.read_text(), re.DOTALL | re.MULTILINE)
    return ["".join(line.removeprefix(indent) for line in body.splitlines(True)) for indent, body in found]


def commands(text):
    """Simple commands of a script as lists of words; loops, substitutions and pipes are taken apart."""
    text = re.sub(r"\\\n\s*", " ", text)
    text = re.sub(r"(?m)^\s*#.*$|\s+#\s.*$", "", text)
    inner = re.findall(r"\$\(((?:[^()]|\([^()]*\))*)\)", text)
    for command in inner:
        yield from commands(command)
    text = re.sub(r"\$\((?:[^()]|\([^()]*\))*\)", "substituted", text)
    for line in text.splitlines():
        split = shlex.shlex(line, posix=True, punctuation_chars="|&;")
        split.whitespace_split = True
        split.commenters = ""
        current = []
        for word in [*split, ";"]:
            if word in ("|", "||", "&&", ";", "&"):
                while current and (current[0] in ("do", "export", "done", "for", "!") or re.match(r"^\w+=", current[0])):
                    if current[0] == "for":
                        current = []
                        break
                    current.pop(0)
                if current:
                    yield current
                current = []
            else:
                current.append(word)


class Guides(unittest.TestCase):
    """All guides."""

    def each(self, language):
        for guide in GUIDES:
            for block in blocks(guide, language):
                yield guide, block

    def test_scripts_parse(self):
        count = 0
        for _, block in self.each("sh"):
            done = subprocess.run(["bash", "-n"], input=block, text=True, capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            count += 1
        self.assertGreater(count, 30)

    def test_manifests_parse(self):
        for _, block in self.each("yaml"):
            self.assertTrue(list(yaml.safe_load_all(block)))

    def test_manifests_of_guides_fit_their_definitions(self):
        """SEED-0-30, SEED-0-31, SEED-0-32, SEED-0-33, SEED-0-34, SEED-4-10, SEED-4-14, SEED-4-30: the fields and values of the documents."""
        files = [*(ROOT / "docs/examples/eks").glob("*.yaml"), ROOT / "deploy/kops/nodeclass.yaml", ROOT / "deploy/kops/nodepool.yaml"]
        script = "#!/bin/bash\n    set -o errexit\n    echo ${HOSTNAME}"
        for file in files:
            text = file.read_text().replace("${USER_DATA}", script).replace("${NAME}", "my-cluster.example.com").replace("${CLUSTER_NAME}", "eks-cluster")
            for thing in yaml.safe_load_all(text):
                if thing["kind"] != "Deployment":
                    self.assertEqual(crd.problems(thing), [], file.name)
                if file.name == "nodeclass.yaml" and thing["spec"].get("userData"):
                    self.assertEqual(thing["spec"]["userData"], script.replace("\n    ", "\n") + "\n")
        # As the check is one: an unquoted number in a tag, and a field that is none, are found.
        self.assertTrue(crd.problems({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "spec": {"tags": {"k8s.io/role/node": 1}}}))
        self.assertIn(".spec.labels is no field", crd.problems({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "spec": {"labels": {}}}))

    def test_the_reference_of_kinds_is_up_to_date(self):
        """SEED-3-37."""
        done = subprocess.run([sys.executable, ROOT / "tools/ways/reference.py", "--check"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_files_and_links_exist(self):
        for guide in GUIDES:
            text = guide.read_text()
            for path in re.findall(r"\]\(([\w./-]+)\)", text):
                self.assertTrue((guide.parent / path).exists(), f"{guide.name} links to {path}")
            for path in re.findall(r"(?<![\w/-])((?:deploy|docs|charts|modules|examples|tools|cdk)/[\w./-]*\w)", text):
                if "checkout" in path or f"checkout/{path}" in text:
                    continue
                self.assertTrue((ROOT / path).exists(), f"{guide.name} names {path}")

    def test_commands_have_the_options_that_are_used(self):
        seen = set()
        for _, block in self.each("sh"):
            for words in commands(block):
                seen.add(words[0])
                self.check(words)
        self.assertLessEqual({"aws", "helm", "kubectl", "eksctl", "kops", "terraform", "karpenter"}, seen)

    def check(self, words):
        tool = words[0]
        if tool == "aws" and words[1] not in ("s3", "cloudformation"):
            words = [w for w in words[1:] if not w.startswith((">", "<"))]
            try:
                # Files that a guide makes are not there; any document stands for them.
                AWS.parse([re.sub(r"^file://.*", "{}", w) for w in words])
            except Usage as error:
                self.fail(f"{shlex.join(words)}: {error}")
        elif tool == "karpenter":
            self.assertIn(words[1], KARPENTER)
        elif tool == "make":
            self.assertRegex((ROOT / "Makefile").read_text(), rf"(?m)^{words[1]}:")

    def test_charts_render_as_the_guides_say(self):
        """Helm 3 and 4 with the values of each guide; SEED-0-26, SEED-0-27, SEED-0-28, SEED-2-40."""
        count = 0
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/tmp"), "CLUSTER_NAME": "demo", "KARPENTER_NAMESPACE": "kube-system",
                       "AWS_ACCOUNT_ID": "123456789012", "NAME": "my-cluster.example.com"}
        for guide, block in self.each("sh"):
            for command in re.findall(r"(?m)^\s*helm upgrade --install ((?:.*\\\n)*.*)$", block):
                count += 1
                wanted = re.sub(r" --wait\b| --create-namespace\b", "", command.replace("\\\n", " "))
                for helm in ("helm3", "helm4"):
                    done = subprocess.run(["bash", "-c", f"{HELM}/{helm} template {wanted}"], cwd=ROOT, env=environment, text=True, capture_output=True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertTrue([o for o in yaml.safe_load_all(done.stdout) if o])
        self.assertGreaterEqual(count, 8)


# Values of a chart of Karpenter v1.15 (AWS-230, AWS-231), as `helm get values` gives them back.
OF_KARPENTER = """
replicas: 2
revisionHistoryLimit: 10
strategy: {rollingUpdate: {maxUnavailable: 1}}
podDisruptionBudget: {name: karpenter, maxUnavailable: 1}
priorityClassName: system-cluster-critical
dnsPolicy: ClusterFirst
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: CriticalAddonsOnly, operator: Exists}]
serviceAccount: {create: true, name: karpenter, annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::123456789012:role/KarpenterControllerRole-demo"}}
serviceMonitor: {enabled: true}
logLevel: info
controller:
  resources: {requests: {cpu: "1", memory: 1Gi}, limits: {cpu: "1", memory: 1Gi}}
  metrics: {port: 8080}
  healthProbe: {port: 8081}
settings:
  clusterName: demo
  clusterEndpoint: https://demo.example.com
  interruptionQueue: demo
  batchMaxDuration: 10s
  batchIdleDuration: 1s
  preferencePolicy: Respect
  minValuesPolicy: Strict
  vmMemoryOverheadPercent: 0.075
  reservedENIs: "0"
  isolatedVPC: false
  featureGates: {nodeRepair: false, reservedCapacity: true, spotToSpotConsolidation: false, nodeOverlay: false, staticCapacity: false}
"""


class FromKarpenter(unittest.TestCase):
    """docs/guides/from-karpenter.md; what it says of a cluster is run by crates/operator/tests/it/switch_over.rs."""

    def test_its_helm_commands_render_with_values_of_karpenter(self):
        text = "\n".join(blocks(ROOT / "docs/guides/from-karpenter.md", "sh"))
        lines = re.findall(r"(?m)^helm (?:template|upgrade) (.*charts/karpenter .*)$", text)
        self.assertEqual(len(lines), 2)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "charts").symlink_to(ROOT / "charts")
            Path(folder, "values.yaml").write_text(OF_KARPENTER)
            for line in lines:
                for helm in ("helm3", "helm4"):
                    done = subprocess.run(["bash", "-c", f"{HELM}/{helm} template {line.split(' > ')[0]}"], cwd=folder, text=True, capture_output=True)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    objects = [o for o in yaml.safe_load_all(done.stdout) if o]
                    [deployment] = [o for o in objects if o["kind"] == "Deployment"]
                    # What is upgraded in place must be the same object (AWS-233).
                    self.assertEqual(deployment["metadata"]["name"], "karpenter")
                    self.assertEqual(deployment["spec"]["selector"]["matchLabels"], {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"})


class ByHand(unittest.TestCase):
    """docs/guides/eks-by-hand.md from the first to the last command, in an account with a cluster."""

    def setUp(self):
        self.emulator = Emulator()
        self.addCleanup(self.emulator.stop)
        self.account = Account(self.emulator)
        ec2 = self.account.client("ec2")
        self.subnets = [s["SubnetId"] for s in ec2.describe_subnets()["Subnets"][:2]]
        self.group = ec2.describe_security_groups()["SecurityGroups"][0]["GroupId"]
        self.account.client("eks").create_cluster(name="eks-cluster", roleArn="arn:aws:iam::123456789012:role/cluster", resourcesVpcConfig={
            "subnetIds": self.subnets, "securityGroupIds": [self.group]})
        image = {"parameters": {"/aws/service/eks/optimized-ami/1.31/amazon-linux-2023/x86_64/standard/recommended/image_id": "ami-0123"}}
        urllib.request.urlopen(urllib.request.Request(f"{self.emulator.url}/_test/{self.account.number}", data=json.dumps(image).encode())).close()

    def run_script(self, text, folder):
        programs = Path(folder, "bin")
        programs.mkdir()
        server = Aws(self.emulator.url, f"TEST{self.account.number}").serve()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        shim = PROGRAM.replace("URL", f"http://127.0.0.1:{server.server_port}")
        note = '#!/bin/sh\nif [ "$1" = apply ]; then for a in "$@"; do [ "$a" = - ] && cat >> "$RECORD/applied"; [ -f "$a" ] && { echo ---; cat "$a"; } >> "$RECORD/applied"; done; fi\necho "$(basename "$0") $*" >> "$RECORD/commands"\n'
        for name, body in (("aws", shim), ("kubectl", note), ("helm", note)):
            (programs / name).write_text(body)
            (programs / name).chmod((programs / name).stat().st_mode | stat.S_IXUSR)
        # The guide's folder is the checkout, which stays as it is: the files that it makes go elsewhere.
        for name in ("deploy", "docs", "charts"):
            os.symlink(ROOT / name, Path(folder, name))
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "RECORD": str(folder)}
        done = subprocess.run(["bash", "-euo", "pipefail"], input=text, cwd=folder, env=environment, text=True, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        return done.stdout

    def test_the_guide_works_from_top_to_bottom(self):
        """SEED-0-13, SEED-0-15, SEED-0-16, SEED-0-18, SEED-0-19, SEED-0-21, SEED-0-36, SEED-0-37, SEED-0-38, SEED-0-47; AWS-247."""
        script = blocks(ROOT / "docs/guides/eks-by-hand.md", "sh")
        cleaning = next(n for n, block in enumerate(script) if "helm uninstall" in block)
        region = "ap-south-1"
        with tempfile.TemporaryDirectory() as folder:
            # The emulator's cluster, subnets and group are where this account's clients are.
            said = self.run_script("".join(script[:cleaning]).replace(f'AWS_REGION="{region}"', 'AWS_REGION="us-west-2"'), folder)
            commands = Path(folder, "commands").read_text().splitlines()
            applied = list(yaml.safe_load_all(Path(folder, "applied").read_text()))
        self.assertIn("ami-0123", said)
        self.check_account()
        self.assertEqual([o["kind"] for o in applied if o], ["EC2NodeClass", "NodePool", "Deployment"])
        self.assertEqual(applied[0]["spec"]["role"], "KarpenterNodeRole-eks-cluster")
        self.assertTrue(any(c.startswith("helm upgrade --install karpenter charts/karpenter --namespace kube-system --set settings.clusterName=eks-cluster") for c in commands))

        with tempfile.TemporaryDirectory() as folder:
            variables = script[0].replace(f'AWS_REGION="{region}"', 'AWS_REGION="us-west-2"') + 'QUEUE_URL=$(aws sqs get-queue-url --queue-name "$CLUSTER_NAME" --query QueueUrl --output text)\n'
            self.run_script(variables + "".join(script[cleaning:]), folder)
            commands = Path(folder, "commands").read_text().splitlines()
        # SEED-2-35: pools go before the controller.
        self.assertLess(commands.index("kubectl delete nodepools --all"), commands.index("helm uninstall karpenter --namespace kube-system"))
        self.assertEqual(self.account.client("iam").list_roles()["Roles"], [])
        self.assertEqual(self.account.client("sqs").list_queues().get("QueueUrls", []), [])
        self.assertEqual(self.account.rules(), {})

    def check_account(self):
        values = {**self.account.values("eks-cluster"), "namespace": "kube-system", "service_account": "karpenter"}
        issuer = self.account.client("eks").describe_cluster(name="eks-cluster")["cluster"]["identity"]["oidc"]["issuer"]
        trust, attached = self.account.role("KarpenterNodeRole-eks-cluster")
        self.assertEqual(iam.normal(trust), iam.normal(iam.fill(iam.document("trust-node"), values)))
        self.assertEqual(attached, sorted(iam.document("node-role")["managedPolicies"]))
        trust, _ = self.account.role("KarpenterControllerRole-eks-cluster")
        self.assertEqual(iam.normal(trust), iam.normal(iam.fill(iam.document("trust-irsa"), {**values, "oidc_provider": issuer.removeprefix("https://")})))
        client = self.account.client("iam")
        made = client.get_role_policy(RoleName="KarpenterControllerRole-eks-cluster", PolicyName="KarpenterControllerPolicy")["PolicyDocument"]
        self.assertEqual(iam.normal(made), iam.normal(iam.fill(iam.combined_policy(), values)))
        queue = self.account.queue("eks-cluster")
        self.assertEqual(iam.normal(queue["Policy"]), iam.normal(iam.fill(iam.document("queue-policy"), values)))
        self.assertEqual(self.account.rules(), {json.dumps(p, sort_keys=True): [values["queue_arn"]] for p in iam.document("event-rules").values()})
        tags = self.account.client("ec2").describe_tags(Filters=[{"Name": "key", "Values": ["karpenter.sh/discovery"]}])["Tags"]
        self.assertEqual({t["ResourceId"] for t in tags}, {*self.subnets, self.group})


if __name__ == "__main__":
    unittest.main()
