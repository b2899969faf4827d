//! What takes its time in the life of a claim: registrations that never come, drains, detaching volumes, leaders that change.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_sim::cloud::{Settings, Trouble};
use karpenter_sim::workloads::Patience;
use karpenter_sim::world::{World, cpu};
use karpenter_testkit::build::node_pool;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::crash::{delete_claim, status, until};

fn mins(minutes: u64) -> Duration {
    Duration::from_mins(minutes)
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn events(w: &World, reason: &str) -> usize {
    let events: Api<Event> = Api::all(w.client.clone());
    let all = events.list(&ListParams::default()).await.unwrap().items;
    all.iter().filter(|event| event.reason.as_deref() == Some(reason)).count()
}

async fn pool_condition(w: &World, pool: &str, condition: &str) -> String {
    let pools: Api<NodePool> = Api::all(w.client.clone());
    let conditions = pools.get(pool).await.unwrap().status.and_then(|status| status.conditions).unwrap_or_default();
    let found = conditions.iter().find(|known| known.type_ == condition);
    found.map_or_else(|| "none".to_owned(), |known| known.status.to_string())
}

/// LC-34, LC-39, LIF-31: a node that never joins is given up after a quarter of an hour and tried anew; the second time the
/// pool says that something is wrong with it. Nothing is left of either.
#[tokio::test(start_paused = true)]
async fn a_registration_that_never_happens() {
    let cloud = Settings { registration: (Duration::from_hours(9), Duration::from_hours(9)), ..Settings::default() };
    let w = World::seeded(41).cloud(cloud).pool(node_pool("default")).start().await;
    w.deploy("web", 1, cpu("1")).await;
    w.advance(mins(14)).await;
    let first = w.claims().await;
    assert_eq!((first.len(), w.cloud.running().len()), (1, 1));
    assert_eq!(status(&first[0], "Registered").map(|s| s.0), Some("Unknown".to_owned()));
    w.advance(mins(4)).await;
    let second = w.claims().await;
    assert_eq!((second.len(), w.cloud.running().len()), (1, 1), "one goes, one comes");
    assert_ne!(first[0].name_any(), second[0].name_any());
    assert_eq!(pool_condition(&w, "default", "NodeRegistrationHealthy").await, "Unknown", "once is no pattern");
    w.advance(mins(16)).await;
    assert_eq!(pool_condition(&w, "default", "NodeRegistrationHealthy").await, "False");
    w.remove("web").await;
    w.remove_claims().await;
    until(&w, "nothing is left", async || w.cloud.running().is_empty() && w.claims().await.is_empty()).await;
}

/// LC-36, LIF-29: a launch that fails for five minutes is given up; when the cloud is well again, the pod gets its node.
#[tokio::test(start_paused = true)]
async fn a_launch_that_keeps_failing() {
    let w = World::seeded(42).pool(node_pool("default")).start().await;
    w.cloud.trouble(Trouble { failed: 1.0, ..Trouble::default() });
    w.deploy("web", 1, cpu("1")).await;
    w.advance(mins(1)).await;
    let first = w.claims().await;
    assert_eq!(status(&first[0], "Launched").map(|s| s.0), Some("Unknown".to_owned()));
    w.advance(mins(3)).await;
    assert_eq!(w.claims().await[0].name_any(), first[0].name_any(), "not yet");
    // Tried again every minute by then.
    w.advance(mins(3)).await;
    // It stays until the cloud has said that nothing was launched for it.
    let same = |claim: &&NodeClaim| claim.name_any() == first[0].name_any();
    assert!(
        w.claims().await.iter().find(same).is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()),
        "given up"
    );
    w.cloud.trouble(Trouble::default());
    w.settle().await;
    assert_eq!((w.running_pods().len(), w.claims().await.len()), (1, 1));
    assert!(!w.claims().await.iter().any(|claim| same(&claim)));
}

/// LC-139, LIF-31: claims that nobody looked after for long are given up, once.
#[tokio::test(start_paused = true)]
async fn an_autoscaler_that_was_away() {
    let w = World::seeded(43).pool(node_pool("default")).start().await;
    w.cloud.trouble(Trouble { failed: 1.0, ..Trouble::default() });
    w.deploy("web", 1, cpu("1")).await;
    until(&w, "a claim is there", async || !w.claims().await.is_empty()).await;
    w.stop_autoscaler();
    w.advance(mins(20)).await;
    let old = w.claims().await[0].name_any();
    w.cloud.trouble(Trouble::default());
    w.start_autoscaler();
    w.settle().await;
    assert_eq!((w.running_pods().len(), w.cloud.running().len()), (1, 1));
    // Given up or launched after all, but not both.
    let claims = w.claims().await;
    assert_eq!(claims.len(), 1);
    assert_ne!(pool_condition(&w, "default", "NodeRegistrationHealthy").await, "False", "{old} counted twice");
}

