use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::budget::{Budget, Budgets};
use karpenter_model::claim::{RebootView, Status};
use karpenter_model::duration::GoDuration;
use karpenter_model::pod::PodView;
use karpenter_model::pool::PoolView;
use karpenter_model::protection::Protection;
use karpenter_model::requirements::Requirement;
use karpenter_model::resources::NODES;

use super::*;
use crate::reserved::TerminateFirst;
use crate::testing::{Cluster, RESERVATION, instance_type, running, texts, time, waiting, with_reservation};

/// The clusters are looked at at second 10,000: 31 minutes after this.
const PAST: i64 = 10_000 - 31 * 60;

/// Fixture R: the fallback of 30 minutes without a grace period.
fn bad(since: i64) -> RepairMatch {
    RepairMatch {
        condition_type: "BadNode".to_owned(),
        status: Status::False,
        reason: "Broken".to_owned(),
        since: Some(time(since)),
        expression: String::new(),
        is_fallback: true,
        toleration: Duration::from_mins(30),
        termination_grace_period: None,
        priority: 0,
        rank: 0,
        action: RepairAction::ReplaceNode,
    }
}

fn reboot(since: i64) -> RepairMatch {
    RepairMatch {
        action: RepairAction::RebootNode,
        toleration: Duration::from_mins(10),
        termination_grace_period: Some(Duration::from_mins(5)),
        ..bad(since)
    }
}

fn urgent(since: i64) -> RepairMatch {
    RepairMatch { condition_type: "Urgent".to_owned(), priority: 90, rank: 1, ..bad(since) }
}

struct Ill {
    cluster: Cluster,
    matches: BTreeMap<String, Vec<RepairMatch>>,
    pools: BTreeMap<String, StaticPool>,
    gate: bool,
    options: RepairOptions,
}

fn ill(cluster: Cluster) -> Ill {
    let (matches, pools) = (BTreeMap::new(), BTreeMap::new());
    Ill { cluster, matches, pools, gate: false, options: RepairOptions::SPECIFIED }
}

impl Ill {
    fn with(mut self, node: &str, matched: RepairMatch) -> Self {
        self.matches.entry(node.to_owned()).or_default().push(matched);
        self
    }

    fn change(mut self, change: impl FnOnce(Cluster) -> Cluster) -> Self {
        self.cluster = change(self.cluster);
        self
    }

    fn gate(mut self) -> Self {
        self.gate = true;
        self
    }

    fn static_pool(mut self, claims: u64, room: u64) -> Self {
        self.pools.insert("p".to_owned(), StaticPool { claims, room, ending: 0 });
        self
    }

    fn many(mut self) -> Self {
        self.options = RepairOptions::default();
        self
    }

    fn decide(&self) -> Decided {
        let facts = Sick {
            matches: &self.matches,
            static_pools: &self.pools,
            terminate_first: self.gate,
            options: self.options,
        };
        self.cluster.with(|look, simulator| sick(look, simulator, &facts))
    }

    fn texts(&self) -> Vec<String> {
        texts(&self.decide())
    }

    /// What is said of nodes that stay.
    fn why(&self) -> Vec<String> {
        let said = self.decide().notes.into_iter();
        said.filter_map(|note| match note {
            Note::Blocked { why, .. } => Some(why),
            Note::RepairBlocked { pool, .. } => Some(format!("too many of {pool}")),
            _ => None,
        })
        .collect()
    }
}

fn types() -> [karpenter_model::instance_type::InstanceType; 2] {
    [instance_type("small", 4, 0.4, &[]), instance_type("large", 16, 1.6, &[])]
}

fn cluster_of(change: impl FnOnce(&mut PoolView)) -> Cluster {
    Cluster::new(types()).pool("p", change)
}

fn cluster() -> Cluster {
    cluster_of(|_| ())
}

fn budget(nodes: &str) -> Budgets {
    Budgets::Parsed(vec![Budget { nodes: nodes.parse().unwrap(), reasons: None, window: None }])
}

fn protected(name: &str) -> PodView {
    running(name, 3).but(|pod| pod.protection = Protection::Always)
}

