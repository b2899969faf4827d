//! The autoscaler is killed at every call that it makes, and everything ends as it would have.

use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use karpenter_sim::world::{Death, World, cpu};
use karpenter_testkit::build::node_pool;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};

use crate::seeds::in_two_threads;

/// An hour with everything that a cluster goes through: scale up, a claim deleted, a machine lost, scale down, a pool deleted.
/// Returns what is left, and how many calls the autoscaler made.
async fn hour(seed: u64, death: Option<Death>) -> (String, u64) {
    let builder = World::seeded(seed).pool(node_pool("default")).pool(node_pool("second").label("tier", "second"));
    let builder = death.iter().fold(builder, |builder, death| builder.dies_at(*death));
    let w = builder.start().await;
    let life = async {
        let mins = Duration::from_mins;
        w.deploy("web", 3, cpu("1")).await;
        w.advance(mins(4)).await;
        let claim = w.claims().await.first().map(kube::ResourceExt::name_any);
        if let Some(claim) = claim {
            let claims: Api<karpenter_api::kinds::NodeClaim> = Api::all(w.client.clone());
            claims.delete(&claim, &DeleteParams::default()).await.unwrap();
        }
        w.scale("web", 5).await;
        w.advance(mins(8)).await;
        if let Some(id) = w.cloud.running().keys().next() {
            w.lose(id);
        }
        w.advance(mins(20)).await;
        w.scale("web", 2).await;
        w.advance(mins(5)).await;
        let pools: Api<karpenter_api::kinds::NodePool> = Api::all(w.client.clone());
        pools.delete("default", &DeleteParams::background()).await.unwrap();
        w.advance(mins(23)).await;
        w.settle().await;
        let pools: Vec<String> = w.claims().await.iter().map(|c| c.labels()["karpenter.sh/nodepool"].clone()).collect();
        let running = w.running_pods().len();
        w.scale("web", 0).await;
        w.remove_claims().await;
        w.advance(mins(10)).await;
        let left = (w.claims().await.len(), w.nodes().await.len(), w.cloud.running().len());
        format!("{running} pods run on {pools:?}; left of claims, nodes and machines: {left:?}")
    };
    let end = tokio::select! {
        biased;
        end = life => end,
        // Dies once; after that this waits for ever.
        () = async { loop { w.bury().await } } => unreachable!(),
    };
    (end, w.autoscaler_calls())
}

fn lived(seed: u64, death: Option<Death>) -> (String, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(hour(seed, death))
}

/// `KARPENTER_SIM_DEATHS=1` tries every call, as `make soak` does; without it every 97th, before and after the call.
#[test]
fn the_end_is_the_same_wherever_the_autoscaler_dies() {
    let (want, calls) = lived(1, None);
    assert!(want.ends_with("(0, 0, 0)"), "{want}");
    let stride = std::env::var("KARPENTER_SIM_DEATHS").map_or(97, |text| text.parse().unwrap());
    let (failed, tried) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    in_two_threads((1..=calls).step_by(stride), |call| {
        for applied in [true, false] {
            let death = Death { call, applied };
            match catch_unwind(|| lived(1, Some(death))) {
                Ok((end, _)) if end == want => {}
                Ok((end, _)) => failed.lock().unwrap().push((death, end)),
                Err(_) => failed.lock().unwrap().push((death, "see above".to_owned())),
            }
        }
        let tried = tried.fetch_add(1, Ordering::Relaxed) + 1;
        if tried % 100 == 0 {
            println!("{tried} of {calls} calls");
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("killed at {} of {calls} calls, each before and after it", tried.into_inner());
    assert!(failed.is_empty(), "of {calls} calls these end otherwise than with {want}:\n{failed:#?}");
}

/// `KARPENTER_SIM_DEATH=1234+` dies after call 1234, `1234-` before it; prints what happened.
#[test]
fn replay_death() {
    let text = std::env::var("KARPENTER_SIM_DEATH").unwrap_or_else(|_| "1+".to_owned());
    let (call, applied) = (text.trim_end_matches(['+', '-']).parse().unwrap(), text.ends_with('+'));
    println!("{}", lived(1, Some(Death { call, applied })).0);
}
