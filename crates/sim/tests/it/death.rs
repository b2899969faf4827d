//! The autoscaler is killed at every call that it makes, and everything ends as it would have.

use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_sim::world::{Death, World, cpu};
use karpenter_testkit::build::node_pool;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt as _};

use crate::seeds::in_two_threads;

/// How long is waited after each thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// As long as it takes until all is at rest, so that the next one comes while little else goes on.
    Rest,
    /// Fixed times; together they are an hour.
    Hour,
}

impl Wait {
    async fn pass(self, w: &World, minutes: u64) {
        match self {
            Self::Rest => w.settle().await,
            Self::Hour => w.advance(Duration::from_mins(minutes)).await,
        }
    }
}

fn command(wait: Wait, Death { call, applied }: Death) -> String {
    let (wait, applied) = (if wait == Wait::Rest { "r" } else { "" }, if applied { '+' } else { '-' });
    format!(
        "KARPENTER_SIM_DEATH={wait}{call}{applied} cargo test -p karpenter-sim --test it -- replay_death --nocapture"
    )
}

/// Everything that a cluster goes through: scale up, a claim deleted, a machine lost, scale down, a pool deleted, the end.
/// Returns what is left, and what the autoscaler asked for.
async fn life(wait: Wait, death: Option<Death>) -> (String, Vec<String>) {
    let builder = World::seeded(1).pool(node_pool("default")).pool(node_pool("second").label("tier", "second"));
    let replayed = |death: &Death| command(wait, *death);
    let builder = death.iter().fold(builder, |builder, death| builder.dies_at(*death).replayed_by(replayed(death)));
    let w = builder.start().await;
    let life = async {
        let claims: Api<NodeClaim> = Api::all(w.client.clone());
        w.deploy("web", 3, cpu("1")).await;
        wait.pass(&w, 4).await;
        let claim = w.claims().await.first().map(kube::ResourceExt::name_any);
        if let Some(claim) = claim {
            claims.delete(&claim, &DeleteParams::default()).await.unwrap();
        }
        w.scale("web", 5).await;
        wait.pass(&w, 8).await;
        if let Some(id) = w.cloud.running().keys().next() {
            w.lose(id);
        }
        wait.pass(&w, 20).await;
        w.scale("web", 2).await;
        wait.pass(&w, 5).await;
        let pools: Api<NodePool> = Api::all(w.client.clone());
        pools.delete("default", &DeleteParams::background()).await.unwrap();
        wait.pass(&w, 23).await;
        w.settle().await;
        let pools: Vec<String> = w.claims().await.iter().map(|c| c.labels()["karpenter.sh/nodepool"].clone()).collect();
        let running = w.running_pods().len();
        w.scale("web", 0).await;
        w.remove_claims().await;
        let left = async || (w.claims().await.len(), w.nodes().await.len(), w.cloud.running().len());
        for _ in 0..60 {
            w.advance(Duration::from_secs(10)).await;
            if wait == Wait::Rest && left().await == (0, 0, 0) {
                break;
            }
        }
        format!("{running} pods run on {pools:?}; left of claims, nodes and machines: {:?}", left().await)
    };
    let end = tokio::select! {
        biased;
        end = life => end,
        // Dies once; after that this waits for ever.
        () = async { loop { w.bury().await } } => unreachable!(),
    };
    (end, w.autoscaler_calls())
}

fn lived(wait: Wait, death: Option<Death>) -> (String, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(life(wait, death))
}

/// Whether the world is another one after this call. Who dies at a call that only asks, or that tells people an event, leaves
/// the same behind as who dies before the next call that changes something.
fn changes(call: &str) -> bool {
    let writes = ["POST ", "PATCH ", "PUT ", "DELETE ", "cloud create", "cloud delete", "cloud reboot"];
    writes.iter().any(|verb| call.starts_with(verb)) && !call.ends_with("/events")
}

fn dies_at_each(wait: Wait, chosen: impl Fn(&str) -> bool) {
    let (want, calls) = lived(wait, None);
    assert!(want.starts_with("2 pods run on [\"second\"") && want.ends_with("(0, 0, 0)"), "{want}");
    let numbers: Vec<u64> = (1..).zip(&calls).filter(|(_, call)| chosen(call)).map(|(number, _)| number).collect();
    let (failed, tried) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    in_two_threads(numbers.iter().copied(), |call| {
        for applied in [true, false] {
            let death = Death { call, applied };
            match catch_unwind(|| lived(wait, Some(death))) {
                Ok((end, _)) if end == want => {}
                Ok((end, _)) => failed.lock().unwrap().push((command(wait, death), end)),
                Err(_) => failed.lock().unwrap().push((command(wait, death), "see above".to_owned())),
            }
        }
        let tried = tried.fetch_add(1, Ordering::Relaxed) + 1;
        if tried % 100 == 0 {
            println!("{tried} of {} calls", numbers.len());
        }
    });
    let failed = failed.into_inner().unwrap();
    println!("killed at {} of {} calls, each carried out and not", tried.into_inner(), calls.len());
    assert!(failed.is_empty(), "{} of {} end otherwise than with {want}:\n{failed:#?}", failed.len(), numbers.len());
}

/// At each call that changes something.
#[test]
fn the_end_is_the_same_wherever_the_autoscaler_dies() {
    dies_at_each(Wait::Rest, changes);
}

/// At every 97th call of an hour, whatever it is; with `KARPENTER_SIM_DEATHS=1`, as `make soak` has it, at every call.
#[test]
fn an_hour_ends_the_same_too() {
    let stride = std::env::var("KARPENTER_SIM_DEATHS").map_or(97, |text| text.parse().unwrap());
    let count = AtomicU64::new(0);
    dies_at_each(Wait::Hour, |_| count.fetch_add(1, Ordering::Relaxed).is_multiple_of(stride));
}

/// `KARPENTER_SIM_DEATH=1234+` dies after call 1234 of an hour, `1234-` before it; prints what happened. With an `r` before
/// the number it is a life that only waits for rest.
#[test]
fn replay_death() {
    crate::world::log();
    let text = std::env::var("KARPENTER_SIM_DEATH").unwrap_or_else(|_| "r1+".to_owned());
    let (wait, rest) = text.strip_prefix('r').map_or((Wait::Hour, text.as_str()), |rest| (Wait::Rest, rest));
    let (call, applied) = (rest.trim_end_matches(['+', '-']).parse().unwrap(), rest.ends_with('+'));
    println!("{}", lived(wait, Some(Death { call, applied })).0);
}
