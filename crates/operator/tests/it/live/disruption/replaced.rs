//! Drift, of all kinds, and age.

use serde_json::{Value, json};

use super::super::scene::{condition, is_ready, is_running, label, name, node_of, workload};
use super::{Stage, throughout};

/// DIS-149, DIS-151, DIS-152, DIS-158, DIS-160, DC-137: a template that changes (its annotations, its class) has every node replaced, within
/// the budget of its pool, and a deployment keeps its PodDisruptionBudget all the time.
async fn a_changed_template_rolls_out(name_: &'static str, change: Value) {
    let stage = Stage::new(name_).await;
    stage.create(json!({"kind": "KWOKNodeClass", "metadata": {"name": name_}})).await;
    stage
        .create(stage.pool_of(
            "",
            &["2"],
            &json!([{"nodes": "2"}]),
            json!({"disruption": {"consolidateAfter": "Never"}}),
        ))
        .await;
    let mut pod = stage.pod("web", "1", json!({}));
    pod["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}});
    stage
        .create(json!({"kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}}))
        .await;
    stage.create(workload("Deployment", "web", 4, pod)).await;
    stage.all_run(4).await;
    let counted = |budget: &Value| budget["status"]["disruptionsAllowed"] == 1;
    stage.wait("a budget", async || Ok(stage.get("PodDisruptionBudget", "web").await?.filter(counted))).await;
    let old: Vec<String> = stage.claims().await.unwrap().iter().map(|claim| name(claim).to_owned()).collect();
    assert_eq!(old.len(), 4);
    let hash = |object: &Value| object["metadata"]["annotations"]["karpenter.sh/nodepool-hash"].clone();

    let law = async || {
        let (pods, claims) = (stage.list("Pod").await?, stage.claims().await?);
        let run = pods.iter().filter(|pod| is_running(pod)).count();
        let going = claims.iter().filter(|claim| super::is_deleting(claim)).count();
        Ok((run < 3 || going > 2).then(|| format!("{run} pods run, {going} nodes go at a time")))
    };
    throughout(law, async {
        stage.patch("NodePool", name_, json!({"spec": {"template": change}})).await;
        stage.event("DisruptionTerminating", &old[0]).await;
        stage
            .wait("every node is new", async || {
                let (claims, pool) = (stage.claims().await?, stage.get("NodePool", name_).await?.unwrap_or_default());
                let new = claims.iter().filter(|claim| is_ready(claim) && hash(claim) == hash(&pool)).count();
                Ok((new == 4 && claims.len() == 4).then_some(()))
            })
            .await;
        stage.all_run(4).await;
    })
    .await;
    for claim in stage.claims().await.unwrap() {
        assert!(!old.iter().any(|gone| gone == name(&claim)));
    }
    assert!(stage.decisions(name_, "reason=\"drifted\"").await >= 4.0);
    stage.end().await;
}

/// DIS-164, DIS-165, DIS-166: a static pool replaces its nodes one by one within its limit, and never has fewer. Its budget says one by
/// one: with the gate for it, a pool at its limit would have the next node go first (V15-77).
async fn static_nodes_are_replaced() {
    let stage = Stage::new("static-drift").await;
    let types = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-2x-amd64-linux"]}]);
    let pool = json!({"replicas": 2, "limits": {"nodes": "3"}, "template": {"spec": {"requirements": types}}});
    stage.create(stage.pool_of("", &[], &json!([{"nodes": "1"}]), pool)).await;
    let ready = async |count: usize| {
        stage
            .wait("static nodes", async || {
                let claims = stage.claims().await?;
                Ok((claims.len() == count && claims.iter().all(is_ready)).then_some(claims))
            })
            .await
    };
    let old: Vec<String> = ready(2).await.iter().map(|claim| name(claim).to_owned()).collect();
    let law = async || {
        let claims = stage.claims().await?;
        let staying = claims.iter().filter(|claim| is_ready(claim) && !super::is_deleting(claim)).count();
        Ok((claims.len() > 3 || staying < 2).then(|| format!("{} claims, {staying} of them ready", claims.len())))
    };
    throughout(law, async {
        let change = json!({"metadata": {"annotations": {"example.com/version": "2"}}});
        stage.patch("NodePool", "static-drift", json!({"spec": {"template": change}})).await;
        for claim in &old {
            stage.gone(claim).await;
        }
        ready(2).await;
    })
    .await;
    for claim in ready(2).await {
        assert_eq!(claim["metadata"]["annotations"]["example.com/version"], "2");
    }
    stage.end().await;
}

/// LIF-74, DIS-63: a node that is too old goes whatever budgets say, and its pods get another one.
async fn old_nodes_go() {
    let stage = Stage::new("old").await;
    let pool = json!({"disruption": {"consolidateAfter": "Never"}, "template": {"spec": {"expireAfter": "40s"}}});
    stage.create(stage.pool_of("", &["2"], &json!([{"nodes": "0"}]), pool)).await;
    stage.create(workload("Deployment", "web", 1, stage.pod("web", "1", json!({})))).await;
    let pods = stage.all_run(1).await;
    let old = node_of(&pods[0]).to_owned();
    let claim = stage.claim("a ready claim", is_ready).await;
    stage
        .wait("the pod runs on another node", async || {
            let pods = stage.list("Pod").await?;
            let moved = pods.iter().any(|pod| is_running(pod) && node_of(pod) != old);
            Ok((moved && stage.get("NodeClaim", name(&claim)).await?.is_none()).then_some(()))
        })
        .await;
    stage.end().await;
}

/// DIS-21, DIS-161, LIF-62: with a grace period for its end, a drifted node goes although a pod on it must not be disturbed.
async fn a_grace_period_lets_drifted_nodes_go() {
    let stage = Stage::new("drift-grace").await;
    let pool =
        json!({"disruption": {"consolidateAfter": "Never"}, "template": {"spec": {"terminationGracePeriod": "20s"}}});
    stage.create(stage.pool_of("", &["2"], &json!([{"nodes": "100%"}]), pool)).await;
    let mut pod = stage.pod("web", "1", json!({}));
    pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    stage.create(workload("Deployment", "web", 1, pod)).await;
    stage.all_run(1).await;
    let old = stage.claim("a ready claim", is_ready).await;
    let change = json!({"metadata": {"annotations": {"example.com/version": "2"}}});
    stage.patch("NodePool", "drift-grace", json!({"spec": {"template": change}})).await;
    stage.claim("it is drifted", |claim| condition(claim, "Drifted") == ("True", "NodePoolDrifted")).await;
    stage.gone(name(&old)).await;
    let pods = stage.all_run(1).await;
    let node = stage.get("Node", node_of(&pods[0])).await.unwrap().unwrap();
    assert_ne!(label(&node, "kubernetes.io/hostname"), name(&old));
    stage.end().await;
}

#[tokio::test]
async fn drifted_and_old_nodes_are_replaced() {
    tokio::join!(
        a_changed_template_rolls_out("drift", json!({"metadata": {"annotations": {"example.com/version": "2"}}})),
        a_changed_template_rolls_out("drift-class", json!({"spec": {"nodeClassRef": {"name": "drift-class"}}})),
        static_nodes_are_replaced(),
        old_nodes_go(),
        a_grace_period_lets_drifted_nodes_go(),
    );
}
