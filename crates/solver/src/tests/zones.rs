//! In which zones waiting pods could be (SCH-29, SC-27 … SC-30, SC-386).

use std::collections::BTreeMap;

use super::build::{Pod, app, min_domains, near, pod, skew, spread, unmanaged};
use super::cluster::{Cluster, cluster};
use crate::{Options, Preferences, effective_zones};

fn counts(cluster: &Cluster) -> String {
    counts_with(cluster, &cluster.options)
}

/// `zone=pods …`.
fn counts_with(cluster: &Cluster, options: &Options) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for zone in effective_zones(&cluster.snapshot(), &cluster.rules, options).values() {
        *counts.entry(zone.as_str().to_owned()).or_default() += 1;
    }
    counts.iter().map(|(zone, count)| format!("{zone}={count}")).collect::<Vec<_>>().join(" ")
}

fn one(pod: Pod) -> String {
    let mut cluster = cluster();
    cluster.add(pod);
    counts(&cluster)
}

/// Nodes of these zones, each with so many pods of the app.
fn beside(zones: &[(&str, usize)], pod: Pod) -> String {
    let mut cluster = cluster();
    for (at, (zone, pods)) in zones.iter().enumerate() {
        let name = format!("n{at}");
        cluster.node(unmanaged(&name, "cpu=1 pods=9", &format!("zone={zone}")));
        (0..*pods).for_each(|_| drop(cluster.bound(app(), &name)));
    }
    cluster.add(pod);
    counts(&cluster)
}

/// SC-27.
#[test]
fn sc_027_volumes() {
    assert_eq!(one(pod().volumes_in(&["zone In z1 z2"])), "flexible=1");
    assert_eq!(one(pod().volumes_in(&["zone In z1", "zone In z2"])), "flexible=1");
    assert_eq!(one(pod().volumes_in(&["zone In z1"])), "z1=1");
    assert_eq!(one(pod().volumes_in(&["zone In z2"]).select("zone", "z1")), "none=1");
    assert_eq!(one(pod().volumes_in(&["zone In z1", "rack In r1"])), "flexible=1", "one of them may be anywhere");
}

/// SC-28.
#[test]
fn sc_028_selectors() {
    let mut plain = cluster();
    plain.add_all(2, &pod());
    assert_eq!(counts(&plain), "flexible=2");
    let mut selecting = cluster();
    selecting.add_all(3, &pod().select("zone", "z2"));
    selecting.add(pod().prefer(1, "zone In z1"));
    assert_eq!(counts(&selecting), "flexible=1 z2=3");
    assert_eq!(one(pod().require("zone In z1 z2")), "flexible=1");
    assert_eq!(one(pod().require("zone NotIn z1")), "flexible=1", "no list");
}

/// SC-29.
#[test]
fn sc_029_affinity() {
    let friend = || pod().near(near("zone", "app=test"));
    let foe = || pod().apart(near("zone", "app=test"));
    assert_eq!(beside(&[("z1", 1)], friend()), "z1=1");
    assert_eq!(beside(&[("z1", 1), ("z2", 2)], foe()), "z3=1");
    assert_eq!(beside(&[("z1", 1), ("z2", 1), ("z3", 1)], foe()), "none=1");
    assert_eq!(beside(&[("z1", 0)], friend()), "none=1", "nobody has the label");
    assert_eq!(beside(&[("z1", 0)], app().near(near("zone", "app=test"))), "flexible=1", "but for the pod itself");
}

/// SC-30.
#[test]
fn sc_030_spread() {
    assert_eq!(beside(&[("z1", 1), ("z2", 1)], app().spread(spread("zone"))), "z3=1");
    let wide = app().spread(skew(2, spread("zone")));
    assert_eq!(beside(&[("z1", 2), ("z2", 1)], wide), "flexible=1", "z2 is not the emptiest, but it would do");
    let full: Vec<(&str, usize)> = ["z1", "z2", "z3"].map(|zone| (zone, 2)).to_vec();
    assert_eq!(beside(&full, pod().spread(min_domains(4, spread("zone")))), "none=1");
    assert_eq!(beside(&full, pod().spread(spread("zone"))), "flexible=1");
}

/// SC-386, Q28: groups that agree on no zone.
#[test]
fn sc_386_groups_that_contradict_each_other() {
    let torn = || pod().near(near("zone", "app=test")).apart(near("zone", "app=test"));
    assert_eq!(beside(&[("z1", 1)], torn()), "none=1");
    let mut cluster = cluster();
    for (name, zone, label) in [("n1", "z1", "a=1"), ("n2", "z2", "b=1")] {
        cluster.node(unmanaged(name, "cpu=1 pods=9", &format!("zone={zone}")));
        cluster.bound(pod().label(label), name);
    }
    cluster.add(pod().near(near("zone", "a=1")).near(near("zone", "b=1")));
    assert_eq!(counts(&cluster), "none=1");
}

/// SCH-29: preferences count as far as the policy says; pods that run are not asked about; nobody else is either.
#[test]
fn sch_029_who_is_asked_about() {
    let mut wishing = cluster();
    wishing.node(unmanaged("n", "cpu=1 pods=9", "zone=z1"));
    wishing.bound(app(), "n");
    wishing.add(pod().prefers_near(1, near("zone", "app=test")));
    assert_eq!(counts(&wishing), "z1=1");
    let ignoring = Options { preferences: Preferences::Ignore, ..wishing.options };
    assert_eq!(counts_with(&wishing, &ignoring), "flexible=1");
    let mut moving = cluster();
    moving.node(unmanaged("n", "cpu=1 pods=9", "zone=z1"));
    let id = moving.bound(app(), "n");
    let pod = moving.nodes[0].pods[0].clone();
    moving.pending.insert(id, pod);
    assert_eq!(counts(&moving), "");
}
