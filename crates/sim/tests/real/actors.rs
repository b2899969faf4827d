//! Kubelets and workload controllers on a real API server with the real kube-scheduler: what they write is accepted, and
//! everybody else understands it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::Resources;
use karpenter_platform::SystemClock;
use karpenter_sim::cluster::Cluster;
use karpenter_sim::fleet::{Ailment, Fleet, Health, Machine};
use karpenter_sim::kubelet::{Kubelets, Pace};
use karpenter_sim::workloads::{self, Patience};
use karpenter_testkit::ControlPlane;
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::{Api, Client, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A step takes a second or two; a loaded machine gets far more before we call it stuck.
const LIMIT: Duration = Duration::from_mins(3);

struct Shared {
    control_plane: ControlPlane,
    fleet: Arc<Fleet>,
}

/// One cluster for all tests of this file; its actors live on a runtime of their own.
fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| std::thread::spawn(start).join().unwrap())
}

fn start() -> Shared {
    let runtime = Box::leak(Box::new(tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()));
    let fleet = Arc::<Fleet>::default();
    let control_plane = runtime.block_on(ControlPlane::builder().scheduler().start()).unwrap();
    let _entered = runtime.enter();
    let cluster = Cluster::new(control_plane.client(), Arc::new(SystemClock), 1);
    let millis = Duration::from_millis;
    let pace = Pace {
        lease: millis(1000),
        ready: (millis(100), millis(300)),
        start: (millis(50), millis(200)),
        stop: (millis(50), millis(200)),
        run: millis(300),
        removal: millis(200),
        ..Pace::default()
    };
    let patience = Patience { heartbeat: millis(3500), detach: millis(200), volume: millis(200), orphan: millis(500) };
    let kubelets = Kubelets::new(cluster.clone(), fleet.clone(), pace);
    runtime.spawn(async move { kubelets.run().await });
    runtime.spawn(workloads::run(cluster.clone(), patience));
    // Started last: who is woken by a change asks for it before the first one can come.
    runtime.spawn(async move {
        tokio::time::sleep(millis(50)).await;
        cluster.watch().await;
    });
    Shared { control_plane, fleet }
}

/// A namespace and nodes of one test.
struct Site {
    client: Client,
    name: String,
    fleet: &'static Fleet,
}

impl Site {
    async fn new(name: &str) -> Self {
        let shared = tokio::task::spawn_blocking(shared).await.unwrap();
        let client = shared.control_plane.client();
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
        Self { client, name: name.to_owned(), fleet: &shared.fleet }
    }

