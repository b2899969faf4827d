mod evicting;
mod living;
mod pools;
mod terminating;

use jiff::Timestamp;
use karpenter_model::claim::{ClaimView, ConditionView, Status};
use karpenter_model::example;
use karpenter_model::node::NodeView;
use karpenter_model::pod::{PodPhase, PodView};
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::Resources;
use karpenter_model::taints::{Effect, Taint};

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn condition(status: Status) -> ConditionView {
    since(status, 0)
}

fn since(status: Status, second: i64) -> ConditionView {
    ConditionView { status, since: time(second) }
}

/// Launched and waiting for its node.
fn claim() -> ClaimView {
    ClaimView {
        has_finalizer: true,
        labels: [("team".into(), "a".into())].into(),
        requests: Resources::new().with("cpu", Quantity::units(1)),
        taints: vec![Taint::new("dedicated", "x", Effect::NoSchedule)],
        startup_taints: vec![Taint::new("boot", "", Effect::NoExecute)],
        provider_id: Some("cloud://1".into()),
        launched: condition(Status::True),
        ..example::claim("pool-1")
    }
}

/// As it joins: guarded and not ready.
fn node() -> NodeView {
    NodeView {
        provider_id: Some("cloud://1".into()),
        labels: [("team".into(), "other".into()), ("os".into(), "linux".into())].into(),
        taints: vec![Taint::unregistered(), Taint::new("dedicated", "kept", Effect::NoSchedule)],
        allocatable: Resources::new().with("cpu", Quantity::units(2)).into(),
        ..example::node("node-1")
    }
}

fn pod(name: &str) -> PodView {
    PodView { phase: PodPhase::Running, node_name: Some("node-1".into()), ..example::pod(name) }
}

fn with_annotation(mut claim: ClaimView, key: &str, value: &str) -> ClaimView {
    claim.annotations.insert(key.into(), value.into());
    claim
}
