//! Emptiness and consolidation.

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::super::scene::{condition, is_ready, label, name, node_of, workload};
use super::{Stage, is_deleting, throughout};

const TYPE: &str = "node.kubernetes.io/instance-type";

/// DIS-93, DIS-96, DIS-180, DC-56: a node that its last pod has left goes; one with a pod stays, since its pool asks for no more.
async fn empty_nodes_go() {
    let stage = Stage::new("empty").await;
    let only_empty = json!({"disruption": {"consolidationPolicy": "WhenEmpty"}});
    stage.create(stage.pool_of("", &["4"], &json!([{"nodes": "100%"}]), only_empty)).await;
    stage.create(stage.pod("stays", "3", json!({}))).await;
    stage.create(stage.pod("leaves", "3", json!({}))).await;
    let pods = stage.all_run(2).await;
    assert_ne!(node_of(&pods[0]), node_of(&pods[1]));
    stage.delete("Pod", "leaves").await;
    let claims = stage.claims().await.unwrap();
    let of = |node: &str| claims.iter().find(|claim| claim["status"]["nodeName"] == node).map(name).unwrap().to_owned();
    let (gone, kept) = (of(node_of(&pods[0])), of(node_of(&pods[1])));
    stage.gone(&gone).await;
    assert!(stage.event("DisruptionTerminating", &gone).await.contains("Empty"));
    let left = stage.claims().await.unwrap();
    assert_eq!((left.len(), name(&left[0]), is_deleting(&left[0])), (1, kept.as_str(), false));
    assert!(stage.decisions("empty", "reason=\"empty\"").await >= 1.0);
    stage.end().await;
}

/// DIS-105, DIS-117, DIS-120, DIS-125: three nodes whose pods fit one are two too many, and go together; their deployment keeps its
/// PodDisruptionBudget all the time.
async fn many_become_one(done: &Semaphore) {
    let stage = Stage::new("many").await;
    stage.create(stage.pool_of("", &["4"], &json!([{"nodes": "0"}]), json!({}))).await;
    let mut filler = stage.pod("filler", "2500m", json!({}));
    filler["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "filler"}}}]}});
    stage.create(workload("Deployment", "filler", 3, filler)).await;
    // There is room for one more beside each of them.
    stage.all_run(3).await;
    stage.create(workload("Deployment", "keeper", 3, stage.pod("keeper", "1", json!({})))).await;
    stage.all_run(6).await;
    assert_eq!(stage.claims().await.unwrap().len(), 3);
    stage.delete("Deployment", "filler").await;
    stage.all_run(3).await;
    stage
        .create(json!({"kind": "PodDisruptionBudget", "metadata": {"name": "keeper"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "keeper"}}}}))
        .await;
    let counted = |budget: &Value| budget["status"]["disruptionsAllowed"] == 1;
    stage.wait("a budget", async || Ok(stage.get("PodDisruptionBudget", "keeper").await?.filter(counted))).await;
    stage.all_are("Consolidatable", 3).await;
    let running = async || {
        let pods = stage.list("Pod").await?;
        Ok::<_, kube::Error>((pods.iter().filter(|pod| super::super::scene::is_running(pod)).count(), pods.len()))
    };
    let law = async || {
        let (run, _) = running().await?;
        Ok((run < 2).then(|| format!("only {run} of three pods run")))
    };
    throughout(law, async {
        stage.allow("many", json!([{"nodes": "100%"}])).await;
        stage
            .wait("one node is left", async || {
                let (claims, pods) = (stage.claims().await?, running().await?);
                Ok((claims.len() == 1 && is_ready(&claims[0]) && pods == (3, 3)).then_some(()))
            })
            .await;
    })
    .await;
    assert!(stage.decisions("many", "consolidation_type=\"multi\"").await >= 1.0);
    stage.end().await;
    done.add_permits(2);
}

