//! Which pod is next.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{parsed, pod};
use crate::scheduler::{Change, Filter, Key, Queue};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn some(name: &str, priority: i32) -> Arc<Pod> {
    Arc::new(parsed(&pod(name, "x", json!({"priority": priority}))))
}

fn key(name: &str) -> Key {
    Key { namespace: "default".into(), name: name.into() }
}

/// Takes out all that may be tried now.
fn popped(queue: &mut Queue, second: i64) -> Vec<String> {
    let mut names = Vec::new();
    while let Some(pod) = queue.pop(at(second)) {
        names.push(pod.metadata.name.clone().unwrap());
    }
    names
}

fn wait(queue: &mut Queue, name: &str, filter: Filter, second: i64) {
    queue.set_waiting(&key(name), BTreeSet::from([filter]), at(second));
}

#[test]
fn priority_then_time_then_arrival() {
    let mut queue = Queue::default();
    for (name, priority, second) in [("late", 0, 5), ("b", 0, 1), ("a", 0, 1), ("urgent", 9, 7)] {
        queue.set(some(name, priority), at(second));
    }
    assert_eq!(popped(&mut queue, 8), ["urgent", "b", "a", "late"]);
    assert_eq!(queue.len(), 4, "those in hand are still ours");
}

#[test]
fn gated_pods_wait_for_their_gates() {
    let mut queue = Queue::default();
    let mut gated = pod("g", "x", json!({"schedulingGates": [{"name": "wait"}]}));
    queue.set(Arc::new(parsed(&gated)), at(0));
    queue.wake(Change::NodeAdded, at(1));
    assert_eq!(popped(&mut queue, 1000), Vec::<String>::new());
    gated["spec"]["schedulingGates"] = json!([]);
    queue.set(Arc::new(parsed(&gated)), at(1001));
    assert_eq!(popped(&mut queue, 1001), ["g"]);
}

#[test]
fn only_changes_that_can_help_wake_a_pod() {
    use Change::{Namespace, NodeAdded, NodeChanged, NodeRemoved, PodAssigned, PodLabels, PodRemoved, Volume};
    for (filter, wakes, sleeps) in [
        (Filter::NodeResourcesFit, vec![NodeAdded, NodeChanged, PodRemoved], vec![PodAssigned, Volume, Namespace]),
        (Filter::TaintToleration, vec![NodeAdded, NodeChanged], vec![PodRemoved, PodAssigned, NodeRemoved]),
        (Filter::NodePorts, vec![NodeAdded, PodRemoved], vec![NodeChanged, Volume]),
        (Filter::VolumeBinding, vec![NodeAdded, NodeChanged, Volume], vec![PodAssigned, PodRemoved]),
        (Filter::PodTopologySpread, vec![NodeRemoved, PodAssigned, PodRemoved, PodLabels], vec![Volume, Namespace]),
        (Filter::InterPodAffinity, vec![PodAssigned, PodRemoved, PodLabels, Namespace], vec![Volume, NodeRemoved]),
    ] {
        for (changes, woken) in [(wakes, true), (sleeps, false)] {
            for change in changes {
                let mut queue = Queue::default();
                queue.set(some("p", 0), at(0));
                assert_eq!(popped(&mut queue, 0), ["p"]);
                wait(&mut queue, "p", filter, 0);
                queue.wake(change, at(100));
                assert_eq!(!popped(&mut queue, 100).is_empty(), woken, "{filter} after {change:?}");
            }
        }
    }
}

#[test]
fn nobody_waits_longer_than_five_minutes() {
    let mut queue = Queue::default();
    queue.set(some("p", 0), at(0));
    popped(&mut queue, 0);
    wait(&mut queue, "p", Filter::NodeName, 10);
    assert_eq!(queue.next_due(), Some(at(310)));
    assert_eq!(popped(&mut queue, 309), Vec::<String>::new());
    assert_eq!(popped(&mut queue, 310), ["p"]);
}

#[test]
fn a_pod_that_backs_off_is_behind_those_that_do_not() {
    let mut queue = Queue::default();
    queue.set(some("tried", 9), at(0));
    popped(&mut queue, 0);
    wait(&mut queue, "tried", Filter::NodeResourcesFit, 0);
    queue.wake(Change::NodeAdded, at(0));
    queue.set(some("new", 0), at(0));
    // Its second is not over; it comes last, but it comes, since nobody else is there.
    assert_eq!(popped(&mut queue, 0), ["new", "tried"]);
    wait(&mut queue, "tried", Filter::NodeResourcesFit, 0);
    wait(&mut queue, "new", Filter::NodeResourcesFit, 0);
    queue.wake(Change::NodeAdded, at(2));
    assert_eq!(popped(&mut queue, 2), ["tried", "new"], "two seconds later it is priority again");
}

#[test]
fn a_crowd_waits_for_its_time() {
    let mut queue = Queue::default();
    let names: Vec<String> = (0..60).map(|number| format!("p{number:02}")).collect();
    for name in &names {
        queue.set(some(name, 0), at(0));
    }
    assert_eq!(popped(&mut queue, 0).len(), 60, "nobody has been refused yet");
    for name in &names {
        wait(&mut queue, name, Filter::NodeResourcesFit, 0);
    }
    queue.wake(Change::NodeAdded, at(0));
    assert_eq!(popped(&mut queue, 0), Vec::<String>::new(), "too many were refused within this second");
    assert_eq!(queue.next_due(), Some(at(1)));
    queue.set(some("new", 0), at(0));
    assert_eq!(popped(&mut queue, 0), ["new"]);
    assert_eq!(popped(&mut queue, 1).len(), 60);
}

#[test]
fn errors_are_waited_out_and_grow() {
    let mut queue = Queue::default();
    queue.set(some("p", 0), at(0));
    let mut now = 0;
    for wait in [1, 2, 4, 8, 10, 10] {
        assert_eq!(popped(&mut queue, now), ["p"]);
        queue.set_failed(&key("p"), at(now));
        queue.wake(Change::NodeAdded, at(now));
        assert_eq!(queue.next_due(), Some(at(now + wait)));
        assert_eq!(popped(&mut queue, now + wait - 1), Vec::<String>::new());
        now += wait;
    }
}

#[test]
fn what_a_pod_says_of_itself_wakes_it_but_its_status_does_not() {
    let mut queue = Queue::default();
    let mut pod = pod("p", "x", json!({}));
    queue.set(Arc::new(parsed(&pod)), at(0));
    popped(&mut queue, 0);
    wait(&mut queue, "p", Filter::TaintToleration, 0);
    pod["status"] = json!({"conditions": [{"type": "PodScheduled", "status": "False"}]});
    queue.set(Arc::new(parsed(&pod)), at(20));
    assert_eq!(popped(&mut queue, 20), Vec::<String>::new());
    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    queue.set(Arc::new(parsed(&pod)), at(20));
    assert_eq!(popped(&mut queue, 20), ["p"]);
    // Another pod of the same name starts afresh.
    wait(&mut queue, "p", Filter::TaintToleration, 20);
    pod["metadata"]["uid"] = json!("other");
    queue.set(Arc::new(parsed(&pod)), at(21));
    assert_eq!(popped(&mut queue, 21), ["p"]);
    queue.remove(&key("p"));
    assert!(queue.is_empty() && queue.next_due().is_none());
}
