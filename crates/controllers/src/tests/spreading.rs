//! Pods under a scheduler that spreads whoever does not say otherwise: over hosts and over zones.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Service;
use karpenter_model::quantity::Quantity;
use karpenter_model::scheduling::{NodePolicy, SpreadConstraint, WhenUnsatisfiable};
use serde_json::{Value, json};

use super::desk::{Desk, Setup, merge};
use super::*;

async fn spreading_desk() -> Desk {
    let over = |key: &str| SpreadConstraint {
        key: key.into(),
        max_skew: 1,
        when: WhenUnsatisfiable::DoNotSchedule,
        selector: None,
        min_domains: None,
        node_affinity_policy: NodePolicy::Honor,
        node_taints_policy: NodePolicy::Ignore,
    };
    let default_spread = vec![over("kubernetes.io/hostname"), over("topology.kubernetes.io/zone")];
    let features = crate::Features { default_spread, ..crate::Features::default() };
    Desk::with(Setup { features, ..Setup::default() }).await
}

/// Four pods of one CPU, of a ReplicaSet where one is named.
async fn add_four(desk: &Desk, app: &str, owned: bool, more: Value) {
    let mut pod = json!({ "metadata": { "labels": { "app": app } } });
    if owned {
        let set: ReplicaSet = desk
            .put(json!({
                "metadata": { "name": app },
                "spec": {
                    "replicas": 4, "selector": { "matchLabels": { "app": app } },
                    "template": {
                        "metadata": { "labels": { "app": app } },
                        "spec": { "containers": [{ "name": "main", "image": "none" }] },
                    },
                },
            }))
            .await;
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": set.uid(), "controller": true,
        });
        merge(&mut pod, json!({ "metadata": { "ownerReferences": [owner] } }));
    }
    merge(&mut pod, more);
    for number in 0..4 {
        desk.add_pending(&format!("{app}-{number}"), pod.clone()).await;
    }
}

/// How many nodes a pool has, in how many zones, and whether each has less than two CPUs for pods.
async fn bought(desk: &Desk, pool: &str) -> (usize, usize, bool) {
    let claims = desk.all::<NodeClaim>().await;
    let of_pool: Vec<&NodeClaim> =
        claims.iter().filter(|claim| claim.labels()["karpenter.sh/nodepool"] == pool).collect();
    let zones: BTreeSet<&str> = of_pool.iter().map(|claim| &*claim.labels()["topology.kubernetes.io/zone"]).collect();
    let is_small = |claim: &&NodeClaim| {
        let status = serde_json::to_value(&claim.status).unwrap();
        let cpu: Quantity = status["allocatable"]["cpu"].as_str().unwrap().parse().unwrap();
        cpu < Quantity::units(2)
    };
    (of_pool.len(), zones.len(), of_pool.iter().all(is_small))
}

/// VC-150, VC-151: four pods of a workload, or behind a Service, are four nodes in four zones; four that belong to nobody are one.
#[tokio::test(start_paused = true)]
async fn vc_150_vc_151_who_is_spread() {
    for (owned, behind_a_service, want) in [(true, false, 4), (false, true, 4), (false, false, 1)] {
        let mut desk = spreading_desk().await;
        desk.add_ready_pool("blue", json!({})).await;
        if behind_a_service {
            desk.put::<Service>(json!({
                "metadata": { "name": "web" }, "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
            }))
            .await;
        }
        add_four(&desk, "web", owned, json!({})).await;
        desk.work(30).await;
        let (nodes, zones, small) = bought(&desk, "blue").await;
        assert_eq!((nodes, zones, small), (want, want, want == 4), "{owned} {behind_a_service}");
    }
}

/// VC-152: in one batch, a workload that says nothing is spread, and one with a constraint of its own is not.
#[tokio::test(start_paused = true)]
async fn vc_152_own_constraints_come_first() {
    let mut desk = spreading_desk().await;
    for pool in ["blue", "red"] {
        desk.add_ready_pool(pool, json!({})).await;
    }
    let own = json!({
        "topologyKey": "kubernetes.io/hostname", "maxSkew": 4, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "own" } },
    });
    let to = |pool: &str| json!({ "karpenter.sh/nodepool": pool });
    add_four(&desk, "web", true, json!({ "spec": { "nodeSelector": to("blue") } })).await;
    let more = json!({ "spec": { "nodeSelector": to("red"), "topologySpreadConstraints": [own] } });
    add_four(&desk, "own", true, more).await;
    desk.work(30).await;
    assert_eq!(bought(&desk, "blue").await, (4, 4, true));
    assert_eq!(bought(&desk, "red").await.0, 1);
}