    /// A machine whose node only this test's pods select.
    fn machine(&self, number: usize) -> String {
        let name = format!("{}-{number}", self.name);
        let amounts = |pods| {
            Resources::new()
                .with("cpu", Quantity::units(4))
                .with("memory", Quantity::bytes(8 << 30))
                .with("pods", Quantity::units(pods))
        };
        let labels = [("site", self.name.as_str()), ("topology.kubernetes.io/zone", "zone-a")];
        self.fleet.add(Machine {
            provider_id: format!("sim://{name}"),
            node_name: name.clone(),
            labels: labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            taints: vec![],
            capacity: amounts(20),
            allocatable: amounts(20),
            joins_at: Timestamp::now(),
            on: true,
            boot_id: "boot-1".to_owned(),
            down_until: None,
            health: Health::Well,
            ailments: BTreeMap::new(),
        });
        name
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Serialize
            + DeserializeOwned
            + Clone
            + Debug,
    {
        self.api().create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn pods(&self) -> Vec<Pod> {
        self.api::<Pod>().list(&ListParams::default()).await.unwrap().items
    }

    fn template(&self, app: &str) -> Value {
        json!({
            "metadata": {"labels": {"app": app}},
            "spec": {
                "nodeSelector": {"site": self.name},
                "containers": [{"name": "main", "image": "one", "resources": {"requests": {"cpu": "100m"}}}],
            },
        })
    }
}

async fn eventually<T>(what: &str, question: impl AsyncFn() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(answer) = question().await {
            return answer;
        }
        assert!(since.elapsed() < LIMIT, "{what}: not after {LIMIT:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn is(status: &str, type_: &str, conditions: &Value) -> bool {
    conditions.as_array().into_iter().flatten().any(|c| c["type"] == type_ && c["status"] == status)
}

fn ready(pod: &Pod) -> bool {
    is("True", "Ready", &json!(pod.status.as_ref().and_then(|status| status.conditions.clone())))
}

#[tokio::test]
async fn a_deployment_rolls_out_scales_and_replaces() {
    let site = Site::new("deployment").await;
    site.machine(1);
    let spec = json!({
        "replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": site.template("web"),
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
    });
    site.create::<Deployment>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let settled = async |replicas: i32, generation: i64| {
        eventually("the deployment settles", async || {
            let status = site.api::<Deployment>().get("web").await.unwrap().status?;
            let all = [status.replicas, status.updated_replicas, status.available_replicas];
            let done = all.iter().all(|n| n.unwrap_or(0) == replicas) && status.observed_generation >= Some(generation);
            (done && is("True", "Available", &json!(status.conditions))).then_some(())
        })
        .await;
    };
    settled(3, 1).await;
    assert!(site.pods().await.iter().all(ready));

    let again = json!([{"name": "main", "image": "two"}]);
    site.patch::<Deployment>("web", json!({"spec": {"template": {"spec": {"containers": again}}}})).await;
    settled(3, 2).await;
    eventually("only new pods are left", async || {
        let pods = site.pods().await;
        let new = pods.iter().filter(|pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some("two"));
        (new.count() == 3 && pods.len() == 3).then_some(())
    })
    .await;
    let sets = site.api::<ReplicaSet>().list(&ListParams::default()).await.unwrap().items;
    let sizes: Vec<_> = sets.iter().map(|set| set.spec.as_ref().unwrap().replicas.unwrap()).collect();
    assert_eq!(sizes.iter().sum::<i32>(), 3, "{sizes:?}");
    assert_eq!(sets.len(), 2, "the old set is kept for its history");

    let victim = site.pods().await[0].name_any();
    site.api::<Pod>().delete(&victim, &DeleteParams::default()).await.unwrap();
    eventually("the pod is replaced", async || {
        let pods = site.pods().await;
        (pods.len() == 3 && pods.iter().all(|pod| pod.name_any() != victim && ready(pod))).then_some(())
    })
    .await;
    site.patch::<Deployment>("web", json!({"spec": {"replicas": 1}})).await;
    settled(1, 3).await;
}

#[tokio::test]
async fn a_stateful_set_has_its_volumes() {
    let site = Site::new("stateful").await;
    let node = site.machine(1);
    let class = json!({
        "metadata": {"name": "stateful-wait"}, "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    let classes: Api<k8s_openapi::api::storage::v1::StorageClass> = Api::all(site.client.clone());
    classes.create(&PostParams::default(), &serde_json::from_value(class).unwrap()).await.unwrap();
    let mut template = site.template("db");
    template["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "stateful-wait",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let spec = json!({
        "replicas": 2, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": template,
        "volumeClaimTemplates": [claim],
    });
    site.create::<StatefulSet>(json!({"metadata": {"name": "db"}, "spec": spec})).await;
    eventually("both run", async || {
        let status = site.api::<StatefulSet>().get("db").await.unwrap().status?;
        (status.available_replicas == Some(2)).then_some(())
    })
    .await;
    let names: Vec<String> = site.pods().await.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, ["db-0", "db-1"]);
    let claims = site.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap().items;
    assert!(claims.iter().all(|claim| claim.status.as_ref().unwrap().phase.as_deref() == Some("Bound")));
    assert_eq!(claims.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>(), ["data-db-0", "data-db-1"]);
    let attachments: Api<VolumeAttachment> = Api::all(site.client.clone());
    let attached = async || -> usize {
        let all = attachments.list(&ListParams::default()).await.unwrap().items;
        all.iter().filter(|a| a.spec.node_name == node && a.status.as_ref().is_some_and(|s| s.attached)).count()
    };
    assert_eq!(attached().await, 2);
    site.patch::<StatefulSet>("db", json!({"spec": {"replicas": 1}})).await;
    eventually("the volume of the pod that went is detached", async || (attached().await == 1).then_some(())).await;

    // A claim that nobody uses goes when it is deleted, and its volume with it; one that is used stays until its pod is gone.
    let api = site.api::<PersistentVolumeClaim>();
    for name in ["data-db-0", "data-db-1"] {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    let volumes: Api<PersistentVolume> = Api::all(site.client.clone());
    let volume = |number: usize| claims[number].spec.as_ref().unwrap().volume_name.clone().unwrap();
    let gone = async |number: usize| {
        let claim = api.get_opt(&format!("data-db-{number}")).await.unwrap();
        let volume = volumes.get_opt(&volume(number)).await.unwrap();
        (claim.is_none() && volume.is_none()).then_some(())
    };
    eventually("the unused one is gone", async || gone(1).await).await;
    assert!(api.get("data-db-0").await.unwrap().metadata.deletion_timestamp.is_some(), "it is in use");
    site.patch::<StatefulSet>("db", json!({"spec": {"replicas": 0}})).await;
    eventually("the other is gone", async || gone(0).await).await;
}

/// A volume made by hand is offered, and taken by the claim that it suits.
#[tokio::test]
async fn volumes_made_by_hand_are_available_then_bound() {
    let site = Site::new("volumes").await;
    let volume = |name: &str, size: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": "by-hand",
                "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": "csi.example.com", "volumeHandle": name},
            },
        })
    };
    let volumes: Api<PersistentVolume> = Api::all(site.client.clone());
    for (name, size) in [("by-hand-1", "1Gi"), ("by-hand-2", "20Gi")] {
        let volume = serde_json::from_value(volume(name, size)).unwrap();
        volumes.create(&PostParams::default(), &volume).await.unwrap();
    }
    let phases = async |want: [&str; 2]| {
        let mut phases = Vec::new();
        for name in ["by-hand-1", "by-hand-2"] {
            phases.push(volumes.get(name).await.unwrap().status.and_then(|s| s.phase).unwrap_or_default());
        }
        (phases == want).then_some(())
    };
    eventually("both are available", async || phases(["Available", "Available"]).await).await;
    site.create::<PersistentVolumeClaim>(json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand", "resources": {"requests": {"storage": "10Gi"}},
        },
    }))
    .await;
    eventually("the large one is bound", async || phases(["Available", "Bound"]).await).await;
}

