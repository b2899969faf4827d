//! What each document installs, as it says, with either Helm: onto nodes such as it has, and with a controller that then runs on
//! what the API server was given.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::settings::{self, Settings};
use karpenter_testkit::ControlPlane;
use karpenter_testkit::aws::Account;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use super::{DEFINITIONS, Site};
use crate::chart::{environment, helms};
use crate::live::installed::{Replica, account_kubeconfig, wait};

const ROLE: &str = "eks.amazonaws.com/role-arn";
const LEGACY: [&str; 2] = ["awsnodetemplates.karpenter.k8s.aws", "provisioners.karpenter.sh"];
/// What is known only when a stack of the CDK has been deployed.
const DEPLOYED: [(&str, &str); 5] = [
    ("<cluster>", "blueprint"),
    ("<endpoint>", "https://blueprint.gr7.us-west-2.eks.amazonaws.com"),
    ("<queue>", "blueprint-queue"),
    ("<role>", "arn:aws:iam::123456789012:role/blueprint"),
    ("<profile>", "blueprint-nodes"),
];

enum How {
    /// The commands of a guide in `docs/guides`, the last one with something more that the guide says.
    Guide(&'static str, &'static str),
    /// A file of `deploy/tests/values`, as Terraform and the CDK install it.
    Values(&'static str),
}

struct Document {
    how: How,
    namespace: &'static str,
    cluster: &'static str,
    /// Somebody else makes the service account.
    has_account: bool,
    /// Variables of the controller; all others are as they are by default.
    settings: Vec<(&'static str, &'static str)>,
    /// The role that the service account is given.
    role: Option<&'static str>,
    replicas: usize,
    /// Members of the pods' spec.
    pod: Value,
    resources: Value,
    /// Where pods run.
    nodes: &'static [&'static str],
    /// Definitions that stay.
    leaves: &'static [&'static str],
}

/// What is not said.
fn usual(how: How, namespace: &'static str, cluster: &'static str) -> Document {
    Document {
        how,
        namespace,
        cluster,
        has_account: false,
        settings: vec![("CLUSTER_NAME", cluster)],
        role: None,
        replicas: 2,
        pod: json!({}),
        resources: json!({}),
        nodes: &["group-a", "group-b"],
        leaves: &[],
    }
}

