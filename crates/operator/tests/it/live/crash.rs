//! The controller is killed again and again while there is much to do.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::installed::Installed;
use super::scene::{Scene, condition, is_ready, is_running, label, name, node_of, workload};

const DEATHS: u32 = 50;
/// So many pods there are at most, and each needs a node of its own.
const MOST: usize = 30;

/// Chance that is the same every time (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit).unwrap()).unwrap()
    }
}

/// Which instances each claim was ever seen with, by the claim's UID and by its name.
#[derive(Default)]
struct Seen {
    instances: RefCell<BTreeMap<String, BTreeSet<String>>>,
    done: Cell<bool>,
}

impl Seen {
    fn note(&self, claim: &str, instance: &Value) {
        if let Some(instance) = instance.as_str() {
            self.instances.borrow_mut().entry(claim.to_owned()).or_default().insert(instance.to_owned());
        }
    }

    async fn watch(&self, scene: &Scene<'_>) {
        while !self.done.get() {
            for claim in scene.claims().await.unwrap_or_default() {
                self.note(claim["metadata"]["uid"].as_str().unwrap(), &claim["status"]["providerID"]);
            }
            for node in scene.nodes().await.unwrap_or_default() {
                // A node carries the name of its claim; names are never used again.
                self.note(label(&node, "kubernetes.io/hostname"), &node["spec"]["providerID"]);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Pods come and go, claims and nodes are deleted, and the controller lives for a moment at a time.
async fn killings(installed: &Installed, scene: &Scene<'_>) {
    let mut dice = Dice(0x5eed_0006);
    for death in 0..DEATHS {
        scene.scale("web", u32::try_from(dice.below(MOST + 1)).unwrap()).await;
        let victims = if dice.below(2) == 0 { "NodeClaim" } else { "Node" };
        let claims = scene.claims().await.unwrap();
        // A claim that has not registered when its node goes is waited for for a quarter of an hour (LIF-77).
        let registered = |node: &Value| {
            let own = |claim: &&Value| name(claim) == label(node, "kubernetes.io/hostname");
            claims.iter().find(own).is_some_and(|claim| condition(claim, "Registered").0 == "True")
        };
        let all = if victims == "Node" {
            scene.nodes().await.unwrap().into_iter().filter(registered).collect()
        } else {
            claims.clone()
        };
        if !all.is_empty() && death % 3 == 0 {
            scene.delete(victims, name(&all[dice.below(all.len())])).await;
        }
        let controller = installed.start_with(&format!("karpenter-{death}"), &[("DISABLE_LEADER_ELECTION", "true")]);
        tokio::time::sleep(Duration::from_millis(u64::try_from(100 + dice.below(2400)).unwrap())).await;
        drop(controller);
    }
}

/// LIF-129, LIF-130, LIF-131, LC-131, LC-135, LC-136, Y1: killed fifty times under load (without a lease, which nobody would give back),
/// the controller loses no pod, leaves no node or claim behind, and never has a second instance for a claim.
/// LIF-76, LC-81, Y4: then an instance vanishes, and its claim goes and its pod runs elsewhere.
#[tokio::test]
async fn fifty_deaths_lose_nothing() {
    let installed = Installed::new(&["settings.cloudProvider=kwok", "settings.batchIdleDuration=200ms"]).await;
    let scene = Scene::new(&installed, "crash").await;
    let small = json!([
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2"]}]);
    scene.create(scene.pool("", json!({"template": {"spec": {"requirements": small}}}))).await;
    let pod = scene.pod("web", "1500m", json!({}));
    scene.create(workload("Deployment", "web", 5, pod)).await;
    let seen = Seen::default();
    let work = async {
        killings(&installed, &scene).await;
        let controller = installed.start_with("karpenter-last", &[("DISABLE_LEADER_ELECTION", "true")]);
        scene.scale("web", 25).await;
        scene.all_run(25).await;
        scene
            .wait("every claim has its node", async || {
                let (claims, nodes) = (scene.claims().await?, scene.nodes().await?);
                let of_claims: BTreeSet<&str> =
                    claims.iter().filter_map(|claim| claim["status"]["nodeName"].as_str()).collect();
                let of_nodes: BTreeSet<&str> = nodes.iter().map(name).collect();
                Ok((claims.iter().all(is_ready) && of_claims == of_nodes).then_some(()))
            })
            .await;
        seen.done.set(true);
        controller
    };
    let (controller, ()) = tokio::join!(work, seen.watch(&scene));
    let instances = seen.instances.into_inner();
    assert!(instances.len() > 50, "something happened: {}", instances.len());
    let doubles: Vec<_> = instances.iter().filter(|(_, instances)| instances.len() > 1).collect();
    assert!(doubles.is_empty(), "{doubles:?}");
    let claims = scene.claims().await.unwrap().len();
    assert!(claims <= MOST, "{claims} claims, though never more than {MOST} pods needed one at a time");

    // The instance of a node is gone, and with it the Node.
    let victim = scene.list("Pod").await.unwrap().swap_remove(0);
    let node = scene.get("Node", node_of(&victim)).await.unwrap().unwrap();
    scene.patch("Node", name(&node), json!({"metadata": {"finalizers": null}})).await;
    scene.delete("Node", name(&node)).await;
    let claim = label(&node, "kubernetes.io/hostname");
    scene
        .wait("its claim is collected", async || Ok(scene.get("NodeClaim", claim).await?.is_none().then_some(())))
        .await;
    let elsewhere = |pod: &Value| is_running(pod) && node_of(pod) != name(&node);
    scene
        .wait("all pods run", async || {
            Ok((scene.list("Pod").await?.iter().filter(|pod| elsewhere(pod)).count() == 25).then_some(()))
        })
        .await;

    scene.scale("web", 0).await;
    scene.delete("NodePool", "crash").await;
    scene.nothing_left().await;
    drop(controller);
}