#[tokio::test]
async fn a_daemon_set_covers_the_nodes_that_come() {
    let site = Site::new("daemon").await;
    site.machine(1);
    let spec = json!({"selector": {"matchLabels": {"app": "agent"}}, "template": site.template("agent")});
    site.create::<DaemonSet>(json!({"metadata": {"name": "agent"}, "spec": spec})).await;
    let covered = async |count: i32| {
        eventually("every node has one", async || {
            let status = site.api::<DaemonSet>().get("agent").await.unwrap().status?;
            (status.number_ready == count && status.desired_number_scheduled == count).then_some(())
        })
        .await;
    };
    covered(1).await;
    site.machine(2);
    covered(2).await;
    let nodes: std::collections::BTreeSet<_> =
        site.pods().await.iter().map(|pod| pod.spec.as_ref().unwrap().node_name.clone().unwrap()).collect();
    assert_eq!(nodes.len(), 2);
}

#[tokio::test]
async fn jobs_complete_and_fail() {
    let site = Site::new("jobs").await;
    site.machine(1);
    let job = |name: &str, more: Value, annotations: Value| {
        let mut template = site.template(name);
        template["metadata"]["annotations"] = annotations;
        template["spec"]["restartPolicy"] = json!("Never");
        let mut spec = json!({"template": template});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": name}, "spec": spec})
    };
    site.create::<Job>(job("good", json!({"completions": 3, "parallelism": 2}), json!({}))).await;
    site.create::<Job>(job("bad", json!({"backoffLimit": 1}), json!({"sim.karpenter.sh/fails": "yes"}))).await;
    for (name, end, succeeded, failed) in [("good", "Complete", 3, 0), ("bad", "Failed", 0, 2)] {
        let status = eventually("the job ends", async || {
            let status = site.api::<Job>().get(name).await.unwrap().status?;
            is("True", end, &json!(status.conditions)).then_some(status)
        })
        .await;
        assert_eq!((status.succeeded.unwrap_or(0), status.failed.unwrap_or(0)), (succeeded, failed), "{name}");
    }
    eventually("no pod is held", async || {
        site.pods().await.iter().all(|pod| pod.finalizers().is_empty()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn budgets_count_and_evictions_obey() {
    let site = Site::new("budgets").await;
    site.machine(1);
    let mut template = site.template("web");
    // Long enough that the successor of an evicted pod is not there at once.
    template["metadata"]["annotations"] = json!({"sim.karpenter.sh/starts-after": "3s"});
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    site.create::<ReplicaSet>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let budget = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    site.create::<PodDisruptionBudget>(json!({"metadata": {"name": "web"}, "spec": budget})).await;
    let allowed = async |count: i32| {
        eventually("the budget is counted", async || {
            let status = site.api::<PodDisruptionBudget>().get("web").await.unwrap().status?;
            (status.disruptions_allowed == count && status.expected_pods == 2).then_some(())
        })
        .await;
    };
    allowed(1).await;
    let pods = site.pods().await;
    site.api::<Pod>().evict(&pods[0].name_any(), &EvictParams::default()).await.unwrap();
    let refused = impatient(&site).await.evict(&pods[1].name_any(), &EvictParams::default()).await;
    assert!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 429), "{refused:?}");
    allowed(1).await;
    eventually("the other may go now", async || {
        site.api::<Pod>().evict(&pods[1].name_any(), &EvictParams::default()).await.ok()
    })
    .await;
}

/// The ordinary client takes 429 for an overloaded server and asks again by itself, until the eviction is allowed.
async fn impatient(site: &Site) -> Api<Pod> {
    let kubeconfig = kube::config::Kubeconfig::read_from(shared().control_plane.kubeconfig()).unwrap();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    config.default_retry = false;
    let client = Client::try_from(config).unwrap();
    Api::namespaced(client, &site.name)
}

fn taints(node: &Node) -> Vec<String> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
}

#[tokio::test]
async fn silent_and_dead_machines_are_noticed() {
    let site = Site::new("silence").await;
    let node = site.machine(1);
    let mut template = site.template("web");
    let toleration =
        |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1});
    template["spec"]["tolerations"] =
        json!([toleration("node.kubernetes.io/unreachable"), toleration("node.kubernetes.io/not-ready")]);
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    site.create::<ReplicaSet>(json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let runs_on = async |wanted: &str| -> String {
        eventually("the pod runs", async || {
            let pods = site.pods().await;
            let on = |pod: &&Pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some(wanted) && ready(pod);
            pods.iter().find(on).map(kube::ResourceExt::name_any)
        })
        .await
    };
    let first = runs_on(&node).await;
    let id = format!("sim://{node}");

    // A bad condition is shown, and goes again.
    let ailment = Ailment { status: "True".into(), reason: "Rust".into(), since: Timestamp::now() };
    site.fleet.change(&id, |machine| drop(machine.ailments.insert("KernelDeadlock".into(), ailment)));
    eventually("the condition is shown", async || {
        let status = site.nodes().get(&node).await.unwrap().status?;
        is("True", "KernelDeadlock", &json!(status.conditions)).then_some(())
    })
    .await;
    site.fleet.change(&id, |machine| machine.health = Health::NotReady("Sick".into()));
    eventually("the node is not ready", async || {
        let node = site.nodes().get(&node).await.unwrap();
        taints(&node).contains(&"node.kubernetes.io/not-ready:NoExecute".to_owned()).then_some(())
    })
    .await;
    eventually("the pod is evicted after a second", async || {
        site.pods().await.iter().all(|pod| pod.name_any() != first).then_some(())
    })
    .await;
    site.fleet.change(&id, |machine| machine.health = Health::Well);
    runs_on(&node).await;

    site.fleet.change(&id, |machine| machine.health = Health::Silent);
    eventually("the node is unreachable", async || {
        let node = site.nodes().get(&node).await.unwrap();
        taints(&node).contains(&"node.kubernetes.io/unreachable:NoExecute".to_owned()).then_some(())
    })
    .await;
    // The machine never comes back: its node goes, its pod with it, and the next machine takes over.
    site.fleet.change(&id, |machine| machine.on = false);
    eventually("the node is removed", async || site.nodes().get_opt(&node).await.unwrap().is_none().then_some(()))
        .await;
    let other = site.machine(2);
    runs_on(&other).await;
    eventually("the old pod is gone", async || (site.pods().await.len() == 1).then_some(())).await;
}

