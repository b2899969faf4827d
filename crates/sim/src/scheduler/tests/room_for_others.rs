//! Who has to go so that a more important pod fits.

use serde_json::{Value, json};

use super::{cluster, node, on, parsed, pod};
use crate::scheduler::{Decision, Nomination, decide};

/// Asks for that many CPUs, with a priority.
fn asks(name: &str, cpu: &str, priority: i32) -> Value {
    let containers = json!([{"name": "main", "resources": {"requests": {"cpu": cpu}}}]);
    pod(name, name, json!({"containers": containers, "priority": priority}))
}

fn since(mut pod: Value, minute: u32) -> Value {
    pod["status"] = json!({"startTime": format!("2026-01-01T00:{minute:02}:00Z")});
    pod
}

/// The node and the pods that go, or what is said of preemption.
fn makes_go(objects: &[Value], pod: &Value) -> String {
    match decide(&cluster(objects), &parsed(pod)) {
        Decision::Unschedulable(unfit) => match unfit.nomination {
            Nomination::Set(preemption) => {
                let names: Vec<_> = preemption.victims.iter().map(|v| v.name.as_str()).collect();
                format!("{}: {}", preemption.node, names.join(" "))
            }
            _ => unfit.message.split_once("preemption: ").unwrap().1.to_owned(),
        },
        other => format!("{other:?}"),
    }
}

#[test]
fn as_few_and_as_unimportant_as_possible() {
    let nodes = [node("a", "1"), node("b", "2")];
    let full = |more: Vec<Value>| [nodes.to_vec(), more].concat();
    for (name, present, want) in [
        ("the lower priority", vec![on("a", asks("x", "4", 5)), on("b", asks("y", "4", 3))], "b: y"),
        (
            "one that can stay, stays",
            vec![on("a", asks("x", "2", 5)), on("a", asks("y", "2", 3)), on("b", asks("z", "4", 9))],
            "a: y",
        ),
        (
            "fewer of the same priority",
            vec![
                on("a", asks("x", "1", 5)),
                on("a", asks("y", "1", 5)),
                on("a", asks("v", "2", 11)),
                on("b", asks("z", "4", 5)),
            ],
            "b: z",
        ),
        ("the younger", vec![since(on("a", asks("x", "4", 5)), 1), since(on("b", asks("y", "4", 5)), 2)], "b: y"),
        (
            "nobody of equal priority",
            vec![on("a", asks("x", "4", 10)), on("b", asks("y", "4", 11))],
            "0/2 nodes are available: 2 No preemption victims found for incoming pod.",
        ),
    ] {
        assert_eq!(makes_go(&full(present), &asks("p", "2", 10)), want, "{name}");
    }
}

#[test]
fn budgets_are_kept_where_they_can_be() {
    let budget = |allowed: u32| {
        json!({
            "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "x"}}},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
        })
    };
    let nodes = [node("a", "1"), node("b", "2"), on("a", asks("x", "4", 1)), on("b", asks("y", "4", 5))];
    for (allowed, want) in [(1, "a: x"), (0, "b: y")] {
        let objects = [nodes.to_vec(), vec![budget(allowed)]].concat();
        assert_eq!(makes_go(&objects, &asks("p", "1", 10)), want, "{allowed} allowed");
    }
    // Where there is no other way, they are broken.
    let objects = [nodes[0].clone(), nodes[2].clone(), budget(0)];
    assert_eq!(makes_go(&objects, &asks("p", "1", 10)), "a: x");
}

#[test]
fn nobody_goes_in_vain() {
    let objects = [node("a", "1"), on("a", asks("x", "4", 1))];
    let mut never = asks("p", "1", 10);
    never["spec"]["preemptionPolicy"] = json!("Never");
    let mut elsewhere = asks("p", "1", 10);
    elsewhere["spec"]["nodeSelector"] = json!({"no": "such"});
    let useless = "0/1 nodes are available: 1 Preemption is not helpful for scheduling.";
    for (name, pod, want) in [
        ("may not", never, "not eligible due to preemptionPolicy=Never."),
        ("cannot help", elsewhere, useless),
        ("never fits", asks("p", "5", 10), useless),
    ] {
        assert_eq!(makes_go(&objects, &pod), want, "{name}");
    }
    // Another pod that stays is in the way too.
    let mut port = on("a", asks("z", "0", 50));
    port["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
    let mut wants_port = asks("p", "1", 10);
    wants_port["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
    let objects = [objects.to_vec(), vec![port]].concat();
    let taken = "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports.";
    assert_eq!(makes_go(&objects, &wants_port), taken);
}

#[test]
fn a_pod_waits_for_those_who_are_going() {
    let mut going = on("a", asks("x", "4", 1));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    going["status"] = json!({"conditions": [
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
    ]});
    let objects = [node("a", "1"), node("b", "1"), going, on("b", asks("y", "4", 1))];
    let mut pod = asks("p", "1", 10);
    pod["status"] = json!({"nominatedNodeName": "a"});
    assert_eq!(makes_go(&objects, &pod), "not eligible due to a terminating pod on the nominated node.");
}
