"""Values of older charts in the chart (AWS-260), and what older instructions expect to find (AWS-259)."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import yaml
from account import ROOT

HELM = Path(os.environ["KARPENTER_HELM"])


def render(*sets, values=None, release="karpenter", chart=ROOT / "charts/karpenter"):
    """Objects by kind and name; the same from Helm 3 and 4."""
    made = []
    for helm in ("helm3", "helm4"):
        command = [HELM / helm, "template", release, chart, "--namespace", "karpenter"]
        command += [w for s in sets for w in ("--set", s)] + (["--values", "-"] if values else [])
        done = subprocess.run(command, input=yaml.safe_dump(values) if values else None, capture_output=True, text=True)
        if done.returncode:
            raise ValueError(done.stderr)
        made.append({(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(done.stdout) if o})
    if made[0] != made[1]:
        raise AssertionError("Helm 3 and 4 differ")
    return made[1]


def deployment(objects, part="controller"):
    """The one whose pods have the label that older instructions select by."""
    [spec] = [o["spec"] for (kind, _), o in objects.items() if kind == "Deployment" and o["spec"]["template"]["metadata"]["labels"]["karpenter"] == part]
    return spec


def environment(objects):
    container = deployment(objects)["template"]["spec"]["containers"][0]
    return {e["name"]: e.get("value") for e in container["env"]}


class Aliases(unittest.TestCase):
    def test_the_tutorials_values_name_cluster_endpoint_and_account(self):
        """SEED-2-20: the endpoint comes in quotes, the account was made beforehand."""
        objects = render("serviceAccount.create=false", "controller.clusterName=demo", 'controller.clusterEndpoint="https://abc.gr7.us-east-1.eks.amazonaws.com"')
        self.assertEqual(environment(objects)["CLUSTER_NAME"], "demo")
        self.assertEqual(environment(objects)["CLUSTER_ENDPOINT"], "https://abc.gr7.us-east-1.eks.amazonaws.com")
        self.assertEqual(deployment(objects)["template"]["spec"]["serviceAccountName"], "karpenter")
        subjects = {s["name"] for (kind, _), o in objects.items() if kind.endswith("Binding") for s in o["subjects"]}
        self.assertEqual(subjects, {"karpenter"})
        # In the present form an account that is not named is the namespace's own.
        objects = render("serviceAccount.create=false", "settings.clusterName=demo")
        self.assertEqual(deployment(objects)["template"]["spec"]["serviceAccountName"], "default")

    def test_names_of_the_cluster_and_queue(self):
        """AWS-260, SEED-1-19: each old name works, a present one wins."""
        for old in ("clusterName", "controller.clusterName", "settings.aws.clusterName"):
            with self.subTest(old):
                self.assertEqual(environment(render(f"{old}=old"))["CLUSTER_NAME"], "old")
                self.assertEqual(environment(render(f"{old}=old", "settings.clusterName=new"))["CLUSTER_NAME"], "new")
        for old in ("clusterEndpoint", "controller.clusterEndpoint", "settings.aws.clusterEndpoint"):
            with self.subTest(old):
                self.assertEqual(environment(render("clusterName=x", f"{old}=https://old"))["CLUSTER_ENDPOINT"], "https://old")
        objects = render("settings.aws.clusterName=x", "settings.aws.interruptionQueueName=queue", "settings.aws.defaultInstanceProfile=profile")
        self.assertEqual(environment(objects)["INTERRUPTION_QUEUE"], "queue")
        self.assertEqual(environment(objects)["DEFAULT_INSTANCE_PROFILE"], "profile")
        self.assertEqual(environment(render("clusterName=x", "aws.defaultInstanceProfile=old"))["DEFAULT_INSTANCE_PROFILE"], "old")
        self.assertEqual(environment(render("clusterName=x", "aws.defaultInstanceProfile=old", "settings.defaultInstanceProfile=new"))["DEFAULT_INSTANCE_PROFILE"], "new")

    def test_where_the_controller_runs(self):
        """SEED-3-29: the node selector of the Terraform guide, with its tolerations."""
        system = [{"key": "workload-type", "operator": "Equal", "value": "system", "effect": "NoSchedule"}]
        pod = deployment(render(values={"settings": {"clusterName": "x"}, "controller": {"nodeSelector": {"workload-type": "system"}}, "tolerations": system}))["template"]["spec"]
        self.assertEqual(pod["nodeSelector"], {"kubernetes.io/os": "linux", "workload-type": "system"})
        self.assertEqual(pod["tolerations"], system)
        old = {"tolerations": system, "replicas": 1, "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]}}}}
        whole = deployment(render(values={"settings": {"clusterName": "x"}, "controller": old}))
        self.assertEqual(whole["replicas"], 1)
        self.assertEqual(whole["template"]["spec"]["tolerations"], system)
        affinity = whole["template"]["spec"]["affinity"]
        self.assertEqual(affinity["nodeAffinity"], old["affinity"]["nodeAffinity"])
        self.assertIn("podAntiAffinity", affinity)
        self.assertEqual(deployment(render("settings.clusterName=x", "controller.replicas=1", "replicas=3"))["replicas"], 3)

    def test_how_much_is_logged(self):
        """SEED-3-32 and SEED-3-33."""
        base = {"settings": {"clusterName": "x"}}
        for values, level in (
            ({"controller": {"logLevel": "debug"}}, "debug"), ({"logConfig": {"enabled": True, "logLevel": {"controller": "debug", "webhook": "error"}}}, "debug"),
            ({"controller": {"env": [{"name": "LOGLEVEL", "value": "debug"}]}}, "debug"), ({"controller": {"logLevel": "debug"}, "logLevel": "error"}, "error"), ({}, "info"),
        ):
            with self.subTest(values):
                self.assertEqual(environment(render(values={**base, **values}))["LOG_LEVEL"], level)

    def test_aliases_in_use_are_listed(self):
        # Notes are only shown where there is a cluster; here they are put into an object.
        with tempfile.TemporaryDirectory() as folder:
            chart = Path(folder, "karpenter")
            shutil.copytree(ROOT / "charts/karpenter", chart)
            Path(chart, "templates/notes.yaml").write_text(
                'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\ndata:\n  notes: {{ include "karpenter.notes" . | quote }}\n')
            old = render("controller.clusterName=x", "controller.replicas=1", chart=chart)["ConfigMap", "notes"]["data"]["notes"]
            new = render("settings.clusterName=x", chart=chart)["ConfigMap", "notes"]["data"]["notes"]
        self.assertTrue(old.endswith("other names now:\n  - controller.clusterName\n  - controller.replicas"), old)
        self.assertNotIn("older charts", new)

    def test_an_unknown_setting_is_still_refused(self):
        for value in ("settings.aws.noSuch=1", "settings.noSuch=1"):
            with self.assertRaisesRegex(ValueError, "noSuch"):
                render("settings.clusterName=x", value)


KINDS = ("Deployment", "Service", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "CustomResourceDefinition")
HOOKS = {("MutatingWebhookConfiguration", "defaulting.webhook.provisioners.karpenter.sh"), ("ValidatingWebhookConfiguration", "validation.webhook.provisioners.karpenter.sh"),
         ("ValidatingWebhookConfiguration", "validation.webhook.config.karpenter.sh")}
DEFINITIONS = {("CustomResourceDefinition", "provisioners.karpenter.sh"), ("CustomResourceDefinition", "awsnodetemplates.karpenter.k8s.aws")}


def names(objects):
    return {key for key in objects if key[0] in KINDS}


class OldForms(unittest.TestCase):
    """AWS-259: objects are named and cut as the charts did whose values are in use."""

    def test_the_chart_of_the_tutorial(self):
        """SEED-2-22, SEED-2-42: two Deployments that are replaced as a whole, two Services, and the names of their webhooks."""
        objects = render("serviceAccount.create=false", "controller.clusterName=demo", "controller.clusterEndpoint=https://demo")
        self.assertEqual(names(objects), HOOKS | DEFINITIONS | {
            ("Deployment", "karpenter-controller"), ("Deployment", "karpenter-webhook"), ("Service", "karpenter-metrics"), ("Service", "karpenter-webhook")})
        for part, container, cpu, memory in (("controller", "manager", 1, "1Gi"), ("webhook", "webhook", "100m", "50Mi")):
            with self.subTest(part):
                whole = deployment(objects, part)
                self.assertEqual((whole["replicas"], whole["strategy"]), (1, {"type": "Recreate"}))
                self.assertEqual(whole["selector"]["matchLabels"]["karpenter"], part)
                pod = whole["template"]["spec"]
                self.assertEqual(pod["serviceAccountName"], "karpenter")
                [made] = pod["containers"]
                self.assertEqual((made["name"], made["resources"]["requests"]), (container, {"cpu": cpu, "memory": memory}))
                [term] = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
                self.assertIn({"key": "karpenter.sh/provisioner-name", "operator": "DoesNotExist"}, term["matchExpressions"])
                # The tutorial's cluster has one node for both.
                self.assertNotIn("podAntiAffinity", pod["affinity"])
                self.assertNotIn("topologySpreadConstraints", pod)
        metrics, webhook = objects["Service", "karpenter-metrics"]["spec"], objects["Service", "karpenter-webhook"]["spec"]
        self.assertEqual(([p["port"] for p in metrics["ports"]], metrics["selector"]["karpenter"]), ([8080], "controller"))
        self.assertEqual(([(p["port"], p["targetPort"]) for p in webhook["ports"]], webhook["selector"]["karpenter"]), ([(443, 8443)], "webhook"))
        self.assertEqual(environment(objects)["LOG_FORMAT"], "legacy")

    def test_the_chart_of_the_blueprints(self):
        """SEED-1-27: one pod with both containers, two of them, and one Service with both ports."""
        objects = render("clusterName=demo", "aws.defaultInstanceProfile=nodes", release="blueprints-addon-karpenter")
        name = "blueprints-addon-karpenter"
        self.assertEqual(names(objects), HOOKS | DEFINITIONS | {("Deployment", name), ("Service", name)})
        whole = deployment(objects)
        self.assertEqual([c["name"] for c in whole["template"]["spec"]["containers"]], ["controller", "webhook"])
        self.assertEqual((whole["replicas"], whole["template"]["spec"]["dnsPolicy"]), (2, "Default"))
        self.assertEqual(set(whole["selector"]["matchLabels"]), {"app.kubernetes.io/name", "app.kubernetes.io/instance"})
        self.assertEqual({p["name"]: p["port"] for p in objects["Service", name]["spec"]["ports"]}, {"http-metrics": 8080, "https-webhook": 443})

    def test_which_form(self):
        """A present name of the cluster means the present form; what is said in so many words counts."""
        today = {("Deployment", "karpenter"), ("Service", "karpenter")}
        for sets, want in (
            (["settings.clusterName=x"], today),
            (["settings.clusterName=x", "controller.clusterName=old"], today),
            (["settings.clusterName=x", "legacy.enabled=true"], today | DEFINITIONS),
            # The CDK add-on: a chart of 2023, whose objects are called as today's.
            (["settings.aws.clusterName=x"], today | DEFINITIONS),
            (["controller.clusterName=x", "legacy.style=none"], today | DEFINITIONS),
            (["controller.clusterName=x", "legacy.style=none", "legacy.enabled=false"], today),
        ):
            with self.subTest(sets):
                objects = render(*sets, *([] if any("clusterName" in s for s in sets) else ["settings.clusterName=x"]))
                self.assertEqual(names(objects), want)

    def test_rights_come_with_the_definitions(self):
        """AWS-257: who does not serve Provisioners may not make pools."""
        def may_create(*sets):
            rules = render(*sets)["ClusterRole", "karpenter-core"]["rules"]
            return any("create" in r["verbs"] and "nodepools" in r["resources"] for r in rules)
        self.assertFalse(may_create("settings.clusterName=x"))
        self.assertTrue(may_create("settings.clusterName=x", "legacy.enabled=true"))
        self.assertTrue(may_create("controller.clusterName=x"))
        self.assertFalse(may_create("settings.cloudProvider=kwok", "legacy.enabled=true"))

    def test_definitions_outlive_the_release(self):
        """Uninstalling must not delete every Provisioner, and with it every node."""
        for key, made in render("controller.clusterName=x").items():
            if key in DEFINITIONS:
                self.assertEqual(made["metadata"]["annotations"]["helm.sh/resource-policy"], "keep")


class OldInstructions(unittest.TestCase):
    def test_logs_are_selected_by_the_old_label(self):
        """SEED-1-32: `-l karpenter=controller`; it is not part of the selector, so that upgrades work."""
        whole = deployment(render("settings.clusterName=x"))
        self.assertEqual(whole["template"]["metadata"]["labels"]["karpenter"], "controller")
        self.assertNotIn("karpenter", whole["selector"]["matchLabels"])

    def test_the_pod_is_called_after_the_release(self):
        """SEED-1-27: a release whose name has the chart's in it is used as it is."""
        for release, name in (("blueprints-addon-karpenter", "blueprints-addon-karpenter"), ("nodes", "nodes-karpenter")):
            self.assertIn(("Deployment", name), render("settings.clusterName=x", release=release))

    def test_metrics_monitor_batches_and_dns(self):
        """SEED-3-31, SEED-3-34, SEED-1-34 and SEED-2-38."""
        objects = render("settings.clusterName=x", "controller.metrics.port=8080", "settings.batchMaxDuration=10s", "settings.batchIdleDuration=1s", "dnsPolicy=Default")
        self.assertEqual((environment(objects)["BATCH_MAX_DURATION"], environment(objects)["BATCH_IDLE_DURATION"]), ("10s", "1s"))
        self.assertEqual(deployment(objects)["template"]["spec"]["dnsPolicy"], "Default")
        self.assertEqual([p["port"] for p in objects["Service", "karpenter"]["spec"]["ports"]], [8080])

    def test_the_controller_does_not_run_on_its_own_nodes(self):
        """SEED-3-7."""
        terms = deployment(render("settings.clusterName=x"))["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        self.assertIn({"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}, terms["nodeSelectorTerms"][0]["matchExpressions"])


if __name__ == "__main__":
    unittest.main()
