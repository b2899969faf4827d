use kube::ResourceExt as _;
use kube::core::{ObjectList, WatchEvent};
use serde_json::{Value, json};

use super::*;

fn object(pod: &Value) -> PodObject {
    serde_json::from_str(&pod.to_string()).unwrap()
}

fn read(classes: &PodClasses, pod: &Value) -> SeenPod {
    classes.read(&object(pod), &LabelRules::core()).unwrap()
}

/// Puts more into a pod.
fn with(pod: &Value, more: &Value) -> Value {
    match (pod, more) {
        (Value::Object(pod), Value::Object(more)) => {
            let mut all = pod.clone();
            for (key, value) in more {
                let merged = with(all.get(key).unwrap_or(&Value::Null), value);
                all.insert(key.clone(), merged);
            }
            Value::Object(all)
        }
        _ => more.clone(),
    }
}

/// A pod of a ReplicaSet as an API server serves it, with all that nobody reads.
fn web(number: u32) -> Value {
    let token = format!("kube-api-access-{number:05}");
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-{number}"), "generateName": "web-", "namespace": "shop", "uid": format!("uid-{number}"),
            "resourceVersion": (100 + number).to_string(), "generation": number,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7d4"},
            "annotations": {"cni.example.com/address": format!("10.0.0.{number}")},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}],
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}, "time": "2026-01-01T00:00:05Z"}],
        },
        "spec": {
            "nodeName": format!("node-{number}"), "priority": 7, "terminationGracePeriodSeconds": 30,
            "serviceAccountName": "default", "hostname": format!("web-{number}"), "enableServiceLinks": true,
            "volumes": [
                {"name": token, "projected": {"sources": []}},
                {"name": "scratch", "emptyDir": {}},
            ],
            "containers": [{
                "name": "web", "image": "example.com/web:1", "args": ["--fast"], "env": [{"name": "A", "value": "b"}],
                "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
                "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}],
                "volumeMounts": [{"name": token, "mountPath": "/token"}],
            }],
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300}],
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}},
                "matchLabelKeys": ["pod-template-hash"]}],
        },
        "status": {
            "phase": "Running", "startTime": "2026-01-01T00:00:02Z", "podIP": format!("10.0.0.{number}"),
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
                {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:04Z"},
            ],
            "containerStatuses": [{"name": "web", "image": "example.com/web:1", "imageID": "x", "ready": true,
                "restartCount": 0, "containerID": format!("containerd://{number}"),
                "allocatedResources": {"cpu": "250m", "memory": "1Gi"}}],
        },
    })
}

/// Pods as different as they come.
fn zoo() -> Vec<(&'static str, Value)> {
    let pod = web(1);
    vec![
        ("as it is", pod.clone()),
        ("bare", json!({"metadata": {"name": "a", "namespace": "b"}})),
        ("no status", with(&pod, &json!({"status": null}))),
        ("leaving", with(&pod, &json!({"metadata": {"deletionTimestamp": "2026-01-01T01:00:00Z"}}))),
        (
            "unschedulable",
            with(
                &pod,
                &json!({"spec": {"nodeName": null}, "status": {"phase": "Pending", "startTime": null, "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
                    {"type": "Ready", "status": "False"}], "nominatedNodeName": "n"}}),
            ),
        ),
        (
            "resized",
            with(
                &pod,
                &json!({"status": {"containerStatuses": [{"name": "web", "image": "", "imageID": "", "ready": true,
                "restartCount": 0, "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}}]}}),
            ),
        ),
        (
            "cannot be resized",
            with(
                &pod,
                &json!({"status": {"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
                "containerStatuses": [{"name": "web", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "allocatedResources": {"cpu": "100m"}}]}}),
            ),
        ),
        (
            "sidecar and overhead",
            with(
                &pod,
                &json!({"spec": {"overhead": {"cpu": "10m"}, "initContainers": [{"name": "s", "restartPolicy": "Always",
                "resources": {"requests": {"cpu": "1"}}}]}}),
            ),
        ),
        (
            "volumes",
            with(
                &pod,
                &json!({"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}},
                {"name": "c", "configMap": {"name": "c"}}, {"name": "cache", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}}),
            ),
        ),
        (
            "affinities",
            with(
                &pod,
                &json!({"spec": {"nodeSelector": {"disk": "ssd"}, "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}]}]}},
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}}}),
            ),
        ),
        (
            "only node affinity",
            json!({"metadata": {"name": "a"}, "spec": {"containers": [], "affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": {"matchExpressions": [
                {"key": "disk", "operator": "Exists"}]}}]}}}}),
        ),
        (
            "annotations",
            with(
                &pod,
                &json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "5m",
                "controller.kubernetes.io/pod-deletion-cost": "12"}}}),
            ),
        ),
        (
            "StatefulSet",
            with(
                &pod,
                &json!({"metadata": {"ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": true}]}}),
            ),
        ),
        (
            "critical",
            with(&pod, &json!({"spec": {"priorityClassName": "system-node-critical", "priority": 2_000_001_000}})),
        ),
        ("escapes", with(&pod, &json!({"metadata": {"labels": {"note": "a\"b\\c\u{e9}"}}}))),
        ("unreadable amount", with(&pod, &json!({"spec": {"overhead": {"cpu": "much"}}}))),
        (
            "devices",
            with(
                &pod,
                &json!({"spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
                "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu-1"}]}}),
            ),
        ),
    ]
}

/// SCH-12, SCH-60: what comes over the wire means the same as the whole object does, first seen or known.
#[test]
fn a_pod_is_read_as_it_is_converted() {
    let classes = PodClasses::default();
    for (name, pod) in zoo() {
        let typed: Pod = serde_json::from_value(pod.clone()).unwrap();
        let want = convert::pod(&typed, &LabelRules::core());
        for time in ["first", "second"] {
            let seen = read(&classes, &pod);
            assert_eq!(*seen.view, want.view, "{name}, {time}");
            assert_eq!(seen.problems, want.problems, "{name}, {time}");
        }
    }
}

