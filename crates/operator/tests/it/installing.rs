//! Both charts on a real API server, installed, upgraded and removed with either Helm.

mod guides;

use std::path::Path;
use std::process::Command;

use karpenter_testkit::ControlPlane;

use crate::chart::helms;
use crate::live::installed::wait;

const DEFINITIONS: [&str; 6] = [
    "capacitybuffers.autoscaling.x-k8s.io",
    "ec2nodeclasses.karpenter.k8s.aws",
    "kwoknodeclasses.karpenter.kwok.sh",
    "nodeclaims.karpenter.sh",
    "nodeoverlays.karpenter.sh",
    "nodepools.karpenter.sh",
];

struct Site<'a> {
    cluster: &'a ControlPlane,
    helm: &'a Path,
}

impl Site<'_> {
    async fn helm(&self, arguments: &[&str]) {
        let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts");
        let home = self.cluster.folder().join("helm-home");
        let (helm, kubeconfig) = (self.helm.to_owned(), self.cluster.kubeconfig().to_owned());
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let run = move || {
            Command::new(helm)
                .args(arguments)
                .args(["--namespace", "karpenter"])
                .current_dir(charts)
                .env("KUBECONFIG", kubeconfig)
                .envs(["HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME"].map(|name| (name, &home)))
                .output()
                .unwrap()
        };
        let out = tokio::task::spawn_blocking(run).await.unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }

    /// What kubectl names, in the order of the alphabet.
    async fn names(&self, what: &str) -> Vec<String> {
        let command = format!("get {what} -o name -A");
        let out = self.cluster.kubectl(command.split(' ')).await.unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let mut names: Vec<String> = text.lines().map(|line| line.rsplit('/').next().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    async fn definitions(&self) -> Vec<String> {
        let all = self.names("customresourcedefinitions").await;
        all.into_iter().filter(|name| DEFINITIONS.contains(&name.as_str())).collect()
    }

    /// An API server that is told to forget a kind before it has begun to serve it does so minutes later.
    async fn definitions_are_served(&self) {
        wait("the definitions are served", async || {
            let out = self.cluster.kubectl(["get", &DEFINITIONS.join(",")]).await.unwrap();
            out.status.success().then_some(())
        })
        .await;
    }

    async fn ours(&self, kinds: &str) -> Vec<String> {
        self.names(&format!("{kinds} -l app.kubernetes.io/instance=karpenter,app.kubernetes.io/name=karpenter")).await
    }
}

const ALL: &str =
    "deployments,services,serviceaccounts,poddisruptionbudgets,roles,rolebindings,clusterroles,clusterrolebindings";

/// AWS-5, AWS-231, AWS-233, API-303: definitions from their own chart first, as upgrades need it, or with the main chart; then everything
/// is there under the names and labels of the target, an upgrade changes it, and removal leaves nothing but the
/// definitions that came with the main chart.
#[tokio::test]
async fn charts_are_installed_upgraded_and_removed() {
    let cluster = ControlPlane::builder().controller_manager().start().await.unwrap();
    for (helm, values, namespaced, of_provider) in [
        (&helms()[0], "settings.cloudProvider=kwok", "karpenter-lease", "1"),
        (&helms()[1], "settings.clusterName=blue", "karpenter-dns", "2"),
    ] {
        let site = Site { cluster: &cluster, helm };
        site.helm(&["install", "karpenter-crd", "karpenter-crd", "--create-namespace"]).await;
        assert_eq!(site.definitions().await, DEFINITIONS);
        site.helm(&["install", "karpenter", "karpenter", "--skip-crds", "--set", values]).await;
        for (kinds, want) in [
            ("deployments,services,serviceaccounts", vec!["karpenter"; 3]),
            ("poddisruptionbudgets", vec!["karpenter"]),
            ("roles", vec!["karpenter", namespaced]),
            ("rolebindings", vec!["karpenter", namespaced]),
            ("clusterroles", vec!["karpenter", "karpenter-admin", "karpenter-core"]),
            ("clusterrolebindings", vec!["karpenter", "karpenter-core"]),
        ] {
            assert_eq!(site.ours(kinds).await, want, "{kinds}");
        }
        let replicas = async || {
            let command = "get deployment karpenter -n karpenter -o jsonpath={.spec.replicas}";
            String::from_utf8(cluster.kubectl(command.split(' ')).await.unwrap().stdout).unwrap()
        };
        assert_eq!(replicas().await, of_provider);
        site.helm(&["upgrade", "karpenter-crd", "karpenter-crd"]).await;
        site.helm(&["upgrade", "karpenter", "karpenter", "--set", values, "--set", "replicas=3"]).await;
        assert_eq!(replicas().await, "3");
        site.definitions_are_served().await;
        site.helm(&["uninstall", "karpenter"]).await;
        site.helm(&["uninstall", "karpenter-crd"]).await;
        // Definitions go when whoever stores their objects has let go of them.
        wait("the definitions are gone", async || site.definitions().await.is_empty().then_some(())).await;
        assert_eq!(site.ours(ALL).await, Vec::<String>::new());
    }
    for helm in &helms() {
        let site = Site { cluster: &cluster, helm };
        site.helm(&["install", "karpenter", "karpenter", "--set", "settings.cloudProvider=kwok"]).await;
        assert_eq!(site.definitions().await, DEFINITIONS);
        site.helm(&["uninstall", "karpenter"]).await;
        assert_eq!(
            (site.ours(ALL).await, site.definitions().await),
            (Vec::new(), DEFINITIONS.map(Into::into).to_vec())
        );
    }
}

/// AWS-259, SEED-2-20, SEED-2-22, SEED-2-40, SEED-2-42: the tutorial's command, onto the account that eksctl has made, with either Helm.
/// A second run changes what it made; removal leaves the definitions, and with them the Provisioners.
#[tokio::test]
async fn the_command_of_the_tutorial() {
    let cluster = ControlPlane::builder().controller_manager().start().await.unwrap();
    let made = [
        serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karpenter"}}),
        serde_json::json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "karpenter", "namespace": "karpenter"}}),
    ];
    cluster.install(made).await.unwrap();
    for helm in &helms() {
        let site = Site { cluster: &cluster, helm };
        for level in ["info", "debug"] {
            let level = format!("controller.logLevel={level}");
            let values = ["controller.clusterName=demo", "controller.clusterEndpoint=\"https://demo.example\"", &level];
            let mut command = vec!["upgrade", "--install", "karpenter", "karpenter", "--create-namespace"];
            command.extend(["--set", "serviceAccount.create=false"]);
            command.extend(values.iter().flat_map(|value| ["--set", value]));
            site.helm(&command).await;
            for (kinds, want) in [
                ("deployments", ["karpenter-controller", "karpenter-webhook"]),
                ("services", ["karpenter-metrics", "karpenter-webhook"]),
                ("customresourcedefinitions", ["awsnodetemplates.karpenter.k8s.aws", "provisioners.karpenter.sh"]),
            ] {
                assert_eq!(site.ours(kinds).await, want, "{kinds}");
            }
        }
        // Of each Deployment, and of the first one an old and a new one.
        wait("the second run has its own ReplicaSets", async || {
            (site.ours("replicasets").await.len() >= 3).then_some(())
        })
        .await;
        let account = cluster.kubectl("get serviceaccount karpenter -n karpenter".split(' ')).await.unwrap();
        assert!(account.status.success());
        site.helm(&["uninstall", "karpenter"]).await;
        assert_eq!(site.ours("deployments,services").await, Vec::<String>::new());
        assert_eq!(site.ours("customresourcedefinitions").await.len(), 2, "Provisioners stay");
    }
}
