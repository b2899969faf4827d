use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::labels::LabelRules;
use karpenter_model::resources::Resources;
use karpenter_model::shared::Labels;
use karpenter_model::snapshot::ExistingNode;
use serde_json::{Value, json};

use super::super::{Collector, Metrics, node_series, pool_series, utilization};
use super::*;
use crate::watches::PodClasses;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "so that tests can write values in place")]
fn pod(spec: Value, status: Value) -> SeenPod {
    let text = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "1", "creationTimestamp": "1970-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "2"}]},
        "spec": spec, "status": status,
    });
    PodClasses::default().read(&serde_json::from_str(&text.to_string()).unwrap(), &LabelRules::core()).unwrap()
}

fn spec(node: Option<&str>) -> Value {
    json!({"nodeName": node, "containers": [{"name": "a", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}]})
}

fn ready(at: &str) -> Value {
    json!({"phase": "Running", "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:20Z"},
        {"type": "Ready", "status": "True", "lastTransitionTime": at}]})
}

/// Node `n` of pool `blue` with 2 cores, and whatever is written for it and its pods.
#[derive(Debug)]
struct Cluster {
    metrics: Arc<Metrics>,
    pods: Arc<Pods>,
    nodes: Vec<ExistingNode>,
}

/// The pods that there are, and what is measured of them.
#[derive(Debug)]
struct Pods {
    tracker: PodTracker,
    known: Mutex<PodSet>,
}

impl Pods {
    fn seen(&self, pod: &SeenPod, now: Timestamp) {
        let mut known = self.known.lock().unwrap();
        self.tracker.seen(pod, known.get(&pod.view.id).map(|known| &*known.0), now);
        known.replace(ByName(pod.view.clone()));
    }

    fn gone(&self, id: &PodId) {
        self.tracker.gone(id);
        self.known.lock().unwrap().remove(id);
    }

    fn decided(&self, id: &PodId, verdict: Verdict, now: Timestamp) {
        self.tracker.decided(id, verdict, now);
    }
}

impl Collector for Cluster {
    fn collect(&self, now: Timestamp, into: &mut Samples<'_>) {
        let pods = self.pods.known.lock().unwrap();
        let usage = pod_limits(&pods);
        let mut by_name = BTreeMap::new();
        for entry in &self.nodes {
            let node = entry.node.as_deref().unwrap();
            by_name.insert(node.name.as_str(), node);
            let usage = usage.get(node.name.as_str()).cloned().unwrap_or_default();
            node_series(&self.metrics.nodes, entry, &usage, now, into);
        }
        utilization(&self.metrics.all, &self.nodes, into);
        self.pods.tracker.collect(&pods, &by_name, now, into);
        let limits = [("cpu".to_owned(), "10500m".parse().unwrap())].into_iter().collect();
        let usage = [("nodes".to_owned(), "3".parse().unwrap())].into_iter().collect();
        pool_series(&self.metrics.all, "blue", &limits, &usage, into);
    }
}

fn cluster() -> (Arc<Metrics>, Arc<Pods>) {
    let metrics = Arc::new(Metrics::new(&LabelRules::core(), Vec::new()));
    let pods = Arc::new(Pods { tracker: PodTracker::new(&metrics.all), known: Mutex::default() });
    let resources = |text: &[(&str, &str)]| -> Resources {
        text.iter().map(|(name, amount)| (name.to_string(), amount.parse().unwrap())).collect()
    };
    let node = NodeView {
        name: "n".to_owned(),
        uid: "9".to_owned(),
        provider_id: None,
        created_at: at(0),
        deleting_since: None,
        has_finalizer: false,
        labels: [(labels::NODEPOOL.to_owned(), "blue".to_owned()), (labels::ZONE.to_owned(), "z-a".to_owned())].into(),
        annotations: Labels::new(),
        taints: Vec::new(),
        capacity: resources(&[("cpu", "2"), ("ephemeral-storage", "10Gi")]).into(),
        allocatable: resources(&[("cpu", "1900m"), ("ephemeral-storage", "10Gi")]).into(),
        ready: true,
        conditions: Vec::new(),
        boot_id: String::new(),
    };
    let requested = resources(&[("cpu", "950m")]);
    let nodes =
        vec![ExistingNode { node: Some(Arc::new(node)), requested: requested.into(), ..ExistingNode::default() }];
    metrics.add_collector(Arc::new(Cluster { metrics: metrics.clone(), pods: pods.clone(), nodes }));
    (metrics, pods)
}