#[test]
fn pods_of_a_workload_share_what_they_have_in_common() {
    let classes = PodClasses::default();
    let first = read(&classes, &web(1)).view;
    let second = read(&classes, &web(2)).view;
    assert!(Arc::ptr_eq(&first.class, &second.class), "names, addresses, tokens and nodes are their own");
    assert_eq!((second.id.name.as_str(), second.node_name.as_deref()), ("web-2", Some("node-2")));
    for (name, other) in [
        ("labels", json!({"metadata": {"labels": {"app": "other"}}})),
        ("namespace", json!({"metadata": {"namespace": "other"}})),
        ("requests", json!({"spec": {"overhead": {"cpu": "1"}}})),
        ("protection", json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})),
        (
            "claims of volumes",
            json!({"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d"}}]}}),
        ),
        ("a field that we do not know", json!({"spec": {"newWish": true}})),
    ] {
        let view = read(&classes, &with(&web(3), &other)).view;
        assert!(!Arc::ptr_eq(&first.class, &view.class), "{name}");
    }
    // The class of a pod with such a volume names the pod.
    let ephemeral = json!({"spec": {"volumes": [{"name": "c", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}});
    for (number, claim) in [(4, "web-4-c"), (5, "web-5-c")] {
        assert_eq!(read(&classes, &with(&web(number), &ephemeral)).view.volume_claims, [claim]);
    }
}

/// SCH-71, SCH-238: the pods of a DaemonSet are pinned to their nodes, each to another, and yet alike.
#[test]
fn pods_of_a_daemon_set_share_a_class() {
    let classes = PodClasses::default();
    let agent = |number: u32| {
        let pinned = json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [number.to_string()]}]}]}}}},
            "metadata": {"ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": true}]}});
        read(&classes, &with(&web(number), &pinned))
    };
    let (first, second) = (agent(1), agent(2));
    assert!(Arc::ptr_eq(&first.view.class, &second.view.class));
    assert_eq!((first.view.owner, first.view.daemon_set.as_deref()), (PodOwner::DaemonSet, Some("agent")));
    assert!(first.view.unplannable.is_none() && first.problems.is_empty(), "nobody has to hear of the pin");
}

/// Pods of a StatefulSet have labels and volumes of their own, and all else of their set.
#[test]
fn pods_of_a_stateful_set_share_their_template() {
    let classes = PodClasses::default();
    let db = |number: u32, cpu: &str| {
        let own = json!({
            "metadata": {
                "labels": {"statefulset.kubernetes.io/pod-name": format!("db-{number}"), "apps.kubernetes.io/pod-index": number.to_string()},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": true}],
            },
            "spec": {
                "overhead": {"cpu": cpu},
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{number}")}}],
            },
        });
        read(&classes, &with(&web(number), &own)).view
    };
    let (first, second) = (db(1, "1"), db(2, "1"));
    assert!(!Arc::ptr_eq(&first.class, &second.class));
    assert!(first.class.template.is_one_with(&second.class.template));
    assert_eq!((&*second.labels["app"], &*second.labels["apps.kubernetes.io/pod-index"]), ("web", "2"));
    assert_eq!((&first.volume_claims[0], &second.volume_claims[0]), (&"data-1".to_owned(), &"data-2".to_owned()));
    let other = db(3, "2");
    assert!(!other.class.template.is_one_with(&first.class.template), "another revision");
    assert!(db(4, "2").class.template.is_one_with(&other.class.template), "the latest is remembered");
}

#[test]
fn classes_that_no_pod_has_are_forgotten() {
    let classes = PodClasses::default();
    let kept: Vec<SeenPod> = (0..10)
        .map(|n| read(&classes, &with(&web(n), &json!({"metadata": {"labels": {"app": n.to_string()}}}))))
        .collect();
    for n in 10..2000 {
        read(&classes, &with(&web(n), &json!({"metadata": {"labels": {"app": n.to_string()}}})));
    }
    assert!(classes.len() <= Known::FEW + 1, "{}", classes.len());
    let again = read(&classes, &with(&web(7), &json!({"metadata": {"labels": {"app": "7"}}})));
    assert!(Arc::ptr_eq(&again.view.class, &kept[7].view.class));
}

/// One odd object never stops the rest.
#[test]
fn odd_pods_are_named_and_skipped() {
    let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [
        web(1), with(&web(2), &json!({"spec": {"containers": "none"}})),
        with(&web(3), &json!({"metadata": {"creationTimestamp": "yesterday"}})), web(4)]});
    let list: ObjectList<PodObject> = serde_json::from_str(&list.to_string()).unwrap();
    let classes = PodClasses::default();
    let read: Vec<(String, bool)> = list
        .items
        .iter()
        .map(|object| (object.name_any(), classes.read(object, &LabelRules::core()).is_ok()))
        .collect();
    let want = [("web-1", true), ("web-2", false), ("web-3", false), ("web-4", true)];
    assert_eq!(read, want.map(|(name, fine)| (name.to_owned(), fine)));
    // The order of members says nothing.
    for text in [
        format!("{{\"type\":\"ADDED\",\"object\":{}}}", web(5)),
        format!("{{\"object\":{},\"type\":\"ADDED\"}}", web(5)),
    ] {
        let event: WatchEvent<PodObject> = serde_json::from_str(&text).unwrap();
        let WatchEvent::Added(pod) = event else { panic!("not added") };
        assert_eq!((pod.name_any(), pod.resource_version().as_deref()), ("web-5".to_owned(), Some("105")));
    }
}
