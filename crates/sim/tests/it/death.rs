//! The autoscaler is killed at every call that it makes, and everything ends as it would have.

use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_controllers::Features;
use karpenter_sim::cloud::{Settings, Swing};
use karpenter_sim::fleet::Machine;
use karpenter_sim::world::{Death, World, cpu};
use karpenter_testkit::build::node_pool;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

use crate::disruption::converge;
use crate::repair::{eventually, hang};
use crate::seeds::in_two_threads;

/// What is lived through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Story {
    /// Everything that people and machines do to a cluster; after each thing as long as it takes until all is at rest, so
    /// that the next one comes while little else goes on.
    Rest,
    /// The same with fixed times between; together they are an hour.
    Hour,
    /// Nodes are taken away on purpose: consolidated, then replaced because they drifted.
    Savings,
    /// A machine hangs, and is booted.
    Sick,
}

const STORIES: [(Story, &str); 4] = [(Story::Rest, "r"), (Story::Hour, ""), (Story::Savings, "s"), (Story::Sick, "k")];

impl Story {
    async fn pass(self, w: &World, minutes: u64) {
        match self {
            Self::Rest | Self::Savings | Self::Sick => w.settle().await,
            Self::Hour => w.advance(Duration::from_mins(minutes)).await,
        }
    }
}

fn command(story: Story, Death { call, applied }: Death) -> String {
    let story = STORIES.iter().find(|(of, _)| *of == story).map_or("", |(_, letter)| letter);
    let death = format!("{story}{call}{}", if applied { '+' } else { '-' });
    format!("KARPENTER_SIM_DEATH={death} cargo test -p karpenter-sim --test it -- replay_death --nocapture")
}

/// Returns what is left, and what the autoscaler asked for.
async fn life(story: Story, death: Option<Death>) -> (String, Vec<String>) {
    let builder = World::seeded(1).in_reference_order();
    let builder = if story == Story::Savings {
        let cloud = Settings { swing: Swing::NONE, ..Settings::default() };
        builder.cloud(cloud).pool(node_pool("default").consolidate_after("30s").budget("100%"))
    } else if story == Story::Sick {
        builder.features(Features { repair: true, ..Features::default() }).pool(node_pool("default"))
    } else {
        builder.pool(node_pool("default")).pool(node_pool("second").label("tier", "second"))
    };
    let replayed = |death: &Death| command(story, *death);
    let builder = death.iter().fold(builder, |builder, death| builder.dies_at(*death).replayed_by(replayed(death)));
    let w = builder.start().await;
    let life = async {
        match story {
            Story::Savings => savings(&w).await,
            Story::Sick => sick(&w).await,
            Story::Rest | Story::Hour => everything(&w, story).await,
        }
    };
    let end = tokio::select! {
        biased;
        end = life => end,
        // Dies once; after that this waits for ever.
        () = async { loop { w.bury().await } } => unreachable!(),
    };
    (end, w.autoscaler_calls())
}

/// Scale up, a claim deleted, a machine lost, scale down, a pool deleted, the end.
async fn everything(w: &World, story: Story) -> String {
    let claims: Api<NodeClaim> = Api::all(w.client.clone());
    w.deploy("web", 3, cpu("1")).await;
    story.pass(w, 4).await;
    let claim = w.claims().await.first().map(kube::ResourceExt::name_any);
    if let Some(claim) = claim {
        claims.delete(&claim, &DeleteParams::default()).await.unwrap();
    }
    w.scale("web", 5).await;
    story.pass(w, 8).await;
    if let Some(id) = w.cloud.running().keys().next() {
        w.lose(id);
    }
    story.pass(w, 20).await;
    w.scale("web", 2).await;
    story.pass(w, 5).await;
    let pools: Api<NodePool> = Api::all(w.client.clone());
    pools.delete("default", &DeleteParams::background()).await.unwrap();
    story.pass(w, 23).await;
    w.settle().await;
    let pools: Vec<String> = w.claims().await.iter().map(|c| c.labels()["karpenter.sh/nodepool"].clone()).collect();
    let running = w.running_pods().len();
    w.scale("web", 0).await;
    w.remove_claims().await;
    let left = async || (w.claims().await.len(), w.nodes().await.len(), w.cloud.running().len());
    for _ in 0..60 {
        w.advance(Duration::from_secs(10)).await;
        if story == Story::Rest && left().await == (0, 0, 0) {
            break;
        }
    }
    format!("{running} pods run on {pools:?}; left of claims, nodes and machines: {:?}", left().await)
}