fn documents() -> Vec<Document> {
    let one_core = json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
    let half_a_core = json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}});
    let system = json!({
        "serviceAccountName": "karpenter-sa",
        "nodeSelector": {"kubernetes.io/os": "linux", "workload-type": "system"},
        "tolerations": [{"key": "workload-type", "operator": "Equal", "value": "system", "effect": "NoSchedule"}],
    });
    let shop = [("CLUSTER_NAME", "shop"), ("INTERRUPTION_QUEUE", "shop")];
    let blueprint = vec![
        ("CLUSTER_NAME", "blueprint"),
        ("CLUSTER_ENDPOINT", "https://blueprint.gr7.us-west-2.eks.amazonaws.com"),
        ("INTERRUPTION_QUEUE", "blueprint-queue"),
    ];
    vec![
        // SEED-0-25, SEED-0-26, SEED-0-27, SEED-0-28, SEED-0-29.
        Document {
            settings: vec![("CLUSTER_NAME", "eks-cluster"), ("INTERRUPTION_QUEUE", "eks-cluster")],
            role: Some("arn:aws:iam::123456789012:role/KarpenterControllerRole-eks-cluster"),
            resources: one_core,
            ..usual(How::Guide("eks-by-hand", ""), "kube-system", "eks-cluster")
        },
        Document {
            settings: vec![("CLUSTER_NAME", "demo"), ("INTERRUPTION_QUEUE", "demo")],
            ..usual(How::Guide("eksctl", ""), "kube-system", "demo")
        },
        // SEED-2-16: the account of `eksctl create iamserviceaccount`.
        Document {
            has_account: true,
            settings: vec![("CLUSTER_NAME", "demo"), ("INTERRUPTION_QUEUE", "demo")],
            ..usual(
                How::Guide("eksctl", "--set serviceAccount.create=false --set serviceAccount.name=karpenter"),
                "kube-system",
                "demo",
            )
        },
        // SEED-1-19, SEED-1-23: what the add-on sets now, and what it set.
        Document {
            has_account: true,
            settings: blueprint.clone(),
            ..usual(How::Values("cdk.json"), "karpenter", "blueprint")
        },
        Document {
            has_account: true,
            settings: [blueprint, vec![("DEFAULT_INSTANCE_PROFILE", "blueprint-nodes")]].concat(),
            leaves: &LEGACY,
            ..usual(How::Values("cdk-document.yaml"), "karpenter", "blueprint")
        },
        // SEED-3-26, SEED-3-27, SEED-3-28, SEED-3-30: the module's values.
        Document {
            settings: shop.to_vec(),
            replicas: 1,
            pod: system.clone(),
            resources: half_a_core.clone(),
            nodes: &["system"],
            ..usual(How::Values("terraform.json"), "karpenter", "shop")
        },
        // SEED-3-8, SEED-3-29 to SEED-3-34: the document's, with one replica more than there are nodes.
        Document {
            settings: [
                &shop[..],
                &[("BATCH_MAX_DURATION", "10s"), ("BATCH_IDLE_DURATION", "1s"), ("LOG_LEVEL", "debug")],
            ]
            .concat(),
            pod: system,
            resources: half_a_core,
            nodes: &["system"],
            ..usual(How::Values("terraform-document.yaml"), "karpenter", "shop")
        },
        // SEED-4-6, SEED-4-7.
        Document {
            settings: vec![
                ("CLUSTER_NAME", "my-cluster.example.com"),
                ("CLUSTER_ENDPOINT", "https://api.internal.my-cluster.example.com"),
            ],
            role: Some("arn:aws:iam::123456789012:role/karpenter.kube-system.sa.my-cluster.example.com"),
            replicas: 1,
            pod: json!({
                "hostNetwork": true,
                "dnsPolicy": "Default",
                "nodeSelector": {"kubernetes.io/os": "linux", "node-role.kubernetes.io/control-plane": ""},
                "tolerations": [
                    {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
                    {"key": "CriticalAddonsOnly", "operator": "Exists"},
                ],
            }),
            nodes: &["control-plane"],
            ..usual(How::Guide("kops", ""), "kube-system", "my-cluster.example.com")
        },
    ]
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Commands in the blocks of a guide; those over several lines are one.
fn commands(guide: &str) -> Vec<String> {
    let (mut commands, mut is_script) = (Vec::new(), false);
    for line in guide.replace("\\\n", " ").lines() {
        if line.starts_with("```") {
            is_script = line == "```sh";
        } else if is_script {
            commands.push(line.to_owned());
        }
    }
    commands
}

/// The guide's variables and its two releases. AWS is asked for the number of the account and of little else.
fn script_of(guide: &str, more: &str) -> String {
    let text = std::fs::read_to_string(root().join(format!("docs/guides/{guide}.md"))).unwrap();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains(more), "{guide} does not say {more:?}");
    let commands = commands(&text);
    let starting = |with: &str| -> Vec<&str> {
        commands.iter().map(String::as_str).filter(|command| command.starts_with(with)).collect()
    };
    let [definitions, karpenter] = starting("helm upgrade --install ")[..] else { panic!("two releases in {guide}") };
    assert!(definitions.contains(" charts/karpenter-crd "), "{definitions}");
    let variables = starting("export ").join("\n");
    format!("aws() {{ echo 123456789012; }}\n{variables}\n{definitions}\n{karpenter} {more}\n")
}