/// LC-81, LC-59, LIF-76: the machine of a node is gone; so are node and claim soon, and its pod runs elsewhere.
#[tokio::test(start_paused = true)]
async fn a_vanished_instance() {
    let w = World::seeded(44).pool(node_pool("default")).start().await;
    w.deploy("web", 2, cpu("1")).await;
    w.settle().await;
    let (claim, id) = {
        let claim = &w.claims().await[0];
        (claim.name_any(), claim.status.as_ref().unwrap().provider_id.clone().unwrap())
    };
    w.lose(&id);
    until(&w, "its claim is gone", async || w.claims().await.iter().all(|known| known.name_any() != claim)).await;
    w.settle().await;
    assert_eq!(w.running_pods().len(), 2);
    assert_eq!(w.nodes().await.len(), w.cloud.running().len());
}

/// LC-49, LC-53, LIF-46: whoever deletes a node gets it drained, its claim and its machine go too.
#[tokio::test(start_paused = true)]
async fn a_node_deleted_by_hand() {
    let w = World::seeded(45).pool(node_pool("default")).start().await;
    w.deploy("web", 2, cpu("1")).await;
    w.settle().await;
    let nodes: Api<Node> = Api::all(w.client.clone());
    let name = w.nodes().await[0].name_any();
    let machines: Vec<String> = w.cloud.running().into_keys().collect();
    let id = w.nodes().await[0].spec.clone().unwrap().provider_id.unwrap();
    assert!(machines.contains(&id));
    nodes.delete(&name, &DeleteParams::default()).await.unwrap();
    until(&w, "the drain begins", async || {
        let node = nodes.get_opt(&name).await.unwrap();
        let taints = node.and_then(|node| node.spec).and_then(|spec| spec.taints).unwrap_or_default();
        taints.iter().any(|taint| taint.key == "karpenter.sh/disrupted" && taint.effect == "NoSchedule")
    })
    .await;
    until(&w, "it is gone", async || nodes.get_opt(&name).await.unwrap().is_none()).await;
    w.settle().await;
    assert_eq!(w.running_pods().len(), 2);
    assert!(!w.cloud.running().contains_key(&id));
    assert_eq!(w.claims().await.len(), w.nodes().await.len());
}

/// LC-1, LC-2, LC-9, LC-21: a claim that a person makes, of no pool, gets its node like any other, is left alone by those who
/// look after pools, and goes when it is deleted.
#[tokio::test(start_paused = true)]
async fn a_claim_made_by_hand() {
    let w = World::seeded(46).start().await;
    w.apply(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "by-hand", "labels": {"team": "a"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            "resources": {"requests": {"cpu": "2"}},
        },
    }))
    .await;
    w.settle().await;
    let claim = &w.claims().await[0];
    assert!(status(claim, "Ready").is_some_and(|ready| ready.0 == "True"));
    let nodes = w.nodes().await;
    assert_eq!(nodes.len(), 1);
    assert_eq!(nodes[0].labels()["team"], "a");
    assert_eq!(nodes[0].labels()["karpenter.sh/registered"], "true");
    let known = claim.status.clone().unwrap();
    assert_eq!(known.provider_id, nodes[0].spec.as_ref().unwrap().provider_id);
    let cpus = |amounts: &Option<std::collections::BTreeMap<String, _>>| {
        amounts.as_ref().is_some_and(|a| a.contains_key("cpu"))
    };
    assert!(cpus(&known.capacity) && cpus(&known.allocatable));
    assert!(status(claim, "Launched").is_some_and(|launched| launched.0 == "True"));
    w.advance(Duration::from_hours(2)).await;
    assert_eq!((w.claims().await.len(), w.cloud.running().len()), (1, 1), "nobody takes it away");
    delete_claim(&w, "by-hand").await;
    until(&w, "nothing is left", async || {
        w.cloud.running().is_empty() && w.claims().await.is_empty() && w.nodes().await.is_empty()
    })
    .await;
}

fn budget(app: &str, unavailable: u32) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app, "namespace": "default"},
        "spec": {"maxUnavailable": unavailable, "selector": {"matchLabels": {"app": app}}},
    })
}

