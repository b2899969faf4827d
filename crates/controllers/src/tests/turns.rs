//! The loop that decides who goes: when it looks, what it waits for, what wakes it, and what it says.

use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use karpenter_apiserver::{Fault, Rule, Verb};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::commands::{add_drifting, drifting};
use super::desk::{Desk, Setup, merge};
use super::disrupting::{LARGE, SMALL, add_node, add_pool, going, is_going, is_tainted, join, on, replacements};
use super::*;
use crate::events::{Subject, catalogue};

/// How often the loop has come to drift, which it looks at in every pass. Nodes of static pools are looked at under the same name.
fn looks(desk: &Desk) -> f64 {
    let evaluated = desk.ctx.report.metrics.all.disruption_evaluation_duration.value(["drifted", ""]);
    evaluated.unwrap_or_default() / 2.0
}

/// DC-9, DIS-2: with nothing to do somebody looks every ten seconds.
#[tokio::test(start_paused = true)]
async fn quiet_clusters_are_looked_at_every_ten_seconds() {
    let desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    let looking = crate::disruption::run(desk.ctx.clone());
    assert!(tokio::time::timeout(Duration::from_secs(95), looking).await.is_err());
    assert!((looks(&desk) - 10.0).abs() < 1e-9, "{}", looks(&desk));
}

/// DIS-1: a pass that takes long is waited for; no other begins beside it.
#[tokio::test(start_paused = true)]
async fn passes_follow_each_other() {
    let desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    add_node(&desk, "a", SMALL, json!({})).await;
    let taint = json!([{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }]);
    desk.change::<Node>("a", json!({ "spec": { "taints": taint } })).await;
    let slow = Fault::Latency(Duration::from_mins(1));
    desk.api.add_fault(Rule::new(slow).kind("Node").verb(Verb::Patch).name("a").times(1));
    let looking = tokio::spawn(crate::disruption::run(desk.ctx.clone()));
    desk.wait(50).await;
    assert!(looks(&desk) < 1e-9, "the first pass is still tidying up: {}", looks(&desk));
    assert!(is_tainted(&desk, "a").await);
    desk.wait(30).await;
    assert!(looks(&desk) >= 1.0 && !is_tainted(&desk, "a").await);
    looking.abort();
}

/// DIS-4, X2: what counts is that everything was listed once. A claim that has no machine yet holds up nobody else's command.
#[tokio::test(start_paused = true)]
async fn a_launch_under_way_does_not_stop_the_loop() {
    let mut desk = drifting(&["old"]).await;
    desk.shop.book().down.insert(String::new());
    desk.add_claim("stuck", json!({})).await;
    desk.work(30).await;
    assert!(desk.claim("stuck").await.status.unwrap_or_default().provider_id.is_none());
    assert_eq!(replacements(&desk).await.len(), 1);
}

/// DC-10, DIS-174: while a replacement is being created, the provisioner buys nothing for the pods that it is meant for.
#[tokio::test(start_paused = true)]
async fn nothing_is_bought_beside_a_replacement_in_the_making() {
    let mut desk = drifting(&["old"]).await;
    let slow = Fault::Latency(Duration::from_mins(2));
    desk.api.add_fault(Rule::new(slow).kind("NodeClaim").verb(Verb::Create).times(1));
    desk.work(20).await;
    assert!(is_tainted(&desk, "old").await && replacements(&desk).await.is_empty(), "it hangs");
    let mut pod = on("", "100m");
    pod["spec"]["nodeName"] = Value::Null;
    desk.add_pending("extra", pod).await;
    desk.wait(60).await;
    let claims = desk.all::<NodeClaim>().await;
    let new: Vec<&NodeClaim> = claims.iter().filter(|claim| claim.name_any() != "old").collect();
    assert_eq!(new.len(), 1, "for the pod that waits");
    let asked = serde_json::to_value(&new[0].spec).unwrap();
    assert_eq!(asked["resources"]["requests"]["cpu"], "100m", "and for nobody else");
    desk.wait(90).await;
    assert_eq!(replacements(&desk).await.len(), 1);
}

/// X26, DC-191, DIS-102: a command that begins or is taken back wakes whoever found nothing before.
#[tokio::test(start_paused = true)]
async fn what_is_taken_back_is_looked_at_again() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "large", LARGE, json!({})).await;
    desk.add_pod("web", on("large", "500m")).await;
    for marked in [true, false] {
        let before = desk.ctx.state().world();
        desk.ctx.state().mark("large", marked);
        assert!(desk.ctx.state().world() != before, "{marked}");
    }
    desk.work(60).await;
    let looked =
        |desk: &Desk| desk.ctx.report.metrics.all.disruption_evaluation_duration.value(["underutilized", "single"]);
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 1);
    let before = looked(&desk);
    desk.delete::<NodeClaim>(&new[0].name_any()).await;
    // Far less than the five minutes after which somebody would look in any case.
    desk.wait(60).await;
    assert!(looked(&desk) > before);
}