/// VC-18, VC-19, VC-20, V15-47: a node with pods is replaced, an empty one deleted, one that may yet heal left alone.
#[test]
fn vc_18_vc_19_vc_20_replace_or_delete() {
    let busy = || cluster().node("a", "p", "small", [running("x", 3)]);
    assert_eq!(ill(busy()).with("a", bad(PAST)).texts(), ["replace: [a] -> [1 replacement] small|large"]);
    let empty = ill(cluster().node("a", "p", "small", []).waiting(waiting("w", 3))).with("a", bad(PAST));
    assert_eq!(empty.texts(), ["delete: [a]"], "VC-19, X31: what waits is not its business");
    let young = ill(busy()).with("a", bad(10_000 - 600));
    assert!(young.texts().is_empty() && young.why().is_empty(), "VC-20");
    let room = ill(busy().node("b", "p", "small", [])).with("a", bad(PAST));
    assert_eq!(room.texts(), ["delete: [a]"]);
    assert_eq!(ill(busy()).texts(), Vec::<String>::new(), "VC-44: nothing matched");
}

/// VC-21: a specific policy that still waits has no say, but the fallback is not asked either: it is not among the matches.
#[test]
fn vc_21_specific_policies() {
    let specific = |since| RepairMatch { toleration: Duration::from_mins(10), is_fallback: false, ..bad(since) };
    let at =
        |minutes: i64| ill(cluster().node("a", "p", "small", [])).with("a", specific(10_000 - minutes * 60)).texts();
    assert_eq!((at(11).len(), at(9).len()), (1, 0));
}

/// VC-23, VC-24, V15-38: the veto, reported once something is due and before anything else that is in the way.
#[test]
fn vc_23_vc_24_vetoes() {
    let vetoed = |value: &str, pods: Vec<PodView>| {
        let value = value.to_owned();
        let cluster = cluster().node("a", "p", "small", pods);
        ill(cluster.change("a", |node| drop(node.annotations.insert(DO_NOT_REPAIR.to_owned(), value))))
    };
    for matched in [bad(PAST), reboot(PAST)] {
        let ill = vetoed("true", vec![]).with("a", matched);
        assert_eq!((ill.texts(), ill.why()), (vec![], vec![VETOED.to_owned()]), "VC-23");
        assert_eq!(ill.why(), [VETOED], "VC-23: in every pass");
    }
    assert!(vetoed("true", vec![]).with("a", bad(9_000)).why().is_empty(), "VC-23: inside the toleration");
    assert_eq!(vetoed("false", vec![]).with("a", bad(PAST)).texts(), ["delete: [a]"], "VC-23");
    assert_eq!(vetoed("true", vec![protected("x")]).with("a", bad(PAST)).why(), [VETOED], "VC-24");
}

/// VC-25, VC-26, VC-42, V15-36, V15-42: the node's own do-not-disrupt does not count, a budget does.
#[test]
fn vc_25_vc_26_budgets() {
    let guarded = cluster().node("a", "p", "small", []).change("a", |node| {
        node.annotations.insert("karpenter.sh/do-not-disrupt".to_owned(), "true".to_owned());
    });
    assert_eq!(ill(guarded).with("a", bad(PAST)).texts(), ["delete: [a]"], "VC-25");
    let of = |nodes: &str| {
        let nodes = budget(nodes);
        let policy = RepairMatch { termination_grace_period: Some(Duration::from_secs(45)), ..bad(PAST) };
        ill(cluster_of(|pool| pool.budgets = nodes).node("a", "p", "small", [])).with("a", policy)
    };
    assert!(of("0").texts().is_empty(), "VC-26");
    let decided = of("100%").decide();
    let repair = decided.commands[0].going[0].repair.clone().unwrap();
    assert_eq!(repair.bound, Some(SignedDuration::from_secs(45)), "VC-26: with the policy's bound");
    assert_eq!((repair.condition_type.as_str(), repair.is_fallback, repair.escalated), ("BadNode", true, false));
}

fn many(count: usize) -> Cluster {
    (0..count).fold(cluster(), |cluster, index| cluster.node(&format!("n{index}"), "p", "small", []))
}

