//! What a pod asks of a node alone: name, taints, selectors, room, ports.

#![expect(clippy::needless_pass_by_value, reason = "rows are written as values")]

use serde_json::{Value, json};

use super::{cluster, fits, node, on, parsed, pod, reason};
use crate::scheduler::{Decision, decide};

fn requests(list: Value) -> Value {
    json!({"containers": [{"name": "main", "resources": {"requests": list}}]})
}

#[test]
fn room_is_what_pods_leave() {
    let mut gpu = node("b", "z");
    gpu["status"]["allocatable"]["example.com/gpu"] = json!("2");
    gpu["status"]["allocatable"]["hugepages-2Mi"] = json!("4Mi");
    let mut full = node("c", "z");
    full["status"]["allocatable"]["pods"] = json!("1");
    let taken = on("a", pod("taken", "x", requests(json!({"cpu": "3500m", "memory": "7Gi"}))));
    let gpu_user = on("b", pod("gpu", "x", requests(json!({"example.com/gpu": "1"}))));
    let small = on("c", pod("small", "x", json!({})));
    let objects = [node("a", "z"), gpu, full, taken, gpu_user, small];
    for (name, spec, want) in [
        ("nothing asked", requests(json!({})), "a b"),
        ("exactly what is left", requests(json!({"cpu": "500m"})), "a b"),
        ("a little more", requests(json!({"cpu": "501m"})), "b"),
        ("all of a node", requests(json!({"cpu": "4", "memory": "8Gi"})), "b"),
        ("more than any has", requests(json!({"cpu": "4001m"})), ""),
        ("memory in other units", requests(json!({"memory": "1073741824"})), "a b"),
        ("less than a milli counts as one", requests(json!({"cpu": "500.1m"})), "b"),
        ("ephemeral storage", requests(json!({"ephemeral-storage": "11Gi"})), ""),
        ("extended", requests(json!({"example.com/gpu": "1"})), "b"),
        ("extended, too many", requests(json!({"example.com/gpu": "2"})), ""),
        ("huge pages", requests(json!({"hugepages-2Mi": "4Mi"})), "b"),
        ("names that mean nothing are not counted", requests(json!({"whatever": "5"})), "a b"),
    ] {
        assert_eq!(fits(&objects, &pod("p", "x", spec)), want, "{name}");
    }
}

