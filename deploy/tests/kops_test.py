"""What the kOps guide installs: the chart on control-plane nodes (SEED-4-6), the pool and class of the document."""

import os
import subprocess
import unittest
from pathlib import Path

import yaml
from account import ROOT

NAME = "my-cluster.example.com"


class Kops(unittest.TestCase):
    def test_the_controller_runs_on_the_control_plane(self):
        """SEED-4-6 and SEED-4-8: name, endpoint and CA reach the controller, which needs no other nodes."""
        done = subprocess.run([Path(os.environ["KARPENTER_HELM"], "helm4"), "template", "karpenter", ROOT / "charts/karpenter", "--namespace", "kube-system",
                               "--values", ROOT / "deploy/kops/values.yaml", "--set", f"settings.clusterName={NAME}", "--set", f"settings.clusterEndpoint=https://api.internal.{NAME}",
                               "--set", "settings.clusterCABundle=Zm9v"], capture_output=True, text=True, check=True)
        [deployment] = [o for o in yaml.safe_load_all(done.stdout) if o and o["kind"] == "Deployment"]
        pod = deployment["spec"]["template"]["spec"]
        variables = {e["name"]: e.get("value") for e in pod["containers"][0]["env"]}
        self.assertEqual(pod["nodeSelector"]["node-role.kubernetes.io/control-plane"], "")
        self.assertIn({"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}, pod["tolerations"])
        self.assertEqual((pod["hostNetwork"], pod["dnsPolicy"]), (True, "Default"))
        self.assertEqual((variables["CLUSTER_NAME"], variables["CLUSTER_ENDPOINT"], variables["CLUSTER_CA_BUNDLE"]), (NAME, f"https://api.internal.{NAME}", "Zm9v"))
        self.assertEqual(variables["EKS_CONTROL_PLANE"], "false")

    def test_class_and_pool_are_those_of_the_document(self):
        """SEED-4-11, SEED-4-12, SEED-4-13, SEED-4-16, SEED-4-17 and SEED-4-18, as far as manifests go."""
        text = (ROOT / "deploy/kops/nodeclass.yaml").read_text().replace("${NAME}", NAME).replace("${USER_DATA}", "#!/bin/bash")
        spec = yaml.safe_load(text)["spec"]
        image = "/aws/service/canonical/ubuntu/server/24.04/stable/current/{}/hvm/ebs-gp3/ami-id"
        self.assertEqual(spec["amiSelectorTerms"], [{"ssmParameter": image.format(a)} for a in ("amd64", "arm64")])
        self.assertEqual((spec["amiFamily"], spec["associatePublicIPAddress"], spec["instanceProfile"]), ("Custom", True, f"nodes.{NAME}"))
        self.assertEqual(spec["tags"], {"KubernetesCluster": NAME, "kops.k8s.io/instancegroup": "nodes", "k8s.io/role/node": "1"})
        self.assertEqual(spec["securityGroupSelectorTerms"], [{"tags": {"KubernetesCluster": NAME, "Name": f"nodes.{NAME}"}}])
        pool = yaml.safe_load((ROOT / "deploy/kops/nodepool.yaml").read_text())["spec"]["template"]["spec"]
        self.assertEqual({r["key"]: r["values"] for r in pool["requirements"]}, {
            "kubernetes.io/arch": ["amd64", "arm64"], "kubernetes.io/os": ["linux"], "karpenter.sh/capacity-type": ["on-demand", "spot"]})
        self.assertEqual(pool["nodeClassRef"], {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})


if __name__ == "__main__":
    unittest.main()