/// VC-27, VC-28, VC-50, V15-23, V15-41: more than a fifth of a pool sick, at any age, and nothing is repaired.
#[test]
fn vc_27_vc_28_breaker() {
    let three = ill(many(10)).with("n0", bad(PAST)).with("n1", bad(9_990)).with("n2", bad(9_990));
    let decided = three.decide();
    assert!(decided.commands.is_empty(), "VC-27");
    let blocked: Vec<&Note> = decided.notes.iter().filter(|note| matches!(note, Note::RepairBlocked { .. })).collect();
    let subject = Subject { node: Some("n0".to_owned()), claim: Some("n0-claim".to_owned()) };
    assert_eq!(blocked, [&Note::RepairBlocked { subject, pool: "p".to_owned() }]);
    assert_eq!(ill(many(10)).with("n0", bad(PAST)).with("n1", bad(9_990)).texts().len(), 1, "a fifth is allowed");
    assert_eq!(ill(many(3)).with("n0", bad(PAST)).texts(), ["delete: [n0]"], "VC-28");
    assert_eq!(ill(many(3)).with("n0", bad(PAST)).with("n1", bad(9_990)).why(), ["too many of p"], "VC-50");
}

/// Z7: nodes whose repair is under way are not another failure.
#[test]
fn z7_repairs_under_way_do_not_trip_the_breaker() {
    let going = |cluster: Cluster, node: &str| {
        cluster.claim(node, |claim| {
            claim.deleting_since = Some(time(9_000));
            claim.disruption_reason = Some("Unhealthy".to_owned());
        })
    };
    let three = ill(many(10)).with("n0", bad(PAST)).with("n1", bad(PAST)).with("n2", bad(PAST));
    let three = three.change(|cluster| going(going(cluster, "n0"), "n1"));
    assert_eq!(three.texts(), ["delete: [n2]"]);
}

/// VC-29, VC-30, VC-31, V15-26, V15-40: by urgency, then by what it costs the pods, then by name.
#[test]
fn vc_29_vc_30_vc_31_order() {
    let first = |ill: Ill| ill.decide().commands[0].going[0].node.clone();
    assert_eq!(first(ill(many(10)).with("n0", bad(PAST)).with("n1", urgent(PAST))), "n1", "VC-29");
    assert_eq!(first(ill(many(10)).with("n3", bad(PAST)).with("n2", bad(PAST))), "n2", "VC-30");
    let tau = 1800;
    let old = ill(many(10)).with("n5", bad(10_000 - 6 * tau)).with("n5", urgent(10_000 - tau - tau / 10));
    let old = old.with("n4", urgent(10_000 - 4 * tau));
    assert_eq!(first(old), "n5", "VC-31");
    let costly = many(10).node("c", "p", "small", [running("x", 1)]).node("d", "p", "small", []);
    assert_eq!(first(ill(costly).with("c", bad(PAST)).with("d", bad(PAST))), "d", "what it costs");
}

/// VC-38, V15-38, V15-47: pods that object need a bound, and then get a place like the others.
#[test]
fn vc_38_blocking_pods() {
    let busy = || ill(cluster().node("a", "p", "small", [protected("x")]));
    let unbounded = busy().with("a", bad(PAST));
    assert_eq!((unbounded.texts(), unbounded.why()), (vec![], vec![NEEDS_GRACE.to_owned()]));
    let bounded = RepairMatch { termination_grace_period: Some(Duration::ZERO), ..bad(PAST) };
    assert_eq!(busy().with("a", bounded).texts(), ["replace: [a] -> [1 replacement] small|large"]);
    let own = unbounded
        .change(|cluster| cluster.claim("a", |claim| claim.termination_grace_period = Some(GoDuration::from_secs(60))));
    assert_eq!(own.texts().len(), 1);
}

/// V15-39, VC-43, VC-156, Z31: a claim without a pool is not repaired, and hears of it only when it is sick.
#[test]
fn vc_43_vc_156_z31_standalone_claims() {
    let alone = || {
        let cluster = cluster().node("a", "p", "small", []).claim("a", |claim| {
            claim.pool = None;
            claim.labels.remove(labels::NODEPOOL);
        });
        ill(cluster.change("a", |node| drop(node.labels.remove(labels::NODEPOOL))))
    };
    let sick = alone().with("a", bad(PAST));
    assert!(sick.texts().is_empty());
    assert_eq!(sick.why(), ["repair requires a NodePool to construct and budget a safe replacement"], "VC-43");
    assert!(alone().why().is_empty(), "VC-156");
    assert!(alone().with("a", bad(9_990)).why().is_empty(), "Z31");
}

