//! Reserved capacity (SC-162 … SC-169, SC-335, SC-383, VC-101 … VC-105).

use karpenter_model::labels;

use super::build::{Pod, app, near, pod, pool};
use super::cluster::{Cluster, with};
use super::fixtures::{RESERVATION, Type, it};
use crate::{Refusal, Reserved};

fn sized(name: &str, cpus: u32) -> Type {
    it(name, &format!("cpu={cpus} memory={cpus}Gi pods=10"))
}

/// The type with some instances reserved in z1, nearly for nothing.
fn reserved(name: &str, cpus: u32, id: &str, count: u32) -> Type {
    sized(name, cpus).reserved(id, "z1", count, 0.000_001)
}

/// Makes passes until nobody waits: how many pods each placed, and how many of those on reserved capacity.
fn passes(cluster: &mut Cluster, most: usize) -> Vec<(usize, usize)> {
    let is_reserved = |cluster: &Cluster| {
        let reserved = cluster.nodes.iter().filter(|node| node.labels()[labels::CAPACITY_TYPE] == "reserved");
        reserved.map(|node| node.pods.len()).sum::<usize>()
    };
    let mut steps = Vec::new();
    while !cluster.pending.is_empty() && steps.len() < most {
        let before = (cluster.pending.len(), is_reserved(cluster));
        cluster.pass();
        steps.push((before.0 - cluster.pending.len(), is_reserved(cluster) - before.1));
    }
    steps
}

/// SCH-110, SCH-112, SC-162.
#[test]
fn sc_162_one_after_another() {
    let types = vec![reserved("small", 2, "r-small", 1), reserved("medium", 3, "r-medium", 1), sized("large", 6)];
    let mut cluster = with(pool("p"), types);
    let ids = cluster.add_all(3, &pod().asks("cpu=1.8"));
    assert_eq!(passes(&mut cluster, 9), [(1, 1), (1, 1), (1, 0)]);
    let types: Vec<String> = ids.iter().map(|id| cluster.label("type", id)).collect();
    assert_eq!(types, ["small", "medium", "small"]);
}

fn on(pool: &str) -> Pod {
    pod().alone().select("pool", pool)
}

/// SC-163, SC-164.
#[test]
fn sc_163_164_two_pools() {
    for (id, ids, want) in [("SC-163", ["r", "r"], vec![(1, 1), (1, 0)]), ("SC-164", ["r1", "r2"], vec![(2, 2)])] {
        let mut cluster = with(pool("a"), vec![reserved("small", 2, ids[0], 1)]);
        cluster.pool(pool("b"), vec![reserved("small", 2, ids[1], 1)]);
        let pods = [cluster.add(on("a")), cluster.add(on("b"))];
        assert_eq!(passes(&mut cluster, 9), want, "{id}");
        if id == "SC-164" {
            assert_eq!([cluster.label(RESERVATION, &pods[0]), cluster.label(RESERVATION, &pods[1])], ["r1", "r2"]);
        }
    }
}

/// SCH-111, SC-165.
#[test]
fn sc_165_two_reservations_of_one_type() {
    let known = reserved("small", 2, "one", 1).reserved("two", "z1", 2, 0.000_001);
    let mut cluster = with(pool("p"), vec![known]);
    cluster.add_all(4, &pod().alone());
    assert_eq!(passes(&mut cluster, 9), [(2, 2), (1, 1), (1, 0)]);
}

/// SCH-113, SC-166, SC-167, SCH-114.
#[test]
fn sc_166_167_no_lighter_pool_and_no_relaxing() {
    let two = |weights: (u32, u32)| {
        let mut cluster = with(pool("np-1").weight(weights.0), vec![reserved("small", 2, "r1", 1)]);
        cluster.pool(pool("np-2").weight(weights.1), vec![reserved("small", 2, "r2", 1)]);
        cluster
    };
    for (id, mut cluster, pod) in
        [("SC-166", two((100, 50)), pod().alone()), ("SC-167", two((0, 0)), pod().alone().prefer(1, "pool In np-1"))]
    {
        let ids = cluster.add_all(2, &pod);
        assert_eq!(passes(&mut cluster, 9), [(1, 1), (1, 0)], "{id}");
        assert!(ids.iter().all(|one| cluster.label("pool", one) == "np-1"), "{id}");
    }
}