/// DIS-104, DIS-107, DIS-109, DIS-171, DIS-173, DIS-179, DIS-180: a node that is too large for what is left on it is replaced by a cheaper one,
/// which is there before the old one goes.
async fn a_smaller_one_takes_over(turn: &Semaphore) {
    let stage = Stage::new("smaller").await;
    let pool = stage.pool_of("", &["2", "8"], &json!([{"nodes": "0"}]), json!({}));
    let old = stage.shrunk("", pool, "6", "1").await;
    assert_eq!(label(&old, TYPE), "c-8x-amd64-linux");

    let first = async || {
        let claims = stage.claims().await?;
        let goes = claims.iter().any(|claim| name(claim) == name(&old) && is_deleting(claim));
        let ready = claims.iter().any(|claim| name(claim) != name(&old) && is_ready(claim));
        Ok((goes && !ready).then(|| "the old node goes before the new one is there".to_owned()))
    };
    turn.acquire().await.unwrap().forget();
    throughout(first, async {
        stage.allow("smaller", json!([{"nodes": "100%"}])).await;
        stage.gone(name(&old)).await;
    })
    .await;
    let pods = stage.all_run(1).await;
    let node = stage.get("Node", node_of(&pods[0])).await.unwrap().unwrap();
    assert_eq!(label(&node, TYPE), "c-2x-amd64-linux");
    assert!(stage.event("DisruptionTerminating", name(&old)).await.contains("Underutilized"));
    let new = stage.claims().await.unwrap();
    assert_eq!(new.len(), 1);
    assert!(stage.event("DisruptionLaunching", name(&new[0])).await.contains("Underutilized"));
    assert!(node["spec"]["taints"].as_array().unwrap().iter().all(|taint| taint["key"] != "karpenter.sh/disrupted"));
    stage.end().await;
}

/// DIS-131, DIS-134, DIS-139: what is balanced moves where the saving is worth the disturbance, and only there: three quarters of the
/// cost of a pool are, a third is not.
async fn balanced_moves_are_worth_it(turn: &Semaphore) {
    let stage = Stage::new("balanced").await;
    let policy = || json!({"disruption": {"consolidationPolicy": "Balanced"}});
    let none = json!([{"nodes": "0"}]);
    let (worth, little) = tokio::join!(
        stage.shrunk("worth", stage.pool_of("worth", &["2", "8"], &none, policy()), "6", "1"),
        stage.shrunk("little", stage.pool_of("little", &["32", "48"], &none, policy()), "20", "25"),
    );
    turn.acquire().await.unwrap().forget();
    for pool in ["balanced-worth", "balanced-little"] {
        stage.allow(pool, json!([{"nodes": "100%"}])).await;
    }
    stage.gone(name(&worth)).await;
    stage
        .wait("the other was judged", async || {
            let metric = "karpenter_consolidation_moves_total";
            Ok((stage.counted(metric, "balanced-little", "decision=\"rejected\"").await >= 1.0).then_some(()))
        })
        .await;
    let left = stage.get("NodeClaim", name(&little)).await.unwrap().unwrap();
    assert!(!is_deleting(&left) && condition(&left, "Consolidatable").0 == "True");
    stage.end().await;
}

/// DIS-112, DIS-113, DIS-115: with the gate, a spot node is replaced by a cheaper one where fifteen types are cheaper; where there are
/// fewer, it stays and says so.
#[tokio::test]
async fn spot_nodes_need_a_choice() {
    let stage = Stage::alone("spot").await;
    let spot = |cpus: &[&str], architectures: &[&str]| {
        json!({"template": {"spec": {"requirements": [
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": architectures},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": cpus}]}}})
    };
    let none = json!([{"nodes": "0"}]);
    let wide = stage.pool_of("wide", &[], &none, spot(&["2", "4", "8", "16", "32"], &["amd64", "arm64"]));
    // A third less is not enough for a choice of few.
    let narrow = stage.pool_of("narrow", &[], &none, spot(&["32", "48"], &["amd64"]));
    let (wide, narrow) =
        tokio::join!(stage.shrunk("wide", wide, "20", "1"), stage.shrunk("narrow", narrow, "20", "25"));
    for pool in ["spot-wide", "spot-narrow"] {
        stage.allow(pool, json!([{"nodes": "100%"}])).await;
    }
    stage.gone(name(&wide)).await;
    let said = stage.event("Unconsolidatable", name(&narrow)).await;
    assert!(said.contains("15"), "{said}");
    assert!(!is_deleting(&stage.get("NodeClaim", name(&narrow)).await.unwrap().unwrap()));
    stage.end().await;
}

#[tokio::test]
async fn empty_and_underused_nodes_go() {
    // What is to go together is looked for among all nodes that may go, so those of others wait for their turn.
    let turn = Semaphore::new(0);
    tokio::join!(
        empty_nodes_go(),
        many_become_one(&turn),
        a_smaller_one_takes_over(&turn),
        balanced_moves_are_worth_it(&turn),
    );
}
