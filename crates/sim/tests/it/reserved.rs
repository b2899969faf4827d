//! Machines that are paid for already, of which there are only so many.

use std::time::Duration;

use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_controllers::Features;
use karpenter_model::labels;
use karpenter_sim::cloud::{Reservation, Settings};
use karpenter_sim::world::World;
use karpenter_testkit::build::{PoolBuilder, node_pool};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::repair::eventually;

/// Nothing but reserved machines.
fn reserved(name: &str) -> PoolBuilder {
    node_pool(name).requirement(labels::CAPACITY_TYPE, "In", &[labels::CAPACITY_TYPE_RESERVED]).budget("100%")
}

/// One pod that wants a node of this pool.
async fn deploy(w: &World, pool: &str) {
    w.apply(json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": pool, "namespace": "default"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": pool}},
            "template": {
                "metadata": {"labels": {"app": pool}},
                "spec": {
                    "nodeSelector": {labels::NODEPOOL: pool},
                    "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}],
                },
            },
        },
    }))
    .await;
}

fn is_of(claim: &NodeClaim, pool: &str) -> bool {
    claim.labels().get(labels::NODEPOOL).is_some_and(|of| of == pool)
}

/// V15-74, V15-85, Z19: two pools share one reserved machine. Who waits for it launches nothing else; when the node that has
/// it is drifted it goes first, and the pod that had to leave gets it back, although another has waited for longer.
#[tokio::test(start_paused = true)]
async fn a_slot_that_is_given_back_is_kept_for_whoever_had_to_leave() {
    let reservation = Reservation {
        id: "r-1".to_owned(),
        instance_type: "c-4x-amd64-linux".to_owned(),
        zone: "test-zone-a".to_owned(),
        count: 1,
    };
    let cloud = Settings { reservations: vec![reservation], ..Settings::default() };
    let mut features = Features { static_capacity: true, ..Features::default() };
    features.disruption.terminate_first_drift = true;
    // The rival's pool is the heavier one: with both pods waiting it is asked first.
    let pools = (reserved("holder").weight(1), reserved("rival").weight(100));
    let w = World::seeded(71).features(features).cloud(cloud).pool(pools.0).pool(pools.1).start().await;
    deploy(&w, "holder").await;
    eventually(&w, "the first pod runs", async || w.running_pods().len() == 1).await;
    deploy(&w, "rival").await;
    let rivals = async || w.claims().await.into_iter().filter(|claim| is_of(claim, "rival")).count();
    for _ in 0..60 {
        w.advance(Duration::from_secs(5)).await;
        assert_eq!(rivals().await, 0, "a claim for a machine that is taken");
    }
    let old = w.claims().await[0].name_any();

    let pools: Api<NodePool> = Api::all(w.client.clone());
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"release": "new"}}}}});
    w.done(pools.patch("holder", &PatchParams::default(), &Patch::Merge(patch)).await);
    eventually(&w, "a new node has the old one's machine", async || {
        assert_eq!(rivals().await, 0, "the slot is the rival's");
        let claims = w.claims().await;
        claims.iter().all(|claim| claim.name_any() != old) && w.running_pods().len() == 1
    })
    .await;
    let claims = w.claims().await;
    assert!(claims.len() == 1 && is_of(&claims[0], "holder"), "{claims:?}");
    assert_eq!(claims[0].labels()["release"], "new");
    assert!(w.running_pods()[0].contains("holder"), "{:?}", w.running_pods());
}