#[tokio::test]
async fn a_reboot_changes_the_boot_id_and_restarts_containers() {
    let site = Site::new("reboot").await;
    let node = site.machine(1);
    let mut pod = site.template("web");
    pod["metadata"]["name"] = json!("web");
    site.create::<Pod>(pod).await;
    eventually("the pod runs", async || ready(&site.api::<Pod>().get("web").await.unwrap()).then_some(())).await;
    site.fleet.change(&format!("sim://{node}"), |machine| {
        machine.boot_id = "boot-2".to_owned();
        machine.down_until = Some(Timestamp::now() + jiff::SignedDuration::from_millis(300));
    });
    eventually("the containers were restarted", async || {
        let info = site.nodes().get(&node).await.unwrap().status?.node_info?;
        let statuses = site.api::<Pod>().get("web").await.unwrap().status?.container_statuses?;
        (info.boot_id == "boot-2" && statuses[0].restart_count == 1 && statuses[0].ready).then_some(())
    })
    .await;
}

#[tokio::test]
async fn grace_periods_are_honoured() {
    let site = Site::new("grace").await;
    site.machine(1);
    for (name, stops, grace) in [("quick", "0s", 30), ("stubborn", "1h", 2)] {
        let mut pod = site.template(name);
        pod["metadata"]["name"] = json!(name);
        pod["metadata"]["annotations"] = json!({"sim.karpenter.sh/stops-after": stops});
        pod["spec"]["terminationGracePeriodSeconds"] = json!(grace);
        site.create::<Pod>(pod).await;
        eventually("the pod runs", async || ready(&site.api::<Pod>().get(name).await.unwrap()).then_some(())).await;
    }
    let asked = Instant::now();
    for name in ["quick", "stubborn"] {
        site.api::<Pod>().delete(name, &DeleteParams::default()).await.unwrap();
    }
    eventually("the quick one is gone", async || {
        site.api::<Pod>().get_opt("quick").await.unwrap().is_none().then_some(())
    })
    .await;
    let gone = async || site.api::<Pod>().get_opt("stubborn").await.unwrap().is_none().then_some(());
    eventually("the stubborn one is gone", gone).await;
    assert!(asked.elapsed() >= Duration::from_secs(1), "it was given its grace: {:?}", asked.elapsed());
}

#[tokio::test]
async fn nodes_made_by_hand_get_a_kubelet() {
    let site = Site::new("by-hand").await;
    let node = json!({
        "metadata": {"name": "by-hand-1", "labels": {"site": "by-hand"}, "annotations": {"kwok.x-k8s.io/node": "fake"}},
    });
    site.nodes().create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let mut pod = site.template("web");
    pod["metadata"]["name"] = json!("web");
    site.create::<Pod>(pod).await;
    eventually("the pod runs", async || ready(&site.api::<Pod>().get("web").await.unwrap()).then_some(())).await;
}
