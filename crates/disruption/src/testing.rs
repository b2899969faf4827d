//! Small clusters for tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::claim::{ClaimView, ConditionView, Status};
use karpenter_model::example;
use karpenter_model::instance_type::{InstanceType, Offering, Overhead, Overrides, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::node::NodeView;
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::{PodId, PodPhase, PodView};
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::Resources;
use karpenter_model::shared::{Labels, Shared};
use karpenter_model::snapshot::{ExistingNode, PoolOffer, Snapshot};
use karpenter_solver::{Options, Reserved};

use crate::candidates::{Facts, PoolFacts};
use crate::fixpoint::World;
use crate::look::{Gates, Look};
use crate::methods::{Consolidation, Decided, Method, Seen};
use crate::simulation::Simulator;

pub(crate) const ZONES: [&str; 3] = ["z1", "z2", "z3"];

pub(crate) fn time(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn cpus(count: i64) -> Resources {
    Resources::new().with("cpu", Quantity::units(count)).with("pods", Quantity::units(100))
}

/// On demand everywhere at the price, and where `spot` is given for it in each zone.
pub(crate) fn instance_type(name: &str, cpu: i64, price: f64, spot: &[f64]) -> InstanceType {
    let offering = |zone: &str, kind: &str, price: f64| Offering {
        requirements: Requirements::from_iter([
            Requirement::any_of(labels::ZONE, [zone]),
            Requirement::any_of(labels::CAPACITY_TYPE, [kind]),
        ]),
        price: Price::new(price).unwrap(),
        available: true,
        reservation_capacity: None,
        overrides: Overrides::default(),
    };
    let on_demand = ZONES.iter().map(|zone| offering(zone, "on-demand", price));
    let on_spot = ZONES.iter().zip(spot).map(|(zone, price)| offering(zone, "spot", *price));
    let offerings: Vec<Offering> = on_demand.chain(on_spot).collect();
    let kinds: &[&str] = if spot.is_empty() { &["on-demand"] } else { &["on-demand", "spot"] };
    InstanceType {
        requirements: Requirements::from_iter([
            Requirement::any_of(labels::INSTANCE_TYPE, [name]),
            Requirement::any_of(labels::ZONE, ZONES),
            Requirement::any_of(labels::CAPACITY_TYPE, kinds.iter().copied()),
        ]),
        name: name.to_owned(),
        offerings,
        capacity: cpus(cpu),
        overhead: Overhead::default(),
        attachment_limits: BTreeMap::new(),
        devices: karpenter_model::devices::TypeDevices::default(),
    }
}

pub(crate) const RESERVATION: &str = "example.com/reservation";

/// The type with a reservation in the first zone that has so many instances left; `None` when it is not healthy.
pub(crate) fn with_reservation(mut known: InstanceType, id: &str, left: Option<u32>) -> InstanceType {
    known.offerings.push(Offering {
        requirements: Requirements::from_iter([
            Requirement::any_of(labels::ZONE, [ZONES[0]]),
            Requirement::any_of(labels::CAPACITY_TYPE, [labels::CAPACITY_TYPE_RESERVED]),
            Requirement::any_of(RESERVATION, [id]),
        ]),
        price: Price::new(0.0001).unwrap(),
        available: left.is_some(),
        reservation_capacity: Some(left.unwrap_or(3)),
        overrides: Overrides::default(),
    });
    let kinds: Vec<&str> = known.offerings.iter().filter_map(Offering::capacity_type).collect();
    let kinds: BTreeSet<&str> = kinds.into_iter().collect();
    known.requirements.replace(Requirement::any_of(labels::CAPACITY_TYPE, kinds));
    known.requirements.add(Requirement::any_of(RESERVATION, [id]));
    known
}

/// A pod that runs and asks for so many CPUs.
pub(crate) fn running(name: &str, cpu: i64) -> PodView {
    PodView { phase: PodPhase::Running, ..example::pod(name) }.but(|pod| pod.requests = pod_requests(cpu))
}

/// A pod that waits.
pub(crate) fn waiting(name: &str, cpu: i64) -> PodView {
    PodView { unschedulable: true, ..example::pod(name) }.but(|pod| pod.requests = pod_requests(cpu))
}

fn pod_requests(cpu: i64) -> Resources {
    Resources::new().with("cpu", Quantity::units(cpu)).with("pods", Quantity::units(1))
}

/// At second 10,000.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    pub(crate) snapshot: Snapshot,
    pub(crate) pools: BTreeMap<String, PoolFacts>,
    pub(crate) pdbs: Vec<Arc<PdbView>>,
    pub(crate) queued: BTreeSet<String>,
    pub(crate) now: Timestamp,
    pub(crate) gates: Gates,
    pub(crate) buffer_pods: BTreeMap<String, u32>,
    pub(crate) pool_costs: BTreeMap<String, f64>,
    pub(crate) planned: BTreeMap<PodId, Arc<PodView>>,
    pub(crate) options: Options,
    types: Arc<Vec<InstanceType>>,
    rules: LabelRules,
}

impl Cluster {
    pub(crate) fn new(types: impl IntoIterator<Item = InstanceType>) -> Self {
        Self {
            snapshot: Snapshot::default(),
            pools: BTreeMap::new(),
            pdbs: Vec::new(),
            queued: BTreeSet::new(),
            now: time(10_000),
            gates: Gates::default(),
            buffer_pods: BTreeMap::new(),
            pool_costs: BTreeMap::new(),
            planned: BTreeMap::new(),
            options: Options { reserved: Reserved::Fallback, ..Options::default() },
            types: Arc::new(types.into_iter().collect()),
            rules: LabelRules::core(),
        }
    }

    /// Must come before the pools.
    pub(crate) fn reservations(mut self) -> Self {
        self.rules = LabelRules::core().reservation(RESERVATION);
        self
    }

    /// A pool of which nobody knows what it is offered now.
    pub(crate) fn unlisted(mut self, name: &str) -> Self {
        self.pools.get_mut(name).unwrap().instance_types = None;
        self.snapshot.pools.retain(|offer| offer.pool.name != name);
        self
    }

    pub(crate) fn pool(mut self, name: &str, change: impl FnOnce(&mut PoolView)) -> Self {
        let labels = BTreeMap::from([(labels::NODEPOOL.to_owned(), name.to_owned())]);
        let mut pool =
            PoolView { requirements: Requirements::from_labels(&self.rules, &labels), labels, ..example::pool(name) };
        change(&mut pool);
        let view = Arc::new(pool);
        let instance_types = self.types.clone();
        if view.is_schedulable() {
            self.snapshot.pools.push(PoolOffer {
                pool: view.clone(),
                instance_types: instance_types.clone(),
                usage: Resources::new(),
            });
        }
        self.pools.insert(name.to_owned(), PoolFacts { view, instance_types: Some(instance_types) });
        self
    }

    /// An initialized, quiet node of the pool, in the first zone.
    pub(crate) fn node(mut self, name: &str, pool: &str, kind: &str, pods: impl IntoIterator<Item = PodView>) -> Self {
        let (type_name, capacity_type) = kind.split_once(' ').unwrap_or((kind, "on-demand"));
        let known = self.types.iter().find(|known| known.name == type_name);
        let capacity = Shared::from(known.map_or_else(|| cpus(4), |known| known.capacity.clone()));
        let labels: Labels = [
            (labels::REGISTERED, "true"),
            (labels::INITIALIZED, "true"),
            (labels::NODEPOOL, pool),
            (labels::INSTANCE_TYPE, type_name),
            (labels::CAPACITY_TYPE, capacity_type),
            (labels::ZONE, ZONES[0]),
            (labels::HOSTNAME, name),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let condition = ConditionView { status: Status::True, since: time(0) };
        let node = NodeView {
            labels: labels.clone(),
            capacity: capacity.clone(),
            allocatable: capacity.clone(),
            ready: true,
            provider_id: Some(format!("id-{name}")),
            ..example::node(name)
        };
        let claim = ClaimView {
            labels,
            pool: Some(pool.to_owned()),
            launched: condition,
            registered: condition,
            initialized: condition,
            consolidatable: true,
            provider_id: Some(format!("id-{name}")),
            capacity: capacity.clone(),
            allocatable: capacity,
            ..example::claim(&format!("{name}-claim"))
        };
        let mut requested = Resources::new();
        let pods: Vec<Arc<PodView>> = pods
            .into_iter()
            .map(|pod| {
                requested.add(&pod.requests);
                Arc::new(PodView { node_name: Some(name.into()), ..pod })
            })
            .collect();
        self.snapshot.nodes.push(ExistingNode {
            node: Some(Arc::new(node)),
            claim: Some(Arc::new(claim)),
            requested: requested.into(),
            pods: pods.into(),
            ..ExistingNode::default()
        });
        self.snapshot.nodes.sort_by(|a, b| a.name().cmp(b.name()));
        self
    }

    pub(crate) fn waiting(mut self, pod: PodView) -> Self {
        self.snapshot.pending.insert(pod.id.clone(), Arc::new(pod));
        self
    }

    fn at(&mut self, name: &str) -> &mut ExistingNode {
        self.snapshot.nodes.iter_mut().find(|node| node.name() == name).unwrap()
    }

    pub(crate) fn claim(mut self, node: &str, change: impl FnOnce(&mut ClaimView)) -> Self {
        change(Arc::make_mut(self.at(node).claim.as_mut().unwrap()));
        self
    }

    pub(crate) fn change(mut self, node: &str, change: impl FnOnce(&mut NodeView)) -> Self {
        change(Arc::make_mut(self.at(node).node.as_mut().unwrap()));
        self
    }

    pub(crate) fn drifted(self, node: &str, since: i64) -> Self {
        self.claim(node, |claim| claim.drifted = Some(ConditionView { status: Status::True, since: time(since) }))
    }

    pub(crate) fn pdb(mut self, pdb: PdbView) -> Self {
        self.pdbs.push(Arc::new(pdb));
        self
    }

    pub(crate) fn world(&self) -> World {
        World {
            snapshot: self.snapshot.clone(),
            pools: self.pools.clone(),
            budgets: self.pdbs.clone(),
            buffer_pods: BTreeMap::new(),
            now: self.now,
            gates: self.gates,
            options: self.options,
        }
    }

    pub(crate) fn look(&self) -> Look<'_> {
        Look {
            snapshot: &self.snapshot,
            facts: Facts { pools: &self.pools, budgets: &self.pdbs, queued: &self.queued, now: self.now },
            planned: &self.planned,
            buffer_pods: &self.buffer_pods,
            pool_costs: &self.pool_costs,
            rules: &self.rules,
            options: self.options,
            gates: self.gates,
            roll: None,
        }
    }

    pub(crate) fn with<T>(&self, ask: impl FnOnce(&Look<'_>, &mut Simulator<'_>) -> T) -> T {
        let look = self.look();
        let mut simulator = Simulator::new(look.snapshot, &look.facts, look.planned, look.rules, look.options);
        ask(&look, &mut simulator)
    }

    pub(crate) fn multi(&self) -> Decided {
        self.with(|look, simulator| Consolidation::new(look, simulator, Method::Multi).multi(&mut || false))
    }

    /// The same, looked at within the specified limits.
    pub(crate) fn specified(&self) -> Self {
        let mut cluster = self.clone();
        cluster.gates.specified_search = true;
        cluster
    }

    /// What both ways to look for nodes that go together come up with: by value, as specified.
    pub(crate) fn both(&self) -> [Decided; 2] {
        [self.multi(), self.specified().multi()]
    }

    pub(crate) fn single(&self) -> Decided {
        let mut seen = Seen::default();
        self.with(|look, simulator| {
            Consolidation::new(look, simulator, Method::Single).single(&mut seen, &mut || false)
        })
    }
}

/// Commands as texts, with the types of replacements.
pub(crate) fn texts(decided: &Decided) -> Vec<String> {
    decided
        .commands
        .iter()
        .map(|command| {
            let types = command.replacements.iter().map(|claim| claim.instance_types.join("|"));
            let types: Vec<String> = types.collect();
            if types.is_empty() { command.text() } else { format!("{} {}", command.text(), types.join(" + ")) }
        })
        .collect()
}