async fn annotate_pods(w: &World, annotation: &str) {
    let deployments: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(w.client.clone(), "default");
    let template = json!({"metadata": {"annotations": {annotation: "true"}}});
    let patch = Patch::Merge(json!({"spec": {"template": template}}));
    deployments.patch("web", &PatchParams::default(), &patch).await.unwrap();
}

/// LC-45, LC-52: ten nodes go at once, and a cloud that refuses holds that up for as long as it does.
#[tokio::test(start_paused = true)]
async fn ten_nodes_at_once() {
    let w = World::seeded(52).pool(node_pool("fixed").replicas(10)).start().await;
    until(&w, "ten", async || w.nodes().await.len() == 10).await;
    w.settle().await;
    let pools: Api<NodePool> = Api::all(w.client.clone());
    let status = pools.get("fixed").await.unwrap().status.unwrap();
    assert_eq!(status.nodes, Some(10));
    w.cloud.trouble(Trouble { failed: 1.0, ..Trouble::default() });
    pools.delete("fixed", &DeleteParams::background()).await.unwrap();
    w.advance(mins(5)).await;
    assert_eq!((w.claims().await.len(), w.cloud.running().len()), (10, 10), "finalizers stay while machines do");
    w.cloud.trouble(Trouble::default());
    until(&w, "none", async || {
        w.nodes().await.is_empty() && w.claims().await.is_empty() && w.cloud.running().is_empty()
    })
    .await;
}

/// LC-46, LC-65, LC-76, LIF-52 … LIF-56: a budget and a pod that must not be disturbed hold a drain up for ever, unless there is
/// a grace period: then until the pods' own grace periods would not fit into the rest of it.
#[tokio::test(start_paused = true)]
async fn a_drain_has_its_grace_period() {
    for grace in [None, Some("10m")] {
        let mut pool = node_pool("default");
        if let Some(grace) = grace {
            pool = pool.termination_grace_period(grace);
        }
        let w = World::seeded(47).pool(pool).start().await;
        w.apply(budget("db", 0)).await;
        w.deploy("web", 1, cpu("1")).await;
        annotate_pods(&w, "karpenter.sh/do-not-disrupt").await;
        w.deploy("db", 1, cpu("1")).await;
        w.settle().await;
        let before = w.running_pods();
        let begun = w.clock.now();
        let claims: Vec<String> = w.claims().await.iter().map(ResourceExt::name_any).collect();
        w.remove_claims().await;
        w.advance(mins(9)).await;
        for pod in &before {
            assert!(w.running_pods().contains(pod), "{pod} goes too early, {grace:?}");
        }
        // From here on no budget counts.
        w.excuse();
        w.advance(mins(2)).await;
        let left = w.claims().await.iter().filter(|claim| claims.contains(&claim.name_any())).count();
        if grace.is_none() {
            assert_eq!(left, claims.len(), "nothing ends it");
            w.advance(mins(30)).await;
            assert!(before.iter().all(|pod| w.running_pods().contains(pod)));
            assert!(events(&w, "FailedDraining").await > 0, "and it is told");
            continue;
        }
        assert!(before.iter().all(|pod| !w.running_pods().contains(pod)), "their time is over");
        let gone = async || w.claims().await.iter().all(|claim| !claims.contains(&claim.name_any()));
        until(&w, "the claims are gone", gone).await;
        assert!(w.clock.now().duration_since(begun) < jiff::SignedDuration::from_mins(15));
        w.settle().await;
        assert_eq!(w.running_pods().len(), 2);
    }
}

fn stateful() -> [Value; 2] {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "wait"},
        "provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer", "reclaimPolicy": "Delete",
    });
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "wait", "resources": {"requests": {"storage": "1Gi"}},
        },
    });
    let container = json!({
        "name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": 1, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [container]}},
            "volumeClaimTemplates": [claim],
        },
    });
    [class, set]
}

