//! What a pod asks for, and whether it can be planned at all.

use super::*;

/// `"cpu/memory"`; a sidecar is marked with `*`.
fn container(text: &str) -> Value {
    let sidecar = text.starts_with('*');
    let (cpu, memory) = text.trim_start_matches('*').split_once('/').unwrap();
    let mut container = json!({"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}});
    if sidecar {
        container["restartPolicy"] = json!("Always");
    }
    container
}

fn containers(text: &str) -> Vec<Value> {
    text.split_whitespace().map(container).collect()
}

/// SC-88 … SC-95, SC-98, SC-110: app containers, then init containers in order (`*` runs on beside the others), overhead.
#[test]
fn sc_88_to_95_requests_of_containers() {
    for (id, app, init, overhead, want) in [
        ("SC-88", "2/1Gi", "*1/2Gi", "", "cpu: 3, memory: 3Gi, pods: 1"),
        ("SC-89", "2/1Gi", "4/2Gi *3/3Gi", "5/1Gi", "cpu: 10, memory: 5Gi, pods: 1"),
        ("SC-90", "2/1Gi", "*4/2Gi 10/2Gi", "", "cpu: 14, memory: 4Gi, pods: 1"),
        ("SC-90", "2/2Gi", "*4/2Gi 1/1Gi", "", "cpu: 6, memory: 4Gi, pods: 1"),
        ("SC-91", "3/3Gi", "*2/2Gi *1/1Gi *3/3Gi *5/5Gi 20/20Gi", "", "cpu: 31, memory: 31Gi, pods: 1"),
        ("SC-91", "3/3Gi", "*2/2Gi *1/1Gi *3/3Gi *5/5Gi 1/1Gi", "", "cpu: 14, memory: 14Gi, pods: 1"),
        ("SC-92", "3/3Gi", "25/25Gi *1/1Gi 1/1Gi *5/5Gi 2/2Gi *1/1Gi", "", "cpu: 25, memory: 25Gi, pods: 1"),
        (
            "SC-93",
            "3/3Gi",
            "2/2Gi *1/1Gi 3/3Gi 1/1Gi *5/5Gi 1/1Gi 1/1Gi *1/1Gi 2/1Gi",
            "",
            "cpu: 10, memory: 10Gi, pods: 1",
        ),
        ("SC-94", "3/3Gi", "25/4Gi *1/1Gi *5/5Gi", "", "cpu: 25, memory: 9Gi, pods: 1"),
        ("SC-94", "3/3Gi", "4/25Gi *1/1Gi *5/5Gi", "", "cpu: 9, memory: 25Gi, pods: 1"),
        ("SC-95", "2/4Gi", "*4/2Gi 10/2Gi", "", "cpu: 14, memory: 6Gi, pods: 1"),
        ("SC-95", "10/2Gi", "*4/2Gi 2/4Gi", "", "cpu: 14, memory: 6Gi, pods: 1"),
        ("SC-98", "6/2Gi", "10/4Gi *4900m/2969Mi", "", "cpu: 10900m, memory: 5017Mi, pods: 1"),
    ] {
        let mut spec = json!({"containers": containers(app), "initContainers": containers(init)});
        if let Some((cpu, memory)) = overhead.split_once('/') {
            spec["overhead"] = json!({"cpu": cpu, "memory": memory});
        }
        assert_eq!(requests(&spec), want, "{id}");
    }
}

/// SC-96, SCH-63: requests of the whole pod take the place of sums; limits are the API server's business.
#[test]
fn sc_96_requests_of_the_pod() {
    let whole = |amounts: Value| requests(&json!({"containers": containers("1/1Gi"), "resources": amounts}));
    assert_eq!(whole(json!({"requests": {"cpu": "2", "memory": "2Gi"}})), "cpu: 2, memory: 2Gi, pods: 1");
    let defaulted = json!({"requests": {"cpu": "10", "memory": "10Gi"}, "limits": {"cpu": "10", "memory": "10Gi"}});
    assert_eq!(whole(defaulted), "cpu: 10, memory: 10Gi, pods: 1");
    assert_eq!(whole(json!({"limits": {"cpu": "10"}})), "cpu: 1, memory: 1Gi, pods: 1", "SCH-63");
}

/// SC-97, SCH-61, DIS-91: while a container is resized, the larger of what it has and what it shall have counts.
#[test]
fn sc_97_resized_containers() {
    let seen = |spec: &str, status: Value, condition: Value| {
        let mut object = pod_object(&json!({"containers": containers(spec), "initContainers": containers("*1/1Gi")}));
        object["status"] = json!({"containerStatuses": [status], "conditions": [condition]});
        pod(&read(object), &LabelRules::core()).view.requests.to_string()
    };
    let state = |amounts: Value| {
        let mut status = json!({"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0});
        status.as_object_mut().unwrap().extend(amounts.as_object().unwrap().clone());
        status
    };
    let allocated = |cpu: &str, memory: &str| state(json!({"allocatedResources": {"cpu": cpu, "memory": memory}}));
    let actual = |cpu: &str, memory: &str| state(json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}}));
    let calm = || json!({"type": "Ready", "status": "True"});
    assert_eq!(seen("2/512Mi", allocated("6", "2Gi"), calm()), "cpu: 7, memory: 3Gi, pods: 1");
    assert_eq!(seen("8/4Gi", allocated("2", "1Gi"), calm()), "cpu: 9, memory: 5Gi, pods: 1");
    assert_eq!(seen("8/4Gi", state(json!({})), calm()), "cpu: 9, memory: 5Gi, pods: 1");
    assert_eq!(seen("2/4Gi", actual("3", "1Gi"), calm()), "cpu: 4, memory: 5Gi, pods: 1");
    let refused = json!({"type": "PodResizePending", "status": "True", "reason": "Infeasible"});
    assert_eq!(seen("8/4Gi", allocated("2", "1Gi"), refused), "cpu: 3, memory: 2Gi, pods: 1");
    let waits = json!({"type": "PodResizePending", "status": "True", "reason": "Deferred"});
    assert_eq!(seen("8/4Gi", allocated("2", "1Gi"), waits), "cpu: 9, memory: 5Gi, pods: 1");
}

/// SC-6, SC-7, SC-8, SC-9, SCH-13, DIS-31: who waits for us.
#[test]
fn sc_6_to_9_provisionable_pods() {
    let waits = |reason: &str, change: fn(&mut Value)| {
        let mut object = pod_object(&json!({"containers": []}));
        object["status"] = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}]});
        change(&mut object);
        pod(&read(object), &LabelRules::core()).view.is_provisionable()
    };
    assert!(waits("Unschedulable", |_| ()));
    assert!(!waits("SchedulingGated", |_| ()), "SC-6");
    assert!(!waits("Unschedulable", |object| object["status"]["nominatedNodeName"] = json!("n")), "SC-7");
    let daemon = |object: &mut Value| {
        object["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "o", "uid": "u"}]);
    };
    let mirror = |object: &mut Value| {
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Node", "name": "o", "uid": "u"}]);
    };
    assert!(!waits("Unschedulable", daemon) && !waits("Unschedulable", mirror), "SC-8");
    assert!(!waits("SomethingElse", |_| ()), "SC-9");
    assert!(!waits("Unschedulable", |object| object["spec"]["nodeName"] = json!("n")));
    assert!(waits("Unschedulable", |object| object["spec"]["priority"] = json!(-10)), "SCH-13: priority is not asked");
}