impl Document {
    fn name(&self) -> &'static str {
        match self.how {
            How::Guide(name, _) | How::Values(name) => name,
        }
    }

    fn account(&self) -> &str {
        self.pod["serviceAccountName"].as_str().unwrap_or("karpenter")
    }

    fn script(&self, folder: &Path) -> String {
        match self.how {
            How::Guide(guide, more) => script_of(guide, more),
            How::Values(file) => {
                let text = std::fs::read_to_string(root().join("deploy/tests/values").join(file)).unwrap();
                let text = DEPLOYED.iter().fold(text, |text, (name, value)| text.replace(name, value));
                let (path, namespace) = (folder.join(file), self.namespace);
                std::fs::write(&path, text).unwrap();
                format!(
                    "helm upgrade --install karpenter-crd charts/karpenter-crd --namespace {namespace}\n\
                     helm upgrade --install karpenter charts/karpenter --namespace {namespace} --skip-crds --values {}\n",
                    path.display()
                )
            }
        }
    }

    /// All that runs is what the document asks for, and it runs where the document has nodes for it.
    async fn check(&self, site: &Site<'_>) -> Value {
        let deployment = site.get(self.namespace, "deployment", "karpenter").await.unwrap();
        let spec = &deployment["spec"]["template"]["spec"];
        assert_eq!(deployment["spec"]["replicas"], self.replicas, "{}", self.name());
        let mut pod = json!({
            "serviceAccountName": "karpenter", "dnsPolicy": "ClusterFirst", "hostNetwork": null,
            "priorityClassName": "system-cluster-critical", "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        });
        pod.as_object_mut().unwrap().extend(self.pod.as_object().unwrap().clone());
        for (member, want) in pod.as_object().unwrap() {
            assert_eq!(&spec[member], want, "{}: {member}", self.name());
        }
        assert_eq!(spec["containers"][0]["resources"], self.resources, "{}", self.name());
        let account = site.get(self.namespace, "serviceaccount", self.account()).await.unwrap();
        assert_eq!(account["metadata"]["annotations"][ROLE].as_str(), self.role, "{}", self.name());
        assert_eq!(parsed(&environment(std::slice::from_ref(&deployment))), self.wanted(), "{}", self.name());

        wait(&format!("pods of {} run", self.name()), async || {
            let mut nodes = site.nodes_of_pods(self.namespace).await;
            nodes.sort();
            (nodes == self.nodes).then_some(())
        })
        .await;
        deployment
    }

    fn wanted(&self) -> Settings {
        let given = [&[("CLOUD_PROVIDER", "aws")], &self.settings[..]].concat();
        parsed(&given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect::<Vec<_>>())
    }

    /// SEED-0-13: with the rights of the account that its pods have, in its namespace, the controller starts and leads.
    async fn runs(&self, site: &Site<'_>, deployment: &Value, aws: &Account) {
        let mut policy = json!({"cluster": self.cluster, "account": aws.id(), "region": aws.region()});
        if let Some((_, queue)) = self.settings.iter().find(|(name, _)| *name == "INTERRUPTION_QUEUE") {
            policy["queue"] = (*queue).into();
        }
        aws.change(json!({"policy_of": policy}));
        let kubeconfig = account_kubeconfig(site.cluster, self.namespace, self.account()).await;
        let own = aws.environment();
        let own: Vec<(&str, &str)> = own.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let environment = environment(std::slice::from_ref(deployment));
        let mut replica = Replica::start(site.cluster, self.name(), &kubeconfig, &environment, &own);
        wait(&format!("the controller of {} leads", self.name()), async || replica.is_leader().then_some(())).await;
        let lines = replica.lines();
        let told = lines.iter().find(|line| line["message"] == "connected to AWS").unwrap();
        assert_eq!(told["cluster"], self.cluster, "{told}");
        let endpoint = self.settings.iter().find(|(name, _)| *name == "CLUSTER_ENDPOINT");
        assert!(endpoint.is_none_or(|(_, endpoint)| told["endpoint"] == *endpoint), "{told}");
        // Only with this level lines say where they come from.
        let is_debug = self.settings.contains(&("LOG_LEVEL", "debug"));
        assert_eq!(told["caller"].is_string(), is_debug, "{told}");
        replica.signal("-TERM").await;
        assert_eq!(replica.ended().await, 0, "{}", replica.log());
        assert_eq!(aws.denials(), Vec::<Value>::new(), "{}", self.name());
    }
}

fn parsed(environment: &[(String, String)]) -> Settings {
    let given = |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let settings = settings::parse(std::iter::empty(), &given).unwrap();
    // The release's name, which nobody uses.
    Settings { karpenter_service: String::new(), ..settings }
}

impl Site<'_> {
    /// Runs commands of a guide, which are written for the folder of the checkout.
    async fn shell(&self, script: String) {
        let programs = self.cluster.folder().join(format!("{}-bin", self.helm.file_name().unwrap().display()));
        if !programs.exists() {
            std::fs::create_dir(&programs).unwrap();
            symlink(self.helm, programs.join("helm")).unwrap();
        }
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let (kubeconfig, home) = (self.cluster.kubeconfig().to_owned(), self.cluster.folder().join("helm-home"));
        let run = move || {
            Command::new("bash")
                .args(["-eo", "pipefail", "-c", &script])
                .current_dir(root())
                .env("PATH", path)
                .env("KUBECONFIG", kubeconfig)
                .envs(["HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME"].map(|name| (name, &home)))
                .output()
                .map(|out| (script, out))
                .unwrap()
        };
        let (script, out) = tokio::task::spawn_blocking(run).await.unwrap();
        assert!(out.status.success(), "{script}\n{}", String::from_utf8_lossy(&out.stderr));
    }

    async fn get(&self, namespace: &str, kind: &str, name: &str) -> Option<Value> {
        let out = self.cluster.kubectl(["get", kind, name, "-n", namespace, "-o", "json"]).await.unwrap();
        out.status.success().then(|| serde_json::from_slice(&out.stdout).unwrap())
    }

    /// Of those that are ready.
    async fn nodes_of_pods(&self, namespace: &str) -> Vec<String> {
        let selector = "app.kubernetes.io/name=karpenter";
        let out = self.cluster.kubectl(["get", "pods", "-n", namespace, "-l", selector, "-o", "json"]).await.unwrap();
        let list: Value = serde_json::from_slice(&out.stdout).unwrap();
        let ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        let pods = list["items"].as_array().unwrap().iter().filter(ready);
        pods.map(|pod| pod["spec"]["nodeName"].as_str().unwrap().to_owned()).collect()
    }

    /// Whatever could be of a release.
    async fn everything(&self) -> Vec<String> {
        let kinds = "deployments,replicasets,pods,services,endpointslices,serviceaccounts,poddisruptionbudgets,roles,rolebindings,\
            clusterroles,clusterrolebindings,secrets,configmaps,mutatingwebhookconfigurations,validatingwebhookconfigurations";
        let all = self.names(kinds).await.into_iter().filter(|name| name.contains("karpenter"));
        all.chain(self.definitions().await).collect()
    }
}

