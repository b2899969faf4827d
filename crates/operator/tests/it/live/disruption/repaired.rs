//! Sick nodes, and nodes that have to go before anything can take their place.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::scene::{condition, is_ready, label, name, node_of, workload};
use super::{Stage, is_deleting, throughout};

const SICK: &str = "KWOKUnhealthy";
const STUCK: &str = "KWOKRebootRequired";
const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";

/// The claim of a node.
async fn claim_of(stage: &Stage, node: &str) -> Value {
    stage.claim("the claim of a node", |claim| claim["status"]["nodeName"] == node).await
}

/// Nothing of the scene goes for longer than a pass and the next one take.
async fn stays(stage: &Stage, why: &str) {
    tokio::time::sleep(Duration::from_secs(25)).await;
    for claim in stage.claims().await.unwrap() {
        assert!(!is_deleting(&claim), "{why}: {claim:#}");
    }
}

/// V15-3, V15-23, V15-41, V15-47, VC-138, VC-139, VC-140, VC-142, VC-143: a sick node is replaced, its replacement first, whatever it says about
/// disruption; not against a budget for this reason, not where it says that it must not be repaired, and not while more than a
/// fifth of its pool is sick.
async fn sick_nodes_are_replaced() {
    let stage = Stage::new("sick").await;
    let budgets = json!([{"nodes": "100%"}, {"nodes": "0", "reasons": ["Unhealthy"]}]);
    let never = json!({"disruption": {"consolidateAfter": "Never"}});
    stage.create(stage.pool_of("", &["2"], &budgets, never)).await;
    let mut pod = stage.pod("web", "1", json!({}));
    pod["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    stage.create(workload("Deployment", "web", 5, pod)).await;
    let pods = stage.all_run(5).await;
    let (first, second) = (node_of(&pods[0]), node_of(&pods[1]));
    let old = claim_of(&stage, first).await;
    stage.patch("Node", first, json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}})).await;

    stage.set_condition(first, SICK, Some("True")).await;
    let said = stage.wait("the pool says why", async || {
        Ok(stage.told("DisruptionBlocked", "sick").await?.filter(|said| said.contains("Unhealthy")))
    });
    said.await;
    stage.patch("Node", first, json!({"metadata": {"annotations": {DO_NOT_REPAIR: "true"}}})).await;
    stage.allow("sick", json!([{"nodes": "100%"}])).await;
    let said = stage.wait("the node says why", async || {
        Ok(stage.told("DisruptionBlocked", first).await?.filter(|said| said.contains(DO_NOT_REPAIR)))
    });
    said.await;
    stage.set_condition(second, SICK, Some("True")).await;
    let said = stage.event("NodeRepairBlocked", "sick").await;
    assert!(said.contains("more than 20% of nodes in nodepool \"sick\" are unhealthy"), "{said}");
    stage.patch("Node", first, json!({"metadata": {"annotations": {DO_NOT_REPAIR: null}}})).await;
    stays(&stage, "two of five are sick").await;

    let law = async || {
        let claims = stage.claims().await?;
        let goes = claims.iter().any(|claim| name(claim) == name(&old) && is_deleting(claim));
        let new = claims.iter().filter(|claim| name(claim) != name(&old) && is_ready(claim)).count();
        Ok((goes && new < 5).then(|| format!("the sick node goes while {new} others are ready")))
    };
    throughout(law, async {
        stage.set_condition(second, SICK, None).await;
        stage.gone(name(&old)).await;
    })
    .await;
    stage.all_run(5).await;
    assert_eq!(stage.claims().await.unwrap().len(), 5);
    assert!(stage.event("DisruptionTerminating", name(&old)).await.contains("Unhealthy"));
    assert!(stage.decisions("sick", "reason=\"unhealthy\"").await >= 1.0);
    stage.end().await;
}

