//! Which of several nodes that will do is taken.

use serde_json::{Value, json};

use super::{cluster, node, on, parsed, pod};
use crate::scheduler::{Decision, decide};

fn chosen(objects: &[Value], spec: Value) -> String {
    match decide(&cluster(objects), &parsed(&pod("p", "web", spec))) {
        Decision::Bind(placement) => placement.node,
        other => panic!("{other:?}"),
    }
}

#[test]
fn preferences_decide_among_equals() {
    let zone = "topology.kubernetes.io/zone";
    let selector = json!({"matchLabels": {"app": "web"}});
    let near = json!([{"weight": 10, "podAffinityTerm": {"topologyKey": zone, "labelSelector": selector}}]);
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let plain = vec![node("a", "1"), node("b", "2"), node("c", "3")];
    let with = |more: Value| {
        let mut all = plain.clone();
        all.push(more);
        all
    };
    let web_on = |name: &str| with(on(name, pod("other", "web", json!({}))));
    let mut unwanted = plain.clone();
    unwanted[0]["spec"]["taints"] = json!([{"key": "k", "effect": "PreferNoSchedule"}]);
    let heavy = json!({"containers": [{"name": "m", "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}]});
    let cpu_heavy = on("a", pod("other", "x", heavy));
    for (name, objects, spec, want) in [
        ("the first name in a tie", plain.clone(), json!({}), "a"),
        ("the emptier one", with(cpu_heavy), json!({}), "b"),
        ("a taint that only prefers", unwanted, json!({}), "b"),
        (
            "a preferred zone",
            plain.clone(),
            json!({"affinity": {"nodeAffinity": {preferred: [
                {"weight": 1, "preference": {"matchExpressions": [{"key": zone, "operator": "In", "values": ["3"]}]}},
            ]}}}),
            "c",
        ),
        ("near its like", web_on("b"), json!({"affinity": {"podAffinity": {preferred: near}}}), "b"),
        ("away from its like", web_on("a"), json!({"affinity": {"podAntiAffinity": {preferred: near}}}), "b"),
        (
            "spread where that is only a wish",
            web_on("a"),
            json!({"topologySpreadConstraints": [
                {"topologyKey": zone, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector},
            ]}),
            "b",
        ),
    ] {
        assert_eq!(chosen(&objects, spec), want, "{name}");
    }
}
