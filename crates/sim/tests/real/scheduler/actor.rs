//! The actor beside the real program: the same story, told by what both write.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use karpenter_platform::{Clock as _, SystemClock, TokioClock};
use karpenter_sim::scheduler::Scheduler;
use karpenter_testkit::ControlPlane;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const LIMIT: Duration = Duration::from_mins(3);

/// Bindings, conditions and events are the same, also after waiting, gates, priorities and volumes; and once more on
/// virtual time, on the API in the process.
#[tokio::test]
async fn the_actor_writes_what_kube_scheduler_writes() {
    let (theirs, ours) = tokio::join!(
        async {
            let cluster = ControlPlane::builder().scheduler().start().await.unwrap();
            story(cluster.client()).await
        },
        async {
            let cluster = ControlPlane::builder().start().await.unwrap();
            let scheduler = Scheduler::new(cluster.client(), Arc::new(SystemClock));
            let running = tokio::spawn(scheduler.run());
            let told = story(cluster.client()).await;
            running.abort();
            told
        }
    );
    assert!(theirs.len() > 15, "{theirs:#?}");
    assert_eq!(ours, theirs);
    let embedded = std::thread::spawn(on_virtual_time).join().unwrap();
    assert_eq!(embedded.told, theirs);
}

/// A run must be repeatable: everything that anybody wrote is the same, to the byte.
#[test]
fn two_runs_write_the_same() {
    let first = on_virtual_time();
    assert!(first.objects.len() > 10);
    assert_eq!(on_virtual_time().objects, first.objects);
}

struct Embedded {
    told: Vec<String>,
    objects: Vec<String>,
}

fn on_virtual_time() -> Embedded {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let clock = Arc::new(TokioClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let of_api = Arc::clone(&clock);
        let api = karpenter_apiserver::Api::new(karpenter_apiserver::Options {
            clock: Arc::new(move || of_api.now()),
            requests_per_instant: Some(1000),
            ..karpenter_apiserver::Options::default()
        });
        let client = Client::new(api, "default");
        let running = tokio::spawn(Scheduler::new(client.clone(), clock).run());
        let told = story(client.clone()).await;
        running.abort();
        let mut objects = Vec::new();
        for path in ["/api/v1/pods", "/api/v1/events", "/api/v1/persistentvolumes"] {
            let request = kube::core::Request::new(path).list(&ListParams::default()).unwrap();
            objects.extend(client.request_text(request).await.unwrap().split("},{").map(str::to_owned));
        }
        Embedded { told, objects }
    })
}

async fn story(client: Client) -> Vec<String> {
    let mut t = Teller { client, told: Vec::new() };
    t.make::<Namespace>(json!({"metadata": {"name": "story"}})).await;
    for (name, value) in [("low", 1), ("high", 1000)] {
        t.make::<PriorityClass>(json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": "Never"})).await;
    }

    t.make::<PriorityClass>(json!({"metadata": {"name": "urgent"}, "value": 5000})).await;

    t.place("too-early", json!({})).await;
    t.settles("too-early").await;
    t.node("small", "1", json!([])).await;
    t.is_bound("too-early").await;
    t.node("tainted", "4", json!([{"key": "dedicated", "effect": "NoSchedule"}])).await;

    t.place("first", cpu("600m")).await;
    t.is_bound("first").await;
    t.place("second", cpu("600m")).await;
    t.settles("second").await;
    t.remove("first").await;
    t.is_bound("second").await;

    let mut gated = cpu("100m");
    gated["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    t.place("gated", gated).await;
    t.settles("gated").await;
    t.patch("gated", json!({"spec": {"schedulingGates": []}})).await;
    t.is_bound("gated").await;

    // Only one of the two fits once there is room.
    for class in ["low", "high"] {
        let mut pod = cpu("500m");
        pod["priorityClassName"] = json!(class);
        t.place(class, pod).await;
        t.settles(class).await;
    }
    // While they back off, the one that was tried first goes first; afterwards it is priority that counts.
    // They back off for ten seconds at most.
    sleep(Duration::from_secs(12)).await;
    t.remove("second").await;
    t.is_bound("high").await;
    t.settles("low").await;

    t.volumes().await;

    // Others make room; nobody plays their kubelet but the test.
    let mut urgent = cpu("800m");
    urgent["priorityClassName"] = json!("urgent");
    t.place("urgent", urgent).await;
    t.is_going("high").await;
    t.settles("urgent").await;
    t.remove("high").await;
    t.is_bound("urgent").await;
    t.tell_events().await;
    t.told
}

struct Teller {
    client: Client,
    told: Vec<String>,
}

fn cpu(amount: &str) -> Value {
    json!({"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": amount}}}]})
}

