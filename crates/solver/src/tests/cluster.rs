//! A cluster in miniature: passes, launches, bindings.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::claim::{ClaimView, ConditionView, Status};
use karpenter_model::devices::{Allocation, Consumer, DeviceFacts, DeviceId, GivenDevice, Reach, Slice};
use karpenter_model::example;
use karpenter_model::instance_type::{InstanceType, Offering};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::node::NodeView;
use karpenter_model::pod::{PodId, PodPhase, PodView};
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::Resources;
use karpenter_model::selector::Selector;
use karpenter_model::shared::{Labels, Shared};
use karpenter_model::snapshot::{ExistingNode, PoolOffer, Snapshot};

use super::build::{Pod, Pool, key, pool, selector};
use super::fixtures::{RESERVATION, Type, f1, rules};
use crate::check::violations;
use crate::devices::Taken;
use crate::{Options, Placement, Plan, PlannedClaim, plan};

/// How far launched nodes get before the next pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Launched {
    /// Nothing but the claim is known.
    ClaimOnly,
    /// The node is there and registered.
    InFlight,
    Initialized,
}

#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) pools: Vec<(Pool, Arc<Vec<InstanceType>>)>,
    pub(super) nodes: Vec<ExistingNode>,
    pub(super) pending: BTreeMap<PodId, Arc<PodView>>,
    pub(super) daemons: Vec<Arc<PodView>>,
    pub(super) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pub(super) credits: BTreeMap<String, u32>,
    /// `None`: pods that use devices are refused.
    pub(super) devices: Option<Arc<DeviceFacts>>,
    pub(super) options: Options,
    pub(super) rules: LabelRules,
    pub(super) launched: Launched,
    /// What the last pass planned.
    pub(super) last: Plan,
    pods_made: usize,
    nodes_made: usize,
}

pub(super) fn types(list: Vec<Type>) -> Arc<Vec<InstanceType>> {
    Arc::new(list.into_iter().map(|one| one.0).collect())
}

/// NP with F1.
pub(super) fn cluster() -> Cluster {
    with(pool("default"), f1())
}

/// One pool.
pub(super) fn with(pool: Pool, list: Vec<Type>) -> Cluster {
    let mut cluster = empty();
    cluster.pool(pool, list);
    cluster
}

pub(super) fn empty() -> Cluster {
    Cluster {
        pools: Vec::new(),
        nodes: Vec::new(),
        pending: BTreeMap::new(),
        daemons: Vec::new(),
        namespaces: BTreeMap::new(),
        credits: BTreeMap::new(),
        devices: None,
        options: Options::default(),
        rules: rules(),
        launched: Launched::InFlight,
        last: Plan::default(),
        pods_made: 0,
        nodes_made: 0,
    }
}

impl Cluster {
    pub(super) fn pool(&mut self, pool: Pool, list: Vec<Type>) -> &mut Self {
        self.pools.push((pool, types(list)));
        self.pools.sort_by(|(a, _), (b, _)| karpenter_model::pool::by_precedence(&a.0, &b.0));
        self
    }

    /// The pools are now these, with F1.
    pub(super) fn repool(&mut self, pools: Vec<Pool>) -> &mut Self {
        self.pools.clear();
        for pool in pools {
            self.pool(pool, f1());
        }
        self
    }

    pub(super) fn daemon(&mut self, pod: Pod) -> &mut Self {
        let mut pod = pod.daemon().0;
        if pod.id.name.is_empty() {
            pod.id.name = format!("daemon-{}", self.daemons.len()).into();
        }
        self.daemons.push(Arc::new(pod));
        self
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let offer = |(pool, types): &(Pool, Arc<Vec<InstanceType>>)| {
            let mut usage = Resources::new();
            let own = |node: &&ExistingNode| !node.is_going() && node.pool() == Some(pool.0.name.as_str());
            self.nodes.iter().filter(own).for_each(|node| usage.add(&node.capacity()));
            PoolOffer { pool: Arc::new(pool.0.clone()), instance_types: types.clone(), usage }
        };
        Snapshot {
            pools: self.pools.iter().filter(|(pool, _)| pool.0.is_schedulable()).map(offer).collect(),
            nodes: self.nodes.clone(),
            pending: self.pending.clone(),
            daemons: self.daemons.clone(),
            namespaces: self.namespaces.clone(),
            reservation_credits: self.credits.clone(),
            devices: self.devices.clone(),
        }
    }