fn young(cluster: Cluster, name: &str) -> Cluster {
    let cluster = cluster.node(name, "p", "small", []);
    cluster.change(name, |node| drop(node.labels.remove(labels::INITIALIZED)))
}

/// VC-46, VC-47, VC-48, VC-50, Z6: what never became ready needs no budget; what never registered is not repaired.
#[test]
fn vc_46_vc_47_vc_48_uninitialized_nodes() {
    let none = budget("0");
    let never = ill(young(cluster_of(|pool| pool.budgets = none), "a")).with("a", bad(PAST));
    assert_eq!(never.texts(), ["delete: [a]"], "VC-46");
    let one = budget("1");
    let two = young(cluster_of(|pool| pool.budgets = one), "a");
    let two = (0..9).fold(two, |cluster, index| cluster.node(&format!("b{index}"), "p", "small", []));
    let two = ill(two).with("a", urgent(PAST)).with("b0", bad(PAST)).many();
    assert_eq!(two.texts(), ["delete: [a]", "delete: [b0]"], "VC-46: the budget of others is untouched");
    let unregistered = ill(young(cluster(), "a"))
        .with("a", bad(PAST))
        .change(|cluster| cluster.change("a", |node| drop(node.labels.remove(labels::REGISTERED))));
    assert!(unregistered.texts().is_empty());
    assert_eq!(unregistered.why(), ["Node isn't initialized nor registered"], "VC-47");
    for uninitialized in [true, false] {
        let mut cluster = if uninitialized { young(cluster(), "a") } else { cluster().node("a", "p", "small", []) };
        cluster.snapshot.nodes[0].nominated_until = Some(Timestamp::MAX);
        assert_eq!(ill(cluster).with("a", bad(PAST)).texts(), ["delete: [a]"], "VC-48, Z6");
    }
    let rebooting = ill(cluster().node("a", "p", "small", []).claim("a", |claim| claim.rebooting = true));
    assert_eq!(rebooting.with("a", bad(PAST)).why(), ["Node is rebooting"], "VC-50");
}

/// Z21: a pool whose nodes never become ready is not churned all at once.
#[test]
fn z21_uninitialized_repairs_are_paced() {
    let none = ill((0..4).fold(cluster(), |cluster, index| young(cluster, &format!("y{index}"))));
    let with = |ill: Ill| ill.with("y0", bad(PAST));
    assert_eq!(with(none).many().texts(), ["delete: [y0]"]);
    let mut wide = (0..16).fold(cluster(), |cluster, index| cluster.node(&format!("n{index}"), "p", "small", []));
    wide = (0..4).fold(wide, |cluster, index| young(cluster, &format!("y{index}")));
    let sick = (0..4).fold(ill(wide), |ill, index| ill.with(&format!("y{index}"), bad(PAST))).many();
    assert_eq!(sick.texts(), ["delete: [y0]", "delete: [y1]"], "a tenth of twenty");
    let one_going = sick.change(|cluster| {
        cluster.claim("y0", |claim| {
            claim.deleting_since = Some(time(1));
            claim.disruption_reason = Some("Unhealthy".to_owned());
        })
    });
    assert_eq!(one_going.texts(), ["delete: [y1]"]);
}

