//! Problems made to be hard.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::labels;
use karpenter_model::pod::{PodOwner, PodView};
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::{CPU, MEMORY, Resources};
use karpenter_model::scheduling::Preferred;
use karpenter_model::snapshot::{PoolOffer, Snapshot};

use super::parts::{GI, MI, Market, near, on_demand, scenario, waiting};
use super::{Preferences, Scenario};
use crate::dice::Dice;

/// A little more than half of what each type has: two never share a node of the size they seem made for.
pub fn halves(name: &'static str) -> Scenario {
    let market = Market::ec2_7i();
    let mut ids = Dice::new(21);
    let mut pods = Vec::new();
    for instance_type in market.types.iter() {
        let allocatable = instance_type.allocatable();
        let (cpu, memory) = (allocatable.amount(CPU).milli_value(), allocatable.amount(MEMORY).value());
        for _ in 0..20 {
            let number = pods.len();
            pods.push(waiting(&format!("half-{number:04}"), cpu / 2 + 1, memory / 2 + MI, &mut ids));
        }
    }
    scenario(name, market, on_demand("default"), pods)
}

/// Half of the pods want CPU, half want memory; only together do they fill a node.
pub fn pairs(name: &'static str) -> Scenario {
    let (mut dice, mut ids) = (Dice::new(22), Dice::new(23));
    let mut each = |number: usize| {
        let name = format!("pair-{number:04}");
        if number.is_multiple_of(2) {
            waiting(&name, dice.pick(&[1000, 2000, 3000]), 256 * MI, &mut ids)
        } else {
            waiting(&name, 100, dice.pick(&[8, 12, 16]) * GI, &mut ids)
        }
    };
    let pods = (0..2000).map(&mut each).collect();
    scenario(name, Market::ec2_7i(), on_demand("default"), pods)
}

/// Nothing to group, and few nodes large enough.
pub fn giants(name: &'static str) -> Scenario {
    let (mut dice, mut ids) = (Dice::new(24), Dice::new(25));
    let mut each = |number: i64| {
        let cpu = 8_000 + number * 777 + i64::try_from(dice.below(100)).unwrap_or(0);
        waiting(&format!("giant-{number:03}"), cpu, cpu / 1000 * dice.pick(&[1, 2, 4, 6]) * GI, &mut ids)
    };
    let pods = (0..200).map(&mut each).collect();
    scenario(name, Market::ec2_7i(), on_demand("default"), pods)
}

/// Fifty wishes for places that do not exist, and some for company that nobody offers.
pub fn deep_preferences(name: &'static str) -> Scenario {
    let mut ids = Dice::new(26);
    let wish = |number: i32| Preferred {
        weight: 1 + number % 100,
        value: Requirements::from_iter([Requirement::any_of(labels::ZONE, [format!("nowhere-{number}")])]),
    };
    let company = |number: i32| Preferred {
        weight: 1 + number,
        value: near(labels::HOSTNAME, ("app", if number % 2 == 0 { "nobody" } else { "deep" })),
    };
    let mut each = |number: usize| {
        let mut pod = waiting(&format!("deep-{number:03}"), 500, GI, &mut ids);
        pod.labels.insert("app".to_owned(), "deep".to_owned());
        pod.scheduling.preferred_terms = (0..50).map(wish).collect();
        pod.scheduling.preferred_affinity = (0..5).map(company).collect();
        pod
    };
    let pods = (0..200).map(&mut each).collect();
    scenario(name, Market::ec2_7i(), on_demand("default"), pods)
}

/// Many pools, each with a label and DaemonSets of its own; pods choose a pool, or none.
pub fn pools(name: &'static str, count: usize, pods: usize) -> Scenario {
    let (mut dice, mut ids) = (Dice::new(27), Dice::new(28));
    let market = Market::ec2_7i();
    let team = |number: usize| format!("team-{number}");
    let offer = |number: usize| {
        let mut pool = on_demand(&format!("pool-{number:04}"));
        pool.labels.insert("team".to_owned(), team(number));
        pool.requirements.add(Requirement::any_of("team", [team(number)]));
        PoolOffer { pool: Arc::new(pool), instance_types: market.types.clone(), usage: Resources::new() }
    };
    let daemon = |number: usize, ids: &mut Dice| {
        let mut pod =
            waiting(&format!("agent-{number}"), 50 + 10 * i64::try_from(number % 20).unwrap_or(0), 64 * MI, ids);
        pod.owner = PodOwner::DaemonSet;
        pod.scheduling.node_selector.add(Requirement::any_of("team", [team(number)]));
        Arc::new(pod)
    };
    let mut waiting_pod = |number: usize| -> PodView {
        let (cpu, memory) = (dice.pick(&[250, 500, 1000, 2000]), dice.pick(&[512, 1024, 4096]) * MI);
        let mut pod = waiting(&format!("pod-{number:05}"), cpu, memory, &mut ids);
        if dice.below(4) > 0 {
            pod.scheduling.node_selector.add(Requirement::any_of("team", [team(dice.below(count))]));
        }
        pod
    };
    let pending: Vec<PodView> = (0..pods).map(&mut waiting_pod).collect();
    let mut offers: Vec<PoolOffer> = (0..count).map(offer).collect();
    // The order of precedence among equals (API-52).
    offers.sort_by(|a, b| karpenter_model::pool::by_precedence(&a.pool, &b.pool));
    let snapshot = Snapshot {
        pools: offers,
        pending: pending.into_iter().map(|pod| (pod.id.clone(), Arc::new(pod))).collect(),
        daemons: (0..count.min(50)).map(|number| daemon(number, &mut ids)).collect(),
        namespaces: BTreeMap::from([("default".to_owned(), BTreeMap::new())]),
        ..Snapshot::default()
    };
    Scenario { name, snapshot, rules: market.rules, preferences: Preferences::Respected }
}
