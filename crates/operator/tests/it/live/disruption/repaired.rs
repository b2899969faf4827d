//! Sick nodes, and nodes that have to go before anything can take their place.

use serde_json::{Value, json};

use super::super::scene::{condition, is_ready, is_running, label, name, node_of, workload};
use super::{Stage, is_deleting, throughout};

const SICK: &str = "KWOKUnhealthy";
const STUCK: &str = "KWOKRebootRequired";
const DO_NOT_REPAIR: &str = "karpenter.sh/do-not-repair";
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
const HOLD: &str = "example.com/hold";

/// The claim of a node.
async fn claim_of(stage: &Stage, node: &str) -> Value {
    stage.claim("the claim of a node", |claim| claim["status"]["nodeName"] == node).await
}

fn has_taint(node: &Value, key: &str) -> bool {
    node["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == key)
}

/// Waits until the object has been told about with this in the message.
async fn told(stage: &Stage, about: &str, text: &str) {
    stage
        .wait(&format!("{about} says {text}"), async || {
            Ok(stage.told("DisruptionBlocked", about).await?.filter(|said| said.contains(text)))
        })
        .await;
}

/// V15-3, V15-23, V15-38, V15-41, V15-42, V15-47, VC-138, VC-139, VC-140, VC-142, VC-143: a sick node is replaced, its replacement first, whatever it
/// says about disruption; not against a budget for this reason, not where it says that it must not be repaired, and not
/// while more than a fifth of its pool is sick.
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
    stage.patch("Node", first, json!({"metadata": {"annotations": {DO_NOT_DISRUPT: "true"}}})).await;

    stage.set_condition(first, SICK, Some("True")).await;
    told(&stage, "sick", "Unhealthy").await;
    stage.patch("Node", first, json!({"metadata": {"annotations": {DO_NOT_REPAIR: "true"}}})).await;
    stage.allow("sick", json!([{"nodes": "100%"}])).await;
    told(&stage, first, DO_NOT_REPAIR).await;
    stage.set_condition(second, SICK, Some("True")).await;
    let said = stage.event("NodeRepairBlocked", "sick").await;
    assert!(said.contains("more than 20% of nodes in nodepool \"sick\" are unhealthy"), "{said}");
    stage.patch("Node", first, json!({"metadata": {"annotations": {DO_NOT_REPAIR: null}}})).await;
    stage.looked_at().await;
    let claims = stage.claims().await.unwrap();
    assert_eq!(
        (claims.len(), claims.iter().filter(|claim| is_deleting(claim)).count()),
        (5, 0),
        "two of five are sick"
    );

    let law = async || {
        let claims = stage.claims().await?;
        let goes = claims.iter().any(|claim| name(claim) == name(&old) && is_deleting(claim));
        let others = claims.iter().filter(|claim| name(claim) != name(&old) && is_ready(claim)).count();
        Ok((goes && others < 5).then(|| format!("the sick node goes while {others} others are ready")))
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

/// V15-36, V15-45, V15-50, VC-141: a pod that must not be disturbed is left alone for as long as the pool allows, once the node is on its
/// way out; then both go.
async fn a_grace_period_ends_sick_nodes() {
    let stage = Stage::new("sick-grace").await;
    let pool =
        json!({"disruption": {"consolidateAfter": "Never"}, "template": {"spec": {"terminationGracePeriod": "20s"}}});
    stage.create(stage.pool_of("", &["2"], &json!([{"nodes": "100%"}]), pool)).await;
    let mut pod = stage.pod("web", "1", json!({}));
    pod["metadata"]["annotations"] = json!({DO_NOT_DISRUPT: "true"});
    stage.create(workload("Deployment", "web", 1, pod)).await;
    let before = stage.all_run(1).await.remove(0);
    let node = node_of(&before);
    let old = claim_of(&stage, node).await;
    let deadline = |claim: &Value| {
        let text = claim["metadata"]["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"].as_str();
        text.map(|text| text.parse::<jiff::Timestamp>().unwrap())
    };
    let law = async || {
        let stays = stage.get("Pod", name(&before)).await?.is_some_and(|pod| is_running(&pod));
        let claim = stage.get("NodeClaim", name(&old)).await?.unwrap_or_default();
        let early = deadline(&claim).is_none_or(|deadline| jiff::Timestamp::now() < deadline);
        Ok((!stays && early && !claim.is_null()).then(|| "the pod was disturbed before its time".to_owned()))
    };
    throughout(law, async {
        stage.set_condition(node, SICK, Some("True")).await;
        let going = stage.claim("the sick node goes", |claim| name(claim) == name(&old) && is_deleting(claim)).await;
        assert!(deadline(&going).is_some(), "{going:#}");
        if let Some(node) = stage.get("Node", node).await.unwrap() {
            assert!(has_taint(&node, "karpenter.sh/disrupted"), "{node:#}");
        }
        stage.gone(name(&old)).await;
    })
    .await;
    let after = stage.all_run(1).await.remove(0);
    assert_ne!(node_of(&after), node);
    stage.end().await;
}

/// V15-53, V15-61, V15-64 … V15-66, V15-71, VC-145, VC-147: a node that a reboot can cure is rebooted and not replaced. A pod that must not be
/// disturbed is still there afterwards; one that had to leave waits for the node.
async fn a_stuck_node_is_rebooted() {
    let stage = Stage::new("reboot").await;
    // Shorter than what the policy allows, so that nobody waits for long.
    let pool =
        json!({"disruption": {"consolidateAfter": "Never"}, "template": {"spec": {"terminationGracePeriod": "10s"}}});
    stage.create(stage.pool_of("", &["4"], &json!([{"nodes": "100%"}]), pool)).await;
    let mut pod = stage.pod("rides", "1", json!({}));
    pod["metadata"]["annotations"] = json!({DO_NOT_DISRUPT: "true"});
    stage.create(workload("Deployment", "rides", 1, pod)).await;
    stage.all_run(1).await;
    stage.create(workload("Deployment", "waits", 1, stage.pod("waits", "1", json!({})))).await;
    let pods = stage.all_run(2).await;
    let (before, leaving) = (&pods[0], &pods[1]);
    let node = node_of(before);
    assert_eq!(node, node_of(leaving));
    let claim = stage.claim("a ready claim", is_ready).await;
    let boot = |node: &Value| node["status"]["nodeInfo"]["bootID"].as_str().unwrap_or_default().to_owned();
    let old_boot = boot(&stage.get("Node", node).await.unwrap().unwrap());

    let law = async || {
        let claims = stage.claims().await?;
        Ok((claims.len() != 1).then(|| format!("{} claims instead of one", claims.len())))
    };
    throughout(law, async {
        stage.set_condition(node, STUCK, Some("True")).await;
        let asked = stage.claim("a reboot is asked for", |claim| !condition(claim, "Rebooting").0.is_empty()).await;
        let conditions = asked["status"]["conditions"].as_array().unwrap();
        let rebooting = conditions.iter().find(|condition| condition["type"] == "Rebooting").unwrap();
        assert!(rebooting["message"].as_str().unwrap().contains(STUCK), "{rebooting}");
        assert_eq!(condition(&asked, "DisruptionReason"), ("True", "Unhealthy"));
        // The fault is gone with the boot.
        stage.set_condition(node, STUCK, None).await;
        stage
            .wait("nothing is left of it", async || {
                let Some(read) = stage.get("Node", node).await? else { return Ok(None) };
                let back = label(&read, "karpenter.sh/initialized") == "true" && boot(&read) != old_boot;
                let claim = stage.get("NodeClaim", name(&claim)).await?.unwrap_or_default();
                let over = condition(&claim, "Rebooting") == ("False", "RebootSucceeded") && is_ready(&claim);
                let quiet = condition(&claim, "DisruptionReason").0 != "True";
                Ok((!has_taint(&read, "karpenter.sh/rebooting") && back && over && quiet).then_some(()))
            })
            .await;
        stage.all_run(2).await;
    })
    .await;
    let after = stage.all_run(2).await;
    assert_eq!((&after[0]["metadata"]["uid"], node_of(&after[0])), (&before["metadata"]["uid"], node));
    assert_eq!(node_of(&after[1]), node);
    assert_ne!(name(&after[1]), name(leaving), "it had to leave");
    assert!(stage.decisions("reboot", "decision=\"reboot\"").await >= 1.0);
    stage.end().await;
}

/// V15-73, V15-77, VC-149: a static pool that has no room for a replacement lets its node go first, and never has more nodes than its
/// limit.
async fn a_full_static_pool_goes_first(name_: &'static str, reason: &str) {
    let stage = Stage::new(name_).await;
    let types = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-2x-amd64-linux"]}]);
    let pool = json!({"replicas": 1, "limits": {"nodes": "1"}, "template": {"spec": {"requirements": types}}});
    stage.create(stage.pool_of("", &[], &json!([{"nodes": "100%"}]), pool)).await;
    let law = async || {
        let claims = stage.claims().await?;
        Ok((claims.len() > 1).then(|| format!("{} claims where one may be", claims.len())))
    };
    throughout(law, async {
        let old = stage.claim("a ready claim", is_ready).await;
        let node = old["status"]["nodeName"].as_str().unwrap().to_owned();
        change_finalizers(&stage, &node, |all| all.push(HOLD.into())).await;
        if reason == "drifted" {
            let change = json!({"metadata": {"annotations": {"example.com/version": "2"}}});
            stage.patch("NodePool", name_, json!({"spec": {"template": change}})).await;
        } else {
            stage.set_condition(&node, SICK, Some("True")).await;
        }
        stage.claim("the node goes", is_deleting).await;
        // Long enough for whoever would make up for it.
        stage.looked_at().await;
        let left = stage.claims().await.unwrap();
        assert_eq!(left.iter().map(name).collect::<Vec<_>>(), [name(&old)], "held by its node");
        change_finalizers(&stage, &node, |all| all.retain(|known| known != HOLD)).await;
        stage.gone(name(&old)).await;
        stage.claim("a new one", |claim| is_ready(claim) && name(claim) != name(&old)).await;
    })
    .await;
    let metric = "karpenter_voluntary_disruption_terminate_first_decisions_total";
    let labels = format!("reason=\"{reason}\",terminate_first_reason=\"static-at-limit\"");
    assert!(stage.counted(metric, name_, &labels).await >= 1.0, "{reason}");
    let claims = stage.claims().await.unwrap();
    let version = (reason == "drifted").then_some("2");
    assert_eq!(claims[0]["metadata"]["annotations"]["example.com/version"].as_str(), version);
    stage.end().await;
}

/// Of a node, whoever else writes them at the same time.
async fn change_finalizers(stage: &Stage, node: &str, change: impl Fn(&mut Vec<Value>)) {
    stage
        .wait(&format!("finalizers of {node}"), async || {
            let Some(read) = stage.get("Node", node).await? else { return Ok(Some(())) };
            let mut all = read["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            change(&mut all);
            let version = &read["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"resourceVersion": version, "finalizers": all}});
            stage.try_patch("Node", node, &patch).await.map(|_| Some(()))
        })
        .await;
}

#[tokio::test]
async fn sick_nodes_are_repaired() {
    tokio::join!(
        sick_nodes_are_replaced(),
        a_grace_period_ends_sick_nodes(),
        a_stuck_node_is_rebooted(),
        a_full_static_pool_goes_first("first-drift", "drifted"),
        a_full_static_pool_goes_first("first-sick", "unhealthy"),
    );
}
