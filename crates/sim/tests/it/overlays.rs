//! NodeOverlays in a whole world: who judges them, and what becomes of prices and resources.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use karpenter_api::conditions::Conditioned as _;
use karpenter_api::kinds::{ConditionStatus, NodeOverlay};
use karpenter_apiserver::{Fault, Rule, Verb};
use karpenter_controllers::queue::Requeue;
use karpenter_controllers::{Batching, Context, Features, Observability, Options, PlanningOptions, overlays, watches};
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::pool::PoolView;
use karpenter_platform::{CallError, CloudProvider, CreateError, Instance, InstanceError, InstanceTypesError};
use karpenter_sim::world::{World, cpu};
use karpenter_testkit::build::node_pool;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

fn gate() -> Features {
    Features { node_overlays: true, ..Features::default() }
}

fn overlay(name: &str, weight: u32, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["weight"] = json!(weight);
    if spec.get("requirements").is_none() {
        spec["requirements"] = json!([]);
    }
    json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name}, "spec": spec})
}

fn on(types: &[&str]) -> Value {
    json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}])
}

/// Status and reason of `ValidationSucceeded`, and of `Ready`.
async fn verdict(w: &World, name: &str) -> (String, String) {
    let overlays: Api<NodeOverlay> = Api::all(w.client.clone());
    let overlay = overlays.get(name).await.unwrap();
    let text = |type_: &str| {
        overlay.condition(type_).map_or_else(String::new, |found| format!("{:?} {}", found.status, found.reason))
    };
    (text("ValidationSucceeded"), text("Ready"))
}

async fn launched_types(w: &World) -> Vec<String> {
    w.nodes().await.iter().map(|node| node.labels()["node.kubernetes.io/instance-type"].clone()).collect()
}

/// SC-276, SC-277, API-89, API-93, SCH-223: the cheapest type becomes dear, and another one is launched.
#[tokio::test(start_paused = true)]
async fn an_overlay_changes_which_type_is_launched() {
    let plain = World::seeded(3).pool(node_pool("default")).features(gate()).start().await;
    plain.deploy("web", 1, cpu("1")).await;
    plain.settle().await;
    let cheapest = launched_types(&plain).await.remove(0);
    let marks = |annotations: &BTreeMap<String, String>| {
        ["karpenter.sh/price-overlay-applied", "karpenter.sh/capacity-overlay-applied"]
            .map(|key| annotations.get(key).cloned())
    };
    assert_eq!(marks(plain.claims().await[0].annotations()), [None, None]);

    let w = World::seeded(3).pool(node_pool("default")).features(gate()).start().await;
    w.apply(overlay("dear", 1, &json!({"requirements": on(&[&cheapest]), "price": "1000"}))).await;
    w.advance(Duration::from_secs(20)).await;
    assert_eq!(verdict(&w, "dear").await, ("True ValidationSucceeded".to_owned(), "True Ready".to_owned()));
    w.deploy("web", 1, cpu("1")).await;
    w.settle().await;
    let launched = launched_types(&w).await;
    assert!(launched.len() == 1 && launched[0] != cheapest, "{launched:?} {cheapest}");
    let claim = w.claims().await.remove(0);
    let named = claim.spec.requirements.iter().find(|one| one.key == "node.kubernetes.io/instance-type").unwrap();
    let named = named.values.clone().unwrap();
    assert!(named.contains(&launched[0]) && named.contains(&cheapest), "both would do, one is dearer: {named:?}");
    assert_eq!(marks(claim.annotations()), [Some("true".to_owned()), None]);
}

/// SCH-179, SC-276: a resource that only an overlay knows.
#[tokio::test(start_paused = true)]
async fn an_overlay_adds_a_resource() {
    let w = World::seeded(4).pool(node_pool("default")).features(gate()).start().await;
    w.apply(overlay("slots", 1, &json!({"capacity": {"example.com/slots": "4"}}))).await;
    let requests = json!({"cpu": "1", "example.com/slots": "2"});
    w.apply(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "none",
                "resources": {"requests": requests, "limits": {"example.com/slots": "2"}}}]},
        }},
    }))
    .await;
    w.settle().await;
    assert_eq!((w.running_pods().len(), w.nodes().await.len()), (2, 1), "both share the four slots of one node");
    let claim = w.claims().await.remove(0);
    assert_eq!(claim.annotations()["karpenter.sh/capacity-overlay-applied"], "true");
    let capacity = claim.status.unwrap().capacity.unwrap();
    assert_eq!(serde_json::to_value(&capacity["example.com/slots"]).unwrap(), json!("4"));
}

