//! Twenty thousand small problems, and problems that nobody should pose: all plans are valid, nobody is lost, and the work
//! has an end.

use super::build::{Pod, app, near, pod, pool, skew, soft, spread, unmanaged};
use super::cluster::{Cluster, empty, with};
use super::fixtures::it;
use crate::check::violations;
use crate::{Options, Plan, Planner, Preferences, plan};

/// Knuth's linear congruential generator: the same problems on every machine.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }

    fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// A pod with up to three features, of every kind of rule.
fn drawn_pod(draw: &mut Draw) -> Pod {
    let start = if draw.below(2) == 0 { app() } else { pod() };
    let cpu = draw.of(&[100, 500, 900, 1500, 3000]);
    let mut made = start.asks(&format!("cpu={cpu}m memory={}Mi", draw.of(&[100, 700, 2000])));
    for _ in 0..draw.below(4) {
        let (key, label) = (draw.of(&["zone", "host", "capacity"]), draw.of(&["app=test", "tier=db"]));
        made = match draw.below(12) {
            0 => made.select("zone", draw.of(&["z1", "z2", "z3"])),
            1 => made.require(draw.of(&["zone NotIn z1", "capacity In spot", "integer Gt 3", "nowhere In x"])),
            2 => made.prefer(3, draw.of(&["zone In z2", "size In large"])),
            3 => made.tolerate("t Exists"),
            4 => made.spread(skew(1, spread(key))),
            5 => made.spread(soft(spread(key))),
            6 => made.near(near(key, label)),
            7 => made.apart(near(key, label)),
            8 => made.prefers_apart(1, near(key, label)),
            9 => made.port(draw.of(&[80, 81])),
            10 => made.mounts("d.csi", &["a", "b"][..=draw.below(2)]),
            _ => made.label(label),
        };
    }
    made
}

fn drawn(seed: u64) -> Cluster {
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut cluster = empty();
    for name in ["a", "b"].into_iter().take(1 + draw.below(2)) {
        let asks = draw.of(&["", "", "zone In z1 z2", "capacity In on-demand", "type Exists min=2"]);
        let limits = draw.of(&["", "", "cpu=12", "nodes=2"]);
        let made = pool(name).weight(u32::from(draw.below(2) == 0)).require(asks).limits(limits);
        let made = if draw.below(4) == 0 { made.taint("t=1:NoSchedule") } else { made };
        let types = ["t1", "t2"].map(|name| {
            let known = it(name, &format!("cpu={} memory={}Gi pods=8", 2 + draw.below(7), 2 + draw.below(7)));
            let known = known.attaches("d.csi", 1 + u32::from(draw.below(2) == 0));
            if draw.below(6) == 0 { known.reserved("r", "z1", 1, 0.01) } else { known }
        });
        cluster.pool(made, types.into());
    }
    if draw.below(3) == 0 {
        cluster.node(unmanaged("u", "cpu=4 memory=4Gi pods=5", "zone=z1 capacity=spot"));
        cluster.bound(if draw.below(2) == 0 { app() } else { pod().apart(near("zone", "tier=db")) }, "u");
    }
    if draw.below(4) == 0 {
        cluster.daemon(pod().asks("cpu=200m").port(81));
    }
    for _ in 0..=draw.below(6) {
        let made = drawn_pod(&mut draw);
        cluster.add_all(1 + draw.below(2), &made);
    }
    if draw.below(4) == 0 {
        cluster.options.preferences = Preferences::Ignore;
    }
    cluster
}

fn best_of(cluster: &Cluster, steps: u64) -> Plan {
    plan(&cluster.snapshot(), &cluster.rules, &Options { planner: Planner::Best, steps, ..cluster.options })
}

/// Four tests, so that two cores have something to do.
fn all_valid(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let cluster = drawn(seed);
        let snapshot = cluster.snapshot();
        let reference = plan(&snapshot, &cluster.rules, &cluster.options);
        assert_eq!(violations(&snapshot, &cluster.rules, &reference), [], "seed {seed}");
        if seed % 10 == 0 {
            let best = best_of(&cluster, 30_000);
            assert_eq!(violations(&snapshot, &cluster.rules, &best), [], "best, seed {seed}");
            assert!(best.cost_per_hour() <= reference.cost_per_hour(), "seed {seed}");
            assert!(reference.placed.keys().all(|pod| best.placed.contains_key(pod)), "seed {seed}");
        }
    }
}

