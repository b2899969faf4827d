//! Claims and volumes.

use serde_json::{Value, json};

use super::{cluster, fits, node, on, parsed, pod, reason};
use crate::scheduler::{Decision, Key, VolumePlan, decide};

const ZONE: &str = "topology.kubernetes.io/zone";

fn claim(name: &str, more: &Value) -> Value {
    let mut claim = json!({
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    claim["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    claim
}

fn bound(name: &str, volume: &str) -> Value {
    let mut claim = claim(name, &json!({"volumeName": volume}));
    claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
    claim
}

fn volume(name: &str, more: &Value) -> Value {
    let mut volume = json!({
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "disks", "volumeHandle": name},
        },
        "status": {"phase": "Available"},
    });
    volume["spec"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    volume
}

fn in_zone(zone: &str) -> Value {
    let terms = json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]);
    json!({"required": {"nodeSelectorTerms": terms}})
}

fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    json!({"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode})
}

fn uses(name: &str, claims: &[&str]) -> Value {
    let volumes: Vec<_> =
        claims.iter().map(|c| json!({"name": c, "persistentVolumeClaim": {"claimName": c}})).collect();
    pod(name, "x", json!({"volumes": volumes}))
}

fn two() -> Vec<Value> {
    vec![node("a", "1"), node("b", "2")]
}

fn with(more: &[Value]) -> Vec<Value> {
    let mut all = two();
    all.extend_from_slice(more);
    all
}

#[test]
fn a_bound_volume_has_to_reach_the_node() {
    let mut labelled = volume("v", &json!({}));
    labelled["metadata"]["labels"] = json!({"failure-domain.beta.kubernetes.io/zone": "2__3"});
    for (name, volume, want) in [
        ("from anywhere", volume("v", &json!({})), "a b"),
        ("by node affinity", volume("v", &json!({"nodeAffinity": in_zone("2")})), "b"),
        ("from nowhere", volume("v", &json!({"nodeAffinity": in_zone("9")})), ""),
        ("by label", labelled, "b"),
    ] {
        assert_eq!(fits(&with(&[volume, bound("c", "v")]), &uses("p", &["c"])), want, "{name}");
    }
}

#[test]
fn claims_that_are_not_usable_are_named() {
    let mut lost = bound("c", "v");
    lost["status"] = json!({"phase": "Lost"});
    let mut going = bound("c", "v");
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let now = class("now", "disks", "Immediate");
    for (objects, want) in [
        (vec![], "persistentvolumeclaim \"c\" not found"),
        (vec![lost], "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\""),
        (vec![going], "persistentvolumeclaim \"c\" is being deleted"),
        (vec![bound("c", "v")], "persistentvolume \"v\" not found"),
        (vec![claim("c", &json!({}))], "pod has unbound immediate PersistentVolumeClaims"),
        (
            vec![now, claim("c", &json!({"storageClassName": "now"}))],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            vec![claim("c", &json!({"storageClassName": "no-such-class"}))],
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ] {
        assert_eq!(reason(&with(&objects), &uses("p", &["c"])), want);
    }
}

#[test]
fn a_waiting_claim_takes_the_smallest_volume_that_reaches() {
    let local = class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer");
    let disk = |name: &str, size: &str, zone: &str| {
        let more = json!({"storageClassName": "local", "nodeAffinity": in_zone(zone), "capacity": {"storage": size}});
        volume(name, &more)
    };
    let asks = claim("c", &json!({"storageClassName": "local"}));
    let objects =
        with(&[local, asks, disk("big", "5Gi", "1"), disk("fitting", "2Gi", "1"), disk("small", "500Mi", "2")]);
    assert_eq!(fits(&objects, &uses("p", &["c"])), "a");
    let plan = match decide(&cluster(&objects), &parsed(&uses("p", &["c"]))) {
        Decision::Bind(placement) => placement.volumes,
        other => panic!("{other:?}"),
    };
    let key = Key { namespace: "default".into(), name: "c".into() };
    assert_eq!(plan, VolumePlan { bind: vec![(key, "fitting".into())], provision: vec![] });

    let refused = "1 node(s) didn't find available persistent volumes to bind";
    for (name, more) in [
        ("taken", json!({"claimRef": {"name": "other", "namespace": "default", "uid": "other"}})),
        ("of another mode", json!({"volumeMode": "Block"})),
        ("for readers only", json!({"accessModes": ["ReadOnlyMany"]})),
        ("of another class", json!({"storageClassName": "else"})),
    ] {
        let mut objects = objects[..4].to_vec();
        objects.remove(1);
        let mut more = more;
        more.as_object_mut().unwrap().entry("storageClassName").or_insert(json!("local"));
        objects.push(volume("v", &more));
        assert_eq!(reason(&objects, &uses("p", &["c"])), refused, "{name}");
    }
}

#[test]
fn two_claims_need_two_volumes() {
    let local = class("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer");
    let disk =
        |name: &str, zone: &str| volume(name, &json!({"storageClassName": "local", "nodeAffinity": in_zone(zone)}));
    let claims = ["c", "d"].map(|name| claim(name, &json!({"storageClassName": "local"})));
    let mut objects = with(&[local, disk("v", "1"), disk("w", "2"), disk("x", "2")]);
    objects.extend(claims);
    assert_eq!(fits(&objects, &uses("p", &["c", "d"])), "b");
    // Meant for one claim, a volume is for nobody else, and the claim is for no other volume.
    objects[3]["spec"]["claimRef"] = json!({"name": "c", "namespace": "default"});
    assert_eq!(fits(&objects, &uses("p", &["c"])), "a");
    assert_eq!(fits(&objects, &uses("p", &["d"])), "b");
}

#[test]
fn a_class_makes_volumes_where_it_may() {
    let mut made = class("made", "disks", "WaitForFirstConsumer");
    made["allowedTopologies"] = json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["2"]}]}]);
    let asks = claim("c", &json!({"storageClassName": "made"}));
    assert_eq!(fits(&with(&[made.clone(), asks.clone()]), &uses("p", &["c"])), "b");
    // The choice was made before and is not made again.
    let mut chosen = asks.clone();
    chosen["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": "a"});
    assert_eq!(fits(&with(&[class("made", "disks", "WaitForFirstConsumer"), chosen]), &uses("p", &["c"])), "a");
    // A driver that says how much it has left.
    let driver = json!({"kind": "CSIDriver", "metadata": {"name": "disks"}, "spec": {"storageCapacity": true}});
    let left = |size: &str| {
        json!({
            "kind": "CSIStorageCapacity", "metadata": {"name": "x", "namespace": "kube-system"},
            "storageClassName": "made", "capacity": size, "nodeTopology": {"matchLabels": {ZONE: "2"}},
        })
    };
    for (size, want) in [("2Gi", "b"), ("1Gi", "b"), ("1Mi", "")] {
        let objects = with(&[made.clone(), asks.clone(), driver.clone(), left(size)]);
        assert_eq!(fits(&objects, &uses("p", &["c"])), want, "{size}");
    }
    let objects = with(&[made, asks, driver, left("1Mi")]);
    assert_eq!(
        reason(&objects, &uses("p", &["c"])),
        "1 node(s) did not have enough free storage, 1 node(s) didn't find available persistent volumes to bind"
    );
}