/// SC-258, SC-262, SC-274, SC-275, API-91: conflicts are told, and end when the other one goes.
#[tokio::test(start_paused = true)]
async fn overlays_in_conflict() {
    let w = World::seeded(5).pool(node_pool("default")).features(gate()).start().await;
    for (name, price) in [("overlay-a", "1"), ("overlay-b", "2")] {
        w.apply(overlay(name, 10, &json!({"price": price}))).await;
    }
    w.apply(overlay("other", 20, &json!({"price": "3"}))).await;
    w.advance(Duration::from_secs(20)).await;
    let of = |name: &'static str| verdict(&w, name);
    assert_eq!(of("overlay-a").await.0, "False Conflict");
    assert_eq!(
        (of("overlay-b").await.0, of("other").await.0),
        ("True ValidationSucceeded".into(), "True ValidationSucceeded".into())
    );
    let overlays: Api<NodeOverlay> = Api::all(w.client.clone());
    let told = overlays.get("overlay-a").await.unwrap();
    let told = told.condition("ValidationSucceeded").unwrap();
    assert!(told.message.starts_with("conflict with another overlay: overlay-b "), "{}", told.message);
    overlays.delete("overlay-b", &DeleteParams::default()).await.unwrap();
    w.advance(Duration::from_secs(20)).await;
    assert_eq!(of("overlay-a").await.0, "True ValidationSucceeded");
    assert!(
        overlays
            .list(&ListParams::default())
            .await
            .unwrap()
            .iter()
            .all(|overlay| { overlay.condition("Ready").is_some_and(|ready| ready.status == ConditionStatus::True) })
    );
}

/// API-83, SCH-163: with the gate off nobody looks at them.
#[tokio::test(start_paused = true)]
async fn without_the_gate_overlays_mean_nothing() {
    let w = World::seeded(6).pool(node_pool("default")).start().await;
    w.apply(overlay("all", 1, &json!({"price": "1000"}))).await;
    w.deploy("web", 1, cpu("1")).await;
    w.settle().await;
    assert_eq!(verdict(&w, "all").await, (String::new(), String::new()));
    assert!(!w.claims().await[0].annotations().contains_key("karpenter.sh/price-overlay-applied"));
}

/// A cloud that does not list the types of one pool while it is told not to.
#[derive(Debug)]
struct Withholding {
    cloud: Arc<dyn CloudProvider>,
    from: &'static str,
    on: AtomicBool,
}

#[async_trait]
impl CloudProvider for Withholding {
    karpenter_platform::same_facts_as!(cloud);

    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        self.cloud.create(claim).await
    }
    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        self.cloud.delete(claim).await
    }
    async fn get(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        self.cloud.get(provider_id).await
    }
    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        self.cloud.list().await
    }
    async fn instance_types(&self, pool: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        if pool.name == self.from && self.on.load(Ordering::Relaxed) {
            return Err(CallError::new("DescribeInstanceTypes", "not today").into());
        }
        self.cloud.instance_types(pool).await
    }
}

/// SC-272, SC-273, SCH-165, SCH-166, SCH-173, API-94, API-95, API-96, Q37: a pool without types is left out and asked for again; when all are in,
/// the next look is in six hours.
#[tokio::test(start_paused = true)]
async fn a_pool_that_cannot_be_evaluated_waits() {
    let w = World::seeded(8).pool(node_pool("blue")).pool(node_pool("red")).without_autoscaler().start().await;
    let cloud = Arc::new(Withholding { cloud: w.cloud.clone(), from: "red", on: AtomicBool::new(true) });
    let options = Options {
        policy: w.cloud.label_policy(),
        batching: Batching { idle: Duration::from_secs(1), longest: Duration::from_secs(10), siblings: true },
        planning: PlanningOptions::default(),
        cores: 1,
        observability: Observability::Off,
        features: gate(),
    };
    let ctx = Arc::new(Context::new(w.client.clone(), cloud.clone(), w.clock.clone(), options));
    let watching = tokio::spawn(watches::run(ctx.clone()));
    w.apply(overlay("all", 1, &json!({"price": "1000"}))).await;
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    w.apply(json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "foreign"},
        "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": []}}}}))
        .await;
    w.advance(Duration::from_secs(10)).await;
    let pool = |name: &str| ctx.state().pool(name).unwrap().clone();
    let types = async |name: &str| ctx.provider.instance_types(&pool(name)).await;
    assert!(types("blue").await.unwrap_err().is_quiet(), "nothing was evaluated yet");

    let error = overlays::reconcile(ctx.clone()).await.unwrap_err();
    assert!(error.to_string().contains("red") && error.to_string().contains("not today"), "{error}");
    let blue = types("blue").await.unwrap();
    assert!(blue.iter().flat_map(|known| &known.offerings).all(|offering| offering.price.per_hour() > 999.0));
    cloud.on.store(false, Ordering::Relaxed);
    assert!(matches!(types("red").await, Err(InstanceTypesError::UnevaluatedNodePool(_))), "listed, but not evaluated");

    let next = overlays::reconcile(ctx.clone()).await.unwrap();
    assert_eq!(next, Requeue::After(Duration::from_hours(6)), "pools of other providers are not asked for (Q37)");
    assert!(types("red").await.unwrap().iter().flat_map(|known| &known.offerings).all(|o| o.price.per_hour() > 999.0));

    // SCH-173: who cannot write the verdicts publishes nothing, and starts over.
    w.apply(overlay("more", 2, &json!({"price": "2000"}))).await;
    w.api.add_fault(Rule::new(Fault::Conflict).verb(Verb::Patch).kind("NodeOverlay").nth(1));
    assert_eq!(overlays::reconcile(ctx.clone()).await.unwrap(), Requeue::After(Duration::ZERO));
    let price = async || types("blue").await.unwrap()[0].offerings[0].price.per_hour();
    assert!((price().await - 1000.0).abs() < 1e-9, "the result of before stays in force");
    overlays::reconcile(ctx.clone()).await.unwrap();
    assert!((price().await - 2000.0).abs() < 1e-9);
    watching.abort();
}
