use karpenter_model::labels::LabelRules;
use karpenter_platform::{SystemClock, TokioClock};

use super::*;

/// Kinds of the kwok provider; the time is real.
pub(crate) fn report() -> Report {
    with_clock(Arc::new(SystemClock), Observability::On)
}

fn with_clock(clock: Arc<dyn Clock>, observability: Observability) -> Report {
    Report::new(&Kwok { classes: classes(), rules: LabelRules::core() }, clock, observability)
}

fn classes() -> Vec<NodeClassKind> {
    vec![NodeClassKind {
        group: "karpenter.kwok.sh".to_owned(),
        version: "v1alpha1".to_owned(),
        kind: "KWOKNodeClass".to_owned(),
        plural: "kwoknodeclasses".to_owned(),
    }]
}

/// Only the names that metrics are made from.
#[derive(Debug)]
struct Kwok {
    classes: Vec<NodeClassKind>,
    rules: LabelRules,
}

#[async_trait::async_trait]
impl CloudProvider for Kwok {
    fn name(&self) -> &'static str {
        "kwok"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        &self.classes
    }

    fn label_rules(&self) -> &LabelRules {
        &self.rules
    }

    async fn create(
        &self,
        _: &karpenter_model::claim::ClaimView,
    ) -> Result<karpenter_platform::Instance, karpenter_platform::CreateError> {
        Err(karpenter_platform::CreateError::InsufficientCapacity("none".into()))
    }

    async fn delete(&self, _: &karpenter_model::claim::ClaimView) -> Result<(), karpenter_platform::InstanceError> {
        Ok(())
    }

    async fn get(&self, id: &str) -> Result<karpenter_platform::Instance, karpenter_platform::InstanceError> {
        Err(karpenter_platform::InstanceError::NotFound(id.to_owned()))
    }

    async fn list(&self) -> Result<Vec<karpenter_platform::Instance>, karpenter_platform::CallError> {
        Ok(Vec::new())
    }

    async fn instance_types(
        &self,
        _: &karpenter_model::pool::PoolView,
    ) -> Result<Arc<Vec<karpenter_model::instance_type::InstanceType>>, karpenter_platform::InstanceTypesError> {
        Ok(Arc::default())
    }
}

/// API-206, API-208.
#[test]
fn kinds_carry_the_labels_of_their_class() {
    let kinds = watched_kinds(&classes());
    let shown: Vec<String> =
        kinds.iter().map(|kind| format!("{} {} {}", kind.kind, kind.extra.join(" "), kind.twins)).collect();
    let want = [
        "NodeClaim karpenter.kwok.sh/kwoknodeclass karpenter.sh/nodepool true",
        "NodePool  true",
        "Node karpenter.kwok.sh/kwoknodeclass karpenter.sh/nodepool karpenter.sh/initialized false",
        "CapacityBuffer  true",
        "KWOKNodeClass  true",
    ];
    assert_eq!(shown, want);
}

fn claim(ready: &str) -> karpenter_api::kinds::NodeClaim {
    serde_json::from_value(serde_json::json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "c1", "uid": "1", "finalizers": ["a/b"]},
        "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "x"}, "requirements": []},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
    }))
    .unwrap()
}

/// API-178, API-179, API-180: changes of conditions become events, unless that is switched off.
#[test]
fn changed_conditions_are_told() {
    for (observability, want) in [(Observability::On, vec!["Ready", "Finalized"]), (Observability::Off, vec![])] {
        let report = with_clock(Arc::new(SystemClock), observability);
        report.seen(&claim("Unknown"));
        report.seen(&claim("True"));
        report.gone(&claim("True"));
        let said: Vec<String> = report.events.take().into_iter().map(|(_, event)| event.reason).collect();
        assert_eq!(said, want, "{observability:?}");
        let text = report.metrics.render(jiff::Timestamp::UNIX_EPOCH);
        assert_eq!(text.contains("operator_nodeclaim_status_condition"), observability == Observability::On);
    }
}

/// API-188, API-191, API-241, V15-109, VC-130: what a launch without capacity says to whom.
#[tokio::test(start_paused = true)]
async fn a_launch_without_capacity_is_counted_and_told() {
    let clock = Arc::new(TokioClock::starting_at(jiff::Timestamp::UNIX_EPOCH));
    let report = with_clock(clock, Observability::On);
    let mut claim = karpenter_model::example::claim("c1");
    claim.labels.insert("karpenter.sh/nodepool".to_owned(), "blue".to_owned());
    claim.termination_grace_period = None;
    let pod = karpenter_model::example::pod("web");
    let error = karpenter_platform::CreateError::InsufficientCapacity("none left".into());
    report.launch_gave_up(&claim, &error, &[&pod]);
    let said: Vec<String> = report
        .events
        .take()
        .into_iter()
        .map(|(_, event)| format!("{}: {}", event.subject.kind, event.message))
        .collect();
    let want = [
        "NodeClaim: NodeClaim c1 event: insufficient capacity, none left",
        "Pod: NodeClaim c1 nominated for this pod failed to launch: insufficient capacity, none left",
    ];
    assert_eq!(said, want);
    let counted = &report.metrics.all.nodeclaims_disrupted;
    assert_eq!(counted.value(["insufficient_capacity", "blue", "", "", "graceful"]), Some(1.0));
    let error = karpenter_platform::CreateError::NodeClassNotReady("x".into());
    report.launch_gave_up(&claim, &error, &[&pod]);
    assert_eq!(counted.value(["nodeclass_not_ready", "blue", "", "", "graceful"]), Some(1.0));
    assert_eq!(report.events.take(), [], "API-241: no event for a class that is not ready");
}

/// API-191.
#[test]
fn termination_modes() {
    use karpenter_model::duration::GoDuration;
    for (grace, mode) in [(None, "graceful"), (Some(0), "forceful"), (Some(-5), "forceful"), (Some(1), "eventual")] {
        assert_eq!(claims::termination_mode(grace.map(GoDuration::from_secs)), mode);
    }
}

/// API-200, API-202: calls of the provider reach the metrics.
#[test]
fn calls_are_counted() {
    let report = report();
    let failure = Some(("unknown", "blue"));
    let method = karpenter_platform::Method::Create;
    let took = std::time::Duration::from_secs(3);
    report.calls().call_ended(Call { controller: "nodeclaim.lifecycle", method, provider: "kwok", took, failure });
    let metrics = &report.metrics.all;
    assert_eq!(metrics.cloudprovider_duration.value(["nodeclaim.lifecycle", "Create", "kwok"]), Some(1.0));
    let labels = ["nodeclaim.lifecycle", "Create", "kwok", "unknown", "blue"];
    assert_eq!(metrics.cloudprovider_errors.value(labels), Some(1.0));
}