fn required(expressions: &Value) -> Value {
    json!({"containers": [], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": expressions}]}}}})
}

/// SC-12, SC-13, SC-16, SCH-17, SCH-20: what no node can be planned for, and what is only odd.
#[test]
fn sc_12_to_16_pods_that_cannot_be_planned() {
    let value = |key: &str, value: &str| json!([{"key": key, "operator": "In", "values": [value]}]);
    let restricted = |key: &str| format!("label {key:?} is restricted");
    for (id, spec, why) in [
        ("SC-12", required(&value("kubernetes.io/hostname", "x")), Some(restricted("kubernetes.io/hostname"))),
        ("SC-13", required(&value("karpenter.sh/test", "test")), Some(restricted("karpenter.sh/test"))),
        (
            "SC-13 selector",
            json!({"containers": [], "nodeSelector": {"karpenter.sh/test": "test"}}),
            Some(restricted("karpenter.sh/test")),
        ),
        (
            "SC-16",
            json!({"containers": [], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]}}}}),
            Some("node fields cannot be selected on (API-135)".to_owned()),
        ),
        (
            "SCH-20 no known value",
            required(&value("karpenter.sh/capacity-type", "cheap")),
            Some("none of [\"cheap\"] is a known value of karpenter.sh/capacity-type".to_owned()),
        ),
        ("SCH-20 bad value", required(&value("size", "-x-")), Some("\"-x-\" is not a label value".to_owned())),
        ("SCH-20 bad key", required(&value("a/b/c", "x")), Some("\"a/b/c\" is not a label key".to_owned())),
        (
            "SCH-20 no values",
            required(&json!([{"key": "size", "operator": "In"}])),
            Some("operator In needs a value".to_owned()),
        ),
        ("SC-15", required(&value("topology.kubernetes.io/zone", "z1")), None),
        ("well-known", required(&value("karpenter.sh/nodepool", "p")), None),
        (
            "some known value",
            required(&json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "cheap"]}])),
            None,
        ),
        (
            "a preference",
            json!({"containers": [], "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": value("kubernetes.io/hostname", "x")}}]}}}),
            None,
        ),
    ] {
        let view = pod(&read(pod_object(&spec)), &LabelRules::core()).view;
        match (view.unplannable.clone(), why) {
            (Some(found), Some(why)) => assert!(found.ends_with(&why), "{id}: {found}"),
            (found, why) => assert_eq!(found, why, "{id}"),
        }
    }
}

