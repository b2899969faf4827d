//! What is said of a pod that fits nowhere.

use serde_json::json;

use super::{cluster, node, parsed, pod};
use crate::scheduler::{Decision, decide};

#[test]
fn reasons_are_counted_and_preemption_is_spoken_of() {
    let mut tainted = node("t", "z");
    tainted["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
    let mut full = node("f", "z");
    full["status"]["allocatable"]["pods"] = json!("0");
    let objects = [tainted.clone(), full, node("s", "z")];
    let mut asks = pod("p", "x", json!({"containers": [{"name": "m", "resources": {"requests": {"cpu": "5"}}}]}));
    let said = |asks: &serde_json::Value| match decide(&cluster(&objects), &parsed(asks)) {
        Decision::Unschedulable(unfit) => unfit.message,
        other => panic!("{other:?}"),
    };
    let reasons = "1 Too many pods, 1 node(s) had untolerated taint(s), 2 Insufficient cpu";
    assert_eq!(
        said(&asks),
        format!(
            "0/3 nodes are available: {reasons}. no new claims to deallocate, \
             preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
        )
    );
    asks["spec"]["preemptionPolicy"] = json!("Never");
    assert_eq!(
        said(&asks),
        format!(
            "0/3 nodes are available: {reasons}. no new claims to deallocate, \
             preemption: not eligible due to preemptionPolicy=Never."
        )
    );
    // Room that others take could be had, if they mattered less.
    asks["spec"] = json!({"containers": [{"name": "m"}], "tolerations": []});
    let objects = [tainted, objects[1].clone()];
    let message = match decide(&cluster(&objects), &parsed(&asks)) {
        Decision::Unschedulable(unfit) => unfit.message,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        message,
        "0/2 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s). no new claims to deallocate, \
         preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, \
         1 Preemption is not helpful for scheduling."
    );
}

#[test]
fn without_nodes_there_is_little_to_say() {
    match decide(&cluster(&[]), &parsed(&pod("p", "x", json!({})))) {
        Decision::Unschedulable(unfit) => assert_eq!(unfit.message, "no nodes available to schedule pods"),
        other => panic!("{other:?}"),
    }
}
