//! How nodes are drained: budgets, pods that must not be disturbed, and a time after which neither counts.

use serde_json::{Value, json};

use super::installed::shared;
use super::scene::{Scene, condition, is_ready, is_running, label, name, node_of};

const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// Pods that a drain treats differently, all on one node: `plain`, `guarded` by a budget, and `protected` by its annotation.
async fn three_pods(scene: &Scene<'_>, pool: Value) -> String {
    scene
        .create(json!({"kind": "PodDisruptionBudget", "metadata": {"name": "guard"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}}))
        .await;
    let patient = json!({"spec": {"terminationGracePeriodSeconds": 5}});
    scene.create(scene.pod("plain", "1", json!({}))).await;
    scene.create(scene.pod("guarded", "1", patient.clone())).await;
    let mut protected = scene.pod("protected", "1", patient);
    protected["metadata"]["annotations"] = json!({DO_NOT_DISRUPT: "true"});
    scene.create(protected).await;
    scene.all_wait(3).await;
    scene.create(scene.pool("", pool)).await;
    let pods = scene.all_run(3).await;
    assert!(pods.iter().all(|pod| node_of(pod) == node_of(&pods[0])), "one node for all: {pods:?}");
    // The budget is counted by somebody else, in their own time.
    let counted = |budget: &Value| budget["status"]["currentHealthy"] == 1;
    scene.wait("a budget", async || Ok(scene.get("PodDisruptionBudget", "guard").await?.filter(counted))).await;
    let claim = scene.claim("a ready claim", is_ready).await;
    name(&claim).to_owned()
}

/// LIF-52, LIF-57, LC-54, LC-57, LC-63, LC-150, Y32: without a grace period a drain waits for budgets and for pods that must not be
/// disturbed, says whom it waits for, and goes on when they let it. Pods that tolerate the drain are left alone.
#[tokio::test]
async fn a_drain_waits_for_budgets_and_protected_pods() {
    let scene = Scene::new(shared().await, "drain").await;
    let claim = three_pods(&scene, json!({})).await;
    let node = node_of(&scene.get("Pod", "plain").await.unwrap().unwrap()).to_owned();
    let stays = json!({"spec": {"tolerations": [{"operator": "Exists"}], "nodeName": node}});
    scene.create(scene.pod("stays", "100m", stays)).await;
    scene.runs("stays").await;

    scene.delete("NodeClaim", &claim).await;
    scene.wait("the plain pod goes", async || Ok(scene.get("Pod", "plain").await?.is_none().then_some(()))).await;
    scene.event("Evicted", "plain").await;
    let said = scene
        .wait("the budget is named", async || {
            Ok(scene.told("FailedDraining", &node).await?.filter(|said| said.contains("PDB")))
        })
        .await;
    assert!(said.contains("guarded"), "{said}");
    let draining = |claim: &Value| condition(claim, "Drained") == ("Unknown", "Draining");
    scene.claim("the claim says that it drains", draining).await;
    for pod in ["guarded", "protected", "stays"] {
        assert!(is_running(&scene.get("Pod", pod).await.unwrap().unwrap()), "{pod}");
    }
    let tainted = scene.get("Node", &node).await.unwrap().unwrap();
    let taints = tainted["spec"]["taints"].as_array().unwrap();
    assert!(taints.iter().any(|taint| taint["key"] == "karpenter.sh/disrupted" && taint["effect"] == "NoSchedule"));
    assert_eq!(label(&tainted, "node.kubernetes.io/exclude-from-external-load-balancers"), "karpenter");

    scene.delete("PodDisruptionBudget", "guard").await;
    scene.wait("the budget is gone", async || Ok(scene.get("Pod", "guarded").await?.is_none().then_some(()))).await;
    assert!(is_running(&scene.get("Pod", "protected").await.unwrap().unwrap()));
    scene.patch("Pod", "protected", json!({"metadata": {"annotations": {DO_NOT_DISRUPT: null}}})).await;
    scene.gone(&claim).await;
    // What tolerated the drain is collected with the node.
    scene.wait("no pods are left", async || Ok(scene.list("Pod").await?.is_empty().then_some(()))).await;
    assert_eq!(scene.told("Evicted", "stays").await.unwrap(), None);
}

/// LIF-39, LIF-61, LIF-62, LIF-70, LC-46, LC-65: when the grace period runs out, budgets and annotations count no more; every
/// pod gets its own grace period before that.
#[tokio::test]
async fn a_grace_period_ends_every_drain() {
    let scene = Scene::new(shared().await, "grace").await;
    let pool = json!({"template": {"spec": {"terminationGracePeriod": "20s"}}});
    let claim = three_pods(&scene, pool).await;
    scene.delete("NodeClaim", &claim).await;
    scene.event("TerminationGracePeriodExpiring", &claim).await;
    scene.gone(&claim).await;
    assert!(scene.list("Pod").await.unwrap().is_empty());
    for pod in ["guarded", "protected"] {
        let said = scene.event("Disrupted", pod).await;
        assert!(said.contains("bypasses the PDB"), "{said}");
        assert_eq!(scene.told("Evicted", pod).await.unwrap(), None, "{pod}");
    }
    scene.event("Evicted", "plain").await;
    assert_eq!(scene.told("Disrupted", "plain").await.unwrap(), None);
}
