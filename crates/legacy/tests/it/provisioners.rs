use serde_json::{Value, json};

use super::desk::{Definitions, Desk};

/// The spec of the v0.5 tutorial's Provisioner, for a cluster called demo (SEED-2-23).
pub(crate) fn spec() -> Value {
    json!({ "spec": {
        "requirements": [{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"] }],
        "limits": { "resources": { "cpu": 1000 } },
        "provider": {
            "subnetSelector": { "karpenter.sh/discovery": "demo" },
            "securityGroupSelector": { "karpenter.sh/discovery": "demo" },
            "instanceProfile": "KarpenterNodeInstanceProfile-demo",
        },
        "ttlSecondsAfterEmpty": 30,
    } })
}

fn inflate(selector: Value) -> Value {
    json!({
        "spec": { "nodeSelector": selector, "containers": [{ "name": "c", "image": "pause", "resources": { "requests": { "cpu": "1" } } }] },
    })
}

async fn pending(desk: &Desk, name: &str, selector: Value) {
    desk.add("Pod", name, inflate(selector)).await;
    let now = desk.clock_now();
    let unschedulable =
        json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": now });
    desk.set_status("Pod", name, json!({ "phase": "Pending", "conditions": [unschedulable] })).await;
}

/// AWS-256, AWS-257, AWS-258: a Provisioner gets nodes through a pool and a class of its own, pods may ask for it by name, and
/// with it everything goes.
#[tokio::test(start_paused = true)]
async fn a_provisioner_is_served() {
    let desk = Desk::start().await;
    let provisioner = desk.add("Provisioner", "default", spec()).await;
    for kind in ["NodePool", "EC2NodeClass"] {
        let object = desk.get(kind, "default").await.unwrap();
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], provisioner["metadata"]["uid"], "{kind}");
        assert_eq!(object["metadata"]["labels"]["karpenter.sh/provisioner-name"], "default", "{kind}");
    }
    let pool = desk.get("NodePool", "default").await.unwrap();
    assert_eq!(pool["spec"]["disruption"]["consolidateAfter"], "30s");
    assert_eq!(pool["spec"]["limits"], json!({ "cpu": 1000 }));
    assert_eq!(desk.condition("Provisioner", "default", "Translated").await[0], "True");
    let [status, _, why] = desk.condition("Provisioner", "default", "Ready").await;
    assert_eq!((status.as_str(), why.contains("NodeClassReady: ")), ("False", true), "{why}");
    // AL2 is not published for the version of this cluster.
    let [status, _, said] = desk.condition("Provisioner", "default", "Warnings").await;
    assert!(status == "True" && said.contains("spec.provider.amiFamily: there are no AL2 images"), "{said}");

    desk.class_is_ready("default").await;
    assert_eq!(desk.condition("Provisioner", "default", "Ready").await, ["True", "Ready", ""]);
    pending(&desk, "asks", json!({ "karpenter.sh/provisioner-name": "default" })).await;
    pending(&desk, "asks-in-vain", json!({ "karpenter.sh/provisioner-name": "other" })).await;
    desk.wait(30).await;
    let claims = desk.all("NodeClaim").await;
    assert_eq!(claims.len(), 1, "{claims:?}");
    let labels = &claims[0]["metadata"]["labels"];
    assert_eq!(labels["karpenter.sh/provisioner-name"], "default");
    assert_eq!(labels["karpenter.sh/capacity-type"], "spot");

    let id = claims[0]["status"]["providerID"].clone();
    desk.add(
        "Node",
        "node-1",
        json!({ "spec": { "providerID": id, "taints": [{ "key": "karpenter.sh/unregistered", "effect": "NoExecute" }] } }),
    )
    .await;
    desk.wait(30).await;
    let node = desk.get("Node", "node-1").await.unwrap();
    assert_eq!(node["metadata"]["labels"]["karpenter.sh/provisioner-name"], "default");
    assert_eq!(node["metadata"]["labels"]["karpenter.sh/nodepool"], "default");
    let status = desk.get("Provisioner", "default").await.unwrap()["status"].clone();
    assert_eq!(status["resources"]["nodes"], "1", "{status}");
    assert!(status["lastScaleTime"].is_string(), "{status}");

    desk.delete("Provisioner", "default").await;
    desk.wait(60).await;
    for kind in ["NodePool", "EC2NodeClass", "NodeClaim", "Node"] {
        assert_eq!(desk.names(kind).await, [""; 0], "{kind}");
    }
}

