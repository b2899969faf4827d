//! One pod's whole way: unschedulable, planned, launched, registered, initialized, running, drained, gone.

use std::fmt::Debug;
use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use karpenter_api::crd;
use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_testkit::ControlPlane;
use karpenter_testkit::control_plane::Supervised;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::traces::{Collector, Span};

/// A step takes seconds; a loaded machine gets far more before we call it stuck.
const LIMIT: Duration = Duration::from_mins(2);

/// Asks until the answer is there; fails with the last objects and the controller's log when it does not come.
async fn wait<T>(
    what: &str,
    controller: &mut Supervised,
    question: impl AsyncFn() -> Result<Option<T>, kube::Error>,
) -> T {
    let since = Instant::now();
    loop {
        match question().await {
            Ok(Some(answer)) => return answer,
            answer if since.elapsed() > LIMIT => {
                panic!("{what}: not after {LIMIT:?} ({:?})\n{}", answer.err(), controller.last_words())
            }
            _ => {}
        }
        controller.ensure_running().unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: kube::Resource + serde::Serialize + DeserializeOwned + Clone + Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        // What is looked at here stays; what consolidation does has its own tests.
        "spec": {"disruption": {"consolidateAfter": "Never"}, "template": {
            "metadata": {"labels": {"team": "shop"}, "annotations": {"example.com/note": "kept"}},
            "spec": {
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": [
                    {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                ],
                "startupTaints": [],
                "terminationGracePeriod": "1h",
            },
        }},
    })
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"terminationGracePeriodSeconds": 0, "nodeSelector": {"team": "shop"}, "containers": [
            {"name": "web", "image": "example.com/web", "resources": {"requests": {"cpu": "3", "memory": "10Gi"}}}]},
    })
}

struct Cluster {
    pods: Api<Pod>,
    nodes: Api<Node>,
    claims: Api<NodeClaim>,
    pools: Api<NodePool>,
}

impl Cluster {
    fn new(client: &Client) -> Self {
        Self {
            pods: Api::default_namespaced(client.clone()),
            nodes: Api::all(client.clone()),
            claims: Api::all(client.clone()),
            pools: Api::all(client.clone()),
        }
    }

    async fn counts(&self) -> Result<(usize, usize), kube::Error> {
        let all = ListParams::default();
        Ok((self.claims.list(&all).await?.items.len(), self.nodes.list(&all).await?.items.len()))
    }
}

fn start(cluster: &ControlPlane, more: &[(&str, &str)]) -> Supervised {
    let program = Path::new(env!("CARGO_BIN_EXE_karpenter-controller"));
    let environment = [
        ("CLOUD_PROVIDER", "kwok"),
        ("BATCH_IDLE_DURATION", "200ms"),
        ("LOG_LEVEL", "debug"),
        ("METRICS_PORT", "0"),
        ("HEALTH_PROBE_PORT", "0"),
    ];
    cluster.run("karpenter-controller", program, [], &[&environment, more].concat()).unwrap()
}

/// One type, as files of types have it.
fn own_types() -> Value {
    let offering = |capacity_type: &str, price: f64| {
        json!({"Price": price, "Available": true, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["here-1"]}]})
    };
    json!([{"name": "own.2xlarge", "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": "8", "memory": "32Gi"}, "offerings": [offering("spot", 0.125), offering("on-demand", 0.5)]}])
}

fn is_true(claim: &NodeClaim, condition: &str) -> bool {
    let conditions = claim.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|c| c.type_ == condition && c.is_true())
}