fn value(metrics: &Metrics, now: i64, start: &str) -> Option<String> {
    let text = metrics.render(at(now));
    text.lines().find(|line| line.starts_with(start)).and_then(|line| line.rsplit(' ').next()).map(str::to_owned)
}

/// API-198, API-199, LIF-124, LIF-125, V15-17, VC-135, Y20: a pod from pending to ready.
#[test]
fn a_pod_is_measured_on_its_way() {
    let (metrics, pods) = cluster();
    let id = PodId::new("shop", "web");
    pods.seen(&pod(spec(None), json!({"phase": "Pending"})), at(2));
    let get = |now, start: &str| value(&metrics, now, start);
    assert_eq!(
        get(10, "karpenter_pods_unstarted_time_seconds{name=\"web\",namespace=\"shop\"}").as_deref(),
        Some("10")
    );
    assert_eq!(get(10, "karpenter_pods_unbound_time_seconds").as_deref(), Some("10"));
    assert_eq!(get(10, "karpenter_pods_provisioning_scheduling_undecided_time_seconds").as_deref(), Some("8"));
    assert_eq!(get(10, "karpenter_pods_provisioning_unbound_time_seconds"), None);

    pods.decided(&id, Verdict::Schedulable, at(12));
    pods.decided(&id, Verdict::Schedulable, at(14));
    assert_eq!(get(15, "karpenter_pods_scheduling_decision_duration_seconds_count").as_deref(), Some("1"));
    assert_eq!(get(15, "karpenter_pods_scheduling_decision_duration_seconds_sum").as_deref(), Some("10"));
    assert_eq!(get(15, "karpenter_pods_provisioning_unbound_time_seconds").as_deref(), Some("3"));
    assert_eq!(get(15, "karpenter_pods_provisioning_scheduling_undecided_time_seconds"), None);
    pods.decided(&id, Verdict::Unschedulable, at(16));
    assert_eq!(get(16, "karpenter_pods_provisioning_unbound_time_seconds"), None, "not schedulable any more");
    pods.decided(&id, Verdict::Schedulable, at(18));

    pods.seen(&pod(spec(Some("n")), ready("1970-01-01T00:00:50Z")), at(51));
    pods.seen(&pod(spec(Some("n")), ready("1970-01-01T00:00:50Z")), at(60));
    for (start, want) in [
        ("karpenter_pods_bound_duration_seconds_sum{dynamic_resources=\"false\"}", "20"),
        ("karpenter_pods_provisioning_bound_duration_seconds_sum{dynamic_resources=\"false\"}", "2"),
        ("karpenter_pods_startup_duration_seconds_sum", "50"),
        ("karpenter_pods_startup_duration_seconds_count", "1"),
        ("karpenter_pods_provisioning_startup_duration_seconds_sum", "32"),
        (
            "karpenter_pods_state{name=\"web\",namespace=\"shop\",owner=\"/apis/apps/v1/namespaces/shop/replicasets/rs\",node=\"n\",scheduled=\"true\",nodepool=\"blue\",zone=\"z-a\",arch=\"\",capacity_type=\"\",instance_type=\"\",phase=\"Running\",ready=\"true\",managed=\"true\"}",
            "1",
        ),
    ] {
        assert_eq!(get(60, start).as_deref(), Some(want), "{start}");
    }
    for gone in
        ["karpenter_pods_unstarted_time", "karpenter_pods_unbound_time", "karpenter_pods_provisioning_unstarted"]
    {
        assert_eq!(get(60, gone), None);
    }
    pods.gone(&id);
    assert_eq!(get(61, "karpenter_pods_state"), None, "API-184");
}

