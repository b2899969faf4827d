use std::collections::BTreeSet;

use karpenter_model::labels;
use karpenter_model::resources::{CPU, MEMORY, PODS};
use karpenter_solver::check;

use super::parts::Market;
use super::*;
use crate::run::{Planner, options};

#[test]
fn names_are_unique_and_scenarios_have_them() {
    let names: BTreeSet<&str> = SCENARIOS.iter().map(|recipe| recipe.name).collect();
    assert_eq!(names.len(), SCENARIOS.len());
    for recipe in SCENARIOS.iter().filter(|recipe| !["million", "mix-50000", "mix-100000"].contains(&recipe.name)) {
        let scenario = recipe.make();
        assert_eq!(scenario.name, recipe.name);
        assert!(!scenario.snapshot.pending.is_empty() && !scenario.snapshot.pools.is_empty(), "{}", recipe.name);
    }
    assert!(named("nothing of the kind").is_none());
}

/// The same seed gives the same scenario, down to the ids that break ties.
#[test]
fn scenarios_repeat() {
    for name in ["mix-1000", "synth-120-ec2", "churned-1000", "pools-50"] {
        let (a, b) = (named(name).unwrap(), named(name).unwrap());
        assert_eq!(a.snapshot.pending, b.snapshot.pending, "{name}");
        assert_eq!(format!("{:?}", a.snapshot.nodes), format!("{:?}", b.snapshot.nodes), "{name}");
    }
}

/// The catalogue and the mix of `performance.md` 1.1.
#[test]
fn the_mix_is_upstreams() {
    let scenario = named("mix-1000").unwrap();
    let types = &scenario.snapshot.pools[0].instance_types;
    assert_eq!(types.len(), 400);
    assert_eq!(types[0].allocatable().to_string(), "cpu: 900m, memory: 2038Mi, pods: 10");
    assert_eq!(types[399].allocatable().to_string(), "cpu: 399900m, memory: 819190Mi, pods: 4k");
    assert!((types[9].offerings[0].price.per_hour() - 3.147_483_648).abs() < 1e-9);
    assert_eq!((types[3].offerings.len(), types[3].requirements.iter().count()), (5, 8));
    let pods = || scenario.snapshot.pending.values();
    assert_eq!(pods().filter(|pod| pod.scheduling.spread.iter().any(|s| s.key == labels::ZONE)).count(), 200);
    assert_eq!(pods().filter(|pod| pod.scheduling.spread.iter().any(|s| s.key == labels::HOSTNAME)).count(), 200);
    assert_eq!(pods().filter(|pod| !pod.scheduling.affinity.is_empty()).count(), 200);
    assert_eq!(pods().filter(|pod| !pod.scheduling.anti_affinity.is_empty()).count(), 200);
    // Means of 670 m and 1339 Mi, as the draws are uniform.
    let cpu: i64 = pods().map(|pod| pod.requests.amount(CPU).milli_value()).sum::<i64>() / 1000;
    let memory: i64 = pods().map(|pod| pod.requests.amount(MEMORY).value() >> 20).sum::<i64>() / 1000;
    assert!((630..710).contains(&cpu) && (1250..1430).contains(&memory), "{cpu} {memory}");
    let of = |name: &str| named(name).unwrap().snapshot.pending.len();
    assert_eq!((of("mix-1"), of("mix-100"), of("mix-5000")), (1, 100, 5000));
}

/// Anti-affinity forces a fifth as many nodes as there are pods, and every pod gets a place, as upstream's runs find.
#[test]
fn the_reference_needs_as_many_nodes_as_upstream() {
    let scenario = mix::diverse("mix-200", 200);
    let plan = karpenter_solver::plan(&scenario.snapshot, &scenario.rules, &options(&scenario, Planner::Reference));
    assert_eq!((plan.claims.len(), plan.unplaced.len()), (40, 0));
    assert_eq!(check::violations(&scenario.snapshot, &scenario.rules, &plan), []);
    for (scenario, nodes) in [(mix::preferring("prefs-60", 60), 60..=60), (ignored(60), 1..=2)] {
        let plan = karpenter_solver::plan(&scenario.snapshot, &scenario.rules, &options(&scenario, Planner::Reference));
        assert!(nodes.contains(&plan.claims.len()), "{}: {}", scenario.name, plan.claims.len());
    }
}

fn ignored(count: usize) -> Scenario {
    Scenario { preferences: Preferences::Ignored, ..mix::preferring("prefs-ignored", count) }
}

/// Facts about the table of EC2 that the scenarios rest on (`performance.md` 4).
#[test]
fn markets() {
    let sizes = [Market::ec2(), Market::ec2_605(), Market::ec2_7i(), Market::ec2_7i_small(), Market::kwok_below_32()]
        .map(|market| market.types.len());
    assert_eq!(sizes, [1345, 605, 27, 15, 60]);
    let shapes: BTreeSet<String> = Market::ec2()
        .types
        .iter()
        .map(|t| {
            let mut allocatable = t.allocatable();
            allocatable.set("neuroncore", allocatable.amount("aws.amazon.com/neuroncore"));
            format!("{} {allocatable}", t.requirements.get(labels::ARCH).unwrap())
        })
        .collect();
    assert_eq!(shapes.len(), 371);
}

#[test]
fn the_trace_is_whole() {
    let shapes = traces::shapes();
    assert_eq!((shapes.len(), shapes.iter().map(|shape| shape.pods).sum::<usize>()), (151, 8152));
    assert_eq!(named("openb-all-ec2").unwrap().snapshot.pending.len(), 8152);
    assert_eq!(named("openb-ec2").unwrap().snapshot.pending.len(), 1088);
}

#[test]
fn the_suites_of_upstream() {
    assert_eq!(named("basic").unwrap().snapshot.pending.len(), 1000);
    let wide = named("wide").unwrap();
    assert_eq!(wide.snapshot.pending.len(), 1000);
    let with = |key: &str| {
        let spreads = |pod: &&std::sync::Arc<karpenter_model::pod::PodView>| {
            pod.scheduling.spread.iter().any(|constraint| constraint.key == key)
        };
        wide.snapshot.pending.values().filter(spreads).count()
    };
    assert_eq!((with(labels::ZONE), with(labels::HOSTNAME)), (1000, 105));
    let apart = wide.snapshot.pending.values().filter(|pod| !pod.scheduling.anti_affinity.is_empty());
    assert_eq!(apart.count(), 105);
}

#[test]
fn a_lived_in_cluster_is_within_its_means() {
    let scenario = named("churned-1000").unwrap();
    assert_eq!(scenario.snapshot.nodes.len(), 1000);
    assert_eq!(scenario.snapshot.pending.len(), 2000);
    for node in &scenario.snapshot.nodes {
        assert!(node.requested.fits(&node.allocatable()), "{}", node.name());
        assert_eq!(node.requested.amount(PODS).value(), i64::try_from(node.pods.len()).unwrap());
    }
}