/// VC-54, VC-56, V15-44, V15-46, V15-54: a reboot takes nothing away; the third within a day becomes a replacement.
#[test]
fn vc_54_vc_56_reboots() {
    let eleven = 10_000 - 11 * 60;
    let ill = ill(cluster().node("a", "p", "small", [protected("x")])).with("a", reboot(eleven));
    let decided = ill.decide();
    assert_eq!(texts(&decided), ["reboot: [a]"], "VC-54");
    assert!(decided.commands[0].savings.abs() < 1e-9);
    assert_eq!(decided.commands[0].going[0].repair.as_ref().unwrap().bound, Some(SignedDuration::from_mins(5)));
    let history = |seconds: [i64; 2]| {
        let text = seconds.map(|second| time(second).to_string()).join(",");
        move |cluster: Cluster| {
            cluster.claim("a", |claim| {
                claim.annotations.insert("karpenter.sh/reboot-history".to_owned(), text);
            })
        }
    };
    let twice = ill.change(history([1_000, 5_000]));
    let decided = twice.decide();
    assert_eq!(texts(&decided), ["replace: [a] -> [1 replacement] small|large"], "VC-56");
    let repair = decided.commands[0].going[0].repair.clone().unwrap();
    assert!(repair.escalated && repair.bound == Some(SignedDuration::from_mins(5)), "VC-56");
    assert_eq!(twice.change(history([-90_000, 5_000])).texts(), ["reboot: [a]"], "VC-57");
}

/// V15-42, Z5: several in one pass within the budget, but pods are given places by one of them only.
#[test]
fn z5_several_repairs_in_one_pass() {
    let sick = |cluster: Cluster| {
        ill(cluster).with("n0", reboot(PAST)).with("n1", bad(PAST)).with("x0", bad(PAST)).with("x1", bad(PAST)).many()
    };
    let busy = |cluster: Cluster| {
        let cluster = cluster.node("x0", "p", "small", [running("a", 3)]).node("x1", "p", "small", [running("b", 3)]);
        sick(cluster)
    };
    let all = busy(many(20));
    assert_eq!(all.texts(), ["reboot: [n0]", "delete: [n1]", "delete: [x0]"]);
    let specified = Ill { options: RepairOptions::SPECIFIED, ..all };
    assert_eq!(specified.texts(), ["reboot: [n0]"], "V15-25");
    let two = budget("2");
    let few = (0..20).fold(cluster_of(|pool| pool.budgets = two), |cluster, index| {
        cluster.node(&format!("n{index}"), "p", "small", [])
    });
    assert_eq!(busy(few).texts().len(), 2, "within the budget");
}

/// V15-137, VC-155, VC-42, Z30: a node whose pods fit nowhere is passed over with a reason, the next one is repaired.
#[test]
fn vc_155_z30_pods_without_a_place() {
    let pinned = |name: &str| {
        let mut pod = running(name, 1);
        pod.scheduling.node_selector.add(Requirement::any_of("disk", ["fast"]));
        pod
    };
    let nodes = many(8).node("a", "p", "small", [pinned("x")]).node("b", "p", "small", [running("y", 1)]);
    let both = ill(nodes).with("a", urgent(PAST)).with("b", bad(PAST));
    assert_eq!(both.texts(), ["delete: [b]"]);
    assert!(both.why()[0].contains("default/x") && both.why()[0].contains("due for 1m"), "{:?}", both.why());
    let closed = ill(cluster_of(|pool| pool.ready = false).node("a", "p", "small", [running("x", 3)]));
    let closed = closed.with("a", bad(PAST));
    assert!(closed.texts().is_empty() && closed.why()[0].contains("no pool is ready"), "{:?}", closed.why());
}

/// Z3: a node that may be emptied by force is not kept for ever for pods that fit nowhere.
#[test]
fn z3_forlorn_nodes_go() {
    let forced = |since| RepairMatch { termination_grace_period: Some(Duration::ZERO), ..bad(since) };
    let hour = 10_000 - 91 * 60;
    let with = |matched| ill(cluster().node("a", "p", "small", [running("x", 99)])).with("a", matched).many();
    assert_eq!(with(forced(hour)).texts(), ["delete: [a]"]);
    assert!(with(forced(PAST)).texts().is_empty(), "not yet");
    assert!(with(bad(hour)).texts().is_empty(), "only where pods get no time anyway");
    assert!(Ill { options: RepairOptions::SPECIFIED, ..with(forced(hour)) }.texts().is_empty());
}

/// Z4, V15-37: a pool that cannot say what it is offered still repairs.
#[test]
fn z4_no_instance_types() {
    let unlisted = ill(cluster().node("a", "p", "small", []).unlisted("p")).with("a", bad(PAST));
    assert_eq!(unlisted.texts(), ["delete: [a]"]);
}