/// LC-128: the wait for a node stands still while the pod is bound but does not run, and is over when it does.
#[test]
fn a_bound_pod_waits_no_more() {
    let (metrics, pods) = cluster();
    let id = PodId::new("shop", "web");
    let gauge = |now| {
        ["karpenter_pods_unbound_time_seconds", "karpenter_pods_provisioning_unbound_time_seconds"]
            .map(|name| value(&metrics, now, name))
    };
    let some = |values: [&str; 2]| values.map(|value| Some(value.to_owned()));
    pods.seen(&pod(spec(None), json!({"phase": "Pending"})), at(2));
    pods.decided(&id, Verdict::Schedulable, at(5));
    assert_eq!((gauge(10), gauge(15)), (some(["10", "5"]), some(["15", "10"])), "grows");
    let bound = json!({"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:20Z"}]});
    pods.seen(&pod(spec(Some("n")), bound), at(21));
    assert_eq!((gauge(30), gauge(90)), (some(["20", "15"]), some(["20", "15"])), "stands still");
    pods.seen(&pod(spec(Some("n")), json!({"phase": "Running"})), at(91));
    assert_eq!(gauge(92), [None, None]);
    let observed = value(&metrics, 92, "karpenter_pods_bound_duration_seconds_sum{dynamic_resources=\"false\"}");
    assert_eq!(observed.as_deref(), Some("20"));
}

/// What becomes of a pod.
type End = fn(&Pods, &PodId);

/// LC-130: how long nobody has decided about a pod is told from when it was first seen, until somebody has, or it does not
/// matter any more.
#[test]
fn undecided_until_it_does_not_matter() {
    let gauge = "karpenter_pods_provisioning_scheduling_undecided_time_seconds";
    let id = PodId::new("shop", "web");
    let ends: [(&str, End); 4] = [
        ("decided", |pods, id| pods.decided(id, Verdict::Unschedulable, at(9))),
        ("bound", |pods, _| pods.seen(&pod(spec(Some("n")), json!({"phase": "Pending"})), at(9))),
        ("terminal", |pods, _| pods.seen(&pod(spec(None), json!({"phase": "Failed"})), at(9))),
        ("deleted", Pods::gone),
    ];
    for (name, end) in ends {
        let (metrics, pods) = cluster();
        pods.seen(&pod(spec(None), json!({"phase": "Pending"})), at(2));
        assert_eq!(value(&metrics, 8, gauge).as_deref(), Some("6"), "{name}");
        end(&pods, &id);
        assert_eq!(value(&metrics, 10, gauge), None, "{name}");
    }
}

/// LIF-125, LC-129: nothing is measured for a pod that ran before we started, nor for one that ended without becoming ready.
#[test]
fn only_pods_seen_pending_are_measured() {
    let (metrics, pods) = cluster();
    pods.seen(&pod(spec(Some("n")), json!({"phase": "Running"})), at(5));
    pods.seen(&pod(spec(Some("n")), ready("1970-01-01T00:00:50Z")), at(51));
    assert_eq!(value(&metrics, 60, "karpenter_pods_startup_duration_seconds"), None);
    pods.gone(&PodId::new("shop", "web"));
    pods.seen(&pod(spec(None), json!({"phase": "Pending"})), at(60));
    pods.seen(&pod(spec(Some("n")), json!({"phase": "Failed"})), at(61));
    assert_eq!(value(&metrics, 62, "karpenter_pods_startup_duration_seconds"), None);
    assert_eq!(value(&metrics, 62, "karpenter_pods_bound_duration_seconds"), None);
    assert_eq!(value(&metrics, 62, "karpenter_pods_unstarted_time_seconds"), None, "it has ended");
}

