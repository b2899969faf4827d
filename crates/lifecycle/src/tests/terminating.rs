//! The end of claims and nodes.

use std::collections::BTreeSet;

use karpenter_model::duration::GoDuration;

use super::*;
use crate::*;

const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";

/// LIF-38, LIF-40, LIF-41, LIF-42, LIF-43, LC-41, LC-42, LC-43, LC-44, Y1.
#[test]
fn finalization_goes_from_nodes_to_instance_to_finalizer() {
    let deleting = ClaimView { deleting_since: Some(time(5)), ..claim() };
    let registered = ClaimView { registered: condition(Status::True), ..deleting.clone() };
    let going = NodeView { deleting_since: Some(time(6)), ..node() };
    for (name, claim, nodes, want) in [
        ("not deleted", claim(), vec![], Finalization::NotOurs),
        ("no finalizer", ClaimView { has_finalizer: false, ..deleting.clone() }, vec![], Finalization::NotOurs),
        (
            "registered",
            registered.clone(),
            vec![node(), going.clone(), NodeView { name: "node-2".into(), ..node() }],
            Finalization::DeleteNodes(vec!["node-1".into(), "node-2".into()]),
        ),
        ("draining", registered.clone(), vec![going], Finalization::WaitForNodes),
        ("nodes gone", registered, vec![], Finalization::TerminateInstance),
        ("never registered", deleting.clone(), vec![node()], Finalization::TerminateInstance),
        ("launch not written down", ClaimView { provider_id: None, ..deleting }, vec![], Finalization::FindInstance),
    ] {
        let nodes: Vec<&NodeView> = nodes.iter().collect();
        assert_eq!(finalization(&claim, &nodes), want, "{name}");
    }
}

/// LIF-39, LIF-48, LIF-69, LC-46, V15-112, Y9: written once, read with care.
#[test]
fn deadlines() {
    let deleting = ClaimView { deleting_since: Some(time(1000)), ..claim() };
    let graceful =
        |seconds| ClaimView { termination_grace_period: Some(GoDuration::from_secs(seconds)), ..deleting.clone() };
    let stamped = |claim, text| with_annotation(claim, DEADLINE, text);
    for (name, claim, write, read) in [
        ("no grace period", deleting.clone(), None, None),
        ("five minutes", graceful(300), Some(1300), Some(1300)),
        ("none at all", graceful(0), Some(1000), Some(1000)),
        ("written", stamped(graceful(300), "1970-01-01T00:05:00Z"), None, Some(300)),
        ("written by hand", stamped(deleting.clone(), "1970-01-01T00:05:00+00:00"), None, Some(300)),
        ("malformed", stamped(graceful(300), "soon"), Some(1300), Some(1300)),
        ("malformed, no grace period", stamped(deleting.clone(), "soon"), None, None),
    ] {
        assert_eq!(deadline_to_write(&claim), write.map(time), "{name}");
        assert_eq!(deadline(&claim), read.map(time), "{name}");
    }
    let waits = Finalization::WriteDeadline(time(1300));
    assert_eq!(finalization(&graceful(300), &[]), waits, "before anything else");
}

fn going() -> NodeView {
    NodeView { deleting_since: Some(time(90)), has_finalizer: true, ready: true, ..node() }
}

fn tainted() -> NodeView {
    let mut node = NodeView { taints: vec![Taint::disrupted()], ..going() };
    node.labels.insert("node.kubernetes.io/exclude-from-external-load-balancers".into(), "karpenter".into());
    node
}

fn deleting() -> ClaimView {
    ClaimView { deleting_since: Some(time(90)), ..claim() }
}

fn draining(second: i64, status: Status) -> ClaimView {
    ClaimView { drained: Some(since(status, second)), ..deleting() }
}

fn step(node: &NodeView, claim: Option<&ClaimView>, pods: &[&PodView], instance: InstanceFinding) -> Termination {
    termination(NodeFacts { node, claim, pods, instance }, time(100))
}

