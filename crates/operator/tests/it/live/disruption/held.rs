//! What keeps nodes: budgets, annotations, PodDisruptionBudgets.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::scene::{condition, is_running, label, name, node_of, workload};
use super::{Stage, is_deleting};

const POOL: &str = "karpenter.sh/nodepool";
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// A window of one hour that is not now, whenever this is read.
fn another_time() -> Value {
    let hours = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() / 3600;
    json!({"nodes": "0", "schedule": format!("0 {} * * *", (hours + 12) % 24), "duration": "1h"})
}

/// DIS-49, DIS-52, DIS-53, DIS-54, DIS-55, DIS-59, DIS-61: no node goes against a budget of nothing, of nothing for its reason, or of nothing
/// in a window that is open; half of the nodes go where half may; and the rest when they may.
async fn budgets_hold() {
    let stage = Stage::new("budgets").await;
    let always = json!({"nodes": "0", "schedule": "0 0 * * *", "duration": "24h"});
    let budgets = [
        ("zero", json!([{"nodes": "0"}])),
        ("reason", json!([{"nodes": "100%"}, {"nodes": "0", "reasons": ["Empty"]}])),
        ("window", json!([always])),
        ("percent", json!([{"nodes": "50%"}])),
    ];
    for (pool, budgets) in &budgets {
        stage.create(stage.pool_of(pool, &["4"], budgets, json!({}))).await;
        for number in 0..if *pool == "percent" { 4 } else { 1 } {
            let selector = json!({"spec": {"nodeSelector": {POOL: format!("budgets-{pool}")}}});
            stage.create(stage.pod(&format!("{pool}-{number}"), "3", selector)).await;
        }
    }
    stage.all_run(7).await;
    // What goes is not gone before its volume is detached.
    let held = |node: &Value| label(node, POOL) == "budgets-percent";
    let nodes: Vec<Value> = stage.nodes().await.unwrap().into_iter().filter(held).collect();
    assert_eq!(nodes.len(), 4);
    for (number, node) in nodes.iter().enumerate() {
        let volume = format!("budgets-{number}");
        stage
            .create(json!({"kind": "PersistentVolume", "metadata": {"name": volume}, "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
                "hostPath": {"path": "/data"}}}))
            .await;
        stage
            .create(json!({"kind": "VolumeAttachment", "metadata": {"name": volume}, "spec": {
                "attacher": "example.com", "nodeName": name(node), "source": {"persistentVolumeName": volume}}}))
            .await;
    }
    for pod in stage.list("Pod").await.unwrap() {
        stage.delete("Pod", name(&pod)).await;
    }
    let going = async || -> Result<Vec<String>, kube::Error> {
        let claims = stage.claims().await?;
        Ok(claims.iter().filter(|claim| is_deleting(claim)).map(|claim| label(claim, POOL).to_owned()).collect())
    };
    stage.wait("half of them go", async || Ok((going().await?.len() == 2).then_some(()))).await;
    for pool in ["zero", "reason", "window"] {
        let pool = format!("budgets-{pool}");
        let said = stage.event("DisruptionBlocked", &pool).await;
        assert!(said.contains("Empty"), "{pool}: {said}");
    }
    // Longer than a look every ten seconds and a second one after fifteen: whatever a look finds too much would be going by now.
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(going().await.unwrap(), ["budgets-percent", "budgets-percent"]);
    assert_eq!(stage.claims().await.unwrap().len(), 7);

    stage.allow("budgets-zero", json!([{"nodes": "1"}])).await;
    stage.allow("budgets-reason", json!([{"nodes": "0", "reasons": ["Drifted", "Underutilized"]}])).await;
    stage.allow("budgets-window", json!([another_time()])).await;
    for number in 0..4 {
        stage.delete("VolumeAttachment", &format!("budgets-{number}")).await;
    }
    stage.nothing_left().await;
    stage.end().await;
}

