//! The checker finds what it is there for: plans that were valid, then broken in one way each.

use std::sync::Arc;

use karpenter_model::pod::PodView;
use karpenter_model::requirements::Requirement;
use karpenter_model::snapshot::Snapshot;

use super::build::{Pod, app, near, pod, pool, skew, spread, taint, unmanaged};
use super::cluster::{Cluster, with};
use super::fixtures::{RESERVATION, f1, it, resources};
use crate::check::{Rule, violations};
use crate::{Placement, Plan};

/// What the checker says once the cluster, not the plan, has changed.
fn after(cluster: &Cluster, change: impl Fn(&mut Snapshot, &mut Plan)) -> Vec<Rule> {
    let (mut snapshot, mut plan) = (cluster.snapshot(), cluster.plan());
    assert_eq!(plan.unplaced.len(), 0);
    change(&mut snapshot, &mut plan);
    let mut rules: Vec<Rule> = violations(&snapshot, &cluster.rules, &plan).into_iter().map(|one| one.rule).collect();
    rules.sort();
    rules.dedup();
    rules
}

/// One waiting pod, before and after; `late` replaces it once the plan is made.
fn late(mut cluster: Cluster, before: Pod, late: impl Fn(Pod) -> Pod) -> Vec<Rule> {
    let id = cluster.add(before);
    after(&cluster, |snapshot, _| edit(snapshot, &id, &late))
}

fn edit(snapshot: &mut Snapshot, id: &karpenter_model::pod::PodId, change: impl Fn(Pod) -> Pod) {
    let known: &mut Arc<PodView> = snapshot.pending.get_mut(id).unwrap();
    *known = Arc::new(change(Pod(PodView::clone(known))).0);
}

fn plain() -> Cluster {
    with(pool("p"), f1())
}

/// A node with a pod on it.
fn with_neighbour(neighbour: Pod) -> Cluster {
    let mut cluster = plain();
    cluster.node(unmanaged("u", "cpu=4 memory=4Gi pods=5", "zone=z1 rack=r1"));
    cluster.bound(neighbour, "u");
    cluster
}

#[test]
fn pods_that_changed_their_minds() {
    let limited = || with(pool("p"), vec![it("t", "cpu=4 memory=4Gi pods=5").attaches("d", 1)]);
    for (name, found, want) in [
        ("nothing", late(plain(), pod(), |pod| pod), vec![]),
        (
            "requirement",
            late(plain(), pod().select("zone", "z1"), |pod| pod.require("zone In z2")),
            vec![Rule::Requirements],
        ),
        ("node selector", late(with_neighbour(pod()), pod(), |pod| pod.select("rack", "r2")), vec![Rule::Requirements]),
        (
            "volume",
            late(plain(), pod().select("zone", "z1"), |pod| pod.volumes_in(&["zone In z2"])),
            vec![Rule::Volumes],
        ),
        ("resources", late(plain(), pod(), |pod| pod.asks("cpu=3")), vec![Rule::Resources]),
        ("resources of a node", late(with_neighbour(pod()), pod(), |pod| pod.asks("cpu=5")), vec![Rule::Resources]),
        ("port", late(with_neighbour(pod().port(80)), pod(), |pod| pod.port(80)), vec![Rule::HostPorts]),
        ("attachments", late(limited(), pod(), |pod| pod.mounts("d", &["a", "b"])), vec![Rule::Attachments]),
        (
            "affinity",
            late(with_neighbour(pod()), pod(), |pod| pod.near(near("zone", "app=test"))),
            vec![Rule::Affinity],
        ),
        (
            "anti-affinity",
            late(with_neighbour(app()), pod(), |pod| pod.apart(near("rack", "app=test"))),
            vec![Rule::AntiAffinity],
        ),
        (
            "anti-affinity of another",
            late(with_neighbour(pod().apart(near("zone", "app=test"))), pod(), |pod| pod.label("app=test")),
            vec![Rule::AntiAffinity],
        ),
        ("spread", late(with_neighbour(app()), app(), |pod| pod.spread(skew(1, spread("zone")))), vec![Rule::Spread]),
        ("spread of hosts", late(with_neighbour(app()), app(), |pod| pod.spread(spread("host"))), vec![Rule::Spread]),
    ] {
        assert_eq!(found, want, "{name}");
    }
}

