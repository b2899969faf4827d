//! Limits of pools (SC-113 … SC-117, SC-173, SC-372, SC-382).

use super::build::{pod, pool, unmanaged};
use super::cluster::with;
use super::fixtures::{f1, it, resources};

/// SCH-78, SC-113.
#[test]
fn sc_113_cpu() {
    for (limit, asks, placed) in [("cpu=2", "cpu=1.75", true), ("cpu=2", "cpu=2.1", false)] {
        assert_eq!(with(pool("p").limits(limit), f1()).one(pod().asks(asks)).is_some(), placed, "{limit} for {asks}");
    }
    let mut full = with(pool("p").limits("cpu=20"), f1());
    full.node(unmanaged("n", "cpu=100 memory=1Gi pods=0", "pool=p"));
    assert!(full.one(pod()).is_none());
}

/// SC-114, SC-115.
#[test]
fn sc_114_115_within_and_across_passes() {
    let mut at_once = with(pool("p").limits("cpu=3"), f1());
    let ids = at_once.run([pod().asks("cpu=1.5").alone(), pod().asks("cpu=1.5").alone()]);
    assert_eq!(at_once.placed(&ids), 1);
    let mut later = with(pool("p").limits("cpu=2"), f1());
    assert!(later.one(pod().asks("cpu=1.75")).is_some());
    assert!(later.one(pod().asks("cpu=1.75")).is_none());
}

/// SC-116.
#[test]
fn sc_116_pods() {
    assert!(with(pool("p").limits("pods=1"), f1()).one(pod().asks("vendor-a=1")).is_none());
}

/// Q6, SC-117, SC-372, SCH-80.
#[test]
fn sc_117_372_nodes() {
    let mut one_by_one = with(pool("p").limits("nodes=2"), f1());
    for placed in [true, true, false] {
        assert_eq!(one_by_one.one(pod().alone()).is_some(), placed);
    }
    let mut at_once = with(pool("p").limits("nodes=2"), f1());
    let ids = at_once.run_n(3, &pod().alone());
    assert_eq!((at_once.placed(&ids), at_once.last.claims.len()), (2, 2));
}

/// SC-173.
#[test]
fn sc_173_the_next_pool_takes_the_rest() {
    let types = || vec![it("t", "cpu=4 memory=4Gi pods=10")];
    let mut cluster = with(pool("heavy").weight(50).limits("cpu=8"), types());
    cluster.pool(pool("light").limits(""), types());
    cluster.run_n(6, &pod().asks("cpu=1.5"));
    let mut claims: Vec<(String, usize)> =
        cluster.last.claims.iter().map(|claim| (claim.pool.name.clone(), claim.pods.len())).collect();
    claims.sort();
    assert_eq!(claims, [("heavy".to_owned(), 2), ("heavy".to_owned(), 2), ("light".to_owned(), 2)]);
}

/// SC-382, SCH-79.
#[test]
fn sc_382_a_pool_over_a_limit_opens_nothing() {
    let mut cluster = with(pool("p").limits("vendor-a=2"), f1());
    for name in ["a", "b"] {
        cluster.node(unmanaged(name, "cpu=0 pods=0 vendor-a=2", "pool=p"));
    }
    assert!(cluster.one(pod()).is_none());
}

/// SCH-80, SCH-82: a claim is charged with the largest type it may become, and narrowing it gives nothing back.
#[test]
fn sch_82_narrowing_gives_nothing_back() {
    let types = || vec![it("small", "cpu=4 memory=4Gi pods=10"), it("large", "cpu=16 memory=16Gi pods=10")];
    let large = || pod().select("type", "large").alone();
    let mut narrowed = with(pool("p").limits("cpu=20"), types());
    let ids = narrowed.run([pod().asks("cpu=1"), pod().select("type", "small"), large()]);
    assert_eq!(narrowed.label("type", &ids[0]), "small");
    assert_eq!(narrowed.placed(&ids), 2, "16 of 20 are spent, although the node is a small one");
    let mut wide = with(pool("p").limits("cpu=32"), types());
    let ids = wide.run([pod().asks("cpu=1"), pod().select("type", "small"), large()]);
    assert_eq!(wide.placed(&ids), 3);
}

/// Q43: limits are charged with what the type has, whatever an offering of it adds.
#[test]
fn q43_overrides_are_not_charged() {
    let mut larger = it("t", "cpu=4 memory=4Gi pods=10").in_zones(&["z1"], 1.0);
    larger.0.offerings.iter_mut().for_each(|offering| offering.overrides.capacity = resources("cpu=64"));
    assert!(with(pool("p").limits("cpu=8"), vec![larger]).one(pod().asks("cpu=1")).is_some());
}

/// Q42: a claim that is given up when its types are cut down to 600 has used up the limit of its pool for this pass; the next
/// one starts clean.
#[test]
fn q42_the_next_pass_starts_clean() {
    let flavored = |i: u32| {
        let (team, flavor) =
            if i < 600 { ("a", "plain") } else { ("b", if i.is_multiple_of(2) { "plain" } else { "fine" }) };
        let known = it(&format!("t{i:03}"), "cpu=4 memory=4Gi pods=10").price(1.0 + f64::from(i));
        known.with("team", &[team]).with("flavor", &[flavor])
    };
    let pool = pool("p").require("team Exists").require("flavor Exists min=2").limits("nodes=1");
    let mut cluster = with(pool, (0..700).map(flavored).collect());
    let given_up = pod().asks("cpu=3").alone();
    let fine = || pod().asks("cpu=1").require("team In b").alone();
    let ids = cluster.run([given_up, fine()]);
    assert_eq!(cluster.placed(&ids), 0);
    cluster.pending.remove(&ids[0]);
    cluster.pass();
    assert!(cluster.at(&ids[1]).is_some());
}