fn fixed(replicas: u64, limit: Option<i64>) -> Cluster {
    cluster_of(|pool| {
        pool.replicas = Some(replicas);
        if let Some(limit) = limit {
            pool.limits.set(NODES, karpenter_model::quantity::Quantity::units(limit));
        }
    })
}

fn first(ill: &Ill) -> Vec<(String, Option<TerminateFirst>)> {
    ill.decide().commands.iter().map(|command| (command.text(), command.terminate_first)).collect()
}

/// VC-39, VC-40, VC-77 … VC-82, V15-49, V15-77, V15-81: static pools replace first where there is room, else the node goes
/// first or stays.
#[test]
fn vc_39_vc_40_vc_77_to_vc_82_static_pools() {
    let one = || ill(fixed(1, Some(1)).node("a", "p", "small", [running("x", 1)])).with("a", bad(PAST));
    assert_eq!(first(&one().static_pool(1, 1)), [("replace: [a] -> [1 replacement]".into(), None)], "VC-39, VC-79");
    let at_limit = "static NodePool is at its node limit and cannot stage a replacement";
    let full = one().static_pool(1, 0);
    assert_eq!((full.texts(), full.why()), (vec![], vec![at_limit.to_owned()]), "VC-40, VC-78: gate off");
    let reason = Some(TerminateFirst::StaticAtLimit);
    assert_eq!(first(&full.gate()), [("terminate-first: [a]".into(), reason)], "VC-77");
    for change in [|pool: &mut PoolView| pool.ready = false, |pool: &mut PoolView| pool.deleting = true] {
        let cluster = cluster_of(|pool| {
            pool.replicas = Some(1);
            change(pool);
        });
        let closed = ill(cluster.node("a", "p", "small", [])).with("a", bad(PAST)).static_pool(1, 0).gate();
        assert_eq!((closed.texts(), closed.why()), (vec![], vec![at_limit.to_owned()]), "VC-78");
    }
    for gate in [false, true] {
        let open = Ill { gate, ..one().static_pool(1, u64::MAX) };
        assert_eq!(first(&open), [("replace: [a] -> [1 replacement]".into(), None)], "VC-80");
    }
    let more = one().static_pool(2, 5);
    assert!(more.texts().is_empty() && more.why().is_empty(), "VC-81");
    let ten = (0..10).fold(fixed(10, Some(10)), |cluster, index| cluster.node(&format!("n{index}"), "p", "small", []));
    let two = ill(ten).with("n0", bad(PAST)).with("n1", bad(PAST)).static_pool(10, 0).gate();
    for options in [RepairOptions::SPECIFIED, RepairOptions::default()] {
        let two = Ill { options, matches: two.matches.clone(), pools: two.pools.clone(), ..ill_of(&two) };
        assert_eq!(first(&two), [("terminate-first: [n0]".into(), reason)], "VC-82");
    }
}

/// The same cluster again.
fn ill_of(ill: &Ill) -> Ill {
    let ten = (0..10).fold(fixed(10, Some(10)), |cluster, index| cluster.node(&format!("n{index}"), "p", "small", []));
    Ill { gate: ill.gate, ..self::ill(ten) }
}

/// A dynamic pool that may only have reserved instances of `r1`, which has so many left, and a node of it.
fn reserved(left: Option<u32>, pods: Vec<PodView>, change: impl FnOnce(&mut PoolView)) -> Cluster {
    let known = with_reservation(instance_type("small", 4, 0.4, &[]), "r1", left);
    let cluster = Cluster::new([known]).reservations().pool("p", |pool| {
        pool.requirements.add(Requirement::any_of(labels::CAPACITY_TYPE, ["reserved"]));
        change(pool);
    });
    let cluster = cluster.node("a", "p", "small reserved", pods);
    cluster.change("a", |node| drop(node.labels.insert(RESERVATION.to_owned(), "r1".to_owned())))
}