    fn named(&mut self, pod: Pod) -> PodView {
        self.pods_made += 1;
        let mut pod = pod.0;
        if pod.id.name.is_empty() {
            pod.id.name = format!("p{:04}", self.pods_made).into();
        }
        if pod.uid.is_empty() {
            pod.uid = format!("{:04}", self.pods_made).into();
        }
        pod
    }

    /// The pod waits.
    pub(super) fn add(&mut self, pod: Pod) -> PodId {
        let pod = self.named(pod);
        let id = pod.id.clone();
        self.pending.insert(id.clone(), Arc::new(pod));
        id
    }

    pub(super) fn add_all(&mut self, count: usize, pod: &Pod) -> Vec<PodId> {
        (0..count).map(|_| self.add(pod.clone())).collect()
    }

    /// Plans what waits, launches and binds.
    pub(super) fn pass(&mut self) -> &Plan {
        let plan = self.plan();
        let names: Vec<String> = plan.claims.iter().map(|claim| self.launch(claim)).collect();
        for (id, placement) in &plan.placed {
            let name = match placement {
                Placement::Existing(name) => name,
                Placement::New(index) => &names[*index],
            };
            // Devices of a node are given once it has published them: until then the pod waits.
            let up = self.nodes.iter().any(|node| node.name() == name && node.is_initialized());
            if !up && !self.pending[id].resource_claims.is_empty() {
                continue;
            }
            let pod = self.pending.remove(id).unwrap();
            self.give_devices(&plan, placement, name, &pod);
            self.remove_pods(|_, bound| bound.id == *id);
            self.bind(Arc::unwrap_or_clone(pod), name);
        }
        self.last = plan;
        &self.last
    }

    /// Plans without acting.
    pub(super) fn plan(&self) -> Plan {
        let snapshot = self.snapshot();
        let plan = plan(&snapshot, &self.rules, &self.options);
        let plain = crate::plain::plan(&snapshot, &self.rules, &self.options);
        assert_eq!(super::random::text(&plan), super::random::text(&plain));
        assert_eq!(violations(&snapshot, &self.rules, &plan), []);
        plan
    }

    /// The pods come, and a pass is made.
    pub(super) fn run(&mut self, pods: impl IntoIterator<Item = Pod>) -> Vec<PodId> {
        let ids: Vec<PodId> = pods.into_iter().map(|pod| self.add(pod)).collect();
        self.pass();
        ids
    }

    pub(super) fn run_n(&mut self, count: usize, pod: &Pod) -> Vec<PodId> {
        self.run((0..count).map(|_| pod.clone()))
    }

    /// One pod, one pass: its node, if it got one.
    pub(super) fn one(&mut self, pod: Pod) -> Option<&ExistingNode> {
        let id = self.run([pod]).remove(0);
        self.at(&id)
    }

    /// One pod, one pass: a label of its node; `-` for a node without it, `none` for no node.
    pub(super) fn one_label(&mut self, name: &str, pod: Pod) -> String {
        let id = self.run([pod]).remove(0);
        self.label(name, &id)
    }

    pub(super) fn label(&self, name: &str, id: &PodId) -> String {
        match self.at(id) {
            Some(node) => node.labels().get(key(name)).cloned().unwrap_or("-".to_owned()),
            None => "none".to_owned(),
        }
    }

    pub(super) fn at(&self, id: &PodId) -> Option<&ExistingNode> {
        self.nodes.iter().find(|node| node.pods.iter().any(|pod| pod.id == *id))
    }