#[test]
fn the_first_five_thousand() {
    all_valid(0..5_000);
}

#[test]
fn the_second_five_thousand() {
    all_valid(5_000..10_000);
}

#[test]
fn the_third_five_thousand() {
    all_valid(10_000..15_000);
}

#[test]
fn the_fourth_five_thousand() {
    all_valid(15_000..20_000);
}

/// Both planners place so many pods, account for all, and do not work more than they may.
fn holds(name: &str, cluster: &Cluster, placed: usize) {
    let snapshot = cluster.snapshot();
    let reference = plan(&snapshot, &cluster.rules, &cluster.options);
    let steps = 2_000_000;
    let best = best_of(cluster, steps);
    for one in [&reference, &best] {
        assert_eq!(violations(&snapshot, &cluster.rules, one), [], "{name}");
        assert_eq!(one.placed.keys().count(), placed, "{name}: {}", one.summary());
        assert_eq!(one.unplaced.len(), snapshot.pending.len() - placed, "{name}");
        assert!(one.unplaced.iter().all(|unplaced| !unplaced.reasons.is_empty()), "{name}");
    }
    assert!(best.steps <= 2 * steps, "{name}: {} steps", best.steps);
}

fn small() -> Cluster {
    with(pool("p"), vec![it("t", "cpu=4 memory=8Gi pods=10")])
}

#[test]
fn contradictions_and_absurd_amounts() {
    let with_pods = |pods: Vec<Pod>| {
        let mut cluster = small();
        for pod in pods {
            cluster.add(pod);
        }
        cluster
    };
    for (name, pods, placed) in [
        ("two zones at once", vec![pod().select("zone", "z1").require("zone In z2"), pod()], 1),
        ("in and not in", vec![pod().require("zone In z1").require("zone NotIn z1 z2 z3")], 1),
        ("near nobody and itself not meant", vec![pod().near(near("zone", "app=none"))], 0),
        (
            "apart from itself, twice",
            vec![app().apart(near("zone", "app=test")), app().apart(near("zone", "app=test"))],
            1,
        ),
        ("more than there is", vec![pod().asks("cpu=1000000000000000000"), pod()], 1),
        ("next to nothing", vec![pod().asks("cpu=1n memory=1")], 1),
        ("less than nothing", vec![pod().asks("cpu=-5 memory=-1Gi"), pod().asks("cpu=1")], 2),
        ("nothing of what is unknown", vec![pod().asks("example.com/thing=0")], 1),
        ("what nobody has", vec![pod().asks("example.com/thing=1")], 0),
    ] {
        holds(name, &with_pods(pods), placed);
    }
}

#[test]
fn fifty_preferences_that_cannot_hold() {
    let mut cluster = small();
    let wishful = (0..50).fold(app().asks("cpu=500m"), |pod, at| pod.prefer(1 + at % 9, &format!("nowhere In x{at}")));
    let shy = (0..20).fold(wishful, |pod, at| pod.prefers_apart(1 + at, near("zone", "app=test")));
    cluster.add_all(20, &shy);
    holds("50 preferences", &cluster, 20);
}

#[test]
fn a_thousand_pools() {
    let mut cluster = empty();
    for at in 0..1000 {
        let asks = format!("team In team{at}");
        cluster.pool(pool(&format!("pool{at:04}")).require(&asks), vec![it("t", "cpu=4 memory=8Gi pods=10")]);
    }
    for at in 0..30 {
        cluster.add(pod().asks("cpu=3").select("team", &format!("team{}", at * 31)));
    }
    cluster.add(pod().select("team", "nobody"));
    holds("1,000 pools", &cluster, 30);
}

/// Pods that mount the same claims, and more of them than a node attaches.
#[test]
fn claims_that_overlap() {
    let mut cluster = with(pool("p"), vec![it("t", "cpu=4 memory=8Gi pods=10").attaches("d.csi", 2)]);
    for claims in [&["a", "b"][..], &["b", "c"], &["a", "c"], &["a"], &["a", "b", "c"]] {
        cluster.add(pod().asks("cpu=100m").mounts("d.csi", claims));
    }
    holds("overlapping claims", &cluster, 4);
}
