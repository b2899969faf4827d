use karpenter_model::budget::{Budget, Budgets};
use karpenter_model::pool::ConsolidationPolicy;
use karpenter_model::protection::Protection;

use crate::methods::validation::{Checked, Invalid, validate};
use crate::methods::{Command, empty};
use crate::testing::{Cluster, instance_type, running, time};

fn small() -> Cluster {
    let types = [instance_type("small", 4, 0.4, &[]), instance_type("huge", 64, 6.4, &[])];
    Cluster::new(types).pool("p", |_| ())
}

fn again(command: &Command, cluster: &Cluster) -> Checked {
    cluster.with(|look, simulator| validate(command, look, simulator))
}

fn closed() -> Budgets {
    Budgets::Parsed(vec![Budget { nodes: "0".parse().unwrap(), reasons: None, window: None }])
}

/// DIS-142, DC-79, DC-80, DC-141: what is still empty still goes.
#[test]
fn empty_nodes_again() {
    let two = || small().node("a", "p", "small", []).node("b", "p", "small", []);
    let command = empty(&two().look()).commands.remove(0);
    assert_eq!(again(&command, &two()).outcome.unwrap().going.len(), 2);
    let one = small().node("a", "p", "small", []).node("b", "p", "small", [running("x", 1)]);
    let checked = again(&command, &one);
    assert_eq!(checked.outcome.unwrap().going[0].node, "a", "DC-80");
    assert_eq!(checked.failed, 0, "DIS-142: lost beside a survivor");
    let none = small().node("a", "p", "small", [running("y", 1)]).node("b", "p", "small", [running("x", 1)]);
    let checked = again(&command, &none);
    assert_eq!((checked.outcome.unwrap_err(), checked.failed), (Invalid::Churn, 2), "DC-79");
    let shut = Cluster::new([instance_type("small", 4, 0.4, &[])]).pool("p", |pool| pool.budgets = closed());
    let shut = shut.node("a", "p", "small", []).node("b", "p", "small", []);
    let checked = again(&command, &shut);
    assert_eq!((checked.outcome.unwrap_err(), checked.failed), (Invalid::Budget, 2), "DC-141");
}

/// DIS-143 … DIS-146, DC-142 … DC-146, X10: all of it as it was, or nothing.
#[test]
fn replacements_again() {
    let base = || small().node("a", "p", "huge", [running("x", 1)]);
    let command = base().single().commands.remove(0);
    assert!(again(&command, &base()).outcome.is_ok());
    let mut nominated = base();
    nominated.snapshot.nodes[0].nominated_until = Some(time(20_000));
    let protected = running("y", 1).but(|pod| pod.protection = Protection::Always);
    let cheaper = |price: f64| {
        let types = [instance_type("small", 4, price, &[]), instance_type("huge", 64, 6.4, &[])];
        Cluster::new(types).pool("p", |_| ()).node("a", "p", "huge", [running("x", 1)])
    };
    let shut = Cluster::new([instance_type("small", 4, 0.4, &[]), instance_type("huge", 64, 6.4, &[])]);
    let shut = shut.pool("p", |pool| pool.budgets = closed()).node("a", "p", "huge", [running("x", 1)]);
    for (case, cluster, want) in [
        ("DC-146, nominated", nominated, Invalid::Budget),
        ("DC-146, budget", shut, Invalid::Budget),
        (
            "DC-144, DIS-145, a protected pod came",
            small().node("a", "p", "huge", [running("x", 1), protected]),
            Invalid::Churn,
        ),
        ("DC-146, gone", small(), Invalid::Churn),
        ("DC-143, other types", small().node("a", "p", "huge", [running("x", 6)]), Invalid::Scheduling),
        ("DC-145, room now", base().node("b", "p", "small", [running("z", 1)]), Invalid::Scheduling),
        ("X10, no longer cheaper", cheaper(7.0), Invalid::Scheduling),
    ] {
        let checked = again(&command, &cluster);
        assert_eq!(checked.outcome.unwrap_err(), want, "{case}");
        assert_eq!(checked.failed, 1, "{case}");
    }
    assert_eq!(
        [Invalid::Budget, Invalid::Scheduling, Invalid::Churn].map(Invalid::as_str),
        ["budget", "scheduling", "churn"]
    );
}

/// X10, DIS-140: a Balanced pool is asked again, and may have changed its mind since.
#[test]
fn x10_pools_are_asked_again() {
    let pool = |cost: f64| {
        let types = [instance_type("small", 4, 0.4, &[])];
        let mut cluster =
            Cluster::new(types).pool("p", |pool| pool.consolidation_policy = ConsolidationPolicy::Balanced);
        cluster.pool_costs.insert("p".to_owned(), cost);
        cluster.node("a", "p", "small", [running("x", 1)]).node("b", "p", "small", [running("y", 2)])
    };
    let command = pool(0.8).single().commands.remove(0);
    assert!(again(&command, &pool(0.8)).outcome.is_ok());
    assert_eq!(again(&command, &pool(800.0)).outcome.unwrap_err(), Invalid::Scheduling);
}