/// DIS-16, DIS-19, DIS-20, DIS-26, DC-14: an annotation of the node, one of a pod, and a PodDisruptionBudget each keep a drifted node, say so, and
/// let it go when they are gone; a node that nothing keeps goes at once.
async fn annotations_and_budgets_of_pods_hold() {
    let stage = Stage::new("held").await;
    let pool = json!({"disruption": {"consolidateAfter": "Never"}});
    stage.create(stage.pool_of("", &["4"], &json!([{"nodes": "100%"}]), pool)).await;
    stage
        .create(json!({"kind": "PodDisruptionBudget", "metadata": {"name": "guard"},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "guarded"}}}}))
        .await;
    for app in ["free", "guarded", "protected", "resident"] {
        let mut pod = stage.pod(app, "3", json!({}));
        if app == "protected" {
            pod["metadata"]["annotations"] = json!({DO_NOT_DISRUPT: "true"});
        }
        stage.create(workload("Deployment", app, 1, pod)).await;
    }
    let pods = stage.all_run(4).await;
    let of = |app: &str| pods.iter().find(|pod| label(pod, "app") == app).unwrap();
    let node = |app: &str| node_of(of(app)).to_owned();
    let counted = |budget: &Value| budget["status"]["currentHealthy"] == 1;
    stage.wait("a budget", async || Ok(stage.get("PodDisruptionBudget", "guard").await?.filter(counted))).await;
    stage.patch("Node", &node("resident"), json!({"metadata": {"annotations": {DO_NOT_DISRUPT: "true"}}})).await;

    let change = json!({"metadata": {"annotations": {"example.com/version": "2"}}});
    stage.patch("NodePool", "held", json!({"spec": {"template": change}})).await;
    stage
        .wait("the free one has moved", async || {
            let pods = stage.list("Pod").await?;
            let moved = |pod: &&Value| label(pod, "app") == "free" && is_running(pod) && node_of(pod) != node("free");
            Ok((pods.iter().any(|pod| moved(&pod)) && stage.get("Node", &node("free")).await?.is_none()).then_some(()))
        })
        .await;
    for (app, cause) in [("guarded", "held/guard"), ("protected", name(of("protected"))), ("resident", DO_NOT_DISRUPT)]
    {
        // Another cause may come first, and the same object is not told about again at once.
        stage
            .wait(&format!("{app} says what keeps it"), async || {
                Ok(stage.told("DisruptionBlocked", &node(app)).await?.filter(|said| said.contains(cause)))
            })
            .await;
        let kept = stage.get("Node", &node(app)).await.unwrap().unwrap();
        assert!(!is_deleting(&kept), "{app}");
        let claim = stage.get("NodeClaim", label(&kept, "kubernetes.io/hostname")).await.unwrap().unwrap();
        assert_eq!((condition(&claim, "Drifted").0, is_deleting(&claim)), ("True", false), "{app}");
        assert_eq!(node_of(&stage.get("Pod", name(of(app))).await.unwrap().unwrap()), node(app));
    }

    stage.delete("PodDisruptionBudget", "guard").await;
    stage.patch("Pod", name(of("protected")), json!({"metadata": {"annotations": {DO_NOT_DISRUPT: null}}})).await;
    stage.patch("Node", &node("resident"), json!({"metadata": {"annotations": {DO_NOT_DISRUPT: null}}})).await;
    stage
        .wait("all have moved", async || {
            let (pods, claims) = (stage.list("Pod").await?, stage.claims().await?);
            let old = ["guarded", "protected", "resident"].map(node);
            let moved = pods.iter().filter(|pod| is_running(pod) && !old.iter().any(|node| node == node_of(pod)));
            let new = claims.iter().filter(|claim| condition(claim, "Drifted").0 != "True").count();
            Ok((moved.count() == 4 && new == claims.len()).then_some(()))
        })
        .await;
    stage.end().await;
}

/// DIS-20, DIS-34, DIS-56, DC-46, X27: a budget with a schedule that makes no sense closes its pool, and a PodDisruptionBudget for
/// everybody keeps the nodes of its pods. Both are told where the user looks, and hold nobody else.
async fn bad_input_holds_only_itself() {
    let stage = Stage::new("bad").await;
    let only_empty = || json!({"disruption": {"consolidationPolicy": "WhenEmpty"}});
    let broken = json!([{"nodes": "100%", "schedule": "61 * * * *", "duration": "1h"}]);
    stage.create(stage.pool_of("cron", &["4"], &json!([{"nodes": "100%"}]), only_empty())).await;
    stage.create(stage.pool_of("good", &["4"], &json!([{"nodes": "100%"}]), only_empty())).await;
    stage
        .create(json!({"kind": "PodDisruptionBudget", "metadata": {"name": "everybody"},
            "spec": {"maxUnavailable": 0, "selector": {}}}))
        .await;
    for (pod, pool) in [("closed", "bad-cron"), ("leaves", "bad-good"), ("stays", "bad-good")] {
        stage.create(stage.pod(pod, "3", json!({"spec": {"nodeSelector": {POOL: pool}}}))).await;
    }
    let pods = stage.all_run(3).await;
    let node = |app: &str| node_of(pods.iter().find(|pod| label(pod, "app") == app).unwrap()).to_owned();
    let claims = stage.claims().await.unwrap();
    let claim = |app: &str| claims.iter().find(|claim| claim["status"]["nodeName"] == node(app)).map(name).unwrap();
    // No node is bought for such a pool, but one may become such a pool.
    stage.allow("bad-cron", broken).await;
    for pod in ["closed", "leaves"] {
        stage.delete("Pod", pod).await;
    }
    stage.gone(claim("leaves")).await;
    let said = stage.event("InvalidField", "bad-cron").await;
    assert!(said.contains("spec.disruption.budgets[0]"), "{said}");
    assert!(stage.event("DisruptionBlocked", "bad-cron").await.contains("Empty"));
    stage
        .wait("the budget for everybody is named", async || {
            let said = stage.told("DisruptionBlocked", &node("stays")).await?;
            Ok(said.filter(|said| said.contains("bad/everybody")))
        })
        .await;
    let left = stage.claims().await.unwrap();
    assert_eq!((left.len(), left.iter().filter(|claim| is_deleting(claim)).count()), (2, 0));
    stage.allow("bad-cron", json!([{"nodes": "100%"}])).await;
    stage.gone(claim("closed")).await;
    stage.end().await;
}

#[tokio::test]
async fn what_keeps_nodes() {
    tokio::join!(budgets_hold(), annotations_and_budgets_of_pods_hold(), bad_input_holds_only_itself());
}