/// Most pods go, and so does what they do not need any more; then the template of the pool changes, and nodes drift; then
/// everything is empty.
async fn savings(w: &World) -> String {
    let mut stages = Vec::new();
    let stage = async || {
        converge(w, Duration::from_mins(3)).await;
        let chosen = |claim: &NodeClaim| claim.annotations().keys().any(|key| key.contains("disruption-command"));
        let marked = w.claims().await.iter().filter(|claim| chosen(claim)).count();
        format!("{} pods on {} nodes, {marked} marked", w.running_pods().len(), w.nodes().await.len())
    };
    w.deploy("web", 8, cpu("1")).await;
    w.settle().await;
    w.scale("web", 2).await;
    stages.push(stage().await);
    let pools: Api<NodePool> = Api::all(w.client.clone());
    let patch = Patch::Merge(json!({"spec": {"template": {"metadata": {"labels": {"release": "next"}}}}}));
    w.done(pools.patch("default", &PatchParams::default(), &patch).await);
    stages.push(stage().await);
    let old = |node: &Node| node.labels().get("release").is_none_or(|release| release != "next");
    stages.push(format!("{} of an older template", w.nodes().await.iter().filter(|node| old(node)).count()));
    w.scale("web", 0).await;
    stages.push(stage().await);
    stages.join("; ")
}

/// A kernel hangs: the machine is booted once, for the claim that it was launched for.
async fn sick(w: &World) -> String {
    w.deploy("web", 2, cpu("1")).await;
    w.settle().await;
    let before: Vec<String> = w.claims().await.iter().map(kube::ResourceExt::name_any).collect();
    let id = w.cloud.running().keys().next().unwrap().clone();
    hang(w, &id);
    eventually(w, "nobody is sick", async || !w.fleet.any(Machine::is_sick)).await;
    w.settle().await;
    let boots = w.journal.text().matches("rebooting ").count();
    let stays = w.claims().await.iter().any(|claim| before.contains(&claim.name_any()));
    format!("{} pods run; booted {boots} times; the claim stays: {stays}", w.running_pods().len())
}

fn lived(story: Story, death: Option<Death>) -> (String, Vec<String>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(life(story, death))
}

/// Whether the world is another one after this call. Who dies at a call that only asks, or that tells people an event, leaves
/// the same behind as who dies before the next call that changes something.
fn changes(call: &str) -> bool {
    let writes = ["POST ", "PATCH ", "PUT ", "DELETE ", "cloud create", "cloud delete", "cloud reboot"];
    writes.iter().any(|verb| call.starts_with(verb)) && !call.ends_with("/events")
}

fn dies_at_each(story: Story, chosen: impl Fn(&str) -> bool) {
    let (want, calls) = lived(story, None);
    let expected = match story {
        Story::Rest | Story::Hour => "2 pods run on [\"second\"]; left of claims, nodes and machines: (0, 0, 0)",
        Story::Sick => "2 pods run; booted 1 times; the claim stays: true",
        Story::Savings => {
            "2 pods on 1 nodes, 0 marked; 2 pods on 1 nodes, 0 marked; 0 of an older template; 0 pods on 0 nodes, 0 marked"
        }
    };
    assert_eq!(want, expected);
    let numbers: Vec<u64> = (1..).zip(&calls).filter(|(_, call)| chosen(call)).map(|(number, _)| number).collect();
    let (failed, tried) = (Mutex::new(Vec::new()), AtomicU64::new(0));
    in_two_threads(numbers.iter().copied(), |call| {
        for applied in [true, false] {
            let death = Death { call, applied };
            match catch_unwind(|| lived(story, Some(death))) {
                Ok((end, _)) if end == want => {}
                Ok((end, _)) => failed.lock().unwrap().push((command(story, death), end)),
                Err(_) => failed.lock().unwrap().push((command(story, death), "see above".to_owned())),
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
    dies_at_each(Story::Rest, changes);
}

/// DIS-169, DIS-178, X24: commands are carried on or taken back by whoever comes next, wherever the one before died.
#[test]
fn savings_are_made_wherever_the_autoscaler_dies() {
    dies_at_each(Story::Savings, changes);
}

/// V15-60, V15-72: a boot is carried on by whoever comes next, and no machine is booted twice.
#[test]
fn machines_are_booted_once_wherever_the_autoscaler_dies() {
    dies_at_each(Story::Sick, changes);
}

/// At every 97th call of an hour, whatever it is; with `KARPENTER_SIM_DEATHS=1`, as `make soak` has it, at every call.
#[test]
fn an_hour_ends_the_same_too() {
    let stride = std::env::var("KARPENTER_SIM_DEATHS").map_or(97, |text| text.parse().unwrap());
    let count = AtomicU64::new(0);
    dies_at_each(Story::Hour, |_| count.fetch_add(1, Ordering::Relaxed).is_multiple_of(stride));
}

/// `KARPENTER_SIM_DEATH=1234+` dies after call 1234 of an hour, `1234-` before it; prints what happened. With an `r` before
/// the number it is a life that only waits for rest, with an `s` one in which nodes are taken away on purpose, with a `k` one in
/// which a machine is booted.
#[test]
fn replay_death() {
    crate::world::log();
    let text = std::env::var("KARPENTER_SIM_DEATH").unwrap_or_else(|_| "r1+".to_owned());
    let number = text.trim_start_matches(['r', 's', 'k']);
    let letter = &text[..text.len() - number.len()];
    let story = STORIES.iter().find(|(_, known)| *known == letter).unwrap().0;
    let (call, applied) = (number.trim_end_matches(['+', '-']).parse().unwrap(), number.ends_with('+'));
    println!("{}", lived(story, Some(Death { call, applied })).0);
}