/// API-72, API-73, API-78, API-140, API-152: the narrow path through every layer. API-157, API-287, API-288: then again, with types
/// from a file.
#[tokio::test]
async fn a_pending_pod_gets_a_node_and_both_go_again() {
    let control_plane = ControlPlane::builder().scheduler().controller_manager().kwok().start().await.unwrap();
    let crds = crd::all().into_iter().map(|crd| serde_json::from_value(crd).unwrap());
    control_plane.apply_crds(crds).await.unwrap();
    let client = control_plane.client();
    let cluster = Cluster::new(&client);
    let collector = Collector::start();
    let mut controller = start(&control_plane, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)]);

    let class =
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}});
    control_plane.install([class]).await.unwrap();
    create(&cluster.pools, pool()).await;
    create(&cluster.pods, pod()).await;

    let running = wait("the pod runs", &mut controller, async || {
        let pod = cluster.pods.get("web").await?;
        Ok(pod.status.clone().and_then(|s| s.phase).filter(|phase| phase == "Running").map(|_| pod))
    })
    .await;
    let claim = wait("the claim is ready", &mut controller, async || {
        let claims = cluster.claims.list(&ListParams::default()).await?;
        Ok(claims.items.into_iter().find(|claim| is_true(claim, "Ready")))
    })
    .await;
    assert_eq!(cluster.counts().await.unwrap(), (1, 1), "one node is enough");

    // The claim says where it came from and what it became.
    assert!(claim.name_any().starts_with("default-"));
    assert_eq!(claim.labels()["karpenter.sh/nodepool"], "default");
    assert_eq!(claim.labels()["node.kubernetes.io/instance-type"], "s-4x-amd64-linux", "the cheapest that holds it");
    assert_eq!(claim.labels()["karpenter.sh/capacity-type"], "spot");
    assert_eq!(claim.labels()["team"], "shop");
    assert_eq!(claim.annotations()["karpenter.sh/nodepool-hash-version"], "v3");
    assert_eq!(claim.owner_references()[0].kind, "NodePool");
    assert!(["Launched", "Registered", "Initialized"].iter().all(|condition| is_true(&claim, condition)));

    // The node took it over.
    let node = cluster.nodes.get(running.spec.as_ref().unwrap().node_name.as_ref().unwrap()).await.unwrap();
    assert_eq!(claim.status.as_ref().unwrap().node_name, node.metadata.name);
    assert_eq!(node.labels()["karpenter.sh/registered"], "true");
    assert_eq!(node.labels()["karpenter.sh/initialized"], "true");
    assert_eq!(node.annotations()["example.com/note"], "kept");
    assert!(node.finalizers().contains(&"karpenter.sh/termination".to_owned()));
    assert_eq!(node.owner_references()[0].uid, claim.uid().unwrap());
    assert_eq!(node.spec.as_ref().unwrap().taints, None, "nothing keeps pods off any more");

    // The pool is ready; kubectl shows the claim.
    let pool = cluster.pools.get("default").await.unwrap();
    let ready = pool.status.unwrap().conditions.unwrap();
    assert!(ready.iter().any(|c| c.type_ == "Ready" && c.is_true()));
    let shown = control_plane.kubectl(["get", "nodeclaims"]).await.unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("s-4x-amd64-linux   spot       test-zone-"), "{shown:?}");

    // What was done is traced: the pass with its plan, and the reconcile with the call that launched.
    let spans = wait("spans arrive", &mut controller, async || {
        let spans = collector.spans();
        let inside =
            |name: &str, around: &str| spans.iter().any(|span| span.is(name) && span.is_inside(around, &spans));
        let launched = |span: &Span| span.says("method", "Create") && span.is_inside("reconcile", &spans);
        Ok((inside("plan", "pass") && inside("api", "reconcile") && spans.iter().any(launched))
            .then_some(spans.clone()))
    })
    .await;
    let launch = spans.iter().find(|span| span.is("cloud") && span.says("method", "Create")).unwrap();
    assert!(launch.says("provider", "kwok"), "{launch:?}");
    let reconcile = spans.iter().find(|span| span.id() == launch.parent()).unwrap();
    assert!(reconcile.says("controller", "nodeclaim.lifecycle") && reconcile.says("name", &claim.name_any()));

    // A restarted controller finds everything as it is and launches nothing.
    drop(controller);
    let file = control_plane.folder().join("types.json");
    std::fs::write(&file, own_types().to_string()).unwrap();
    let mut controller = start(&control_plane, &[("INSTANCE_TYPES_FILE_PATH", &file.display().to_string())]);
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    wait("it leads", &mut controller, async || {
        let lease = leases.get("karpenter-leader-election").await?;
        Ok(lease.spec.and_then(|spec| spec.lease_transitions).filter(|changes| *changes > 0))
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(cluster.counts().await.unwrap(), (1, 1));

    // Deleting the claim drains the node and removes both.
    cluster.claims.delete(&claim.name_any(), &DeleteParams::default()).await.unwrap();
    wait("the pod is evicted", &mut controller, async || {
        Ok(cluster.pods.get_opt("web").await?.is_none().then_some(()))
    })
    .await;
    wait("claim and node are gone", &mut controller, async || Ok((cluster.counts().await? == (0, 0)).then_some(())))
        .await;

    // The types of the file are all there is now.
    create(&cluster.pods, pod()).await;
    let claim = wait("the claim is ready", &mut controller, async || {
        let claims = cluster.claims.list(&ListParams::default()).await?;
        Ok(claims.items.into_iter().find(|claim| is_true(claim, "Ready")))
    })
    .await;
    let node = cluster.nodes.get(claim.status.as_ref().unwrap().node_name.as_ref().unwrap()).await.unwrap();
    for (label, want) in [
        ("node.kubernetes.io/instance-type", "own.2xlarge"),
        ("topology.kubernetes.io/zone", "here-1"),
        ("karpenter.kwok.sh/instance-size", "2xlarge"),
        ("karpenter.kwok.sh/instance-family", "own"),
        ("eks-node-viewer/instance-price", "0.125000"),
    ] {
        assert_eq!(node.labels()[label], want, "{label}");
    }
    assert_eq!(node.status.unwrap().allocatable.unwrap()["pods"].0, "110");
    assert!(controller.ensure_running().is_ok());
}

/// The manifests of the README give their pods a node, as it says.
#[tokio::test]
async fn the_readme_example_works() {
    let control_plane = ControlPlane::builder().scheduler().controller_manager().kwok().start().await.unwrap();
    let crds = crd::all().into_iter().map(|crd| serde_json::from_value(crd).unwrap());
    control_plane.apply_crds(crds).await.unwrap();
    let cluster = Cluster::new(&control_plane.client());
    let mut controller = start(&control_plane, &[]);
    let example = include_str!("../../../../docs/examples/kwok.yaml");
    let applied = control_plane.kubectl_with_input(["apply", "-f", "-"], example).await.unwrap();
    assert!(applied.status.success(), "{applied:?}");
    wait("three pods run", &mut controller, async || {
        let pods = cluster.pods.list(&ListParams::default()).await?.items;
        let running = |pod: &&Pod| pod.status.iter().any(|status| status.phase.as_deref() == Some("Running"));
        Ok((pods.iter().filter(running).count() == 3).then_some(()))
    })
    .await;
    assert_eq!(cluster.counts().await.unwrap(), (1, 1), "they share one node");
    let claims = cluster.claims.list(&ListParams::default()).await.unwrap();
    assert_eq!(claims.items[0].labels()["node.kubernetes.io/instance-type"], "c-8x-amd64-linux");
}
