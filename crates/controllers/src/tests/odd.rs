//! One odd object gets a word about itself, and everything else goes on.

use karpenter_api::conditions::Conditioned as _;
use serde_json::{Value, json};

use super::desk::{Desk, says};
use super::*;

/// Everything works for a while with a pod that waits for a node; whether it got one.
async fn goes_on(desk: &mut Desk) -> bool {
    desk.add_ready_pool("good", json!({})).await;
    desk.add_pending("web", json!({ "spec": { "nodeSelector": { "karpenter.sh/nodepool": "good" } } })).await;
    desk.work(60).await;
    let claims = desk.all::<NodeClaim>().await;
    claims.iter().any(|claim| claim.labels().get("karpenter.sh/nodepool").is_some_and(|pool| pool == "good"))
}

async fn told(desk: &Desk, object: &str) -> Vec<(String, String)> {
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::all(desk.client.clone());
    let all = events.list(&kube::api::ListParams::default()).await.unwrap().items;
    let about = all.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(object));
    about.map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect()
}

fn required(term: &Value) -> Value {
    let required = json!({ "nodeSelectorTerms": [term] });
    json!({ "spec": { "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } } } })
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_a_broken_affinity() {
    let mut desk = Desk::start().await;
    let fields = json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n"] }] });
    desk.add_pending("fields", required(&fields)).await;
    let expression = json!({ "key": "karpenter.sh/unheard-of", "operator": "In", "values": ["x"] });
    desk.add_pending("restricted", required(&json!({ "matchExpressions": [expression] }))).await;
    assert!(goes_on(&mut desk).await);
    for (pod, word) in [("fields", "matchFields"), ("restricted", "karpenter.sh/unheard-of")] {
        let told = told(&desk, pod).await;
        assert!(
            matches!(&told[..], [(reason, message)] if reason == "FailedScheduling" && message.contains(word)),
            "{told:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_with_an_unknown_class() {
    let mut desk = Desk::start().await;
    let class = json!({ "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "no-such-class" });
    desk.add_pool("odd", json!({ "spec": { "weight": 100, "template": { "spec": { "nodeClassRef": class } } } })).await;
    assert!(goes_on(&mut desk).await);
    let odd = desk.get::<NodePool>("odd").await.unwrap();
    assert_eq!(says(odd.conditions(), "NodeClassReady"), ("False", "NodeClassNotFound"));
    assert_eq!(says(odd.conditions(), "Ready").0, "False");
}

/// An API server refuses such a node; one that was stored by an older one, or in another way, may still come along.
#[tokio::test(start_paused = true)]
async fn a_node_with_a_malformed_quantity() {
    let desk = Desk::start().await;
    desk.add_node("odd", "shop://odd").await;
    let mut node: Value = serde_json::to_value(desk.get::<Node>("odd").await.unwrap()).unwrap();
    node["status"]["allocatable"]["memory"] = json!("lots");
    node["metadata"]["resourceVersion"] = json!("999999");
    desk.events();
    desk.ctx.note_node(serde_json::from_value(node).unwrap());
    let told = desk.events();
    let word = told.iter().find(|(reason, _)| reason == "InvalidField").unwrap();
    assert!(word.1.contains("memory") && word.1.contains("lots"), "{word:?}");
    let entry = desk.ctx.state().nodes().remove(0);
    assert_eq!(
        entry.allocatable().amount("cpu"),
        karpenter_model::quantity::Quantity::units(4),
        "the rest of it counts"
    );
    assert_eq!(desk.ctx.state().unsynced(), None);
}

/// A claim that somebody has written to: what it lost comes back, what it says wrongly does not count (Y9).
#[tokio::test(start_paused = true)]
async fn a_claim_edited_by_hand() {
    let mut desk = Desk::start().await;
    desk.add_launched("odd", true, json!({})).await;
    desk.set_status::<NodeClaim>("odd", json!({ "providerID": null, "nodeName": null })).await;
    let metadata = json!({
        "finalizers": [], "annotations": { "karpenter.sh/nodeclaim-termination-timestamp": "tomorrow" },
    });
    desk.change::<NodeClaim>("odd", json!({ "metadata": metadata })).await;
    assert!(goes_on(&mut desk).await, "a claim without an instance would hold everybody up");
    let claim = desk.claim("odd").await;
    assert_eq!(claim.finalizers(), ["karpenter.sh/termination"]);
    assert_eq!(claim.status.unwrap().provider_id.as_deref(), Some("shop://odd"), "the same instance");
    assert_eq!(desk.shop.book().machines.len(), 2);
    desk.delete::<NodeClaim>("odd").await;
    desk.wait(60).await;
    assert!(desk.get::<NodeClaim>("odd").await.is_none(), "and it goes as any other");
}
