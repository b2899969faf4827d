use karpenter_testkit::protobuf;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::pod_events::{Form, PodEvent};
use super::super::pod_wire::WireReader;
use super::*;

/// As it comes in either form.
type Read = fn(&PodClasses, &Value) -> SeenPod;
const READS: [(&str, Read); 2] = [("JSON", read), ("protobuf", read_wire)];

fn read(classes: &PodClasses, pod: &Value) -> SeenPod {
    let text = pod.to_string();
    classes.read(&serde_json::from_str(&text).unwrap(), &LabelRules::core()).unwrap()
}

fn read_wire(classes: &PodClasses, pod: &Value) -> SeenPod {
    let bytes = protobuf::pod(pod);
    classes.read(&WireReader::default().pod(&bytes), &LabelRules::core()).unwrap()
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
    for (name, pod) in zoo().into_iter().chain(MORE.iter().map(|(name, more)| (*name, with(&web(1), &parsed(more))))) {
        let typed: Pod = serde_json::from_value(pod.clone()).unwrap();
        let want = convert::pod(&typed, &LabelRules::core());
        for (form, read) in READS {
            for time in ["first", "second"] {
                let seen = read(&classes, &pod);
                assert_eq!(*seen.view, want.view, "{name}, {form}, {time}");
                assert_eq!(seen.problems, want.problems, "{name}, {form}, {time}");
            }
        }
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// What pods may have beside what is in the zoo.
const MORE: [(&str, &str); 24] = [
    (
        "tolerations",
        r#"{"spec": {"tolerations": [{"operator": "Exists"}, {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 0},
        {"key": "c", "effect": "NoSchedule"}, {"key": "d", "operator": "Gt", "value": "5"}]}}"#,
    ),
    (
        "spread",
        r#"{"spec": {"topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", ""]}, {"key": "x", "operator": "DoesNotExist"}]},
        "minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "matchLabelKeys": ["pod-template-hash"]}]}}"#,
    ),
    (
        "spread over all",
        r#"{"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}]}}"#,
    ),
    (
        "spread without a selector",
        r#"{"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "Maybe"}]}}"#,
    ),
    (
        "affinity to pods",
        r#"{"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "topology.kubernetes.io/zone", "namespaceSelector": {}, "labelSelector": {"matchLabels": {"app": "db"}}},
        {"topologyKey": "kubernetes.io/hostname", "namespaces": ["a", "b"], "matchLabelKeys": ["app"], "mismatchLabelKeys": ["pod-template-hash"], "labelSelector": {}}],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}}]}}}}"#,
    ),
    (
        "dislike of pods",
        r#"{"spec": {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}}]}}}}"#,
    ),
    (
        "affinity to nodes",
        r#"{"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "karpenter.sh/capacity-type", "operator": "NotIn", "values": ["spot"]}, {"key": "gen", "operator": "Gt", "values": ["3"]}]}, {}]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}}]}}}}"#,
    ),
    ("an affinity that says nothing", r#"{"spec": {"affinity": {"podAffinity": {}, "nodeAffinity": {}}}}"#),
    (
        "host ports",
        r#"{"spec": {"containers": [{"name": "web", "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"}, {"containerPort": 1}]}]}}"#,
    ),
    (
        "two containers",
        r#"{"spec": {"containers": [{"name": "a", "image": "i", "env": [{"name": "E", "value": "1"}], "resources": {"requests": {"cpu": "0.5", "memory": "1e3", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1", "memory": "2Gi"}}},
        {"name": "b", "resources": {"limits": {"cpu": "1"}, "claims": [{"name": "gpu", "request": "r"}]}}]}}"#,
    ),
    (
        "steps before",
        r#"{"spec": {"initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}, {"name": "i", "resources": {"requests": {"cpu": "3", "memory": "5Gi"}}}]},
        "status": {"initContainerStatuses": [{"name": "s", "ready": true, "restartCount": 0, "image": "", "imageID": "", "allocatedResources": {"cpu": "4"}}]}}"#,
    ),
    (
        "resources of the pod",
        r#"{"spec": {"resources": {"requests": {"cpu": "8", "hugepages-2Mi": "4Mi"}, "limits": {"cpu": "9"}}}}"#,
    ),
    ("overhead that is negative", r#"{"spec": {"overhead": {"memory": "-1"}}}"#),
    (
        "priorities",
        r#"{"spec": {"priority": -5, "priorityClassName": "low", "preemptionPolicy": "Never", "schedulerName": "mine"}}"#,
    ),
    (
        "gates",
        r#"{"spec": {"schedulingGates": [{"name": "wait"}, {"name": "more"}]}, "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}}"#,
    ),
    (
        "claims of devices",
        r#"{"spec": {"resourceClaims": [{"name": "a", "resourceClaimName": "mine"}, {"name": "b", "resourceClaimTemplateName": "t"}, {"name": "c", "resourceClaimTemplateName": "t"}]},
        "status": {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "web-b"}, {"name": "c"}]}}"#,
    ),
    (
        "volumes",
        r#"{"spec": {"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "d", "readOnly": true}}, {"name": "e", "ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": {"resources": {}}}}},
        {"name": "n", "nfs": {"server": "s", "path": "/"}}, {"name": "c", "csi": {"driver": "d"}}, {"name": "h", "hostPath": {"path": "/"}}]}}"#,
    ),
    (
        "owners",
        r#"{"metadata": {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1"}, {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "2", "controller": true}]}}"#,
    ),
    (
        "a DaemonSet",
        r#"{"metadata": {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "7", "controller": true}]}}"#,
    ),
    (
        "wishes",
        r#"{"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true", "karpenter.sh/disruption-cost": "70", "controller.kubernetes.io/pod-deletion-cost": "3"}}}"#,
    ),
    (
        "a cost that is no number",
        r#"{"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "much", "karpenter.sh/disruption-cost": ""}}}"#,
    ),
    (
        "leaving at once",
        r#"{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00.5Z", "deletionGracePeriodSeconds": 0}, "spec": {"terminationGracePeriodSeconds": 0}}"#,
    ),
    (
        "done",
        r#"{"status": {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted", "lastTransitionTime": "2026-01-01T02:00:00Z"}]}}"#,
    ),
    (
        "of a phase that is new",
        r#"{"status": {"phase": "Sleeping", "nominatedNodeName": "n"}, "spec": {"nodeSelector": {"": "", "disk": "ssd"}, "hostname": "h"}}"#,
    ),
];