/// VC-89, VC-90, VC-91, VC-163, V15-73, V15-74, V15-75, V15-76, V15-86: a node that holds the only reserved instance goes first, with all its pods
/// counted.
#[test]
fn vc_89_vc_90_vc_91_vc_163_reserved_nodes_go_first() {
    let on = |cluster: Cluster| ill(cluster).with("a", bad(PAST)).gate();
    let reason = Some(TerminateFirst::NoReservedCapacity);
    let full = || reserved(Some(0), vec![running("x", 3)], |_| ());
    let decided = on(full()).decide();
    assert_eq!(texts(&decided), ["terminate-first: [a]"], "VC-89");
    assert_eq!(decided.commands[0].terminate_first, reason);
    assert_eq!(decided.commands[0].foreseen.len(), 1, "VC-89: the claim to come");
    assert!(ill(full()).with("a", bad(PAST)).texts().is_empty(), "VC-89: gate off");
    let apart = |name: &str| running(name, 3);
    let two = reserved(Some(0), vec![apart("x"), apart("y")], |_| ());
    assert!(on(two).texts().is_empty(), "VC-90: two slots");
    assert!(on(reserved(None, vec![running("x", 3)], |_| ())).texts().is_empty(), "VC-90: not offered");
    assert_eq!(on(reserved(Some(1), vec![running("x", 3)], |_| ())).texts().len(), 1, "VC-91: a spare slot");
    let spare = on(reserved(Some(1), vec![running("x", 3)], |_| ())).decide();
    assert_eq!(spare.commands[0].decision, Decision::Replace, "VC-91");
    let other = full().pool("q", |_| ());
    assert_eq!(on(other).decide().commands[0].decision, Decision::Replace, "VC-91: another pool");
    let bounded = RepairMatch { termination_grace_period: Some(Duration::from_mins(1)), ..bad(PAST) };
    let guarded = reserved(Some(0), vec![protected("x")], |_| ());
    let guarded = ill(guarded).with("a", bounded).gate().decide();
    assert_eq!(
        (texts(&guarded), guarded.commands[0].foreseen[0].pods.iter().count()),
        (vec!["terminate-first: [a]".to_owned()], 1),
        "VC-163"
    );
}

/// Z18: what nodes that are going give back counts too, as their pods do.
#[test]
fn z18_all_freed_slots_are_credited() {
    let cluster = reserved(Some(0), vec![running("x", 3)], |_| ()).node("b", "p", "small reserved", [running("y", 3)]);
    let cluster = cluster
        .change("b", |node| drop(node.labels.insert(RESERVATION.to_owned(), "r1".to_owned())))
        .claim("b", |claim| claim.deleting_since = Some(time(9_990)));
    let mut moving = running("y", 3);
    moving.node_name = Some("b".into());
    let cluster = (0..8).fold(cluster.waiting(moving), |cluster, index| {
        let name = format!("n{index}");
        let cluster = cluster.node(&name, "p", "small reserved", [running(&name, 4)]);
        cluster.change(&name, |node| drop(node.labels.insert(RESERVATION.to_owned(), "r1".to_owned())))
    });
    assert_eq!(ill(cluster).with("a", bad(PAST)).gate().texts(), ["terminate-first: [a]"]);
}