/// LC-74, LC-77, LIF-58: a machine waits until the volumes of its pods are detached; then the pod runs elsewhere, in the zone
/// of its volume.
#[tokio::test(start_paused = true)]
async fn volumes_are_detached_before_the_machine_goes() {
    let patience = Patience { detach: secs(90), ..Patience::default() };
    let w = World::seeded(48).patience(patience).pool(node_pool("default")).start().await;
    for object in stateful() {
        w.apply(object).await;
    }
    until(&w, "the pod runs", async || w.running_pods() == ["db-0"]).await;
    w.settle().await;
    let attachments: Api<VolumeAttachment> = Api::all(w.client.clone());
    let nodes: Api<Node> = Api::all(w.client.clone());
    let claims: Api<NodeClaim> = Api::all(w.client.clone());
    let (node, zone) = {
        let node = &w.nodes().await[0];
        (node.name_any(), node.labels()["topology.kubernetes.io/zone"].clone())
    };
    let attached = async || {
        let all = attachments.list(&ListParams::default()).await.unwrap().items;
        all.iter().any(|attachment| attachment.spec.node_name == node)
    };
    assert!(attached().await);
    let name = w.claims().await[0].name_any();
    delete_claim(&w, &name).await;
    until(&w, "it waits for the volume", async || {
        let claim = claims.get(&name).await.unwrap();
        status(&claim, "VolumesDetached").is_some_and(|detached| detached.0 != "True")
    })
    .await;
    assert!(attached().await && nodes.get_opt(&node).await.unwrap().is_some());
    until(&w, "the node is gone", async || nodes.get_opt(&node).await.unwrap().is_none()).await;
    assert!(!attached().await, "not before its volume");
    w.settle().await;
    assert_eq!(w.running_pods(), ["db-0"]);
    let pods: Api<Pod> = Api::namespaced(w.client.clone(), "default");
    let on = pods.get("db-0").await.unwrap().spec.unwrap().node_name.unwrap();
    assert_eq!(nodes.get(&on).await.unwrap().labels()["topology.kubernetes.io/zone"], zone);
}

/// LC-102, LC-103, LC-109, LIF-105: a pool of a fixed size grows, shrinks, replaces what is lost, and never waits for pods.
#[tokio::test(start_paused = true)]
async fn a_static_pool_keeps_its_size() {
    let w = World::seeded(49).pool(node_pool("fixed").replicas(2)).start().await;
    let pools: Api<NodePool> = Api::all(w.client.clone());
    let resize = async |replicas: u32| {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        pools.patch("fixed", &PatchParams::default(), &patch).await.unwrap();
    };
    w.settle().await;
    assert_eq!((w.nodes().await.len(), w.cloud.running().len()), (2, 2));
    resize(4).await;
    until(&w, "four", async || w.nodes().await.len() == 4).await;
    w.settle().await;
    let lost = w.cloud.running().into_keys().next().unwrap();
    w.lose(&lost);
    until(&w, "the lost one is noticed", async || w.nodes().await.len() < 4).await;
    until(&w, "and replaced", async || w.nodes().await.len() == 4).await;
    resize(1).await;
    until(&w, "one", async || w.nodes().await.len() == 1).await;
    w.settle().await;
    assert_eq!((w.claims().await.len(), w.cloud.running().len()), (1, 1));
    pools.delete("fixed", &DeleteParams::background()).await.unwrap();
    until(&w, "none", async || w.nodes().await.is_empty() && w.cloud.running().is_empty()).await;
}

/// LIF-128, LC-137: of two processes one acts. When it is killed the other takes over within the time of the lease; when it
/// ends in order, at once.
#[tokio::test(start_paused = true)]
async fn one_of_two_leads() {
    let w = World::seeded(50).two_replicas().pool(node_pool("default")).start().await;
    w.deploy("web", 2, cpu("1")).await;
    w.settle().await;
    let first = w.leader();
    assert!(!first.is_empty());
    let others = async |before: &str| !w.leader().is_empty() && w.leader() != before;
    for (how, limit) in [("kill", 20), ("end", 6)] {
        let before = w.leader();
        let began = w.clock.now();
        match how {
            "kill" => w.kill_leader(),
            _ => w.end_leader(),
        }
        until(&w, "another leads", async || others(&before).await).await;
        let took = w.clock.now().duration_since(began);
        assert!(took < jiff::SignedDuration::from_secs(limit), "{how}: {took}");
        w.scale("web", if how == "kill" { 6 } else { 3 }).await;
        w.settle().await;
    }
    assert_eq!(w.running_pods().len(), 3);
    assert_eq!(w.claims().await.len(), w.cloud.running().len());
}

/// LIF-128: a leader that is cut off stops before anybody else begins, and what it wanted is not done twice.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops() {
    let w = World::seeded(51).two_replicas().pool(node_pool("default")).start().await;
    w.deploy("web", 1, cpu("1")).await;
    w.settle().await;
    let before = w.leader();
    let mend = w.cut_off_leader();
    w.scale("web", 20).await;
    until(&w, "another leads", async || w.leader() != before).await;
    w.advance(secs(20)).await;
    mend(&w);
    w.settle().await;
    assert_eq!(w.running_pods().len(), 20);
    assert!(w.journal.text().contains("lost the lease"));
}