proptest! {
    /// Whatever a pod has, both forms of it say the same, in any order of seeing.
    #[test]
    fn both_forms_are_one_pod(picks in proptest::collection::vec((0..MORE.len(), 0..3_u32), 1..8), number in 0..1000_u32) {
        let (json, wire) = (PodClasses::default(), PodClasses::default());
        let mut pod = web(number);
        for (pick, _) in &picks {
            pod = with(&pod, &parsed(MORE[*pick].1));
        }
        let (a, b) = (read(&json, &pod), read_wire(&wire, &pod));
        prop_assert_eq!(&*a.view, &*b.view);
        prop_assert_eq!(a.problems, b.problems);
        prop_assert_eq!((a.scheduled_at, a.ready_at), (b.scheduled_at, b.ready_at));
        prop_assert_eq!((a.deletion_cost, a.managed_cost), (b.deletion_cost, b.managed_cost));
        // And whoever shares a class in one form shares it in the other.
        let mut other = web(number + 1);
        for (pick, skip) in &picks {
            if *skip > 0 {
                other = with(&other, &parsed(MORE[*pick].1));
            }
        }
        let (c, d) = (read(&json, &other), read_wire(&wire, &other));
        prop_assert_eq!(&*c.view, &*d.view);
        prop_assert_eq!(Arc::ptr_eq(&a.view.class, &c.view.class), Arc::ptr_eq(&b.view.class, &d.view.class));
    }

    /// Bytes may be anything; what is wrong is said.
    #[test]
    fn broken_protobuf_is_an_error(cut in 0..4000_usize, flip in 0..4000_usize, bit in 0..8_u8) {
        let classes = PodClasses::default();
        let mut bytes = protobuf::pod(&with(&web(1), &parsed(MORE[9].1)));
        let cut = cut % bytes.len();
        let _ = classes.read(&WireReader::default().pod(&bytes[..cut]), &LabelRules::core());
        let flip = flip % bytes.len();
        bytes[flip] ^= 1 << bit;
        let _ = classes.read(&WireReader::default().pod(&bytes), &LabelRules::core());
    }
}

/// A field that we do not know may mean something: such a pod is of another class.
#[test]
fn an_unknown_field_makes_another_class() {
    let classes = PodClasses::default();
    let pod = protobuf::pod(&json!({"metadata": {"name": "a"}, "spec": {"priority": 1}}));
    // A message may come in pieces: more of the spec, first nothing, then number 99.
    let [known, other] = [&[0x12, 0][..], &[0x12, 3, 0x98, 0x06, 1]].map(|more| {
        let bytes = [&pod, more].concat();
        classes.read(&WireReader::default().pod(&bytes), &LabelRules::core()).unwrap().view
    });
    assert!(!Arc::ptr_eq(&known.class, &other.class));
}

#[test]
fn pods_of_a_workload_share_what_they_have_in_common() {
    for (_, read) in READS {
        shares_what_is_common(read);
    }
}

fn shares_what_is_common(read: Read) {
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
        ("a field that nobody reads yet", json!({"spec": {"hostAliases": [{"ip": "10.0.0.1"}]}})),
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
    for (_, read) in READS {
        daemons_share(read);
    }
}

fn daemons_share(read: Read) {
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
    let classes = PodClasses::default();
    let mut read = Vec::new();
    let page = Form::Json.page(list.to_string().as_bytes(), &mut WireReader::default(), |object| {
        read.push((object.name().to_owned(), classes.read(object, &LabelRules::core()).is_ok()));
    });
    assert_eq!(page.unwrap().version.as_deref(), Some("9"));
    let want = [("web-1", true), ("web-2", false), ("web-3", false), ("web-4", true)];
    assert_eq!(read, want.map(|(name, fine)| (name.to_owned(), fine)));
    // The order of members says nothing.
    for text in [
        format!("{{\"type\":\"ADDED\",\"object\":{}}}", web(5)),
        format!("{{\"object\":{},\"type\":\"ADDED\"}}", web(5)),
    ] {
        let event = Form::Json.event(text.as_bytes(), &mut WireReader::default()).unwrap();
        let PodEvent::Applied(pod) = event else { panic!("not applied") };
        assert_eq!((pod.name(), pod.version()), ("web-5", "105"));
    }
}