/// LIF-45, LIF-46, LIF-49, LIF-50, LIF-52, LIF-67, LIF-68, LC-49, LC-50, LC-53, LC-62, LC-63, LC-135, Y8.
#[test]
fn termination_takes_one_step_at_a_time() {
    let web = pod("web");
    let detached = |status| ClaimView { volumes_detached: Some(condition(status)), ..draining(90, Status::True) };
    let no_id = NodeView { provider_id: None, ..tainted() };
    let mut unlabelled = tainted();
    unlabelled.labels.clear();
    let waiting = |evict: &[&PodView], again| {
        let evict = evict.iter().map(|pod| EvictionKey::of(pod)).collect::<Vec<_>>();
        Termination::Drain(Drain { waiting: evict.len(), evict, deadline: None, again_at: again, held_by: None })
    };
    for (name, node, claim, pods, want) in [
        ("alive", &node(), Some(claim()), vec![], Termination::NotOurs),
        ("claim first", &going(), Some(claim()), vec![], Termination::DeleteClaim("pool-1".into())),
        ("untainted", &going(), Some(deleting()), vec![], Termination::Taint),
        ("unlabelled", &unlabelled, Some(deleting()), vec![], Termination::Taint),
        ("drain not begun", &tainted(), Some(deleting()), vec![], Termination::BeginDrain),
        ("pods left", &tainted(), Some(draining(90, Status::Unknown)), vec![&web], waiting(&[&web], None)),
        ("too young", &tainted(), Some(draining(96, Status::Unknown)), vec![], waiting(&[], Some(time(101)))),
        ("empty", &tainted(), Some(draining(95, Status::Unknown)), vec![], Termination::EndDrain),
        ("drained before", &tainted(), Some(draining(90, Status::True)), vec![&web], Termination::Volumes),
        ("waiting for volumes", &tainted(), Some(detached(Status::Unknown)), vec![], Termination::Volumes),
        ("detached", &tainted(), Some(detached(Status::True)), vec![], Termination::TerminateInstance),
        ("given up on volumes", &tainted(), Some(detached(Status::False)), vec![], Termination::TerminateInstance),
        ("no claim, pods left", &tainted(), None, vec![&web], waiting(&[&web], None)),
        ("no claim, by provider ID", &tainted(), None, vec![], Termination::TerminateInstance),
        ("no claim, no provider ID", &no_id, None, vec![], Termination::LetGo),
    ] {
        assert_eq!(step(node, claim.as_ref(), &pods, InstanceFinding::Exists), want, "{name}");
    }
}

/// LIF-47, LC-59, LC-141, Y13: a silent node whose instance is gone for sure is let go, pods and all.
#[test]
fn vanished_instances() {
    let web = pod("web");
    let silent = NodeView { ready: false, ..going() };
    let missing = |second| InstanceFinding::Missing { since: time(second) };
    for (name, node, instance, want) in [
        ("not asked", &silent, InstanceFinding::NotAsked, Termination::AskForInstance),
        ("there", &silent, InstanceFinding::Exists, Termination::Taint),
        ("missing once", &silent, missing(100), Termination::AskAgain { at: time(110) }),
        ("missing for a while", &silent, missing(90), Termination::LetGo),
        ("answers all the same", &going(), missing(0), Termination::Taint),
        ("nothing to ask for", &NodeView { provider_id: None, ..silent.clone() }, missing(0), Termination::Taint),
    ] {
        assert_eq!(step(node, Some(&deleting()), &[&web], instance), want, "{name}");
    }
    let ready_to_end = ClaimView { volumes_detached: Some(condition(Status::True)), ..draining(90, Status::True) };
    let ends = step(&silent, Some(&ready_to_end), &[], InstanceFinding::NotAsked);
    assert_eq!(ends, Termination::TerminateInstance, "its silence is our doing");
}

/// LIF-64, LIF-65, LIF-66, LIF-72, LC-74, LC-75, LC-76, LC-77.
#[test]
fn volumes_are_waited_for() {
    let attachment =
        |name: &str, volume: Option<&str>| Attachment { name: name.into(), volume: volume.map(ToOwned::to_owned) };
    let kept = BTreeSet::from(["kept".to_owned()]);
    let both = [attachment("a", Some("kept")), attachment("b", Some("moves")), attachment("c", None)];
    let waiting = Detachment::Waiting(vec!["b".into()]);
    for (name, attachments, deadline, want) in [
        ("none", &[][..], None, Detachment::Detached),
        ("only of pods that stay", &both[..1], None, Detachment::Detached),
        ("inline", &both[2..], None, Detachment::Detached),
        ("for ever", &both[..], None, waiting.clone()),
        ("in time", &both[..], Some(101), waiting),
        ("too late", &both[..], Some(100), Detachment::GivenUp),
    ] {
        assert_eq!(detachment(attachments, &kept, deadline.map(time), time(100)), want, "{name}");
    }
}