    pub(super) fn placed(&self, ids: &[PodId]) -> usize {
        ids.iter().filter(|id| self.at(id).is_some()).count()
    }

    /// How many nodes these pods are on.
    pub(super) fn hosts(&self, ids: &[PodId]) -> usize {
        let mut names: Vec<&str> = ids.iter().filter_map(|id| Some(self.at(id)?.name())).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    }

    /// Counts of pods labelled `app=test` by the label of their node, sorted.
    pub(super) fn skew(&self, name: &str) -> Vec<usize> {
        self.skew_of(name, &selector("app=test"))
    }

    pub(super) fn skew_of(&self, name: &str, selector: &Selector) -> Vec<usize> {
        let mut counts: Vec<usize> = self.counts(name, selector).into_values().collect();
        counts.sort_unstable();
        counts
    }

    pub(super) fn counts(&self, name: &str, selector: &Selector) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for node in &self.nodes {
            let matching = node.pods.iter().filter(|pod| selector.matches(&pod.labels)).count();
            if let Some(value) = node.labels().get(key(name)).filter(|_| matching > 0) {
                *counts.entry(value.clone()).or_default() += matching;
            }
        }
        counts
    }

    pub(super) fn bind(&mut self, mut pod: PodView, name: &str) {
        let node = self.nodes.iter_mut().find(|node| node.name() == name).unwrap();
        pod.node_name = Some(name.into());
        pod.phase = PodPhase::Running;
        pod.unschedulable = false;
        node.requested.add(&pod.requests);
        node.pods.push(Arc::new(pod));
    }

    /// A pod that runs on the node already.
    pub(super) fn bound(&mut self, pod: Pod, name: &str) -> PodId {
        let pod = self.named(pod);
        let id = pod.id.clone();
        self.bind(pod, name);
        id
    }

    pub(super) fn node(&mut self, node: ExistingNode) -> &mut Self {
        self.nodes.push(node);
        self
    }

    /// Pods that meet the condition leave.
    pub(super) fn remove_pods(&mut self, gone: impl Fn(&ExistingNode, &PodView) -> bool) {
        for node in &mut self.nodes {
            let (leaving, staying): (Vec<_>, Vec<_>) = node.pods.iter().cloned().partition(|pod| gone(node, pod));
            for pod in &leaving {
                node.requested.subtract(&pod.requests);
            }
            node.pods = staying.into();
        }
    }

    pub(super) fn empty_all(&mut self) {
        self.remove_pods(|_, _| true);
    }

    /// Changes the node objects.
    pub(super) fn edit_nodes(&mut self, change: impl Fn(&mut NodeView)) {
        for node in self.nodes.iter_mut().filter_map(|node| node.node.as_mut()) {
            change(Arc::make_mut(node));
        }
    }

    pub(super) fn initialize(&mut self) {
        self.edit_nodes(|node| {
            node.labels.insert(labels::INITIALIZED.to_owned(), "true".to_owned());
        });
    }

    /// What the cloud would make of the claim (the launch emulator).
    fn launch(&mut self, claim: &PlannedClaim) -> String {
        let known = &self.pools.iter().find(|(pool, _)| pool.0.name == claim.pool.name).unwrap().1;
        let asked = &claim.requirements;
        let mut choices: Vec<(&InstanceType, &Offering)> = known
            .iter()
            .filter(|known| claim.instance_types.contains(&known.name) && known.requirements.intersects(asked))
            .flat_map(|known| known.launchable_offerings(asked, &self.rules).into_iter().map(move |one| (known, one)))
            .filter(|(known, offering)| claim.requests.fits(&known.allocatable_with(&offering.overrides)))
            .collect();
        // Equal prices: as listed.
        choices.sort_by_key(|(_, one)| {
            let reserved = one.capacity_type() == Some(labels::CAPACITY_TYPE_RESERVED);
            (!reserved, one.price)
        });
        let (known, offering) = *choices.first().unwrap_or_else(|| panic!("nothing can be launched for {asked}"));
        self.nodes_made += 1;
        let name = format!("n{:04}", self.nodes_made);
        let labels = node_labels(claim, known, offering, &name, &self.rules);
        let node = launched_node(claim, known, offering, labels.into(), self.launched);
        let reservation =
            offering.requirements.get(RESERVATION).and_then(Requirement::single_value).map(ToOwned::to_owned);
        let known = known.clone();
        self.nodes.push(node);
        if self.launched == Launched::Initialized {
            self.publish(&known, &name);
        }
        if let Some(id) = reservation {
            self.take_reserved(&id);
        }
        name
    }

    /// What the scheduler does for the resource claims of a pod: as planned.
    fn give_devices(&mut self, plan: &Plan, placement: &Placement, name: &str, pod: &PodView) {
        let Some(facts) = &mut self.devices else { return };
        let node = self.nodes.iter().find(|node| node.name() == name).unwrap();
        let of_type = node.labels().get(labels::INSTANCE_TYPE).map(String::as_str).unwrap_or_default();
        let planned = match placement {
            Placement::Existing(name) => plan.devices.get(name),
            Placement::New(index) => plan.claims[*index].devices.get(of_type),
        };
        for id in crate::devices::claims_of(pod) {
            let facts = Arc::make_mut(facts);
            let claim = Arc::make_mut(facts.claims.iter_mut().find(|claim| claim.id == id).unwrap());
            let consumer = Consumer::Pod { uid: pod.uid.to_string() };
            if let Some(known) = &mut claim.allocation {
                known.reserved_for.push(consumer);
                continue;
            }
            let taken: Vec<&Taken> = planned.into_iter().flatten().filter(|one| one.claim == id).collect();
            let devices = taken.iter().map(|one| GivenDevice {
                id: if one.own {
                    DeviceId { pool: published_pool(&one.device.pool, name), ..one.device.clone() }
                } else {
                    one.device.clone()
                },
                consumed: one.consumed.clone(),
            });
            let local = taken.iter().any(|one| {
                one.own
                    || facts
                        .slices
                        .iter()
                        .any(|slice| slice.pool == one.device.pool && matches!(slice.reach, Reach::Node(_)))
            });
            let here = Requirements::from_iter([Requirement::any_of(labels::HOSTNAME, [name])]);
            let mut topology = Requirements::new();
            for one in &taken {
                topology.add_all(&one.topology);
            }
            claim.allocation = Some(Allocation {
                devices: devices.collect(),
                terms: vec![if local { here } else { topology }],
                reserved_for: vec![consumer],
            });
        }
    }

    /// What the drivers of a node do once it runs.
    fn publish(&mut self, known: &InstanceType, name: &str) {
        let Some(facts) = &mut self.devices else { return };
        for pool in &known.devices.pools {
            let slice = |suffix: &str| Slice {
                name: format!("{name}-{}{suffix}", pool.driver),
                driver: pool.driver.clone(),
                pool: published_pool(&pool.pool, name),
                generation: 1,
                parts: if pool.counters.is_empty() { 1 } else { 2 },
                owner: Some(name.to_owned()),
                reach: Reach::Node(name.to_owned()),
                counters: BTreeMap::new(),
                devices: Vec::new(),
            };
            let facts = Arc::make_mut(facts);
            facts.slices.push(Arc::new(Slice { devices: pool.devices.clone(), ..slice("") }));
            if !pool.counters.is_empty() {
                facts.slices.push(Arc::new(Slice { counters: pool.counters.clone(), ..slice("-counters") }));
            }
        }
    }

    fn take_reserved(&mut self, id: &str) {
        for (_, types) in &mut self.pools {
            let offerings = Arc::make_mut(types).iter_mut().flat_map(|known| &mut known.offerings);
            for offering in offerings {
                let same = offering.requirements.get(RESERVATION).and_then(Requirement::single_value) == Some(id);
                if let Some(left) = offering.reservation_capacity.as_mut().filter(|_| same) {
                    *left -= 1;
                }
            }
        }
    }
}