impl Teller {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "story")
    }

    async fn make<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
        K: Resource<Scope = k8s_openapi::ClusterResourceScope>,
    {
        let object: K = serde_json::from_value(object).unwrap();
        Api::all(self.client.clone()).create(&PostParams::default(), &object).await.unwrap()
    }

    async fn node(&self, name: &str, cpu: &str, taints: Value) {
        let labels = json!({"kubernetes.io/hostname": name});
        let room = json!({"cpu": cpu, "memory": "4Gi", "pods": "10"});
        let status = json!({"allocatable": room, "capacity": room});
        // The API server taints every new node; it is closed until that taint is gone.
        let node = json!({
            "metadata": {"name": name, "labels": labels}, "spec": {"unschedulable": true}, "status": status,
        });
        self.make::<Node>(node).await;
        let api: Api<Node> = Api::all(self.client.clone());
        let open = Patch::Merge(json!({"spec": {"taints": taints, "unschedulable": false}}));
        api.patch(name, &PatchParams::default(), &open).await.unwrap();
    }

    async fn place(&self, name: &str, mut spec: Value) {
        if spec["containers"].is_null() {
            spec["containers"] = json!([{"name": "main", "image": "none"}]);
        }
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    async fn patch(&self, name: &str, patch: Value) {
        self.pods().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn remove(&self, name: &str) {
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.pods().delete(name, &now).await.unwrap();
    }

    async fn until(&self, name: &str, what: &str, reached: impl Fn(&Pod) -> bool) -> Pod {
        let since = Instant::now();
        loop {
            let pod = self.pods().get(name).await.unwrap();
            if reached(&pod) {
                return pod;
            }
            assert!(since.elapsed() < LIMIT, "{name} is not {what}: {:?} {:#?}", pod.status, self.told);
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn is_bound(&mut self, name: &str) {
        let pod = self.until(name, "bound", |p| p.spec.as_ref().unwrap().node_name.is_some()).await;
        self.tell(&pod);
    }

    async fn is_going(&mut self, name: &str) {
        let pod = self.until(name, "going", |p| p.metadata.deletion_timestamp.is_some()).await;
        let conditions = pod.status.as_ref().unwrap().conditions.as_ref().unwrap();
        let target = conditions.iter().find(|c| c.type_ == "DisruptionTarget").map(|c| {
            let since = c.last_transition_time.is_some();
            format!("{} {:?} {:?} {:?} {since}", c.status, c.reason, c.message, c.observed_generation)
        });
        self.told.push(format!("{name} is going: {target:?}"));
    }

    /// Its condition is there and does not change for a while.
    async fn settles(&mut self, name: &str) {
        let mut pod = self.until(name, "judged", |p| condition(p).is_some()).await;
        loop {
            sleep(Duration::from_secs(1)).await;
            let later = self.pods().get(name).await.unwrap();
            if later.resource_version() == pod.resource_version() {
                break self.tell(&pod);
            }
            pod = later;
        }
    }

    fn tell(&mut self, pod: &Pod) {
        let node = pod.spec.as_ref().unwrap().node_name.as_deref().unwrap_or("no node");
        let nominated = pod.status.as_ref().unwrap().nominated_node_name.clone();
        let condition = condition(pod).map(|mut c| {
            c["lastTransitionTime"] = json!(c["lastTransitionTime"].is_string());
            c
        });
        self.told.push(format!("{}: {node}, nominated {nominated:?}, {condition:?}", pod.name_any()));
    }

    /// A claim that waits for its pod: the scheduler reserves the volume, the test completes the binding.
    async fn volumes(&mut self) {
        self.make::<StorageClass>(json!({
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        }))
        .await;
        let required = json!({"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["small"]}
        ]}]});
        self.make::<PersistentVolume>(json!({
            "metadata": {"name": "disk"},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                "local": {"path": "/none"}, "nodeAffinity": {"required": required},
            },
        }))
        .await;
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let available = Patch::Merge(json!({"status": {"phase": "Available"}}));
        volumes.patch_status("disk", &PatchParams::default(), &available).await.unwrap();

        let spec = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
        self.place("stateful", spec).await;
        self.settles("stateful").await;
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), "story");
        let claim = serde_json::from_value(json!({
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }));
        claims.create(&PostParams::default(), &claim.unwrap()).await.unwrap();
        let since = Instant::now();
        let reserved = loop {
            let reserved = volumes.get("disk").await.unwrap();
            if reserved.spec.as_ref().unwrap().claim_ref.is_some() {
                break reserved;
            }
            assert!(since.elapsed() < LIMIT, "the volume is not reserved");
            sleep(Duration::from_millis(20)).await;
        };
        let claim_ref = reserved.spec.unwrap().claim_ref.unwrap();
        self.told
            .push(format!("disk: for {:?} {:?}, {:?}", claim_ref.kind, claim_ref.name, reserved.metadata.annotations));
        let waiting = self.pods().get("stateful").await.unwrap();
        self.tell(&waiting);
        let bound = json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "disk"},
        });
        claims.patch("data", &PatchParams::default(), &Patch::Merge(bound)).await.unwrap();
        self.is_bound("stateful").await;
    }

    async fn tell_events(&mut self) {
        // They are written after the fact.
        sleep(Duration::from_secs(6)).await;
        let events: Api<Event> = Api::namespaced(self.client.clone(), "story");
        let told = events.list(&ListParams::default()).await.unwrap().items.into_iter().map(|e| {
            let of = e.involved_object;
            format!(
                "event of {:?} {:?} {:?}: {:?} {:?} {:?} by {:?} at {}: {:?}",
                of.api_version,
                of.kind,
                of.name,
                e.type_,
                e.reason,
                e.action,
                e.reporting_component,
                e.event_time.is_some(),
                e.message.map(|m| if m.starts_with("Preempted by") { "Preempted by …".to_owned() } else { m }),
            )
        });
        // Who is quick sees a node before it is open.
        let mut told: Vec<_> = told.filter(|t| !t.contains("were unschedulable")).collect();
        told.sort();
        told.dedup();
        self.told.extend(told);
    }
}

fn condition(pod: &Pod) -> Option<Value> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| c.type_ == "PodScheduled").map(|c| json!(c))
}
