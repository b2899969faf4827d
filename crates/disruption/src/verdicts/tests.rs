//! Generated clusters: whatever is asked of the compiled snapshot, a pass of its own says the same.

use std::collections::BTreeMap;

use karpenter_model::labels;
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::protection::Protection;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::scheduling::{
    AffinityTerm, HostPort, Namespaces, NodePolicy, Preferred, SpreadConstraint, WhenUnsatisfiable,
};
use karpenter_model::selector::Selector;
use karpenter_model::taints::{Effect, Taint, Toleration};
use proptest::prelude::*;
use proptest::sample::select;

use super::{Cache, Verdict, of, simulated};
use crate::candidates::{Candidate, Class};
use crate::look::Look;
use crate::simulation::{Question, Simulated, Simulator};
use crate::testing::{Cluster, ZONES, instance_type, running, waiting};

/// One thing that a pod asks for.
#[derive(Debug, Clone, Copy)]
enum Wish {
    Zone(usize),
    Spread(&'static str, bool),
    Apart(&'static str, bool),
    Near(&'static str),
    Port(u16),
    Volume(usize),
    VolumeIn(usize),
    Tolerates,
    Protected,
}

fn any_wish() -> impl Strategy<Value = Wish> {
    let key = || select(vec![labels::ZONE, labels::HOSTNAME]);
    prop_oneof![
        (0..3_usize).prop_map(Wish::Zone),
        (key(), any::<bool>()).prop_map(|(key, hard)| Wish::Spread(key, hard)),
        (key(), any::<bool>()).prop_map(|(key, hard)| Wish::Apart(key, hard)),
        key().prop_map(Wish::Near),
        (80..82_u16).prop_map(Wish::Port),
        (0..3_usize).prop_map(Wish::Volume),
        (0..3_usize).prop_map(Wish::VolumeIn),
        Just(Wish::Tolerates),
        Just(Wish::Protected),
    ]
}

#[derive(Debug, Clone)]
struct Drawn {
    app: usize,
    cpu: i64,
    wishes: Vec<Wish>,
}

fn any_pod() -> impl Strategy<Value = Drawn> {
    (0..3_usize, 1..5_i64, prop::collection::vec(any_wish(), 0..3)).prop_map(|(app, cpu, wishes)| Drawn {
        app,
        cpu,
        wishes,
    })
}

const APPS: [&str; 3] = ["web", "db", "batch"];

fn wished(pod: &mut PodView, app: &str, wish: Wish) {
    let term = |key: &str| AffinityTerm {
        key: key.to_owned(),
        selector: Some(Selector::labels([("app", app)])),
        namespaces: Namespaces::only("default"),
    };
    match wish {
        Wish::Zone(at) => pod.scheduling.node_selector.add(Requirement::any_of(labels::ZONE, [ZONES[at]])),
        Wish::Spread(key, hard) => pod.scheduling.spread.push(SpreadConstraint {
            key: key.to_owned(),
            max_skew: 1,
            when: if hard { WhenUnsatisfiable::DoNotSchedule } else { WhenUnsatisfiable::ScheduleAnyway },
            selector: Some(Selector::labels([("app", app)])),
            min_domains: None,
            node_affinity_policy: NodePolicy::Honor,
            node_taints_policy: NodePolicy::Ignore,
        }),
        Wish::Apart(key, true) => pod.scheduling.anti_affinity.push(term(key)),
        Wish::Apart(key, false) => {
            pod.scheduling.preferred_anti_affinity.push(Preferred { weight: 1, value: term(key) });
        }
        Wish::Near(key) => pod.scheduling.affinity.push(term(key)),
        Wish::Port(port) => {
            pod.scheduling.host_ports.push(HostPort { ip: "0.0.0.0".into(), port, protocol: "TCP".into() });
        }
        Wish::Volume(at) => {
            pod.scheduling.volumes.claims.entry("d.csi".to_owned()).or_default().insert(format!("v{at}"));
        }
        Wish::VolumeIn(at) => {
            let here = Requirements::from_iter([Requirement::any_of(labels::ZONE, [ZONES[at]])]);
            pod.scheduling.volumes.alternatives.push(here);
        }
        Wish::Tolerates => pod.scheduling.tolerations.push(Toleration {
            key: "t".into(),
            effect: None,
            ..Toleration::prefer_no_schedule()
        }),
        Wish::Protected => pod.protection = Protection::Always,
    }
}

fn pod(drawn: &Drawn, mut pod: PodView) -> PodView {
    let app = APPS[drawn.app];
    pod.labels.insert("app".to_owned(), app.to_owned());
    pod.requests.set("cpu", Quantity::milli(drawn.cpu * 500));
    for wish in &drawn.wishes {
        wished(&mut pod, app, *wish);
    }
    pod
}

#[derive(Debug, Clone)]
struct DrawnNode {
    kind: &'static str,
    zone: usize,
    pool: &'static str,
    pods: Vec<Drawn>,
    starting: bool,
    unsettled: bool,
}

fn any_node() -> impl Strategy<Value = DrawnNode> {
    let kind = select(vec!["small", "large", "large spot", "huge"]);
    let pods = prop::collection::vec(any_pod(), 0..5);
    (kind, 0..3_usize, select(vec!["p", "p", "q"]), pods, 0..10_u8, 0..5_u8).prop_map(
        |(kind, zone, pool, pods, starting, unsettled)| DrawnNode {
            kind,
            zone,
            pool,
            pods,
            starting: starting == 0,
            unsettled: unsettled == 0,
        },
    )
}

fn pdb(name: &str, app: &str, allowed: i32) -> PdbView {
    PdbView {
        id: PodId::new("default", name),
        selector: Some(Selector::labels([("app", app)])),
        disruptions_allowed: allowed,
        never_allows: allowed < 0,
        lets_unready_go: false,
    }
}

pub(crate) fn any_cluster() -> impl Strategy<Value = Cluster> {
    let nodes = prop::collection::vec(any_node(), 2..7);
    let waits = prop::collection::vec(any_pod(), 0..2);
    let pools = (any::<bool>(), any::<bool>(), 0..4_i64);
    let budgets = prop::collection::vec((0..3_usize, -1..2_i32), 0..3);
    (nodes, waits, pools, budgets, any::<bool>()).prop_map(|(nodes, waits, (tainted, quiet, limit), budgets, gate)| {
        let types = [
            instance_type("nano", 1, 0.1, &[]),
            instance_type("small", 4, 0.4, &[0.2, 0.1, 0.3]),
            instance_type("large", 16, 1.5, &[0.9, 0.6, 0.5]),
            instance_type("huge", 64, 6.4, &[]),
        ];
        let mut cluster = Cluster::new(types)
            .pool("p", |pool| {
                pool.limits = match limit {
                    0 => karpenter_model::resources::Resources::new().with("cpu", Quantity::units(40)),
                    _ => karpenter_model::resources::Resources::new(),
                };
                if quiet {
                    let after = karpenter_model::duration::GoDuration::from_secs(60);
                    pool.consolidate_after = karpenter_model::duration::NillableDuration::After(after);
                }
            })
            .pool("q", |pool| {
                if tainted {
                    pool.taints.push(Taint::new("t", "1", Effect::NoSchedule));
                }
            });
        cluster.gates.spot_to_spot = gate;
        for (at, drawn) in nodes.iter().enumerate() {
            let name = format!("n{at}");
            let pods = drawn.pods.iter().enumerate();
            let pods = pods.map(|(turn, one)| pod(one, running(&format!("{name}-{turn}"), 1)));
            cluster = cluster.node(&name, drawn.pool, drawn.kind, pods).change(&name, |node| {
                node.labels.insert(labels::ZONE.to_owned(), ZONES[drawn.zone].to_owned());
                if drawn.starting {
                    node.labels.remove(labels::INITIALIZED);
                }
                if drawn.pool == "q" && tainted {
                    node.taints.push(Taint::new("t", "1", Effect::NoSchedule));
                }
            });
            if drawn.unsettled {
                let now = cluster.now;
                cluster = cluster.claim(&name, |claim| claim.last_pod_event = Some(now));
            }
        }
        for (at, one) in waits.iter().enumerate() {
            cluster = cluster.waiting(pod(one, waiting(&format!("waits-{at}"), 1)));
        }
        for (at, (app, allowed)) in budgets.into_iter().enumerate() {
            cluster = cluster.pdb(pdb(&format!("b{at}"), APPS[app], allowed));
        }
        let usages = usages(&cluster);
        for offer in &mut cluster.snapshot.pools {
            offer.usage = usages.get(&offer.pool.name).cloned().unwrap_or_default();
        }
        cluster
    })
}

fn usages(cluster: &Cluster) -> BTreeMap<String, karpenter_model::resources::Resources> {
    let mut usages: BTreeMap<String, karpenter_model::resources::Resources> = BTreeMap::new();
    for node in &cluster.snapshot.nodes {
        usages.entry(node.pool().unwrap_or_default().to_owned()).or_default().add(&node.capacity());
    }
    usages
}

fn text(simulated: &Simulated) -> String {
    let Simulated { plan, moved, homeless } = simulated;
    format!("{:#?} {:#?} {:#?} {moved:?} {homeless:?}", plan.placed, plan.claims, plan.unplaced)
}

/// DIS-81 … DIS-92, DIS-194: sets of nodes of every size, drift's and consolidation's way of asking.
fn same_simulations(look: &Look<'_>, simulator: &mut Simulator<'_>, candidates: &[Candidate<'_>]) {
    let all: Vec<&Candidate<'_>> = candidates.iter().collect();
    for going in all.windows(1).chain(all.windows(2)).chain(all.windows(3)).chain([&all[..]]) {
        for leave_unsettled_alone in [true, false] {
            let question = Question { leave_unsettled_alone, ..Question::default() };
            let want = simulator.without_from_scratch(going, question);
            assert_eq!(text(&simulator.without(going, question)), text(&want), "{}", look.snapshot.nodes.len());
        }
    }
}

proptest! {
    /// DIS-81 … DIS-92, DIS-104 … DIS-116: spread, affinity, ports, volumes, taints, limits, budgets of pods and starting nodes.
    #[test]
    fn verdicts_are_what_a_pass_for_each_node_says(cluster in any_cluster()) {
        let look = cluster.look();
        let candidates = look.candidates(Class::Graceful, &mut Vec::new());
        let new = || Simulator::new(look.snapshot, &look.facts, look.planned, look.rules, look.options);
        let mut simulator = new();
        same_simulations(&look, &mut simulator, &candidates);
        let mut plain = new().uncompiled();
        for candidate in &candidates {
            let want = simulated(candidate, &look, &mut plain);
            prop_assert_eq!(of(candidate, &look, &mut simulator), want, "{}", candidate.name());
        }
    }
}

/// Something that happens to a cluster: to which node, and what.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// The pod at this place ends.
    Ends(usize, usize),
    /// A pod comes.
    Comes(usize, usize, i64),
    Unsettled(usize),
    Gone(usize),
    Tainted(usize),
    Budget(usize),
    Waits,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..7_usize, 0..5_usize).prop_map(|(node, pod)| Event::Ends(node, pod)),
        4 => (0..7_usize, 0..3_usize, 1..5_i64).prop_map(|(node, app, cpu)| Event::Comes(node, app, cpu)),
        1 => (0..7_usize).prop_map(Event::Unsettled),
        1 => (0..7_usize).prop_map(Event::Gone),
        1 => (0..7_usize).prop_map(Event::Tainted),
        1 => (0..3_usize).prop_map(Event::Budget),
        1 => Just(Event::Waits),
    ]
}

fn happens(mut cluster: Cluster, event: Event, turn: usize) -> Cluster {
    let count = cluster.snapshot.nodes.len();
    if count == 0 {
        return cluster;
    }
    match event {
        Event::Ends(node, pod) => {
            let node = &mut cluster.snapshot.nodes[node % count];
            if !node.pods.is_empty() {
                let at = pod % node.pods.len();
                let gone = node.pods.remove(at);
                node.requested.subtract(&gone.requests);
            }
            cluster
        }
        Event::Comes(node, app, cpu) => {
            let node = &mut cluster.snapshot.nodes[node % count];
            let drawn = Drawn { app, cpu, wishes: Vec::new() };
            let new = pod(&drawn, running(&format!("later-{turn}"), 1));
            if new.requests.fits(&node.available()) {
                node.requested.add(&new.requests);
                let new = PodView { node_name: Some(node.name().into()), ..new };
                node.pods.push(new.into());
            }
            cluster
        }
        Event::Unsettled(node) => {
            let (name, now) = (cluster.snapshot.nodes[node % count].name().to_owned(), cluster.now);
            cluster.claim(&name, |claim| claim.last_pod_event = Some(now))
        }
        Event::Gone(node) => {
            cluster.snapshot.nodes.remove(node % count);
            cluster
        }
        Event::Tainted(node) => {
            let name = cluster.snapshot.nodes[node % count].name().to_owned();
            cluster.change(&name, |node| node.taints.push(Taint::new("new", "", Effect::NoSchedule)))
        }
        Event::Budget(app) => cluster.pdb(pdb(&format!("later-{turn}"), APPS[app], -1)),
        Event::Waits => cluster.waiting(waiting(&format!("later-{turn}"), 2)),
    }
}

proptest! {
    /// G14, X6: whatever happens, a verdict that is still known is the one that a fresh look comes to.
    #[test]
    fn known_verdicts_are_fresh_ones(cluster in any_cluster(), events in prop::collection::vec(any_event(), 1..5), calm: bool) {
        let mut cluster = cluster;
        if calm {
            // Pods that wait entangle everything with everything.
            cluster.snapshot.pending.clear();
        }
        let mut cache = Cache::default();
        let mut turns = vec![None];
        turns.extend(events.into_iter().map(Some));
        for (turn, event) in turns.into_iter().enumerate() {
            if let Some(event) = event {
                cluster = happens(cluster, event, turn);
            }
            let look = cluster.look();
            let mut simulator = Simulator::new(look.snapshot, &look.facts, look.planned, look.rules, look.options);
            cache.refresh(&look, &mut simulator);
            let mut plain = Simulator::new(look.snapshot, &look.facts, look.planned, look.rules, look.options).uncompiled();
            let candidates = look.candidates(Class::Graceful, &mut Vec::new());
            for candidate in &candidates {
                let (verdict, anew) = cache.of(candidate, &look, &mut simulator);
                let fresh = simulated(candidate, &look, &mut plain);
                prop_assert_eq!(verdict, fresh, "{} anew: {}, after {:?}", candidate.name(), anew, event);
            }
            same_simulations(&look, &mut simulator, &candidates);
            cache.keep(&look, &mut simulator);
        }
    }
}

/// How many verdicts took a simulation.
fn judge(cluster: &Cluster, cache: &mut Cache) -> usize {
    cluster.with(|look, simulator| {
        cache.refresh(look, simulator);
        let candidates = look.candidates(Class::Graceful, &mut Vec::new());
        let anew = candidates.iter().filter(|candidate| cache.of(candidate, look, simulator).1).count();
        cache.keep(look, simulator);
        anew
    })
}

fn many(count: usize, cpus: &[i64]) -> Cluster {
    let mut cluster = Cluster::new([instance_type("small", 4, 0.4, &[])]).pool("p", |_| ());
    for at in 0..count {
        let pods = cpus.iter().enumerate().map(|(turn, cpu)| running(&format!("x{at}-{turn}"), *cpu));
        cluster = cluster.node(&format!("n{at:02}"), "p", "small", pods);
    }
    cluster
}

/// G14: where there is more than enough room, nobody has to be asked, whatever happens.
#[test]
fn room_for_all_needs_no_simulation() {
    let mut cache = Cache::default();
    let cluster = many(20, &[1, 1]);
    assert_eq!(judge(&cluster, &mut cache), 0);
    let ended = happens(cluster, Event::Ends(19, 0), 0);
    assert_eq!(judge(&ended, &mut cache), 0);
    assert_eq!(judge(&happens(ended, Event::Ends(0, 0), 0), &mut cache), 0);
}

/// G14: where there is none, a pod that ends concerns its node, and those with pods that it now has room for.
#[test]
fn most_verdicts_outlive_a_change() {
    let mut cache = Cache::default();
    // Nobody has room for the larger one of each.
    let cluster = many(20, &[3, 1]);
    assert_eq!(judge(&cluster, &mut cache), 20);
    assert_eq!(judge(&cluster, &mut cache), 0, "nothing has happened");
    let small = happens(cluster, Event::Ends(7, 1), 0);
    assert_eq!(judge(&small, &mut cache), 20, "each has a pod that fits there");
    let mut cache = Cache::default();
    let odd = many(20, &[3]).node("z", "p", "small", [running("z1", 2), running("z2", 2)]);
    assert_eq!(judge(&odd, &mut cache), 21);
    let free = happens(odd, Event::Ends(20, 1), 0);
    assert_eq!(judge(&free, &mut cache), 1, "two CPUs are of no use to those who ask for three");
}

/// G14, DIS-32: budgets of pods that change, and protection that ends, change who moves.
#[test]
fn who_may_move_is_looked_at_again() {
    let cluster = many(3, &[3]);
    let mut cache = Cache::default();
    assert_eq!(judge(&cluster, &mut cache), 3);
    let labelled = |cluster: Cluster| {
        let mut cluster = cluster;
        for node in &mut cluster.snapshot.nodes {
            let pods = node.pods.iter().map(|pod| {
                let mut pod = PodView::clone(pod);
                pod.labels.insert("app".to_owned(), "web".to_owned());
                pod.into()
            });
            node.pods = pods.collect();
        }
        cluster
    };
    let cluster = labelled(cluster);
    assert_eq!(judge(&cluster, &mut cache), 3, "other pods");
    let more = cluster.clone().pdb(pdb("allows", "web", 5));
    assert_eq!(judge(&more, &mut cache), 0, "a budget that lets pods go changes nothing");
    let mut none = cluster.clone();
    none.pdbs = vec![std::sync::Arc::new(pdb("allows", "web", 1))];
    assert_eq!(judge(&none, &mut cache), 0, "how many go at once is not the question");
    let never = cluster.pdb(pdb("never", "web", -1));
    let (held, known) = never.with(|look, simulator| {
        cache.refresh(look, simulator);
        let moved = simulator.compiled().map(|known| known.node("n00").map_or(0, |node| known.residents(node).len()));
        (moved, cache.len())
    });
    assert_eq!((held, known), (Some(0), 0), "nobody moves any more");
}

/// DIS-87: what keeps a node is said as by the simulation itself.
#[test]
fn a_node_that_stays_says_why() {
    let only = |pod: PodView| pod.but(|pod| pod.scheduling.node_selector.add(Requirement::any_of("x", ["y"])));
    let cluster = Cluster::new([instance_type("small", 4, 0.4, &[])])
        .pool("p", |_| ())
        .node("a", "p", "small", [only(running("x", 1))])
        .node("b", "p", "small", [running("y", 1)]);
    cluster.with(|look, simulator| {
        let candidates = look.candidates(Class::Graceful, &mut Vec::new());
        let verdicts = super::of_each(&candidates.iter().collect::<Vec<_>>(), look, simulator);
        assert!(matches!(&verdicts[0], Verdict::Stays(why) if why.to_string().contains("default/x")), "{verdicts:?}");
        assert_eq!(verdicts[1], Verdict::Delete { savings: 0.4 });
        assert!((verdicts[1].savings() - 0.4).abs() < 1e-9 && verdicts[0].savings().abs() < 1e-9);
    });
}