#[test]
fn a_pod_asks_for_its_largest_moment() {
    let cpu = |name: &str, amount: &str| json!({"name": name, "resources": {"requests": {"cpu": amount}}});
    let sidecar = |name: &str, amount: &str| {
        let mut container = cpu(name, amount);
        container["restartPolicy"] = json!("Always");
        container
    };
    for (name, spec, most) in [
        ("containers together", json!({"containers": [cpu("a", "1"), cpu("b", "2")]}), 3000),
        ("a larger init container", json!({"containers": [cpu("a", "1")], "initContainers": [cpu("i", "3")]}), 3000),
        (
            "smaller ones one by one",
            json!({"containers": [cpu("a", "2")], "initContainers": [cpu("i", "1"), cpu("j", "1")]}),
            2000,
        ),
        ("sidecars run on", json!({"containers": [cpu("a", "2")], "initContainers": [sidecar("s", "1")]}), 3000),
        (
            "an init container beside a sidecar",
            json!({"containers": [cpu("a", "1")], "initContainers": [sidecar("s", "1"), cpu("i", "2500m")]}),
            3500,
        ),
        (
            "but not before it",
            json!({"containers": [cpu("a", "1")], "initContainers": [cpu("i", "2500m"), sidecar("s", "1")]}),
            2500,
        ),
        ("overhead on top", json!({"containers": [cpu("a", "1")], "overhead": {"cpu": "250m"}}), 1250),
        (
            "the whole pod's word counts",
            json!({"containers": [cpu("a", "1")], "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "1"}}),
            4000,
        ),
        (
            "for what it can speak of",
            json!({"containers": [cpu("a", "1")], "resources": {"requests": {"example.com/gpu": "3"}}}),
            1000,
        ),
    ] {
        let pod = pod("p", "x", spec);
        for (cpu, want) in [(most, "n"), (most - 1, "")] {
            let mut node = node("n", "z");
            node["status"]["allocatable"]["cpu"] = json!(format!("{cpu}m"));
            assert_eq!(fits(&[node], &pod), want, "{name}, {cpu}m");
        }
    }
}

#[test]
fn a_resize_counts_at_its_largest() {
    let mut resized = on("n", pod("r", "x", requests(json!({"cpu": "1"}))));
    resized["status"] = json!({"containerStatuses": [{
        "name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 0,
        "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "3"},
    }]});
    let asks = |cpu: &str| pod("p", "x", requests(json!({"cpu": cpu})));
    assert_eq!(fits(&[node("n", "z"), resized.clone()], &asks("1")), "n");
    assert_eq!(fits(&[node("n", "z"), resized], &asks("1001m")), "");
}

#[test]
fn every_resource_that_lacks_is_named() {
    let mut small = node("s", "z");
    small["status"]["allocatable"] = json!({"cpu": "1", "memory": "1Gi", "pods": "0"});
    let spec = requests(json!({"cpu": "2", "memory": "2Gi", "example.com/gpu": "1"}));
    assert_eq!(
        reason(&[small], &pod("p", "x", spec)),
        "1 Insufficient cpu, 1 Insufficient example.com/gpu, 1 Insufficient memory, 1 Too many pods"
    );
}

#[test]
fn finished_pods_hold_nothing_and_going_ones_do() {
    let mut objects = vec![node("n", "z"), on("n", pod("a", "x", requests(json!({"cpu": "4"}))))];
    let asks = pod("p", "x", requests(json!({"cpu": "1"})));
    for (phase, want) in [("Running", ""), ("Succeeded", "n"), ("Failed", "n")] {
        objects[1]["status"] = json!({"phase": phase});
        assert_eq!(fits(&objects, &asks), want, "{phase}");
    }
    objects[1]["status"] = json!({"phase": "Running"});
    objects[1]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(fits(&objects, &asks), "");
}

#[test]
fn taints_need_a_toleration() {
    let tainted = |effect: &str| {
        let mut node = node("n", "z");
        node["spec"]["taints"] = json!([{"key": "k", "value": "5", "effect": effect}]);
        node
    };
    for (name, effect, toleration, want) in [
        ("none", "NoSchedule", json!(null), ""),
        ("only a preference", "PreferNoSchedule", json!(null), "n"),
        ("equal", "NoSchedule", json!({"key": "k", "operator": "Equal", "value": "5"}), "n"),
        ("equal is the default", "NoSchedule", json!({"key": "k", "value": "5"}), "n"),
        ("another value", "NoSchedule", json!({"key": "k", "value": "6"}), ""),
        ("exists", "NoExecute", json!({"key": "k", "operator": "Exists"}), "n"),
        ("another effect", "NoExecute", json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}), ""),
        ("everything", "NoExecute", json!({"operator": "Exists"}), "n"),
        ("another key", "NoSchedule", json!({"key": "l", "operator": "Exists"}), ""),
        ("numbers are not compared yet", "NoSchedule", json!({"key": "k", "operator": "Gt", "value": "3"}), ""),
    ] {
        let tolerations = if toleration.is_null() { json!([]) } else { json!([toleration]) };
        assert_eq!(fits(&[tainted(effect)], &pod("p", "x", json!({"tolerations": tolerations}))), want, "{name}");
    }
}

#[test]
fn a_closed_node_needs_the_toleration_of_its_taint() {
    let mut closed = node("n", "z");
    closed["spec"]["unschedulable"] = json!(true);
    let tolerations = json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
    assert_eq!(fits(std::slice::from_ref(&closed), &pod("p", "x", json!({"tolerations": tolerations}))), "n");
    assert_eq!(reason(&[closed], &pod("p", "x", json!({}))), "1 node(s) were unschedulable");
}

