use jiff::ToSpan;
use proptest::prelude::*;

use super::*;

fn at(minute: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + (60 * minute).seconds()
}

/// Created at minute 0, generation 1.
fn claim() -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.metadata.generation = Some(1);
    claim.metadata.creation_timestamp = Some(Time(at(0)));
    claim
}

/// One line per condition: type, status, reason, message, generation, minute.
fn text(object: &impl Conditioned) -> String {
    let line = |c: &Condition| {
        let minute = c.last_transition_time.0.as_second() / 60;
        format!(
            "{}={} {} {:?} gen {} at {minute}",
            c.type_,
            c.status,
            c.reason,
            c.message,
            c.observed_generation.unwrap_or(0)
        )
    };
    object.conditions().iter().map(line).collect::<Vec<_>>().join("\n")
}

/// API-116, API-117, API-120, API-121, API-350, LIF-6: root first, all at creation time, then the root says what it waits for.
#[test]
fn missing_conditions_are_added_as_unknown() {
    let mut claim = claim();
    NODE_CLAIM.of(&mut claim, at(5));
    insta::assert_snapshot!(text(&claim), @r#"
    Launched=Unknown AwaitingReconciliation "object is awaiting reconciliation" gen 1 at 0
    Registered=Unknown AwaitingReconciliation "object is awaiting reconciliation" gen 1 at 0
    Initialized=Unknown AwaitingReconciliation "object is awaiting reconciliation" gen 1 at 0
    Ready=Unknown ReconcilingDependents "Launched=Unknown, Registered=Unknown, Initialized=Unknown" gen 1 at 0
    "#);
    let before = claim.clone();
    NODE_CLAIM.of(&mut claim, at(9));
    assert_eq!(claim, before, "completing twice changes nothing");
}

/// API-117, API-118, API-120, API-121, API-122, LIF-5: the way of a claim to Ready.
#[test]
fn a_claim_becomes_ready() {
    let mut claim = claim();
    let mut conditions = NODE_CLAIM.of(&mut claim, at(1));
    assert!(conditions.set_true(names::LAUNCHED));
    assert!(!conditions.set_true(names::LAUNCHED), "same again changes nothing");
    NODE_CLAIM.of(&mut claim, at(2)).set_unknown(names::REGISTERED, reasons::NODE_NOT_FOUND, "no node");
    insta::assert_snapshot!(text(&claim), @r#"
    Initialized=Unknown AwaitingReconciliation "object is awaiting reconciliation" gen 1 at 0
    Registered=Unknown NodeNotFound "no node" gen 1 at 0
    Launched=True Launched "" gen 1 at 1
    Ready=Unknown ReconcilingDependents "Initialized=Unknown, Registered=Unknown" gen 1 at 0
    "#);
    NODE_CLAIM.of(&mut claim, at(3)).set_true(names::REGISTERED);
    NODE_CLAIM.of(&mut claim, at(4)).set_true(names::INITIALIZED);
    insta::assert_snapshot!(text(&claim), @r#"
    Launched=True Launched "" gen 1 at 1
    Registered=True Registered "" gen 1 at 3
    Initialized=True Initialized "" gen 1 at 4
    Ready=True Ready "" gen 1 at 4
    "#);
}

/// API-121, AWS-18, LIF-8: False wins over Unknown, but only while it speaks about the current generation.
#[test]
fn root_follows_its_dependents() {
    let mut pool = NodePool::default();
    pool.metadata.generation = Some(1);
    pool.metadata.creation_timestamp = Some(Time(at(0)));
    NODE_POOL.of(&mut pool, at(1)).set_false(names::VALIDATION_SUCCEEDED, reasons::NODE_POOL_VALIDATION_FAILED, "bad");
    insta::assert_snapshot!(text(&pool), @r#"
    NodeClassReady=Unknown AwaitingReconciliation "object is awaiting reconciliation" gen 1 at 0
    ValidationSucceeded=False NodePoolValidationFailed "bad" gen 1 at 1
    Ready=False UnhealthyDependents "ValidationSucceeded=False, NodeClassReady=Unknown" gen 1 at 1
    "#);
    pool.metadata.generation = Some(2);
    NODE_POOL.of(&mut pool, at(2)).set_true(names::NODE_CLASS_READY);
    insta::assert_snapshot!(text(&pool), @r#"
    ValidationSucceeded=False NodePoolValidationFailed "bad" gen 1 at 1
    NodeClassReady=True NodeClassReady "" gen 2 at 2
    Ready=Unknown ReconcilingDependents "ValidationSucceeded=False" gen 2 at 2
    "#);
    NODE_POOL.of(&mut pool, at(3)).set_true(names::VALIDATION_SUCCEEDED);
    assert_eq!(pool.condition(names::READY).unwrap().status, ConditionStatus::True);
    pool.metadata.generation = Some(3);
    NODE_POOL.of(&mut pool, at(4)).set_true(names::NODE_CLASS_READY);
    insta::assert_snapshot!(text(&pool), @r#"
    NodeClassReady=True NodeClassReady "" gen 3 at 2
    ValidationSucceeded=True ValidationSucceeded "" gen 2 at 3
    Ready=Unknown ReconcilingDependents "ValidationSucceeded=True" gen 3 at 4
    "#);
}

/// API-80, API-117, LIF-7, LIF-14, LC-8: setting the same status again moves the generation and keeps the time.
#[test]
fn generation_follows_the_object() {
    let mut claim = claim();
    NODE_CLAIM.of(&mut claim, at(1)).set_true(names::LAUNCHED);
    claim.metadata.generation = Some(7);
    assert!(NODE_CLAIM.of(&mut claim, at(2)).set_true(names::LAUNCHED));
    let launched = claim.condition(names::LAUNCHED).unwrap();
    assert_eq!((launched.observed_generation, launched.last_transition_time.0), (Some(7), at(1)));
}

/// API-117, API-119, LIF-7, LIF-9: other conditions start now; a deleting object drags every generation along.
#[test]
fn deletion_bumps_every_generation() {
    let mut claim = claim();
    NODE_CLAIM.of(&mut claim, at(1)).set_true(names::CONSOLIDATABLE);
    claim.metadata.generation = Some(2);
    NODE_CLAIM.of(&mut claim, at(2)).set_true(names::DRIFTED);
    let generations = |claim: &NodeClaim| {
        let of = |type_| claim.condition(type_).unwrap().observed_generation.unwrap();
        [names::LAUNCHED, names::CONSOLIDATABLE, names::DRIFTED, names::READY].map(of)
    };
    assert_eq!(generations(&claim), [1, 1, 2, 2]);
    assert_eq!(claim.condition(names::CONSOLIDATABLE).unwrap().last_transition_time.0, at(1));

    claim.metadata.generation = Some(3);
    claim.metadata.deletion_timestamp = Some(Time(at(3)));
    assert!(!NODE_CLAIM.of(&mut claim, at(3)).remove("Absent"));
    assert_eq!(generations(&claim), [1, 1, 2, 2], "nothing set, nothing bumped");
    NODE_CLAIM.of(&mut claim, at(3)).set_unknown(names::DRAINED, reasons::DRAINING, reasons::DRAINING);
    assert_eq!(generations(&claim), [3, 3, 3, 3]);
}

/// API-123: root and dependents stay, the rest can go, and what remains is sorted by type.
#[test]
fn removal_sorts_by_type() {
    let mut claim = claim();
    let mut conditions = NODE_CLAIM.of(&mut claim, at(1));
    conditions.set_true(names::DRIFTED);
    conditions.set_true(names::CONSOLIDATABLE);
    assert!(!conditions.remove(names::READY));
    assert!(!conditions.remove(names::LAUNCHED));
    assert!(conditions.remove(names::DRIFTED));
    assert!(!conditions.remove(names::DRIFTED));
    let types: Vec<_> = claim.conditions().iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, ["Consolidatable", "Initialized", "Launched", "Ready", "Registered"]);
}

/// API-115, API-114, AWS-17: dependents per kind; a class shows eight conditions with the gate and seven without.
#[test]
fn each_kind_has_its_dependents() {
    assert_eq!(NODE_POOL.dependents, ["ValidationSucceeded", "NodeClassReady"]);
    assert_eq!(NODE_CLAIM.dependents, ["Launched", "Registered", "Initialized"]);
    assert_eq!(NODE_OVERLAY.dependents, ["ValidationSucceeded"]);
    assert_eq!(KWOK_NODE_CLASS.dependents, [""; 0]);
    for (set, count) in [(EC2_NODE_CLASS, 7), (EC2_NODE_CLASS_WITH_RESERVATIONS, 8)] {
        let mut class = EC2NodeClass::default();
        set.of(&mut class, at(0));
        assert_eq!(class.conditions().len(), count);
        for type_ in set.dependents {
            set.of(&mut class, at(1)).set_true(type_);
        }
        assert!(class.condition(names::READY).unwrap().is_true());
    }
    let mut overlay = NodeOverlay::default();
    NODE_OVERLAY.of(&mut overlay, at(0)).set_false(
        names::VALIDATION_SUCCEEDED,
        reasons::CONFLICT,
        messages::OVERLAY_CONFLICT,
    );
    assert_eq!(overlay.condition(names::READY).unwrap().message, "ValidationSucceeded=False");
}

/// API-113, API-114: without dependents nothing recomputes the root; what the API server wrote stays.
#[test]
fn kwok_root_stays_as_it_is() {
    let mut class = KWOKNodeClass::default();
    let ready = Condition {
        type_: names::READY.to_owned(),
        status: ConditionStatus::True,
        observed_generation: None,
        last_transition_time: Time(at(0)),
        reason: names::READY.to_owned(),
        message: String::new(),
    };
    class.conditions_mut().push(ready.clone());
    KWOK_NODE_CLASS.of(&mut class, at(5));
    assert_eq!(class.conditions(), [ready]);
}

proptest! {
    /// API-120, API-121: after any sequence of sets, the root is last, agrees with its dependents and nothing is twice.
    #[test]
    fn root_is_consistent(steps in proptest::collection::vec((0..5_usize, 0..3_usize, 1..4_i64), 1..20)) {
        let mut claim = claim();
        for (minute, (which, status, generation)) in (1..).zip(steps) {
            claim.metadata.generation = Some(generation);
            let type_ = [names::LAUNCHED, names::REGISTERED, names::INITIALIZED, names::DRIFTED, names::DRAINED][which];
            let status = [ConditionStatus::True, ConditionStatus::False, ConditionStatus::Unknown][status];
            let changed = NODE_CLAIM.of(&mut claim, at(minute)).set(type_, status, "R", "m");
            let list = claim.conditions();
            if changed {
                prop_assert_eq!(&list.last().unwrap().type_, names::READY);
                let rest = &list[..list.len() - 1];
                prop_assert!(rest.is_sorted_by_key(|c| c.last_transition_time.0));
                let healthy = rest.iter().filter(|c| NODE_CLAIM.dependents.contains(&c.type_.as_str()))
                    .all(|c| c.is_true() && c.observed_generation == Some(generation));
                prop_assert_eq!(list.last().unwrap().is_true(), healthy);
            }
            let mut types: Vec<_> = list.iter().map(|c| &c.type_).collect();
            types.sort();
            types.dedup();
            prop_assert_eq!(types.len(), list.len());
        }
    }
}
