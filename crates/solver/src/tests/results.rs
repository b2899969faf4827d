//! What a plan tells: reasons, stops, helpers (SCH-98, SCH-107, SCH-118, SCH-119, SC-384).

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::pod::PodPhase;

use super::build::{app, near, pod, pool, unmanaged};
use super::cluster::{cluster, with};
use super::fixtures::{f1, it};
use crate::{Criterion, Refusal, plan_until};

/// SC-384, SCH-118: every try counts as one step.
#[test]
fn sc_384_a_stop_keeps_what_is_known() {
    let mut cluster = cluster();
    // Fails first, then waits at the end of the queue behind the others.
    let late = cluster.add(pod().asks("cpu=3").near(near("host", "nobody=1")));
    let others = cluster.add_all(3, &pod().asks("cpu=1"));
    let snapshot = cluster.snapshot();
    let stopped_after = |steps: usize| {
        let mut left = steps;
        plan_until(&snapshot, &cluster.rules, &cluster.options, &mut || {
            let stop = left == 0;
            left = left.saturating_sub(1);
            stop
        })
    };
    let plan = stopped_after(4);
    assert_eq!((plan.placed.len(), plan.unplaced.len()), (3, 1), "the second try of the first pod is cut off");
    assert_eq!(plan.unplaced[0].pod, late);
    assert!(plan.untried.is_empty());
    let plan = stopped_after(2);
    assert_eq!((plan.placed.len(), plan.unplaced.len(), plan.untried), (1, 1, others[1..].to_vec()));
    assert_eq!(stopped_after(0).untried.len(), 4);
}

/// SCH-98.
#[test]
fn running_pods_do_not_move_to_unsettled_nodes() {
    for (name, unsettled, phase, from_going, want) in [
        ("settled", false, PodPhase::Running, false, true),
        ("unsettled", true, PodPhase::Running, false, false),
        ("waiting", true, PodPhase::Pending, false, true),
        ("its node is going", true, PodPhase::Running, true, true),
    ] {
        let mut cluster = cluster();
        cluster.node(unmanaged("u", "cpu=4 memory=4Gi pods=9", ""));
        cluster.nodes[0].unsettled = unsettled;
        let mut old = unmanaged("old", "pods=0", "");
        if from_going {
            Arc::make_mut(old.node.as_mut().unwrap()).deleting_since = Some(Timestamp::UNIX_EPOCH);
        }
        cluster.node(old);
        let mut moving = pod();
        moving.0.phase = phase;
        moving.0.node_name = Some("old".into());
        cluster.add(moving);
        let plan = cluster.plan();
        assert_eq!(plan.claims.is_empty(), want, "{name}");
    }
}

/// SCH-107.
#[test]
fn refusals_say_which_criteria_nobody_meets() {
    use Criterion::{Offering, Requirements, Resources};
    let offered =
        |name: &str, zone: &str, cpus: u32| it(name, &format!("cpu={cpus} memory=4Gi pods=5")).in_zones(&[zone], 1.0);
    let mut spot = offered("spot", "z1", 4);
    spot.0
        .requirements
        .replace(karpenter_model::requirements::Requirement::any_of("topology.kubernetes.io/zone", ["z1", "z2"]));
    for (name, types, asked, unmet, together) in [
        ("requirements", vec![offered("a", "z1", 4)], pod().select("type", "b"), vec![Requirements], false),
        ("offering", vec![spot.clone()], pod().select("zone", "z2"), vec![Offering], false),
        (
            "requirements and offering",
            vec![offered("a", "z1", 4)],
            pod().select("zone", "z2"),
            vec![Requirements, Offering],
            false,
        ),
        (
            "all",
            vec![offered("a", "z1", 4)],
            pod().select("zone", "z2").asks("cpu=9"),
            vec![Requirements, Resources, Offering],
            false,
        ),
        (
            "a pair",
            vec![offered("small", "z1", 2), offered("large", "z2", 8)],
            pod().select("zone", "z1").asks("cpu=4"),
            vec![Requirements, Resources],
            true,
        ),
    ] {
        let mut cluster = with(pool("p"), types);
        cluster.run([asked]);
        match &cluster.last.unplaced[0].reasons[0].why {
            Refusal::NoType(why) => assert_eq!((&why.unmet, why.together), (&unmet, together), "{name}: {why}"),
            other => panic!("{name}: {other}"),
        }
    }
    let mut absurd = cluster();
    absurd.run([pod().asks("cpu=2M")]);
    let text = absurd.last.unplaced[0].reasons[0].why.to_string();
    assert!(text.ends_with("(was m meant instead of M?)"), "{text}");
    let mut daemons = with(pool("p"), f1());
    daemons.daemon(pod().asks("cpu=1").require("size In large"));
    daemons.run([pod().select("zone", "z9")]);
    assert_eq!(
        daemons.last.unplaced[0].reasons[0].why.to_string(),
        "no instance type passes: none met the requirements, none had an offering to be had (requirements: \
         karpenter.sh/capacity-type In [on-demand reserved spot], \
         karpenter.sh/nodepool In [p], test.sh/testclass In [default], \
         topology.kubernetes.io/zone In [z9]; requests: pods: 1 to cpu: 1, pods: 2)"
    );
}

/// SCH-119.
#[test]
fn helpers() {
    let mut cluster = cluster();
    cluster.run([app()]);
    cluster.node(unmanaged("u", "cpu=2 memory=4Gi pods=1", ""));
    cluster.add_all(2, &pod().asks("cpu=1"));
    cluster.add_all(7, &pod().asks("cpu=99").named("").label("large=yes"));
    let (snapshot, plan) = (cluster.snapshot(), cluster.plan());
    let by_pool = plan.pods_by_pool(&snapshot);
    assert_eq!(by_pool.iter().map(|(name, pods)| (name.as_str(), pods.len())).collect::<Vec<_>>(), [("default", 1)]);
    let by_claim = plan.pods_by_claim(&snapshot);
    assert_eq!(by_claim.iter().map(|(name, pods)| (name.as_str(), pods.len())).collect::<Vec<_>>(), [("n0001", 1)]);
    assert!(plan.all_running_pods_placed(&snapshot));
    assert!(plan.summary().ends_with(", and 2 others"), "{}", plan.summary());
    assert!(plan.summary().starts_with("default/p0004 (default: no instance type has enough cpu, the largest lacks "));
    let mut moving = pod().asks("cpu=99");
    moving.0.node_name = Some("somewhere".into());
    cluster.add(moving);
    assert!(!cluster.plan().all_running_pods_placed(&cluster.snapshot()));
}