/// X30, DIS-26: one cause does not silence another; the same one is told once.
#[tokio::test(start_paused = true)]
async fn every_cause_is_told() {
    let desk = Desk::start().await;
    let node = Subject::node("a", "uid");
    for cause in ["pod default/web is protected", "PDB default/web", "pod default/web is protected"] {
        desk.ctx.report.events.publish(catalogue::disruption_blocked(&node, cause));
    }
    let told: Vec<String> = desk.events().into_iter().map(|(_, message)| message).collect();
    assert_eq!(told, ["pod default/web is protected", "PDB default/web"]);
}

/// DIS-188: the gauge of nodes that could go for drift is about those of dynamic pools, which are looked at last.
#[tokio::test(start_paused = true)]
async fn the_last_look_at_drift_counts() {
    let features = crate::Features { static_capacity: true, ..crate::Features::default() };
    let mut desk = Desk::with(Setup { features, ..Setup::default() }).await;
    let closed = json!({ "budgets": [{ "nodes": "0" }] });
    let zone = json!([{ "key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-b"] }]);
    let template = json!({ "spec": { "requirements": zone } });
    let spec = json!({ "spec": { "replicas": 1, "disruption": closed, "template": template } });
    desk.add_ready_pool("fixed", spec).await;
    add_node(&desk, "s", SMALL, json!({ "metadata": { "labels": { "karpenter.sh/nodepool": "fixed" } } })).await;
    add_drifting(&desk, "blue", &["a", "b"]).await;
    desk.change::<NodePool>("blue", json!({ "spec": { "disruption": closed } })).await;
    desk.work(40).await;
    assert_eq!(desk.ctx.report.metrics.all.disruption_eligible_nodes.value(["drifted"]), Some(2.0));
    assert!(going(&desk).await.values().all(|going| !going));
}

/// API-196, DIS-194: what disruption asks the scheduler is timed under its own name, and only when it asks.
#[tokio::test(start_paused = true)]
async fn simulations_are_timed() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "large", LARGE, json!({})).await;
    desk.add_pod("web", on("large", "500m")).await;
    let timed = |desk: &Desk| desk.ctx.report.metrics.all.scheduling_duration.value(["disruption"]);
    assert_eq!(timed(&desk), None);
    desk.work(60).await;
    let asked = timed(&desk).unwrap_or_default();
    // The look at single nodes, of which there is one, and the second look at what it found.
    assert!(asked >= 2.0, "{asked}");
    assert_eq!(replacements(&desk).await.len(), 1);
}

/// DC-99, DIS-89: a volume that is on the node itself holds nobody there: the pod moves and gets another.
#[tokio::test(start_paused = true)]
async fn a_local_volume_keeps_no_node() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({})).await;
    add_node(&desk, "large", LARGE, json!({})).await;
    let at_home = json!({ "key": "kubernetes.io/hostname", "operator": "In", "values": ["large"] });
    desk.add::<PersistentVolume>(json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "disk" },
        "spec": {
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "local": { "path": "/data" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": [at_home] }] } },
            "claimRef": { "namespace": "default", "name": "data" },
        },
    }))
    .await;
    desk.put::<PersistentVolumeClaim>(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": "data" },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "disk",
            "resources": { "requests": { "storage": "1Gi" } },
        },
    }))
    .await;
    let mut pod = on("large", "500m");
    let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "data" } });
    merge(&mut pod, json!({ "spec": { "volumes": [volume] } }));
    desk.add_pod("web", pod).await;
    desk.work(60).await;
    let new = replacements(&desk).await;
    assert_eq!(new.len(), 1);
    join(&desk, &new[0]).await;
    desk.wait(30).await;
    assert!(is_going(desk.get("large").await.as_ref()));
}

/// DIS-91: a pod that is being made smaller still has what it had, and needs as much elsewhere.
#[tokio::test(start_paused = true)]
async fn a_resize_under_way_counts_in_full() {
    for (has, want) in [("300m", 1), ("900m", 0)] {
        let mut desk = Desk::start().await;
        add_pool(&desk, "blue", json!({})).await;
        for (node, pod) in [("a", "one"), ("b", "two")] {
            add_node(&desk, node, SMALL, json!({})).await;
            desk.add_pod(pod, on(node, "300m")).await;
        }
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(desk.client.clone(), "default");
        for pod in ["one", "two"] {
            let container = json!({
                "name": "main", "image": "none", "imageID": "", "ready": true, "restartCount": 0,
                "allocatedResources": { "cpu": has },
            });
            let status = Patch::Merge(json!({ "status": { "containerStatuses": [container] } }));
            pods.patch_status(pod, &PatchParams::default(), &status).await.unwrap();
        }
        desk.work(60).await;
        let gone = going(&desk).await.into_values().filter(|going| *going).count();
        assert_eq!((gone, replacements(&desk).await.len()), (want, 0), "{has}");
    }
}