/// LIF-125: a pod that has started is not measured again, whatever becomes of it, and nothing is kept for it.
#[test]
fn a_pod_settles_once() {
    let (metrics, pods) = cluster();
    let unready = json!({"phase": "Running", "conditions": [
        {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:01:00Z"}]});
    pods.seen(&pod(spec(None), json!({"phase": "Pending"})), at(2));
    pods.seen(&pod(spec(Some("n")), ready("1970-01-01T00:00:50Z")), at(51));
    assert!(pods.tracker.lock().is_empty());
    pods.seen(&pod(spec(Some("n")), unready.clone()), at(60));
    assert_eq!(value(&metrics, 61, "karpenter_pods_unstarted_time_seconds"), None, "it was ready once");
    pods.seen(&pod(spec(Some("n")), ready("1970-01-01T00:01:10Z")), at(70));
    assert_eq!(value(&metrics, 71, "karpenter_pods_startup_duration_seconds_count").as_deref(), Some("1"));
    // One that was not ready when this process began waits to start.
    pods.gone(&PodId::new("shop", "web"));
    pods.seen(&pod(spec(Some("n")), unready), at(80));
    assert_eq!(value(&metrics, 81, "karpenter_pods_unstarted_time_seconds").as_deref(), Some("81"));
}

/// V15-17, VC-135: claims of the pod or of a container count as dynamic resources.
#[test]
fn dynamic_resources_are_told_apart() {
    for (name, spec, dynamic) in [
        ("plain", json!({"containers": [{"name": "a"}]}), "false"),
        ("of the pod", json!({"containers": [{"name": "a"}], "resourceClaims": [{"name": "gpu"}]}), "true"),
        ("of a container", json!({"containers": [{"name": "a", "resources": {"claims": [{"name": "gpu"}]}}]}), "true"),
    ] {
        let (metrics, pods) = cluster();
        pods.seen(&pod(spec, json!({"phase": "Pending"})), at(0));
        let start = format!(
            "karpenter_pods_unbound_time_seconds{{name=\"web\",namespace=\"shop\",dynamic_resources=\"{dynamic}\"}}"
        );
        assert_eq!(value(&metrics, 7, &start).as_deref(), Some("7"), "{name}");
    }
}

/// API-185, API-188, API-190, API-192, LIF-122, LIF-123: amounts of nodes and pools.
#[test]
fn nodes_and_pools_say_what_they_have() {
    let (metrics, pods) = cluster();
    pods.seen(&pod(spec(Some("n")), json!({"phase": "Running"})), at(0));
    let text = metrics.render(at(100));
    let node = |metric: &str, resource: Option<&str>| {
        let line = text.lines().find(|line| {
            line.starts_with(&format!("karpenter_nodes_{metric}{{"))
                && resource.is_none_or(|resource| line.contains(&format!("resource_type=\"{resource}\"")))
        });
        line.and_then(|line| line.rsplit(' ').next()).unwrap_or_default()
    };
    for (metric, resource, want) in [
        ("allocatable", Some("cpu"), "1.9"),
        ("allocatable", Some("ephemeral_storage"), "1.073741824e+10"),
        ("system_overhead", Some("cpu"), "0.1"),
        ("total_pod_requests", Some("cpu"), "0.95"),
        ("total_pod_limits", Some("cpu"), "0.5"),
        ("total_pod_limits", Some("memory"), "1.073741824e+09"),
        ("total_daemon_requests", Some("cpu"), ""),
        ("current_lifetime_seconds", None, "100"),
    ] {
        assert_eq!(node(metric, resource), want, "{metric} {resource:?}");
    }
    assert!(text.contains("node_name=\"n\",phase=\"\",managed=\"false\""), "{text}");
    assert!(text.contains("karpenter_cluster_utilization_percent{resource_type=\"cpu\"} 50\n"), "{text}");
    assert!(text.contains("karpenter_nodepools_limit{resource_type=\"cpu\",nodepool=\"blue\"} 10.5\n"), "{text}");
    assert!(text.contains("karpenter_nodepools_usage{resource_type=\"nodes\",nodepool=\"blue\"} 3\n"), "{text}");
}
