use karpenter_api::kinds::CapacityBufferSpec;
use karpenter_model::buffer::Reason;

use super::*;

const THEN: &str = "2026-01-01T00:00:00Z";

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

fn buffer(status: Option<CapacityBufferStatus>) -> CapacityBuffer {
    let spec = CapacityBufferSpec { provisioning_strategy: Some("s".to_owned()), ..CapacityBufferSpec::default() };
    let mut buffer = CapacityBuffer::new("b", spec);
    buffer.metadata.generation = Some(3);
    buffer.status = status;
    buffer
}

fn condition<'a>(status: &'a CapacityBufferStatus, type_: &str) -> (ConditionStatus, &'a str, String) {
    let found = status.conditions.iter().flatten().find(|condition| condition.type_ == type_).unwrap();
    (found.status, &found.reason, found.last_transition_time.0.to_string())
}

/// API-105, API-106, SC-283, SCH-183: what the status says about what a buffer refers to.
#[test]
fn the_status_follows_the_reference() {
    let template = Resolution::Resolved { replicas: 3, pod_template: Some(("t".to_owned(), Some(7))) };
    let first = resolved_status(&buffer(None), &template, at(THEN));
    assert_eq!((first.replicas, first.pod_template_generation), (Some(3), Some(7)));
    assert_eq!(first.pod_template_ref.as_ref().map(|of| of.name.as_str()), Some("t"));
    assert_eq!(first.provisioning_strategy.as_deref(), Some("s"));
    assert_eq!(condition(&first, READY_FOR_PROVISIONING), (ConditionStatus::True, "Resolved", THEN.to_owned()));
    let later = at("2026-01-01T01:00:00Z");
    assert_eq!(resolved_status(&buffer(Some(first.clone())), &template, later), first, "nothing new is said");

    let scalable = Resolution::Resolved { replicas: 4, pod_template: None };
    let second = resolved_status(&buffer(Some(first.clone())), &scalable, later);
    assert_eq!((second.replicas, second.pod_template_ref, second.pod_template_generation), (Some(4), None, None));

    for (reason, want) in
        [(Reason::PodTemplateNotFound, "PodTemplateNotFound"), (Reason::ScalableRefNotFound, "ScalableRefNotFound")]
    {
        let gone = Resolution::Unresolved { reason, message: "gone".to_owned() };
        let third = resolved_status(&buffer(Some(first.clone())), &gone, later);
        let want = (ConditionStatus::False, want, later.to_string());
        assert_eq!(condition(&third, READY_FOR_PROVISIONING), want);
        assert_eq!((third.replicas, third.pod_template_generation), (Some(3), Some(7)), "the last values stay");
    }
}

/// API-107, SC-288: conditions beside each other, and none without a verdict.
#[test]
fn conditions_do_not_disturb_each_other() {
    let mut status =
        resolved_status(&buffer(None), &Resolution::Resolved { replicas: 0, pod_template: None }, at(THEN));
    let verdict = Provisioning::Empty;
    let (fits, reason) = verdict.condition().unwrap();
    assert!(!fits);
    set_condition(&mut status, Some(3), (PROVISIONING, ConditionStatus::False, reason, verdict.message()), at(THEN));
    assert_eq!(condition(&status, PROVISIONING).1, "BufferEmpty");
    assert_eq!(condition(&status, READY_FOR_PROVISIONING).1, "Resolved");
    assert_eq!(Provisioning::Unchanged.condition(), None);
}

#[test]
fn names_of_buffers() {
    let id = PodId::new("shop", "spare");
    assert_eq!(id_of(&id.to_string()), id);
}

/// Q26, SCH-189: which nodes buffers need is only known after a pass that had pools to plan with.
#[test]
fn the_table_of_nodes_outlives_a_pass_without_pools() {
    let (mut snapshot, plan) = (Snapshot::default(), Plan::default());
    assert_eq!(counts(Some((&snapshot, &plan)), false), None);
    assert_eq!(counts(None, false), None, "no pass was needed, so nothing has changed");
    assert_eq!(counts(None, true), Some(BTreeMap::new()), "there are no buffers any more");
    let pool = Arc::new(karpenter_model::example::pool("p"));
    let usage = karpenter_model::resources::Resources::new();
    snapshot.pools.push(karpenter_model::snapshot::PoolOffer { pool, instance_types: Arc::default(), usage });
    assert_eq!(counts(Some((&snapshot, &plan)), false), Some(BTreeMap::new()));
}