/// Nodes of the documents, each with labels and taints of its own, and one that an autoscaler made and that looks like all of them.
async fn make_nodes(cluster: &ControlPlane) {
    let control_plane = "node-role.kubernetes.io/control-plane";
    let taint = |key: &str, value: &str| json!([{"key": key, "value": value, "effect": "NoSchedule"}]);
    let api: Api<Node> = Api::all(cluster.client());
    for (name, zone, labels, taints) in [
        ("group-a", "a", json!({}), json!([])),
        ("group-b", "b", json!({}), json!([])),
        ("system", "a", json!({"workload-type": "system"}), taint("workload-type", "system")),
        ("control-plane", "a", json!({control_plane: ""}), taint(control_plane, "")),
        (
            "autoscaled",
            "c",
            json!({"karpenter.sh/nodepool": "default", "workload-type": "system", control_plane: ""}),
            json!([]),
        ),
    ] {
        let mut all =
            json!({"kubernetes.io/os": "linux", "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone});
        all.as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
        let resources = json!({"cpu": "4", "memory": "8Gi", "pods": "110"});
        let node = json!({
            "metadata": {"name": name, "labels": all, "annotations": {"kwok.x-k8s.io/node": "fake"}},
            "spec": {"taints": taints}, "status": {"capacity": resources, "allocatable": resources},
        });
        api.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }
}

/// AWS-230, AWS-231, AWS-233, AWS-260, SEED-0-13, SEED-0-25, SEED-0-26, SEED-0-27, SEED-0-28, SEED-1-19, SEED-1-23, SEED-3-7, SEED-3-8, SEED-3-26,
/// SEED-3-27, SEED-3-28, SEED-3-29, SEED-3-30, SEED-3-32, SEED-3-33, SEED-3-34, SEED-4-6, SEED-4-7: the values of every document are installed, run where the
/// document means them to, and leave nothing.
#[tokio::test]
async fn values_of_every_document() {
    let cluster = ControlPlane::builder().scheduler().controller_manager().kwok().start().await.unwrap();
    make_nodes(&cluster).await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karpenter"}});
    cluster.install([namespace]).await.unwrap();
    let aws = Account::new();
    for name in ["eks-cluster", "demo", "shop", "blueprint"] {
        let role = format!("arn:aws:iam::{}:role/cluster", aws.id());
        let known = json!({"name": name, "version": "1.35", "roleArn": role, "resourcesVpcConfig": {}});
        aws.call("eks", "create_cluster", known);
    }
    for document in documents() {
        if document.has_account {
            let metadata = json!({"name": document.account(), "namespace": document.namespace});
            let made = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
            cluster.install([made]).await.unwrap();
        }
        for (which, helm) in helms().iter().enumerate() {
            let site = Site { cluster: &cluster, helm };
            let before = site.everything().await;
            site.shell(document.script(cluster.folder())).await;
            assert_eq!(site.definitions().await, DEFINITIONS, "{}", document.name());
            let deployment = document.check(&site).await;
            if which == 0 {
                document.runs(&site, &deployment, &aws).await;
            }
            site.definitions_are_served().await;
            let namespace = document.namespace;
            site.shell(format!("helm uninstall karpenter karpenter-crd --namespace {namespace}")).await;
            wait(&format!("nothing is left of {}", document.name()), async || {
                (site.everything().await == before).then_some(())
            })
            .await;
            assert_eq!(site.ours("customresourcedefinitions").await, document.leaves, "{}", document.name());
            for name in document.leaves {
                cluster.kubectl(["delete", "customresourcedefinition", name]).await.unwrap();
            }
        }
        if document.has_account {
            let account = ["delete", "serviceaccount", document.account(), "-n", document.namespace];
            cluster.kubectl(account).await.unwrap();
        }
    }
}
