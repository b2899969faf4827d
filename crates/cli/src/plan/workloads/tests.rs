use super::*;

fn workload(kind: &str, api: &str, replicas: &Value) -> Value {
    json!({"apiVersion": api, "kind": kind, "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}}})
}

fn deployment(replicas: u64) -> Value {
    workload("Deployment", "apps/v1", &json!(replicas))
}

fn pod(name: &str, owner: (&str, &str), phase: &str, hash: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": phase}, "spec": {"nodeName": "n"},
        "metadata": {"name": name, "namespace": "shop", "labels": {"pod-template-hash": hash},
            "ownerReferences": [{"kind": owner.0, "name": owner.1, "controller": true}]}})
}

fn names(object: &Value, there: &[Value]) -> Vec<String> {
    let mut running = Running::default();
    for object in there {
        running.note(object);
    }
    pods(object, &mut running).unwrap().unwrap().names
}

#[test]
fn workloads_have_numbered_pods() {
    assert_eq!(names(&deployment(2), &[]), ["web-0", "web-1"]);
    assert_eq!(names(&workload("ReplicaSet", "apps/v1", &Value::Null), &[]), ["web-0"]);
    assert_eq!(names(&workload("ReplicationController", "v1", &json!(1)), &[]), ["web-0"]);
    let mut set = workload("StatefulSet", "apps/v1", &json!(2));
    set["spec"]["ordinals"] = json!({"start": 5});
    assert_eq!(names(&set, &[]), ["web-5", "web-6"]);
    for (spec, want) in [
        (json!({}), 1),
        (json!({"parallelism": 4}), 4),
        (json!({"parallelism": 4, "completions": 3}), 3),
        (json!({"parallelism": 4, "completions": 9}), 4),
        (json!({"parallelism": 0}), 0),
        (json!({"parallelism": 4, "suspend": true}), 0),
    ] {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec});
        assert_eq!(names(&job, &[]).len(), want, "{spec}");
    }
    let done = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"},
        "spec": {"parallelism": 4, "completions": 9}, "status": {"succeeded": 7}});
    assert_eq!(names(&done, &[]).len(), 2);
}

/// What runs or waits already is not planned a second time.
#[test]
fn only_missing_pods_are_made() {
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"replicas": 3},
        "metadata": {"name": "odd-name", "namespace": "shop",
            "ownerReferences": [{"kind": "Deployment", "name": "web", "controller": true}]}});
    let by_set = [pod("a", ("ReplicaSet", "odd-name"), "Running", ""), set.clone()];
    assert_eq!(names(&deployment(3), &by_set).len(), 2);
    assert_eq!(names(&set, &by_set).len(), 0, "its Deployment makes them");
    let by_hash = [
        pod("a", ("ReplicaSet", "web-5d4"), "Running", "5d4"),
        pod("b", ("ReplicaSet", "web-5d4"), "Pending", "5d4"),
        pod("c", ("ReplicaSet", "web-5d4"), "Failed", "5d4"),
        pod("d", ("ReplicaSet", "other-5d4"), "Running", "5d4"),
    ];
    assert_eq!(names(&deployment(3), &by_hash).len(), 1);
    assert_eq!(names(&deployment(1), &by_hash).len(), 0);
    let stateful = workload("StatefulSet", "apps/v1", &json!(3));
    assert_eq!(names(&stateful, &[pod("web-1", ("StatefulSet", "web"), "Running", "")]), ["web-0", "web-2"]);
    let stranger = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": "shop"}});
    assert_eq!(names(&deployment(2), &[stranger]), ["web-1", "web-2"], "a name is used once");
}

#[test]
fn numbers_that_are_none_are_told() {
    for (replicas, want) in [
        (json!(-1), "-1 is not a number of zero or more"),
        (json!("three"), "\"three\" is not a number of zero or more"),
        (json!(9_000_000_000_u64), "more than 2000000 pods in all are not planned for"),
    ] {
        let wrong = pods(&workload("Deployment", "apps/v1", &replicas), &mut Running::default()).unwrap().unwrap_err();
        assert_eq!((wrong.field, wrong.message.as_str()), ("spec.replicas", want));
    }
    assert!(pods(&json!({"apiVersion": "v1", "kind": "ConfigMap"}), &mut Running::default()).is_none());
}

/// SCH-151, SCH-152: claims that are made for a pod carry its name.
#[test]
fn claims_of_single_pods() {
    let mut set = workload("StatefulSet", "apps/v1", &json!(1));
    set["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": {"storageClassName": "fast"}}]);
    set["spec"]["template"]["spec"]["volumes"] = json!([
        {"name": "data", "emptyDir": {}},
        {"name": "tmp", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "slow"}}}},
    ]);
    let expanded = pods(&set, &mut Running::default()).unwrap().unwrap();
    assert!(!expanded.is_uniform());
    let (pod, claims) = expanded.pod("web-0");
    let made: Vec<(&str, &str)> =
        claims.iter().map(|claim| (name(claim), text(claim, &["spec", "storageClassName"]))).collect();
    assert_eq!(made, [("web-0-tmp", "slow"), ("data-web-0", "fast")]);
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    assert_eq!(volumes.len(), 2);
    assert_eq!(volumes[1]["persistentVolumeClaim"]["claimName"], "data-web-0");
    assert!(pods(&deployment(1), &mut Running::default()).unwrap().unwrap().is_uniform());
}

#[test]
fn pods_wait_unless_they_are_gated_bound_or_over() {
    for (pod, waits) in [
        (json!({"spec": {}}), true),
        (json!({"spec": {"nodeName": "n"}}), false),
        (json!({"spec": {"schedulingGates": [{"name": "quota"}]}}), false),
        (json!({"spec": {}, "status": {"phase": "Succeeded"}}), false),
    ] {
        let mut object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}});
        object["spec"] = pod["spec"].clone();
        object["status"] = pod["status"].clone();
        let expanded = pods(&object, &mut Running::default()).unwrap().unwrap();
        assert_eq!(expanded.template["status"] == waiting(), waits, "{pod}");
    }
}