#[test]
fn a_node_attaches_so_many_volumes() {
    let limit = json!({"kind": "CSINode", "metadata": {"name": "a"}, "spec": {"drivers": [
        {"name": "disks", "nodeID": "a", "allocatable": {"count": 2}}
    ]}});
    let mut objects = with(&[limit]);
    for name in ["1", "2", "3"] {
        objects.push(volume(&format!("v{name}"), &json!({})));
        objects.push(bound(&format!("c{name}"), &format!("v{name}")));
    }
    assert_eq!(fits(&objects, &uses("p", &["c1", "c2", "c3"])), "b", "three at once");
    objects.push(on("a", uses("first", &["c1"])));
    assert_eq!(fits(&objects, &uses("p", &["c2"])), "a b");
    assert_eq!(fits(&objects, &uses("p", &["c2", "c3"])), "b");
    assert_eq!(fits(&objects, &uses("p", &["c1", "c2"])), "a b", "one is there already");
    // Attached, though no pod uses it any more.
    objects.push(json!({"kind": "VolumeAttachment", "metadata": {"name": "x"}, "spec": {
        "attacher": "disks", "nodeName": "a", "source": {"persistentVolumeName": "v3"},
    }}));
    assert_eq!(fits(&objects, &uses("p", &["c2"])), "b");
    // A claim without a volume counts for the driver of its class.
    objects.push(class("made", "disks", "WaitForFirstConsumer"));
    objects.push(claim("new", &json!({"storageClassName": "made"})));
    assert_eq!(fits(&objects, &uses("p", &["new"])), "b");
    objects.remove(1);
    assert_eq!(reason(&objects, &uses("p", &["new"])), "1 node(s) exceed max volume count");
}

#[test]
fn some_volumes_are_for_one_pod() {
    let mut exclusive = bound("c", "v");
    exclusive["spec"]["accessModes"] = json!(["ReadWriteOncePod"]);
    let mut objects = with(&[volume("v", &json!({})), exclusive]);
    assert_eq!(fits(&objects, &uses("p", &["c"])), "a b");
    objects.push(on("a", uses("first", &["c"])));
    assert_eq!(
        reason(&objects, &uses("p", &["c"])),
        "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
    );

    let disk = |name: &str, read_only: bool| {
        let disk = json!({"name": "d", "gcePersistentDisk": {"pdName": "disk", "readOnly": read_only}});
        pod(name, "x", json!({"volumes": [disk]}))
    };
    let with_writer = with(&[on("a", disk("first", false))]);
    assert_eq!(fits(&with_writer, &disk("p", true)), "b");
    let with_reader = with(&[on("a", disk("first", true))]);
    assert_eq!(fits(&with_reader, &disk("p", true)), "a b");
    assert_eq!(fits(&with_reader, &disk("p", false)), "b");
}

#[test]
fn a_claim_from_a_template_belongs_to_its_pod() {
    let template = json!({"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}});
    let asks = pod("p", "x", json!({"volumes": [{"name": "scratch", "ephemeral": template}]}));
    let mut own = bound("p-scratch", "v");
    let objects = with(&[volume("v", &json!({}))]);
    assert_eq!(
        reason(&objects, &asks),
        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-scratch\""
    );
    let objects = with(&[volume("v", &json!({})), own.clone()]);
    assert_eq!(reason(&objects, &asks), "PVC default/p-scratch was not created for pod default/p (pod is not owner)");
    own["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p", "controller": true}]);
    assert_eq!(fits(&with(&[volume("v", &json!({})), own]), &asks), "a b");
}