/// Each node has its own pool.
fn published_pool(pool: &str, node: &str) -> String {
    format!("{pool}-{node}")
}

/// SCH-220, and what the cloud knows about the instance.
fn node_labels(
    claim: &PlannedClaim,
    known: &InstanceType,
    offering: &Offering,
    name: &str,
    rules: &LabelRules,
) -> BTreeMap<String, String> {
    let mut labels = custom_labels(claim, rules);
    let mut all = Requirements::new();
    known.requirements.iter().for_each(|one| all.add(one.clone()));
    all.add_all(&claim.requirements);
    all.add_all(&offering.requirements);
    for one in known.requirements.iter() {
        let one = all.get(one.key()).unwrap();
        match one.single_value() {
            Some(value) => drop(labels.insert(one.key().to_owned(), value.to_owned())),
            None if one.has("linux") => drop(labels.insert(one.key().to_owned(), "linux".to_owned())),
            None => {}
        }
    }
    labels.insert(labels::HOSTNAME.to_owned(), name.to_owned());
    labels
}

/// The labels that the claim is created with (SCH-220).
pub(super) fn custom_labels(claim: &PlannedClaim, rules: &LabelRules) -> BTreeMap<String, String> {
    let mut labels = claim.pool.labels.clone();
    let custom = |one: &&Requirement| !rules.is_well_known(one.key()) && !rules.is_restricted(one.key());
    for one in claim.requirements.iter().filter(custom) {
        let value = one.any();
        if !value.is_empty() {
            labels.insert(one.key().to_owned(), value);
        }
    }
    labels
}

