//! The planner that looks for cheaper plans: never dearer than the reference, never against a rule.

use std::sync::Arc;

use karpenter_model::instance_type::Price;
use karpenter_model::labels::LabelRules;
use karpenter_model::snapshot::Snapshot;
use proptest::prelude::*;

use super::build::{app, pod, pool, skew, spread, unmanaged};
use super::cluster::{Cluster, with};
use super::fixtures::it;
use super::random::{Overrides, any_cluster, any_pod, reversed, text};
use crate::check::violations;
use crate::{BoundKind, Options, Part, Plan, Planner, appraise, plan, refusing_nodes, shape};

fn best_of(snapshot: &Snapshot, rules: &LabelRules, options: &Options) -> Plan {
    plan(snapshot, rules, &Options { planner: Planner::Best, ..*options })
}

/// Types whose price grows faster than their size, as it does when only the largest sizes of the dearest family are left.
fn steep() -> Cluster {
    let types = [(4, 1.1), (8, 2.0), (16, 5.0), (32, 14.0)];
    let types = types.map(|(cpu, price)| {
        it(&format!("t{cpu:02}"), &format!("cpu={cpu} memory={}Gi pods=100", cpu * 4)).price(price)
    });
    with(pool("p"), types.into())
}

/// The reference grows a claim until nothing more fits and is left with the largest type; the best plan takes the size that
/// gives most for its price.
#[test]
fn nodes_of_the_right_size() {
    let mut cluster = steep();
    cluster.add_all(60, &pod().asks("cpu=900m memory=1Gi"));
    let snapshot = cluster.snapshot();
    let reference = plan(&snapshot, &cluster.rules, &cluster.options);
    let best = best_of(&snapshot, &cluster.rules, &cluster.options);
    assert_eq!((reference.planner, reference.part), (Planner::Reference, Part::Reference));
    assert_eq!(best.planner, Planner::Best);
    assert_ne!(best.part, Part::Reference);
    assert!((reference.cost_per_hour() - 28.0).abs() < 1e-9, "{}", reference.cost_per_hour());
    // Eight to a node of eight CPUs: seven nodes, and one of four for the other four.
    assert!((best.cost_per_hour() - 15.1).abs() < 1e-9, "{}", best.cost_per_hour());
    // Cheapest first, and every larger type is still there to be launched instead.
    assert_eq!(*best.claims[0].instance_types, ["t08", "t16", "t32"]);
    let bound = best.bound.as_ref().unwrap();
    assert!(bound.per_hour <= 15.1 && best.gap().unwrap() < 0.03, "{bound:?}");
    assert!(best.steps > 0 && bound.prices.per_cpu > 0.2, "{bound:?}");
    let appraised = appraise(&snapshot, &cluster.rules, &cluster.options, &reference);
    assert!((appraised.per_hour - bound.per_hour).abs() < 1e-9, "{appraised:?}");
}

/// Half a node each: the fluid bound knows nothing of it.
#[test]
fn the_pattern_bound_is_found_where_it_matters() {
    let mut cluster = with(pool("p"), vec![it("t", "cpu=4 memory=64Gi pods=100").price(1.0)]);
    cluster.add_all(20, &pod().asks("cpu=2100m"));
    let snapshot = cluster.snapshot();
    let best = best_of(&snapshot, &cluster.rules, &cluster.options);
    let bound = best.bound.as_ref().unwrap();
    assert_eq!(bound.kind, BoundKind::Pattern);
    assert!((bound.per_hour - 20.0).abs() < 1e-6, "{bound:?}");
    assert_eq!(best.gap(), Some(best.cost_per_hour() / bound.per_hour - 1.0));
    assert_eq!(bound.worths[0].pods.len(), 20);
}

/// SCH-84: a lighter pool is not used for being cheaper.
#[test]
fn weights_come_before_prices() {
    let mut cluster = with(pool("heavy").weight(10), vec![it("dear", "cpu=8 memory=64Gi pods=100").price(9.0)]);
    cluster.pool(pool("light"), vec![it("cheap", "cpu=8 memory=64Gi pods=100").price(1.0)]);
    cluster.add_all(10, &pod().asks("cpu=3"));
    let best = best_of(&cluster.snapshot(), &cluster.rules, &cluster.options);
    assert!(best.claims.iter().all(|claim| claim.pool.name == "heavy"));
}

/// Pools of one weight are one shelf.
#[test]
fn pools_of_one_weight_compete() {
    let mut cluster = with(pool("z"), vec![it("dear", "cpu=8 memory=64Gi pods=100").price(9.0)]);
    cluster.pool(pool("a"), vec![it("cheap", "cpu=8 memory=64Gi pods=100").price(1.0)]);
    cluster.add_all(10, &pod().asks("cpu=3"));
    let snapshot = cluster.snapshot();
    let reference = plan(&snapshot, &cluster.rules, &cluster.options);
    assert!(reference.claims.iter().all(|claim| claim.pool.name == "z"), "API-52: the later name first");
    let best = best_of(&snapshot, &cluster.rules, &cluster.options);
    assert!(best.claims.iter().all(|claim| claim.pool.name == "a"));
    assert_eq!(violations(&snapshot, &cluster.rules, &best), []);
}