/// V15-53, V15-64 … V15-66, V15-71, VC-145, VC-147: a node that a reboot can cure is rebooted and not replaced; a pod that must not be disturbed
/// is still there afterwards.
async fn a_stuck_node_is_rebooted() {
    let stage = Stage::new("reboot").await;
    let never = json!({"disruption": {"consolidateAfter": "Never"}});
    stage.create(stage.pool_of("", &["2"], &json!([{"nodes": "100%"}]), never)).await;
    let mut pod = stage.pod("web", "1", json!({}));
    pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    stage.create(workload("Deployment", "web", 1, pod)).await;
    let before = stage.all_run(1).await.remove(0);
    let node = node_of(&before);
    let claim = stage.claim("a ready claim", is_ready).await;
    let boot = |node: &Value| node["status"]["nodeInfo"]["bootID"].as_str().unwrap_or_default().to_owned();
    let old_boot = boot(&stage.get("Node", node).await.unwrap().unwrap());

    let law = async || {
        let claims = stage.claims().await?;
        Ok((claims.len() != 1).then(|| format!("{} claims instead of one", claims.len())))
    };
    throughout(law, async {
        stage.set_condition(node, STUCK, Some("True")).await;
        let asked = stage.claim("a reboot is asked for", |claim| condition(claim, "Rebooting").0 != "").await;
        let conditions = asked["status"]["conditions"].as_array().unwrap();
        let rebooting = conditions.iter().find(|condition| condition["type"] == "Rebooting").unwrap();
        assert!(rebooting["message"].as_str().unwrap().contains(STUCK), "{rebooting}");
        // The fault is gone with the boot; a new one would be due half a minute later.
        stage.set_condition(node, STUCK, None).await;
        let over = |claim: &Value| condition(claim, "Rebooting") == ("False", "RebootSucceeded") && is_ready(claim);
        stage.claim("the reboot is over", over).await;
        stage
            .wait("nothing is left of it", async || {
                let Some(read) = stage.get("Node", node).await? else { return Ok(None) };
                let taints = read["spec"]["taints"].as_array().cloned().unwrap_or_default();
                let fenced = taints.iter().any(|taint| taint["key"] == "karpenter.sh/rebooting");
                let back = label(&read, "karpenter.sh/initialized") == "true" && boot(&read) != old_boot;
                let claim = stage.get("NodeClaim", name(&claim)).await?.unwrap_or_default();
                let quiet = condition(&claim, "DisruptionReason").0 != "True";
                Ok((!fenced && back && quiet && is_ready(&claim)).then_some(()))
            })
            .await;
    })
    .await;
    let after = stage.all_run(1).await.remove(0);
    assert_eq!((after["metadata"]["uid"].as_str(), node_of(&after)), (before["metadata"]["uid"].as_str(), node));
    assert!(stage.decisions("reboot", "decision=\"reboot\"").await >= 1.0);
    stage.end().await;
}

/// V15-73, V15-77, VC-149: a static pool that has no room for a replacement lets its node go first, for drift and for repair, and never
/// has more nodes than its limit.
async fn a_full_static_pool_goes_first() {
    let stage = Stage::new("first").await;
    let types = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-2x-amd64-linux"]}]);
    let pool = json!({"replicas": 1, "limits": {"nodes": "1"}, "template": {"spec": {"requirements": types}}});
    stage.create(stage.pool_of("", &[], &json!([{"nodes": "100%"}]), pool)).await;
    let law = async || {
        let claims = stage.claims().await?;
        Ok((claims.len() > 1).then(|| format!("{} claims where one may be", claims.len())))
    };
    throughout(law, async {
        for reason in ["drifted", "unhealthy"] {
            let old = stage.claim("a ready claim", |claim| is_ready(claim) && !is_deleting(claim)).await;
            let node = old["status"]["nodeName"].as_str().unwrap().to_owned();
            let finalizers = |hold: bool| {
                let ours = ["karpenter.sh/termination", "example.com/hold"];
                json!({"metadata": {"finalizers": &ours[..if hold { 2 } else { 1 }]}})
            };
            stage.patch("Node", &node, finalizers(true)).await;
            if reason == "drifted" {
                let change = json!({"metadata": {"annotations": {"example.com/version": "2"}}});
                stage.patch("NodePool", "first", json!({"spec": {"template": change}})).await;
            } else {
                stage.set_condition(&node, SICK, Some("True")).await;
            }
            stage.claim("the node goes", is_deleting).await;
            // Long enough for whoever would make up for it.
            tokio::time::sleep(Duration::from_secs(5)).await;
            let read = stage.get("Node", &node).await.unwrap().unwrap();
            let left: Vec<&Value> = read["metadata"]["finalizers"]
                .as_array()
                .into_iter()
                .flatten()
                .filter(|finalizer| **finalizer != "example.com/hold")
                .collect();
            stage.patch("Node", &node, json!({"metadata": {"finalizers": left}})).await;
            stage.gone(name(&old)).await;
            let metric = "karpenter_voluntary_disruption_terminate_first_decisions_total";
            assert!(stage.counted(metric, "first", &format!("reason=\"{reason}\"")).await >= 1.0, "{reason}");
        }
        stage.claim("a ready claim", |claim| is_ready(claim) && !is_deleting(claim)).await;
    })
    .await;
    let claims = stage.claims().await.unwrap();
    assert_eq!((claims.len(), &claims[0]["metadata"]["annotations"]["example.com/version"]), (1, &json!("2")));
    stage.end().await;
}

#[tokio::test]
async fn sick_nodes_are_repaired() {
    tokio::join!(sick_nodes_are_replaced(), a_stuck_node_is_rebooted(), a_full_static_pool_goes_first());
}
