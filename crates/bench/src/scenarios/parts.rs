//! What scenarios are put together from.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_api::instance_types::Catalogue;
use karpenter_model::example;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodView;
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::Requirement;
use karpenter_model::resources::{CPU, MEMORY, PODS, Resources};
use karpenter_model::scheduling::{AffinityTerm, Namespaces, NodePolicy, SpreadConstraint, WhenUnsatisfiable};
use karpenter_model::selector::Selector;
use karpenter_model::snapshot::{PoolOffer, Snapshot};

use super::{Preferences, Scenario};
use crate::dice::Dice;

pub(super) const MI: i64 = 1 << 20;
pub(super) const GI: i64 = 1 << 30;

/// What to buy from, and the labels that come with it.
#[derive(Debug, Clone)]
pub struct Market {
    pub types: Arc<Vec<InstanceType>>,
    pub rules: LabelRules,
}

impl Market {
    fn of(catalogue: Catalogue, keep: impl Fn(&InstanceType) -> bool) -> Self {
        let rules = catalogue.policy.rules().clone();
        Self { types: Arc::new(catalogue.types.into_iter().filter(keep).collect()), rules }
    }

    /// The whole table of EC2 in us-east-1: 1,345 types.
    pub fn ec2() -> Self {
        Self::of(Catalogue::ec2().expect("the built-in table is tested"), |_| true)
    }

    /// 605 of them: c, m and r since the fifth generation, amd64, no bare metal.
    pub fn ec2_605() -> Self {
        let catalogue = Catalogue::ec2().expect("the built-in table is tested");
        Self::of(catalogue, |t| {
            let value = |key: &str| t.requirements.get(key).and_then(Requirement::single_value).unwrap_or_default();
            let generation: u32 = value("karpenter.k8s.aws/instance-generation").parse().unwrap_or(0);
            matches!(value("karpenter.k8s.aws/instance-category"), "c" | "m" | "r")
                && value(labels::ARCH) == "amd64"
                && generation >= 5
                && !t.name.contains("metal")
        })
    }

    /// One generation: c7i, m7i and r7i, no bare metal.
    pub fn ec2_7i() -> Self {
        let catalogue = Catalogue::ec2().expect("the built-in table is tested");
        let ours = |t: &InstanceType| ["c7i.", "m7i.", "r7i."].iter().any(|family| t.name.starts_with(family));
        Self::of(catalogue, |t| ours(t) && !t.name.contains("metal"))
    }

    /// The same up to 8xlarge.
    pub fn ec2_7i_small() -> Self {
        let Self { types, rules } = Self::ec2_7i();
        let small = |t: &&InstanceType| t.capacity.amount(CPU) <= Quantity::units(32);
        Self { types: Arc::new(types.iter().filter(small).cloned().collect()), rules }
    }

    /// What the live benchmark's pool chooses from.
    pub fn kwok_linux_amd64_below_33() -> Self {
        let catalogue = Catalogue::built_in().expect("the built-in list is tested");
        let is =
            |t: &InstanceType, key: &str, value: &str| t.requirements.get(key).is_none_or(|asked| asked.has(value));
        Self::of(catalogue, |t| {
            t.capacity.amount(CPU) < Quantity::units(33) && is(t, labels::OS, "linux") && is(t, labels::ARCH, "amd64")
        })
    }

    /// The kwok provider's types below 32 CPUs, as the end-to-end suites of the target take them.
    pub fn kwok_below_32() -> Self {
        let catalogue = Catalogue::built_in().expect("the built-in list is tested");
        Self::of(catalogue, |t| t.capacity.amount(CPU) < Quantity::units(32))
    }
}

/// A pool that takes everything on demand.
pub(super) fn on_demand(name: &str) -> PoolView {
    let mut pool = open(name);
    pool.requirements.add(Requirement::any_of(labels::CAPACITY_TYPE, [labels::CAPACITY_TYPE_ON_DEMAND]));
    pool
}

/// A pool without restrictions.
pub(super) fn open(name: &str) -> PoolView {
    let mut pool = example::pool(name);
    pool.labels.insert(labels::NODEPOOL.to_owned(), name.to_owned());
    pool.requirements.add(Requirement::any_of(labels::NODEPOOL, [name]));
    pool
}

/// Puts a scenario together: pods on the types of a market from one pool.
pub(super) fn scenario(name: &'static str, market: Market, pool: PoolView, pods: Vec<PodView>) -> Scenario {
    let offer = PoolOffer { pool: Arc::new(pool), instance_types: market.types, usage: Resources::new() };
    let snapshot = Snapshot {
        pools: vec![offer],
        pending: pods.into_iter().map(|pod| (pod.id.clone(), Arc::new(pod))).collect(),
        namespaces: BTreeMap::from([("default".to_owned(), BTreeMap::new())]),
        ..Snapshot::default()
    };
    Scenario { name, snapshot, rules: market.rules, preferences: Preferences::Respected }
}

/// A pod that waits, with an id that the order of names says nothing about.
pub(super) fn waiting(name: &str, cpu_milli: i64, memory_bytes: i64, ids: &mut Dice) -> PodView {
    let pod = PodView { uid: format!("{:016x}", ids.roll()).into(), unschedulable: true, ..example::pod(name) };
    pod.but(|pod| {
        pod.requests = Resources::new()
            .with(CPU, Quantity::milli(cpu_milli))
            .with(MEMORY, Quantity::bytes(memory_bytes))
            .with(PODS, Quantity::units(1));
    })
}

/// Equal pods of one deployment, labelled `app`.
pub(super) fn deployment(name: &str, replicas: usize, template: &PodView, ids: &mut Dice) -> Vec<PodView> {
    // Labelled before it is copied: pods of one workload share what they have in common, as the watches make them.
    let template = template.clone().but(|pod| {
        pod.labels.insert("app".to_owned(), name.to_owned());
    });
    let each = |number: usize| {
        let mut pod = template.clone();
        pod.id.name = format!("{name}-{number}").into();
        pod.uid = format!("{:016x}", ids.roll()).into();
        pod
    };
    (0..replicas).map(each).collect()
}

pub(super) fn spread(key: &str, selected: (&str, &str)) -> SpreadConstraint {
    SpreadConstraint {
        key: key.to_owned(),
        max_skew: 1,
        when: WhenUnsatisfiable::DoNotSchedule,
        selector: Some(Selector::labels([selected])),
        min_domains: None,
        node_affinity_policy: NodePolicy::Honor,
        node_taints_policy: NodePolicy::Ignore,
    }
}

pub(super) fn near(key: &str, selected: (&str, &str)) -> AffinityTerm {
    AffinityTerm {
        key: key.to_owned(),
        selector: Some(Selector::labels([selected])),
        namespaces: Namespaces::only("default"),
    }
}

/// Every third deployment is spread over zones, every eighth over hosts, every ninth keeps its pods apart.
pub(super) fn constrain(pod: &mut PodView, number: usize, app: &str) {
    if number.is_multiple_of(3) {
        pod.scheduling.spread.push(spread(labels::ZONE, ("app", app)));
    }
    if number.is_multiple_of(8) {
        let mut hosts = spread(labels::HOSTNAME, ("app", app));
        hosts.max_skew = 2;
        pod.scheduling.spread.push(hosts);
    }
    if number.is_multiple_of(9) {
        pod.scheduling.anti_affinity.push(near(labels::HOSTNAME, ("app", app)));
    }
}