/// VC-83 … VC-86, VC-162, V15-78, Z35: static pools whose reservations are full.
#[test]
fn vc_83_to_vc_86_vc_162_full_static_reservations() {
    let reserved_only = |pool: &mut PoolView| {
        pool.replicas = Some(1);
        pool.requirements.add(Requirement::any_of(labels::CAPACITY_TYPE, ["reserved"]));
    };
    let pool = |left, change: &dyn Fn(&mut PoolView)| {
        let known = with_reservation(instance_type("small", 4, 0.4, &[]), "r1", left);
        Cluster::new([known, instance_type("other", 4, 0.4, &[])]).reservations().pool("p", change)
    };
    let node = |cluster: Cluster, kind: &str, id: &str| {
        let id = id.to_owned();
        let cluster = cluster.node("a", "p", kind, []);
        let cluster = cluster.change("a", |node| drop(node.labels.insert(RESERVATION.to_owned(), id)));
        ill(cluster).with("a", bad(PAST)).static_pool(1, 5).gate()
    };
    let goes = [("terminate-first: [a]".to_owned(), Some(TerminateFirst::NoReservedCapacity))];
    let replaced = [("replace: [a] -> [1 replacement]".to_owned(), None)];
    let full = "static NodePool's capacity reservations are full and cannot stage a replacement";
    assert_eq!(first(&node(pool(Some(0), &reserved_only), "small reserved", "r1")), goes, "VC-83");
    assert_eq!(first(&node(pool(Some(1), &reserved_only), "small reserved", "r1")), replaced, "a spare slot");
    let either = |pool: &mut PoolView| {
        pool.replicas = Some(1);
        pool.requirements.add(Requirement::any_of(labels::CAPACITY_TYPE, ["reserved", "on-demand"]));
    };
    assert_eq!(first(&node(pool(Some(0), &either), "small reserved", "r1")), replaced, "VC-84");
    let outside = |pool: &mut PoolView| {
        reserved_only(pool);
        pool.requirements.add(Requirement::any_of(labels::INSTANCE_TYPE, ["small"]));
    };
    assert_eq!(first(&node(pool(Some(0), &outside), "small reserved", "r1")), goes, "VC-85");
    for (case, left, kind, id) in [
        ("a stale label", Some(0), "small on-demand", "r1"),
        ("no longer offered", Some(0), "small reserved", "r9"),
        ("not available", None, "small reserved", "r1"),
    ] {
        let stuck = node(pool(left, &reserved_only), kind, id);
        assert_eq!((stuck.texts(), stuck.why()), (vec![], vec![full.to_owned()]), "VC-86: {case}");
    }
    let nothing = |pool: &mut PoolView| {
        pool.replicas = Some(1);
        pool.requirements.add(Requirement::any_of(labels::INSTANCE_TYPE, ["huge"]));
    };
    let stuck = node(pool(Some(0), &nothing), "small reserved", "r1");
    let own = "static NodePool's template fits no instance type and cannot stage a replacement";
    assert_eq!((stuck.texts(), stuck.why()), (vec![], vec![own.to_owned()]), "VC-162, Z35");
}

/// VC-88, V15-79: a static pool that cannot say what it is offered waits; others go on.
#[test]
fn vc_88_unknown_types_skip_the_pool() {
    let two = fixed(1, None).node("a", "p", "small", []).unlisted("p").pool("q", |_| ()).node("b", "q", "small", []);
    let two = ill(two).with("a", urgent(PAST)).with("b", bad(PAST)).static_pool(1, 5).gate();
    assert_eq!(two.texts(), ["delete: [b]"]);
}

/// VC-157, Z26, V15-43: a claim that reboots and whose Node is gone counts, and takes its part of the budget.
#[test]
fn vc_157_z26_a_rebooting_claim_without_a_node() {
    let one = budget("1");
    let mut cluster = cluster_of(|pool| pool.budgets = one).node("a", "p", "small", []).node("b", "p", "small", []);
    cluster = cluster.claim("b", |claim| claim.rebooting = true);
    cluster.snapshot.nodes[1].node = None;
    let allowance = cluster.look().allowances(DisruptionReason::Empty, &mut Vec::new())["p"];
    assert_eq!((allowance.nodes, allowance.consuming), (2, 1));
    assert!(ill(cluster).with("a", bad(PAST)).texts().is_empty());
}

/// Z29, V15-138: nobody moves pods onto a node that is about to restart.
#[test]
fn z29_rebooting_nodes_receive_nothing() {
    let nodes = || many(6).node("a", "p", "small", [running("x", 4)]).node("r", "p", "large", []);
    let full = (0..6).fold(nodes(), |cluster, index| {
        cluster.change(&format!("n{index}"), |node| {
            node.taints.push(karpenter_model::taints::Taint::disrupted());
        })
    });
    let draining = full.claim("r", |claim| {
        claim.rebooting = true;
        claim.reboot = Some(RebootView {
            status: Status::True,
            reason: "RebootRequested".to_owned(),
            message: String::new(),
            since: time(9_990),
        });
    });
    let moved = ill(draining).with("a", bad(PAST)).decide();
    assert_eq!(moved.commands[0].decision, Decision::Replace, "{:?}", moved.commands[0].receiving);
}