/// AWS-257: what the Provisioner says now is what its objects say, fields that it left out go, and what others write into them
/// does not last; but for what it has no word for.
#[tokio::test(start_paused = true)]
async fn changes_are_carried_over() {
    let mut desk = Desk::start().await;
    desk.add("Provisioner", "default", spec()).await;
    let change = json!({ "spec": {
        "limits": null, "ttlSecondsAfterEmpty": null, "consolidation": { "enabled": true }, "ttlSecondsUntilExpired": 2_592_000,
        "taints": [{ "key": "workload", "value": "test", "effect": "NoSchedule" }], "labels": { "team": "a" }, "weight": 20,
    } });
    desk.patch("Provisioner", "default", change).await;
    let pool = desk.get("NodePool", "default").await.unwrap();
    assert_eq!(pool["spec"]["limits"], Value::Null);
    assert_eq!(pool["spec"]["disruption"]["consolidationPolicy"], "WhenEmptyOrUnderutilized");
    assert_eq!(pool["spec"]["template"]["spec"]["expireAfter"], "2592000s");
    assert_eq!(pool["spec"]["template"]["spec"]["taints"][0]["key"], "workload");
    assert_eq!(pool["spec"]["template"]["metadata"]["labels"], json!({ "team": "a" }));

    desk.patch(
        "NodePool",
        "default",
        json!({ "spec": { "weight": 1, "disruption": { "budgets": [{ "nodes": "3" }] } } }),
    )
    .await;
    desk.patch("EC2NodeClass", "default", json!({ "spec": { "instanceProfile": "mine" } })).await;
    let pool = desk.get("NodePool", "default").await.unwrap();
    assert_eq!(
        (&pool["spec"]["weight"], &pool["spec"]["disruption"]["budgets"]),
        (&json!(20), &json!([{ "nodes": "3" }]))
    );
    let class = desk.get("EC2NodeClass", "default").await.unwrap();
    assert_eq!(class["spec"]["instanceProfile"], "KarpenterNodeInstanceProfile-demo");
    desk.delete("NodePool", "default").await;
    desk.wait(10).await;
    let again = desk.get("NodePool", "default").await.unwrap();
    assert_ne!(again["metadata"]["uid"], pool["metadata"]["uid"]);

    // Another process finds everything as it should be, and writes nothing.
    desk.wait(60).await;
    let before = [
        desk.get("NodePool", "default").await,
        desk.get("EC2NodeClass", "default").await,
        desk.get("Provisioner", "default").await,
    ];
    desk.restart().await;
    desk.wait(60).await;
    let after = [
        desk.get("NodePool", "default").await,
        desk.get("EC2NodeClass", "default").await,
        desk.get("Provisioner", "default").await,
    ];
    assert_eq!(before, after);
}

/// AWS-257: objects that somebody made are left alone, and the Provisioner says so until they are gone.
#[tokio::test(start_paused = true)]
async fn names_that_are_taken() {
    let desk = Desk::start().await;
    let class = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "mine" });
    let made = desk
        .add(
            "NodePool",
            "default",
            json!({ "spec": { "template": { "spec": { "requirements": [], "nodeClassRef": class } } } }),
        )
        .await;
    desk.add("Provisioner", "default", spec()).await;
    let [status, reason, why] = desk.condition("Provisioner", "default", "Translated").await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NameTaken"));
    assert_eq!(why, "metadata.name: there is a NodePool default that is not of this Provisioner's making");
    assert_eq!(desk.get("NodePool", "default").await.unwrap()["spec"], made["spec"]);
    assert_eq!(desk.condition("Provisioner", "default", "Ready").await[0], "False");
    desk.delete("NodePool", "default").await;
    assert_eq!(desk.condition("Provisioner", "default", "Translated").await[0], "True");
    assert_eq!(desk.get("NodePool", "default").await.unwrap()["spec"]["weight"], Value::Null);
}

/// AWS-257: what cannot be served is said with its field; what was served before stays, and the others are not held up.
#[tokio::test(start_paused = true)]
async fn a_bad_provisioner_costs_nothing_but_itself() {
    let desk = Desk::start().await;
    desk.add("Provisioner", "default", spec()).await;
    let before = desk.get("NodePool", "default").await.unwrap()["spec"].clone();
    for (patch, field) in [
        (json!({ "spec": { "consolidation": { "enabled": true } } }), "spec.ttlSecondsAfterEmpty: cannot be combined"),
        (
            json!({ "spec": { "consolidation": null, "provider": { "launchTemplate": "mine" } } }),
            "spec.provider.launchTemplate: ",
        ),
        (
            json!({ "spec": { "provider": { "launchTemplate": null, "subnetSelector": 7 } } }),
            "spec.provider.subnetSelector: invalid type",
        ),
        (
            json!({ "spec": { "provider": { "subnetSelector": { "a": "b" } }, "labels": { "karpenter.sh/odd": "x" } } }),
            "spec.labels[karpenter.sh/odd]: ",
        ),
    ] {
        desk.patch("Provisioner", "default", patch).await;
        let [status, reason, why] = desk.condition("Provisioner", "default", "Translated").await;
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Invalid"), "{why}");
        assert!(why.contains(field), "{why}");
        assert_eq!(desk.get("NodePool", "default").await.unwrap()["spec"], before);
    }
    desk.add("Provisioner", "other", spec()).await;
    assert_eq!(desk.condition("Provisioner", "other", "Translated").await[0], "True");
    desk.patch("Provisioner", "default", json!({ "spec": { "labels": null } })).await;
    assert_eq!(desk.condition("Provisioner", "default", "Translated").await, ["True", "Translated", ""]);
    assert_eq!(desk.names("NodePool").await, ["default", "other"]);
}

/// AWS-256: definitions that come later are found, and nothing is missed for their lack.
#[tokio::test(start_paused = true)]
async fn definitions_may_come_later() {
    let desk = Desk::with(Definitions::OfToday).await;
    desk.wait(120).await;
    for definition in karpenter_api::crd::definitions() {
        if definition.legacy && definition.name().starts_with("provisioners") {
            desk.define(definition.manifest.clone()).await;
        }
    }
    desk.add("Provisioner", "default", spec()).await;
    desk.wait(70).await;
    assert_eq!(desk.names("NodePool").await, ["default"]);
}