#[test]
fn selectors_and_affinity_choose_nodes() {
    let labelled = |name: &str, zone: &str, cores: &str| {
        let mut node = node(name, zone);
        node["metadata"]["labels"]["cores"] = json!(cores);
        node
    };
    let nodes = [labelled("a", "1", "2"), labelled("b", "2", "8"), labelled("c", "2", "many")];
    let zone = "topology.kubernetes.io/zone";
    let expression = |key: &str, operator: &str, values: Value| json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
    let field = |operator: &str, values: Value| json!([{"matchFields": [{"key": "metadata.name", "operator": operator, "values": values}]}]);
    for (name, terms, want) in [
        ("in", expression(zone, "In", json!(["2", "3"])), "b c"),
        ("not in", expression(zone, "NotIn", json!(["2"])), "a"),
        ("not in, without the label", expression("nope", "NotIn", json!(["2"])), "a b c"),
        ("exists", expression("cores", "Exists", json!([])), "a b c"),
        ("does not exist", expression("cores", "DoesNotExist", json!([])), ""),
        ("greater", expression("cores", "Gt", json!(["2"])), "b"),
        ("less", expression("cores", "Lt", json!(["8"])), "a"),
        ("greater than no number", expression("cores", "Gt", json!(["x"])), ""),
        ("an unknown operator", expression("cores", "Like", json!(["x"])), ""),
        ("by name", field("In", json!(["b"])), "b"),
        ("not by name", field("NotIn", json!(["b"])), "a c"),
        ("an empty term", json!([{}]), ""),
        ("no term", json!([]), ""),
        (
            "terms are alternatives",
            json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
                   {"matchExpressions": [{"key": "cores", "operator": "In", "values": ["many"]}]}]),
            "a c",
        ),
        (
            "expressions of a term all hold",
            json!([{"matchExpressions": [{"key": zone, "operator": "In", "values": ["2"]},
                                         {"key": "cores", "operator": "Gt", "values": ["1"]}]}]),
            "b",
        ),
    ] {
        let required = json!({"nodeSelectorTerms": terms});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
        assert_eq!(fits(&nodes, &pod("p", "x", json!({"affinity": affinity}))), want, "{name}");
    }
    assert_eq!(fits(&nodes, &pod("p", "x", json!({"nodeSelector": {zone: "2", "cores": "8"}}))), "b");
    assert_eq!(fits(&nodes, &pod("p", "x", json!({"nodeSelector": {"nope": ""}}))), "");
}

#[test]
fn names_that_contradict_each_other_leave_no_node() {
    let names = |names: &[&str]| -> Value {
        let all = names.iter().map(|n| json!({"key": "metadata.name", "operator": "In", "values": [n]}));
        let terms = json!([{"matchFields": all.collect::<Vec<_>>()}]);
        let required = json!({"nodeSelectorTerms": terms});
        pod(
            "p",
            "x",
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}),
        )
    };
    let nodes = [node("a", "1"), node("b", "1")];
    assert_eq!(reason(&nodes, &names(&["a", "b"])), "pod affinity terms conflict");
    assert_eq!(reason(&nodes, &names(&["c"])), "2 node(s) didn't satisfy plugin(s) [NodeAffinity]");
}

#[test]
fn host_ports_are_taken_once() {
    let port = |port: Value| json!({"containers": [{"name": "main", "ports": [port]}]});
    let objects = [
        node("n", "z"),
        on("n", pod("any", "x", port(json!({"containerPort": 80, "hostPort": 80})))),
        on("n", pod("one", "x", port(json!({"containerPort": 90, "hostPort": 90, "hostIP": "10.0.0.1"})))),
    ];
    for (name, wanted, want) in [
        ("no host port", json!({"containerPort": 80}), "n"),
        ("the same", json!({"containerPort": 80, "hostPort": 80}), ""),
        ("another port", json!({"containerPort": 81, "hostPort": 81}), "n"),
        ("another protocol", json!({"containerPort": 80, "hostPort": 80, "protocol": "UDP"}), "n"),
        ("one address of a port taken on all", json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.2"}), ""),
        ("all addresses of a port taken on one", json!({"containerPort": 90, "hostPort": 90}), ""),
        ("all addresses, spelled out", json!({"containerPort": 90, "hostPort": 90, "hostIP": "0.0.0.0"}), ""),
        ("the same address", json!({"containerPort": 90, "hostPort": 90, "hostIP": "10.0.0.1"}), ""),
        ("another address", json!({"containerPort": 90, "hostPort": 90, "hostIP": "10.0.0.2"}), "n"),
    ] {
        assert_eq!(fits(&objects, &pod("p", "x", port(wanted))), want, "{name}");
    }
}

#[test]
fn a_nominated_node_comes_first_and_keeps_its_room() {
    let cpu = |amount: &str| requests(json!({"cpu": amount}));
    let mut nominated = pod("high", "x", cpu("3"));
    nominated["spec"]["priority"] = json!(5);
    nominated["status"] = json!({"nominatedNodeName": "b"});
    let busy = on("b", pod("busy", "x", cpu("1")));
    let objects = [node("a", "z"), node("b", "z"), busy, nominated.clone()];
    // It goes there although the other node is emptier.
    match decide(&cluster(&objects), &parsed(&nominated)) {
        Decision::Bind(placement) => assert_eq!(placement.node, "b"),
        other => panic!("{other:?}"),
    }
    for (name, priority, want) in [("lower", 0, "a"), ("equal", 5, "a"), ("higher", 6, "a b")] {
        let mut other = pod("other", "x", cpu("1"));
        other["spec"]["priority"] = json!(priority);
        assert_eq!(fits(&objects, &other), want, "{name}");
    }
}