/// SC-17, SC-388, SCH-17, Q44: pods that do not want our nodes, explicitly and on every term.
#[test]
fn sc_17_388_pods_that_avoid_managed_nodes() {
    let pool = |operator: &str, values: &[&str]| json!([{"key": "karpenter.sh/nodepool", "operator": operator, "values": values}]);
    let zone = json!([{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}]);
    let spec = |terms: &[&Value], selector: Value| {
        let terms: Vec<Value> = terms.iter().map(|term| json!({"matchExpressions": term})).collect();
        json!({"containers": [], "nodeSelector": selector, "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": pool("In", &["b"])}}]}}})
    };
    let none = pool("DoesNotExist", &[]);
    for (name, spec, avoids) in [
        ("SC-17", spec(&[&none], json!({})), true),
        ("both terms", spec(&[&none, &none], json!({})), true),
        ("one of two terms", spec(&[&none, &zone], json!({})), false),
        ("a preference for another pool", spec(&[&zone], json!({"karpenter.sh/nodepool": "a"})), false),
        ("a contradiction", spec(&[&pool("In", &["a"])], json!({"karpenter.sh/nodepool": "b"})), false),
        ("nothing", json!({"containers": []}), false),
    ] {
        let view = pod(&read(pod_object(&spec)), &LabelRules::core()).view;
        assert_eq!(view.scheduling.avoids_managed_nodes(), avoids, "{name}");
    }
}

/// SC-292, SC-294, SCH-191, SCH-192: claims for devices, by name or from a template.
#[test]
fn sc_292_294_claims_for_devices() {
    let spec = json!({"containers": [], "resourceClaims": [
        {"name": "a", "resourceClaimName": "direct"}, {"name": "b", "resourceClaimTemplateName": "t"},
        {"name": "c", "resourceClaimTemplateName": "t"}, {"name": "d", "resourceClaimTemplateName": "t"}]});
    let mut object = pod_object(&spec);
    object["status"] = json!({"resourceClaimStatuses": [
        {"name": "b", "resourceClaimName": "made"}, {"name": "c"}]});
    let view = pod(&read(object), &LabelRules::core()).view;
    assert_eq!(view.resource_claims, ["direct", "made"], "SC-294: what has no name yet is none");
    assert!(view.uses_devices && view.unplannable.is_none(), "SC-292: the planner says whether it looks at them");
    let used = json!({"containers": [{"name": "c", "resources": {"claims": [{"name": "a"}]}}]});
    let view = pod(&read(pod_object(&used)), &LabelRules::core()).view;
    assert!(view.uses_devices && view.resource_claims.is_empty(), "SC-292: by a container");
    assert!(!pod(&read(pod_object(&json!({"containers": []}))), &LabelRules::core()).view.uses_devices);
}

/// SCH-160: host ports of app containers.
#[test]
fn sch_160_host_ports() {
    let ports = |list: Value| json!({"name": "c", "ports": list});
    let spec = json!({
        "containers": [ports(json!([
            {"containerPort": 80, "hostPort": 8080}, {"containerPort": 81},
            {"containerPort": 82, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}]))],
        "initContainers": [ports(json!([{"containerPort": 1, "hostPort": 1}]))],
    });
    let view = pod(&read(pod_object(&spec)), &LabelRules::core()).view;
    let seen: Vec<String> =
        view.scheduling.host_ports.iter().map(|port| format!("{}:{}/{}", port.ip, port.port, port.protocol)).collect();
    assert_eq!(seen, ["0.0.0.0:8080/TCP", "10.0.0.1:53/UDP"]);
}