fn launched_node(
    claim: &PlannedClaim,
    known: &InstanceType,
    offering: &Offering,
    labels: Labels,
    launched: Launched,
) -> ExistingNode {
    let name = labels[labels::HOSTNAME].clone();
    let yes = ConditionView { status: Status::True, since: Timestamp::UNIX_EPOCH };
    let pool = &claim.pool;
    let capacity = Shared::from(known.capacity_with(&offering.overrides));
    let allocatable = Shared::from(known.allocatable_with(&offering.overrides));
    let view = ClaimView {
        has_finalizer: true,
        labels: labels.clone(),
        pool: Some(pool.name.clone()),
        node_class: pool.node_class.clone(),
        requirements: (*claim.requirements).clone().into(),
        requests: claim.requests.clone(),
        taints: pool.taints.clone(),
        startup_taints: pool.startup_taints.clone(),
        provider_id: Some(format!("test://{name}")),
        node_name: Some(name.clone()),
        capacity: capacity.clone(),
        allocatable: allocatable.clone(),
        launched: yes,
        registered: yes,
        initialized: yes,
        ..example::claim(&name)
    };
    let mut node_labels = labels;
    node_labels.insert(labels::REGISTERED.to_owned(), "true".to_owned());
    if launched == Launched::Initialized {
        node_labels.insert(labels::INITIALIZED.to_owned(), "true".to_owned());
    }
    let mut taints = pool.taints.clone();
    taints.extend(pool.startup_taints.iter().filter(|_| launched == Launched::InFlight).cloned());
    let node = NodeView {
        name: name.clone(),
        uid: name.clone(),
        provider_id: Some(format!("test://{name}")),
        created_at: Timestamp::UNIX_EPOCH,
        deleting_since: None,
        has_finalizer: true,
        labels: node_labels,
        annotations: Labels::new(),
        taints,
        capacity,
        allocatable,
        ready: true,
        conditions: Vec::new(),
        boot_id: String::new(),
    };
    ExistingNode {
        node: (launched != Launched::ClaimOnly).then(|| Arc::new(node)),
        claim: Some(Arc::new(view)),
        ..ExistingNode::default()
    }
}