/// SC-168, SC-169, SC-335, SCH-115.
#[test]
fn sc_168_169_335_held_reservations_are_asked_for() {
    let mut cluster = with(pool("np-1"), vec![reserved("small", 2, "r", 1)]);
    let both = app()
        .near(near("zone", "app=test"))
        .select("type", "small")
        .select("pool", "np-1")
        .select("capacity", "reserved")
        .select("zone", "z1");
    let ids = cluster.run_n(2, &both);
    assert_eq!((cluster.placed(&ids), cluster.hosts(&ids)), (2, 1), "SC-168");
    let asked = &cluster.last.claims[0].requirements;
    assert_eq!(asked.get(labels::CAPACITY_TYPE).unwrap().to_string(), "karpenter.sh/capacity-type In [reserved]");
    assert_eq!(asked.get(RESERVATION).unwrap().to_string(), "reservation-id In [r]");
}

fn only_reserved(count: u32) -> Vec<Type> {
    vec![sized("small", 2).offerings(vec![]).reserved("r", "z1", count, 0.000_001)]
}

/// SC-383, Q40.
#[test]
fn sc_383_simulations_promise_nothing_twice() {
    let mut alone = with(pool("p"), only_reserved(1));
    alone.options.reserved = Reserved::Fallback;
    alone.add_all(2, &pod().alone());
    let plan = alone.plan();
    assert_eq!((plan.claims.len(), plan.unplaced.len()), (1, 1));
    assert_eq!(plan.unplaced[0].reasons[0].why, Refusal::ReservationsFull);
    let mut others = with(pool("p"), vec![reserved("small", 2, "r", 1)]);
    others.options.reserved = Reserved::Fallback;
    others.add_all(2, &pod().alone());
    let plan = others.plan();
    assert_eq!((plan.claims.len(), plan.unplaced.len()), (2, 0));
    let holds: Vec<bool> = plan.claims.iter().map(|claim| claim.requirements.has_key(RESERVATION)).collect();
    assert_eq!(holds, [true, false]);
}

/// VC-101, VC-105, V15-83, V15-85: a full reservation is neither used nor cheap.
#[test]
fn vc_101_105_a_full_reservation_beside_others() {
    let known = sized("small", 2).offers(&[("z1", "on-demand", 1.0)]).reserved("r", "z1", 0, 0.000_001);
    let mut cluster = with(pool("p"), vec![known, sized("dear", 2).offers(&[("z1", "on-demand", 0.9)])]);
    cluster.run([pod()]);
    let claim = &cluster.last.claims[0];
    assert_eq!(*claim.instance_types, ["dear", "small"]);
    assert!((claim.price.per_hour() - 0.9).abs() < 1e-9);
    assert_eq!(
        claim.requirements.get(labels::CAPACITY_TYPE).unwrap().to_string(),
        "karpenter.sh/capacity-type In [on-demand]"
    );
    assert!(!claim.requirements.has_key(RESERVATION));
}

/// VC-102, VC-103, V15-84.
#[test]
fn vc_102_103_nothing_but_a_full_reservation() {
    for (mode, pool_used) in [(Reserved::Strict, None), (Reserved::Fallback, Some("light"))] {
        let mut cluster = with(pool("heavy").weight(10), only_reserved(0));
        cluster.options.reserved = mode;
        cluster.add(pod());
        assert!(cluster.plan().claims.is_empty(), "VC-102 {mode:?}");
        cluster.pool(pool("light"), vec![sized("small", 2)]);
        let plan = cluster.plan();
        assert_eq!(plan.claims.first().map(|claim| claim.pool.name.as_str()), pool_used, "VC-103 {mode:?}");
    }
}

/// VC-104, V15-76.
#[test]
fn vc_104_credit() {
    for (credited, pods, placed) in [("r", 1, 1), ("r", 2, 1), ("unknown", 1, 0)] {
        let mut cluster = with(pool("p"), only_reserved(0));
        cluster.credits.insert(credited.to_owned(), 1);
        cluster.add_all(pods, &pod().alone());
        assert_eq!(cluster.plan().placed.len(), placed, "{credited} {pods}");
    }
}

/// V15-87: a reservation that is unavailable is ignored even if it reports capacity.
#[test]
fn unavailable_reservations_are_ignored() {
    let mut known = reserved("small", 2, "r", 5);
    known.0.offerings.last_mut().unwrap().available = false;
    let mut cluster = with(pool("p"), vec![known]);
    cluster.run([pod()]);
    assert_ne!(cluster.nodes[0].labels()[labels::CAPACITY_TYPE], "reserved");
}