#[test]
fn plans_that_were_tampered_with() {
    let cluster = || {
        let mut cluster = plain();
        cluster.add(pod().asks("cpu=1"));
        cluster
    };
    let pool_with = |change: fn(&mut karpenter_model::pool::PoolView)| {
        after(&cluster(), |snapshot, plan| {
            change(Arc::make_mut(&mut snapshot.pools[0].pool));
            change(Arc::make_mut(&mut plan.claims[0].pool));
        })
    };
    let claim_with = |change: fn(&mut crate::PlannedClaim)| after(&cluster(), |_, plan| change(&mut plan.claims[0]));
    for (name, found, want) in [
        ("taint", pool_with(|pool| pool.taints.push(taint("a=b:NoSchedule"))), vec![Rule::Taints]),
        ("limit", pool_with(|pool| pool.limits = resources("cpu=3")), vec![Rule::Limits]),
        ("nodes", pool_with(|pool| pool.limits = resources("nodes=0")), vec![Rule::Limits]),
        (
            "unknown type",
            claim_with(|claim| claim.instance_types.change(|names| names.push("?".into()))),
            vec![Rule::InstanceTypes],
        ),
        (
            "minimum",
            claim_with(|claim| {
                let mut zone = Requirement::any_of("topology.kubernetes.io/zone", ["z1", "z2"]);
                zone.set_min_values(Some(3));
                claim.requirements.change(|requirements| requirements.replace(zone));
            }),
            vec![Rule::MinValues],
        ),
        ("vanished", after(&cluster(), |_, plan| plan.placed.clear()), vec![Rule::Accounting]),
        (
            "nowhere",
            after(&cluster(), |_, plan| plan.placed.values_mut().for_each(|at| *at = Placement::Existing("?".into()))),
            vec![Rule::Accounting],
        ),
    ] {
        assert_eq!(found, want, "{name}");
    }
    let mut reserved = with(pool("p"), vec![it("t", "cpu=4 memory=4Gi pods=5").reserved("r", "z1", 1, 0.1)]);
    reserved.add(pod());
    let held_twice = |_: &mut Snapshot, plan: &mut Plan| {
        assert!(plan.claims[0].requirements.has_key(RESERVATION));
        let copy = plan.claims[0].clone();
        plan.claims.push(crate::PlannedClaim { pods: crate::PodList::default(), ..copy });
    };
    assert_eq!(after(&reserved, held_twice), [Rule::Reservations]);
}

/// The same for the planner that looks for cheaper plans.
fn after_best(cluster: &Cluster, change: impl Fn(&mut Plan)) -> Vec<Rule> {
    let snapshot = cluster.snapshot();
    let options = crate::Options { planner: crate::Planner::Best, ..cluster.options };
    let mut plan = crate::plan(&snapshot, &cluster.rules, &options);
    change(&mut plan);
    let mut rules: Vec<Rule> = violations(&snapshot, &cluster.rules, &plan).into_iter().map(|one| one.rule).collect();
    rules.sort();
    rules.dedup();
    rules
}

#[test]
fn figures_that_were_tampered_with() {
    let cluster = |asks: &str, count: usize| {
        let mut cluster = plain();
        cluster.add_all(count, &pod().asks(asks));
        cluster
    };
    let bound = |plan: &mut Plan, change: fn(&mut crate::Bound)| change(plan.bound.as_mut().unwrap());
    for cluster in [cluster("cpu=900m memory=200Mi", 40), cluster("cpu=2", 9)] {
        for (name, found, want) in [
            ("nothing", after_best(&cluster, |_| {}), vec![]),
            (
                "price",
                after_best(&cluster, |plan| plan.claims[0].price = karpenter_model::instance_type::Price::ZERO),
                vec![Rule::Price],
            ),
            (
                "order",
                after_best(&cluster, |plan| plan.claims[0].instance_types.change(|names| names.reverse())),
                vec![Rule::Price],
            ),
            ("bound", after_best(&cluster, |plan| bound(plan, |bound| bound.per_hour *= 1.01)), vec![Rule::Bound]),
            (
                "worth",
                after_best(&cluster, |plan| {
                    bound(plan, |bound| {
                        bound.worths[0].per_hour *= 1.1;
                        bound.per_hour *= 1.1;
                    });
                }),
                vec![Rule::Bound],
            ),
            (
                "counted twice",
                after_best(&cluster, |plan| bound(plan, |bound| bound.worths.push(bound.worths[0].clone()))),
                vec![Rule::Bound],
            ),
            (
                "worth of nobody",
                after_best(&cluster, |plan| bound(plan, |bound| bound.worths[0].pods[0].name = "?".into())),
                vec![Rule::Bound],
            ),
        ] {
            assert_eq!(found, want, "{name}");
        }
    }
}

/// SCH-84.
#[test]
fn pools_that_changed_their_weight() {
    let mut cluster = plain();
    cluster.pool(pool("z"), f1());
    cluster.add(pod());
    let lighter = |snapshot: &mut Snapshot, plan: &mut Plan| {
        assert_eq!(plan.claims[0].pool.name, "z");
        let index = snapshot.pools.iter().position(|offer| offer.pool.name == "p").unwrap();
        let heavier = Arc::make_mut(&mut snapshot.pools[index].pool);
        heavier.weight = 5;
        heavier.limits = resources("");
    };
    assert_eq!(after(&cluster, lighter), [Rule::Weights]);
}
