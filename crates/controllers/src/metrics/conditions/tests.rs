use karpenter_model::labels::LabelRules;

use super::super::WatchedKind;
use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn tracker(kind: &str, twins: bool) -> (Arc<Metrics>, Arc<Tracker>) {
    let watched = WatchedKind {
        group: "karpenter.sh".to_owned(),
        kind: kind.to_owned(),
        extra: vec!["karpenter.kwok.sh/kwoknodeclass".to_owned(), "karpenter.sh/nodepool".to_owned()],
        twins,
    };
    let metrics = Arc::new(Metrics::new(&LabelRules::core(), vec![watched]));
    let tracker = Tracker::new(&metrics, kind).unwrap();
    (metrics, tracker)
}

fn ready(status: &'static str, reason: &'static str, since: i64) -> ObservedCondition<'static> {
    ObservedCondition { type_: "Ready", status, reason, message: "why", since: Some(at(since)) }
}

fn object<'a>(
    uid: &'a str,
    labels: &'a BTreeMap<String, String>,
    conditions: Vec<ObservedCondition<'a>>,
) -> ObservedObject<'a> {
    ObservedObject { namespace: "", name: "a", uid, labels, finalizers: &[], deleting_since: None, conditions }
}

fn labels() -> BTreeMap<String, String> {
    BTreeMap::from([("karpenter.sh/nodepool".to_owned(), "blue".to_owned())])
}

/// API-178, API-205, API-206, API-208, API-209, LIF-126, V15-17: the first sight counts, a change is timed and told.
#[test]
fn a_condition_is_counted_timed_and_told() {
    let (metrics, tracker) = tracker("NodeClaim", true);
    let labels = labels();
    assert_eq!(tracker.seen(&object("1", &labels, vec![ready("Unknown", "Wait", 0)]), at(1)), []);
    let counter = &metrics.kind("NodeClaim").unwrap().condition_transitions;
    assert_eq!(counter.value(&["Ready", "Unknown", "Wait", "", "blue"]), None, "unknown at first is nothing new");
    let changes = tracker.seen(&object("1", &labels, vec![ready("True", "Ready", 30)]), at(31));
    let told = ConditionChange::Transition {
        type_: "Ready".to_owned(),
        from: "Unknown".to_owned(),
        to: "True".to_owned(),
        reason: "Ready".to_owned(),
        message: "why".to_owned(),
    };
    assert_eq!(changes, [told]);
    assert_eq!(tracker.seen(&object("1", &labels, vec![ready("True", "Ready", 30)]), at(32)), [], "nothing changed");
    let text = metrics.render(at(40));
    for line in [
        r#"operator_nodeclaim_status_condition_count{namespace="",name="a",type="Ready",status="True",reason="Ready",karpenter_kwok_sh_kwoknodeclass="",karpenter_sh_nodepool="blue"} 1"#,
        r#"operator_nodeclaim_status_condition_current_status_seconds{namespace="",name="a",type="Ready",status="True",reason="Ready",karpenter_kwok_sh_kwoknodeclass="",karpenter_sh_nodepool="blue"} 10"#,
        r#"operator_nodeclaim_status_condition_transitions_total{type="Ready",status="True",reason="Ready",karpenter_kwok_sh_kwoknodeclass="",karpenter_sh_nodepool="blue"} 1"#,
        r#"operator_nodeclaim_status_condition_transition_seconds_sum{type="Ready",status="Unknown",to_status="True",karpenter_kwok_sh_kwoknodeclass="",karpenter_sh_nodepool="blue"} 30"#,
        r#"operator_status_condition_count{group="karpenter.sh",kind="NodeClaim",namespace="",name="a",type="Ready",status="True",reason="Ready"} 1"#,
        r#"operator_status_condition_transition_seconds_sum{group="karpenter.sh",kind="NodeClaim",type="Ready",status="Unknown",to_status="True"} 30"#,
    ] {
        assert!(text.lines().any(|have| have == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("status=\"Unknown\",reason"), "old series are gone: {text}");
}

/// API-209: a condition that is first seen as True counts as a transition, without a duration and without an event.
#[test]
fn the_first_sight_of_a_known_condition_counts() {
    let (metrics, tracker) = tracker("Node", false);
    let labels = labels();
    assert_eq!(tracker.seen(&object("1", &labels, vec![ready("True", "KubeletReady", 0)]), at(1)), []);
    let kind = metrics.kind("Node").unwrap();
    assert_eq!(kind.condition_transitions.value(&["Ready", "True", "KubeletReady", "", "blue"]), Some(1.0));
    assert_eq!(kind.condition_transition.value(&["Ready", "", "True", "", "blue"]), None);
    let text = metrics.render(at(2));
    assert!(!text.contains("operator_status_condition"), "API-208: no twins for nodes: {text}");
    assert!(!text.contains("Unknown"), "V15-17: nothing made up: {text}");
}

/// API-179, API-205: finalizers that go are told; the time to the end is measured.
#[test]
fn the_end_of_an_object() {
    let (metrics, tracker) = tracker("NodeClaim", true);
    let labels = labels();
    let finalizers = ["a/b".to_owned(), "c/d".to_owned()];
    let mut seen = object("1", &labels, vec![]);
    seen.finalizers = &finalizers;
    seen.deleting_since = Some(at(100));
    assert_eq!(tracker.seen(&seen, at(100)), []);
    let text = metrics.render(at(104));
    assert!(text.contains("operator_nodeclaim_termination_current_time_seconds{namespace=\"\",name=\"a\""), "{text}");
    assert!(text.contains("operator_termination_current_time_seconds{group=\"karpenter.sh\""), "{text}");
    seen.finalizers = &finalizers[1..];
    assert_eq!(tracker.seen(&seen, at(105)), [ConditionChange::Finalized("a/b".to_owned())]);
    assert_eq!(tracker.gone("", "a", at(110)), [ConditionChange::Finalized("c/d".to_owned())]);
    assert_eq!(tracker.gone("", "a", at(111)), [], "it ends once");
    let text = metrics.render(at(120));
    assert!(text.contains("operator_nodeclaim_termination_duration_seconds_sum"), "{text}");
    assert!(text.contains("operator_termination_duration_seconds_sum{group=\"karpenter.sh\",kind=\"NodeClaim\"} 10"));
    assert!(!text.contains("termination_current_time"), "{text}");
}

/// An object of the same name is another object.
#[test]
fn a_new_object_of_the_same_name_starts_afresh() {
    let (_, tracker) = tracker("NodePool", true);
    let labels = labels();
    tracker.seen(&object("1", &labels, vec![ready("True", "Ready", 0)]), at(1));
    assert_eq!(tracker.seen(&object("2", &labels, vec![ready("False", "No", 5)]), at(6)), []);
}
