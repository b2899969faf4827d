//! Generated cases, placed step by step by the real kube-scheduler and judged by our filters on the same state.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use karpenter_sim::scheduler::{Decision, Key, decide, feasible};
use karpenter_testkit::ControlPlane;
use serde_json::Value;

use super::generator::{Step, case};
use super::real::{Outcome, Real};

const CASES: u64 = 180;
/// Any number; change it to look at other cases. `KARPENTER_SIM_SEED` does so for one run.
const SEED: u64 = 4;

/// For this many pods of each case the whole set of feasible nodes is compared, not only the choice.
const ENUMERATED: usize = 3;

#[derive(Debug, Default)]
struct Figures {
    sets: usize,
    pods: usize,
    bound: usize,
    bound_with_choice: usize,
    refused: usize,
    by_reason: BTreeMap<String, usize>,
    disagreements: Vec<String>,
}

/// For each pod in turn: what the real scheduler chose must be among our feasible nodes, and where it found none we find
/// none and say so in the same words.
#[tokio::test]
async fn our_filters_agree_with_kube_scheduler() {
    let cluster = ControlPlane::builder().scheduler().start().await.unwrap();
    let mut real = Real::new(cluster.client());
    let seed = std::env::var("KARPENTER_SIM_SEED").ok().map_or(SEED, |s| s.parse().unwrap());
    let mut figures = Figures::default();
    for number in 0..CASES {
        Box::pin(run(&mut real, seed, number, &mut figures)).await;
    }
    let Figures { sets, pods, bound, bound_with_choice, refused, by_reason, disagreements } = figures;
    println!(
        "kube-scheduler and ours, seed {seed}: {CASES} cases, {pods} pods, {} agree \
         ({bound} bound, {bound_with_choice} of them with several nodes to choose from; {refused} refused, in the same words); \
         {sets} whole sets of feasible nodes compared",
        pods - disagreements.len()
    );
    for (reason, pods) in &by_reason {
        println!("{pods:5} pods: {reason}");
    }
    assert!(disagreements.is_empty(), "{} disagree:\n{}", disagreements.len(), disagreements.join("\n"));
    // The cases have to be about something.
    assert!(bound_with_choice > pods / 10 && refused > pods / 10 && by_reason.len() >= 20, "the cases are too easy");
}

async fn run(real: &mut Real, seed: u64, number: u64, figures: &mut Figures) {
    let case = case(seed, number);
    Box::pin(real.set_up(&case)).await;
    for (index, step) in case.steps.iter().enumerate() {
        let pod = match step {
            Step::Place(pod) => pod,
            Step::Remove(name, grace) => {
                real.remove(name, *grace).await;
                continue;
            }
        };
        if index < ENUMERATED {
            Box::pin(enumerate(real, pod, figures, number)).await;
        }
        let before = real.cluster().clone();
        let (pod, outcome) = real.place(pod).await;
        let ours = feasible(&before, &pod);
        figures.pods += 1;
        let disagreement = match (&outcome, &ours) {
            (Outcome::Bound(node), Ok(nodes)) if nodes.contains(node) => {
                figures.bound += 1;
                figures.bound_with_choice += usize::from(nodes.len() > 1);
                None
            }
            (Outcome::Refused(text), Ok(nodes)) if nodes.is_empty() => {
                figures.refused += 1;
                for reason in reasons(text) {
                    *figures.by_reason.entry(reason).or_default() += 1;
                }
                match decide(&before, &pod) {
                    Decision::Unschedulable(unfit) if unfit.message == *text => None,
                    other => Some(format!("other words: {other:?}")),
                }
            }
            (Outcome::Error(text), Err(ours)) if text == ours => None,
            _ => Some(format!("our feasible nodes: {ours:?}, our decision: {:?}", decide(&before, &pod))),
        };
        if let Some(ours) = disagreement {
            let spec = serde_json::to_string(&pod.spec).unwrap();
            figures.disagreements.push(format!(
                "case {number}, step {index}: kube-scheduler: {outcome:?}\n  {ours}\n  pod: {spec}\n  labels: {:?}",
                pod.metadata.labels
            ));
        }
    }
    real.tear_down(&case).await;
}

/// Closes each node that kube-scheduler chooses until it finds no other: the chosen ones are all that are feasible.
async fn enumerate(real: &mut Real, pod: &Value, figures: &mut Figures, number: u64) {
    let parsed: Pod = serde_json::from_value(pod.clone()).unwrap();
    match decide(real.cluster(), &parsed) {
        // Volumes would have to be unbound again each time.
        Decision::Bind(placement) if placement.volumes.is_empty() => {}
        _ => return,
    }
    if pod["spec"]["tolerations"].to_string().contains("unschedulable") || has_blanket_toleration(&parsed) {
        return;
    }
    let mut chosen = BTreeSet::new();
    let open = real.cluster().clone();
    let (pod, last) = loop {
        let (placed, outcome) = real.place(pod).await;
        let Outcome::Bound(node) = outcome else { break (placed, outcome) };
        real.remove(&Key::of(&placed.metadata), 0).await;
        // Chosen twice: it had not heard yet that the node is closed.
        if chosen.insert(node.clone()) {
            real.set_unschedulable(&node, true).await;
        }
    };
    let ours = feasible(&open, &pod);
    let words = decide(real.cluster(), &pod);
    for node in &chosen {
        real.set_unschedulable(node, false).await;
    }
    real.wait_until_seen(pod.metadata.namespace.as_deref().unwrap()).await;
    figures.sets += 1;
    let same_words =
        matches!((&last, &words), (Outcome::Refused(real), Decision::Unschedulable(ours)) if *real == ours.message);
    if ours != Ok(chosen.clone()) || !same_words {
        let spec = serde_json::to_string(&pod.spec).unwrap();
        figures.disagreements.push(format!(
            "case {number}: kube-scheduler finds {chosen:?}, we find {ours:?}\n  then {last:?}\n  and {words:?}\n  pod: {spec}"
        ));
    }
}

fn has_blanket_toleration(pod: &Pod) -> bool {
    let tolerations = pod.spec.iter().flat_map(|s| s.tolerations.iter().flatten());
    tolerations.into_iter().any(|t| t.key.is_none())
}

/// The reasons without their counts, and without names that differ from case to case.
fn reasons(text: &str) -> Vec<String> {
    let text = text.split_once(": ").map_or(text, |(_, rest)| rest);
    let end = [". no new claims", ". not found"].iter().filter_map(|end| text.find(end)).min();
    let text = &text[..end.unwrap_or(text.len())];
    let plain = |reason: &str| {
        let reason = reason.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        let mut parts: Vec<_> = reason.split('"').collect();
        if let Some(name) = parts.get_mut(1) {
            *name = "…";
        }
        parts.join("\"")
    };
    text.split(", ").map(plain).collect()
}