/// SCH-78: what does not fit the limits is placed as the reference does.
#[test]
fn limits_hold() {
    let types = [("t4", 4, 1.0), ("t8", 8, 3.0)];
    let types = types.map(|(name, cpu, price)| it(name, &format!("cpu={cpu} memory=64Gi pods=100")).price(price));
    let mut cluster = with(pool("p").limits("nodes=3"), types.into());
    cluster.add_all(20, &pod().asks("cpu=1"));
    let snapshot = cluster.snapshot();
    let reference = plan(&snapshot, &cluster.rules, &cluster.options);
    let best = best_of(&snapshot, &cluster.rules, &cluster.options);
    assert_eq!(violations(&snapshot, &cluster.rules, &best), []);
    assert_eq!(best.placed.len(), reference.placed.len());
}

/// Zone spread and host anti-affinity together: the pass keeps the rules, the packing the price.
#[test]
fn spread_over_zones_and_hosts() {
    let mut cluster = steep();
    cluster.add_all(30, &app().asks("cpu=1500m memory=1Gi").spread(skew(1, spread("zone"))));
    cluster.add_all(12, &app().asks("cpu=200m memory=1Gi").spread(spread("host")));
    cluster.add_all(30, &pod().asks("cpu=700m memory=4Gi"));
    let snapshot = cluster.snapshot();
    let reference = plan(&snapshot, &cluster.rules, &cluster.options);
    let best = best_of(&snapshot, &cluster.rules, &cluster.options);
    assert_eq!(violations(&snapshot, &cluster.rules, &best), []);
    assert_eq!(best.placed.len(), 72);
    assert!(
        best.cost_per_hour() < 0.9 * reference.cost_per_hour(),
        "{} {}",
        best.cost_per_hour(),
        reference.cost_per_hour()
    );
    assert!(best.gap().unwrap() < 0.17, "{:?}", best.gap());
}

/// A node says what fills it and what the next cheaper type lacks; the nodes that exist say how near they were.
#[test]
fn reasons_for_shapes_and_against_nodes() {
    let mut cluster = steep();
    cluster.add_all(8, &pod().asks("cpu=900m memory=1Gi"));
    let snapshot = cluster.snapshot();
    let plan = best_of(&snapshot, &cluster.rules, &cluster.options);
    let why = shape(&snapshot, &cluster.rules, &plan.claims[0]).unwrap();
    assert_eq!(why.to_string(), "t08 is 91 % full of cpu; t04 would be cheaper but lacks 3300m of cpu");
    let mut cluster = with(pool("p"), vec![it("t", "cpu=4 memory=4Gi pods=5")]);
    cluster.node(unmanaged("near", "cpu=8 memory=4Gi pods=5", "rack=r1"));
    cluster.node(unmanaged("far", "cpu=2 memory=4Gi pods=5", "rack=r1"));
    cluster.node(unmanaged("other", "cpu=16 memory=4Gi pods=5", "rack=r2"));
    let id = cluster.add(pod().asks("cpu=9").select("rack", "r1"));
    let snapshot = cluster.snapshot();
    let plan = best_of(&snapshot, &cluster.rules, &cluster.options);
    let nodes: Vec<String> =
        refusing_nodes(&snapshot, &cluster.rules, &plan, &id).iter().map(ToString::to_string).collect();
    assert_eq!(
        nodes,
        [
            "2 with too little cpu; near needs 1 more",
            "1 with other labels, such as other: key rack, rack In [r1] not in rack In [r2]",
        ]
    );
    let mut only = with(pool("p"), vec![it("t", "cpu=4 memory=4Gi pods=5")]);
    only.add(pod());
    let plan = only.plan();
    let why = shape(&only.snapshot(), &only.rules, &plan.claims[0]).unwrap();
    assert_eq!(why.cheaper, None);
}

/// Random clusters with every kind of rule, some pods many times over, and types that differ in what they give for money.
fn any_market() -> impl Strategy<Value = Cluster> {
    let replicas = prop::collection::vec((any_pod(), 1..14_usize), 0..3);
    let factors = prop::collection::vec(prop::collection::vec(3..20_u8, 8), 6);
    (any_cluster(Overrides::None), replicas, factors).prop_map(|(mut cluster, replicas, factors)| {
        for (pod, count) in replicas {
            cluster.add_all(count, &pod);
        }
        for (at, (_, types)) in cluster.pools.iter_mut().enumerate() {
            for (index, known) in Arc::make_mut(types).iter_mut().enumerate() {
                for (turn, offering) in known.offerings.iter_mut().enumerate() {
                    // The pools of a cluster share types, but may be sold them at other prices.
                    let factor = f64::from(factors[(at * 3 + index) % factors.len()][turn % 8]) / 10.0;
                    offering.price = Price::new(offering.price.per_hour() * factor).unwrap();
                }
            }
        }
        cluster
    })
}

proptest! {
    #[test]
    fn best_plans_are_valid_cheaper_and_repeatable(cluster in any_market()) {
        let snapshot = cluster.snapshot();
        let options = Options { steps: 1_000_000, ..cluster.options };
        let reference = plan(&snapshot, &cluster.rules, &options);
        let best = best_of(&snapshot, &cluster.rules, &options);
        prop_assert_eq!(violations(&snapshot, &cluster.rules, &best), vec![]);
        prop_assert!(best.cost_per_hour() <= reference.cost_per_hour());
        prop_assert!(reference.placed.keys().all(|pod| best.placed.contains_key(pod)));
        let bound = best.bound.as_ref().unwrap().per_hour;
        prop_assert!(bound <= best.cost_per_hour() * (1.0 + 1e-9), "bound {} of {}", bound, best.cost_per_hour());
        let again = best_of(&reversed(&snapshot), &cluster.rules, &options);
        prop_assert_eq!(text(&best), text(&again));
    }
}
