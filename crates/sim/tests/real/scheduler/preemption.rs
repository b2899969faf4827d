//! Who has to go for whom: the real kube-scheduler and ours on the same crowded nodes.

use std::collections::BTreeSet;

use k8s_openapi::api::scheduling::v1::PriorityClass;
use karpenter_sim::scheduler::{Decision, Key, Nomination, Preemption, decide};
use karpenter_testkit::ControlPlane;
use serde_json::json;

use super::generator::{PRIORITIES, Step, crowded_case};
use super::real::{Outcome, Real};

const CASES: u64 = 50;
const SEED: u64 = 9;

/// The same node, the same victims, the same words.
#[tokio::test]
async fn the_same_pods_have_to_go() {
    let cluster = ControlPlane::builder().scheduler().start().await.unwrap();
    let mut real = Real::new(cluster.client());
    for (name, value) in PRIORITIES {
        real.create::<PriorityClass>(&json!({"metadata": {"name": name}, "value": value})).await;
    }
    let seed = std::env::var("KARPENTER_SIM_SEED").ok().map_or(SEED, |s| s.parse().unwrap());
    let (mut pods, mut preempted, mut disagreements) = (0, 0, Vec::new());
    for number in 0..CASES {
        let case = crowded_case(seed, number);
        Box::pin(real.set_up(&case)).await;
        let mut victims = BTreeSet::new();
        for step in &case.steps {
            let Step::Place(pod) = step else { continue };
            let before = real.cluster().clone();
            let (pod, outcome) = Box::pin(real.place(pod)).await;
            pods += 1;
            let ours = decide(&before, &pod);
            let agree = match (&outcome, &ours) {
                (Outcome::Bound(node), Decision::Bind(placement)) => {
                    let feasible = karpenter_sim::scheduler::feasible(&before, &pod).unwrap();
                    feasible.contains(node) && feasible.contains(&placement.node)
                }
                (Outcome::Refused(text), Decision::Unschedulable(unfit)) => {
                    *text == unfit.message && !matches!(unfit.nomination, Nomination::Set(_))
                }
                (Outcome::Preempts(node, text), Decision::Unschedulable(unfit)) => {
                    preempted += 1;
                    match &unfit.nomination {
                        Nomination::Set(Preemption { node: ours, victims: more }) => {
                            victims.extend(more.iter().cloned());
                            let going: BTreeSet<Key> = real.going(&victims).await;
                            node == ours && *text == unfit.message && going == victims
                        }
                        _ => false,
                    }
                }
                _ => false,
            };
            if !agree {
                disagreements.push(format!("case {number}: kube-scheduler: {outcome:?}\n  ours: {ours:?}"));
                break;
            }
        }
        real.tear_down(&case).await;
    }
    println!(
        "kube-scheduler and ours, seed {seed}: {CASES} crowded cases, {pods} pods, {preempted} make others go, {} disagree",
        disagreements.len()
    );
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
    assert!(preempted > 30, "the cases are too easy");
}
