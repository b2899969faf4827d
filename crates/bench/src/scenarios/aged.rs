//! A cluster of many nodes that has shrunk: what consolidation looks at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_disruption::candidates::{Candidate, Class, Facts, PoolFacts};
use karpenter_disruption::look::{Gates, Look};
use karpenter_disruption::methods::Command;
use karpenter_disruption::simulation::{Question, Simulator};
use karpenter_model::budget::{Budget, Budgets};
use karpenter_model::claim::{ClaimView, ConditionView, Status};
use karpenter_model::example;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::node::NodeView;
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::{PodId, PodPhase, PodView};
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::{CPU, Resources};
use karpenter_model::shared::Labels;
use karpenter_model::snapshot::{ExistingNode, PoolOffer, Snapshot};
use karpenter_model::taints::Taint;
use karpenter_solver::{Options, Placement, Plan, PlannedClaim, Reserved, Solver};

use super::parts::{GI, MI, Market, constrain, on_demand, open, waiting};
use super::{scaled_in, synth};
use crate::dice::Dice;

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
const TYPES: [&str; 4] = ["m7i.2xlarge", "m7i.4xlarge", "r7i.2xlarge", "c7i.4xlarge"];
const MILLICORES: [i64; 6] = [100, 150, 250, 250, 500, 1000];
const POOL: &str = "default";

/// All that a look needs, with its owner.
#[derive(Debug, Clone)]
pub struct Aged {
    pub snapshot: Snapshot,
    pub pools: BTreeMap<String, PoolFacts>,
    pub budgets: Vec<Arc<PdbView>>,
    pub rules: LabelRules,
    pub gates: Gates,
    queued: BTreeSet<String>,
    planned: BTreeMap<PodId, Arc<PodView>>,
    buffer_pods: BTreeMap<String, u32>,
    pool_costs: BTreeMap<String, f64>,
}

impl Aged {
    /// So many nodes, filled from deployments of a hundred pods; then each pod stays with so many chances in a hundred.
    pub fn new(nodes: usize, stay: usize, seed: u64) -> Self {
        let market = Market::ec2_7i();
        let mut dice = Dice::new(seed);
        let mut ids = Dice::new(seed + 1);
        let mut supply = Supply::new(nodes.div_ceil(4).max(3));
        let mut all = Vec::with_capacity(nodes);
        let mut usage = Resources::new();
        for number in 0..nodes {
            let wanted = dice.pick(&TYPES);
            let known = market.types.iter().find(|known| known.name == wanted);
            let Some(known) = known else { continue };
            let mut node = empty_node(number, known, ZONES[number % ZONES.len()], labels::CAPACITY_TYPE_ON_DEMAND);
            supply.fill(&mut node, stay, &mut dice, &mut ids);
            usage.add(&node.capacity());
            all.push(node);
        }
        let mut aged = Self::empty(market, on_demand(POOL));
        aged.snapshot.pools[0].usage = usage;
        aged.snapshot.nodes = all;
        aged.budgets = supply.budgets();
        aged
    }

    /// A pool that lets all of its nodes go, without any.
    fn empty(market: Market, mut pool: PoolView) -> Self {
        pool.ready = true;
        pool.budgets =
            Budgets::Parsed(vec![Budget { nodes: "100%".parse().expect("a percentage"), reasons: None, window: None }]);
        let view = Arc::new(pool);
        let offer = PoolOffer { pool: view.clone(), instance_types: market.types.clone(), usage: Resources::new() };
        let snapshot = Snapshot {
            pools: vec![offer],
            namespaces: BTreeMap::from([("default".to_owned(), BTreeMap::new())]),
            ..Snapshot::default()
        };
        let facts = PoolFacts { view, instance_types: Some(market.types) };
        Self {
            snapshot,
            pools: BTreeMap::from([(POOL.to_owned(), facts)]),
            budgets: Vec::new(),
            rules: market.rules,
            gates: Gates::default(),
            queued: BTreeSet::new(),
            planned: BTreeMap::new(),
            buffer_pods: BTreeMap::new(),
            pool_costs: BTreeMap::new(),
        }
    }

    /// The pods of the live benchmark, planned in so many batches by the reference, then scaled in to 40 %.
    pub fn scaled_in(batches: usize, seed: u64) -> Self {
        let mut aged = Self::empty(Market::kwok_linux_amd64_below_33(), open(POOL));
        let (mut dice, mut ids) = (Dice::new(seed), Dice::new(seed + 1));
        let mut deployments = scaled_in::deployments(&mut ids);
        for batch in 0..batches {
            let part = |pods: &Vec<PodView>| pods.len() * batch / batches..pods.len() * (batch + 1) / batches;
            let pods = deployments.iter().flat_map(|pods| &pods[part(pods)]);
            aged.buy(pods, 100_000 + batch * 1000);
        }
        for pods in &mut deployments {
            while pods.len() > scaled_in::LEFT {
                let gone = pods.swap_remove(dice.below(pods.len()));
                for node in &mut aged.snapshot.nodes {
                    if let Some(at) = node.pods.iter().position(|pod| pod.id == gone.id) {
                        node.requested.subtract(&node.pods.remove(at).requests);
                    }
                }
            }
        }
        aged
    }

    /// At least so many nodes as the target buys them: drawn deployments come in batches, and the reference plans each with 605 types of
    /// EC2, as far as they have no more than so many CPUs, on demand. Then half of the pods of each deployment are gone.
    pub fn bought(nodes: usize, largest: i64, seed: u64) -> Self {
        const BATCHES: usize = 24;
        let Market { types, rules } = Market::ec2_605();
        let small = |known: &&InstanceType| known.capacity.amount(CPU) <= Quantity::units(largest);
        let market = Market { types: Arc::new(types.iter().filter(small).cloned().collect()), rules };
        let mut aged = Self::empty(market, on_demand(POOL));
        let (mut dice, mut ids) = (Dice::new(seed), Dice::new(seed + 1));
        // About half of a CPU is asked for by the pod in the middle, and nearly two on average.
        let of_batch = nodes * usize::try_from(largest).unwrap_or(0).div_ceil(2) / BATCHES + 1;
        let (mut deployments, mut gone): (usize, BTreeSet<PodId>) = (0, BTreeSet::new());
        while aged.snapshot.nodes.len() < nodes {
            let mut batch: Vec<PodView> = Vec::new();
            while batch.len() < of_batch {
                let mut pods = synth::constrained(deployments, &mut dice, &mut ids);
                batch.extend(pods.iter().cloned());
                if deployments.is_multiple_of(2) {
                    aged.budgets.push(budget(deployments));
                }
                deployments += 1;
                let left = pods.len().div_ceil(2);
                while pods.len() > left {
                    gone.insert(pods.swap_remove(dice.below(pods.len())).id);
                }
            }
            let first = aged.snapshot.nodes.len();
            aged.buy(batch.iter(), first);
        }
        for node in &mut aged.snapshot.nodes {
            let (left, ended): (Vec<_>, Vec<_>) = node.pods.drain(..).partition(|pod| !gone.contains(&pod.id));
            for pod in &ended {
                node.requested.subtract(&pod.requests);
            }
            node.pods = left.into();
        }
        aged
    }

    /// Nodes for these pods, as the reference plans them; `first` names the new ones.
    fn buy<'p>(&mut self, pods: impl Iterator<Item = &'p PodView>, first: usize) {
        let options = Options { reserved: Reserved::Fallback, ..Options::default() };
        self.snapshot.pending = pods.map(|pod| (pod.id.clone(), Arc::new(pod.clone()))).collect();
        let plan = Solver::new(&self.rules).plan(&self.snapshot, &options);
        let pods = std::mem::take(&mut self.snapshot.pending).into_values().map(|pod| {
            let running = PodView { phase: PodPhase::Running, unschedulable: false, ..PodView::clone(&pod) };
            Arc::new(running)
        });
        let new = plan.claims.iter().enumerate().map(|(at, claim)| self.launched(claim, first + at)).collect();
        self.bind(pods.collect(), &plan, new);
    }

    pub fn pods(&self) -> usize {
        self.snapshot.nodes.iter().map(|node| node.pods.len()).sum()
    }

    pub fn look(&self) -> Look<'_> {
        Look {
            snapshot: &self.snapshot,
            facts: Facts { pools: &self.pools, budgets: &self.budgets, queued: &self.queued, now: NOW },
            planned: &self.planned,
            buffer_pods: &self.buffer_pods,
            pool_costs: &self.pool_costs,
            rules: &self.rules,
            options: Options { reserved: Reserved::Fallback, ..Options::default() },
            gates: self.gates,
            roll: None,
        }
    }
}

impl Aged {
    /// What all nodes cost per hour.
    pub fn cost(&self) -> f64 {
        let Some(types) = self.pools.get(POOL).and_then(|pool| pool.instance_types.as_ref()) else { return 0.0 };
        let price = |node: &ExistingNode| {
            let name = node.labels().get(labels::INSTANCE_TYPE);
            let known = types.iter().find(|known| Some(&known.name) == name);
            karpenter_disruption::cost::price(node, known).per_hour()
        };
        self.snapshot.nodes.iter().map(price).sum()
    }

    /// Carries the command out, as the simulation says that it will go; who moved. `turn` names new nodes.
    pub fn apply(&mut self, command: &Command, turn: usize) -> BTreeSet<PodId> {
        let going: BTreeSet<&str> = command.going.iter().map(|going| going.node.as_str()).collect();
        let simulated = {
            let look = self.look();
            let mut candidates = look.candidates(Class::Graceful, &mut Vec::new());
            candidates.retain(|candidate| going.contains(candidate.name()));
            let all: Vec<&Candidate<'_>> = candidates.iter().collect();
            let mut known = simulator(&look);
            let question = Question { leave_unsettled_alone: true, ..Question::default() };
            let simulated = known.without(&all, question);
            if simulated.claims().iter().all(|claim| planned(command, claim).is_some()) {
                simulated
            } else {
                known.without(&all, Question { packed: true, ..question })
            }
        };
        let pods: Vec<Arc<PodView>> = {
            let gone = self.snapshot.nodes.iter().filter(|node| going.contains(node.name()));
            gone.flat_map(|node| node.pods.iter().cloned()).collect()
        };
        self.snapshot.nodes.retain(|node| !going.contains(node.name()));
        let mut new: Vec<ExistingNode> = Vec::new();
        for (at, claim) in simulated.claims().iter().enumerate() {
            let wanted = planned(command, claim).unwrap_or(claim);
            new.push(self.launched(wanted, 100_000 + turn * 1000 + at));
        }
        self.bind(pods, &simulated.plan, new);
        simulated.moved
    }

    /// The commands have all started: nobody new comes to their nodes.
    pub fn start(&mut self, commands: &[Command]) {
        let going: BTreeSet<&str> =
            commands.iter().flat_map(|command| &command.going).map(|g| g.node.as_str()).collect();
        for node in self.snapshot.nodes.iter_mut().filter(|node| going.contains(node.name())) {
            if let Some(view) = &mut node.node {
                Arc::make_mut(view).taints.push(Taint::disrupted());
            }
        }
    }

    /// Pods are where the plan says.
    fn bind(&mut self, pods: Vec<Arc<PodView>>, plan: &Plan, mut new: Vec<ExistingNode>) {
        let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
        for (at, node) in self.snapshot.nodes.iter().enumerate() {
            by_name.insert(node.name().to_owned(), at);
        }
        for pod in pods {
            let node = match plan.placed.get(&pod.id) {
                Some(Placement::Existing(name)) => by_name.get(name).map(|at| &mut self.snapshot.nodes[*at]),
                Some(Placement::New(at)) => new.get_mut(*at),
                None => None,
            };
            if let Some(node) = node {
                let pod = PodView { node_name: Some(node.name().into()), ..PodView::clone(&pod) };
                node.requested.add(&pod.requests);
                node.pods.push(Arc::new(pod));
                node.pods.sort_by(|a, b| a.id.cmp(&b.id));
            }
        }
        self.snapshot.nodes.extend(new);
        self.snapshot.nodes.sort_by(|a, b| a.name().cmp(b.name()));
    }

    /// The cheapest node that the claim allows.
    fn launched(&self, claim: &PlannedClaim, number: usize) -> ExistingNode {
        let types = self.pools.get(POOL).and_then(|pool| pool.instance_types.as_ref());
        let first = claim.instance_types.first();
        let known = types.and_then(|types| types.iter().find(|known| Some(&known.name) == first));
        let known = known.expect("claims name types of their pool");
        let offerings = known.launchable_offerings(&claim.requirements, &self.rules);
        let first = offerings.first();
        let zone = first.and_then(|offering| offering.zone()).unwrap_or(ZONES[0]);
        let kind = first.and_then(|offering| offering.capacity_type()).unwrap_or(labels::CAPACITY_TYPE_ON_DEMAND);
        empty_node(number, known, zone, kind)
    }
}

/// What was planned for these pods, if it was for nobody else.
fn planned<'c>(command: &'c Command, claim: &PlannedClaim) -> Option<&'c PlannedClaim> {
    command.replacement_for(claim).filter(|planned| planned.pods.iter().eq(claim.pods.iter()))
}

pub fn simulator<'a>(look: &Look<'a>) -> Simulator<'a> {
    Simulator::new(look.snapshot, &look.facts, look.planned, look.rules, look.options)
}

const NOW: Timestamp = Timestamp::constant(1_000_000, 0);

/// Deployments whose pods come in turn.
struct Supply {
    templates: Vec<Option<PodView>>,
    made: Vec<usize>,
    next: usize,
}

impl Supply {
    fn new(deployments: usize) -> Self {
        Self { templates: vec![None; deployments], made: vec![0; deployments], next: 0 }
    }

    /// Every third deployment is spread over zones, every eighth over hosts, every ninth keeps its pods apart.
    fn template(&mut self, number: usize, dice: &mut Dice, ids: &mut Dice) -> PodView {
        self.templates[number]
            .get_or_insert_with(|| {
                let app = format!("app-{number}");
                let cpu = dice.pick(&MILLICORES);
                let mebibytes = cpu * (2 + i64::try_from(dice.below(5)).unwrap_or(0)) * GI / MI / 1000;
                let mut pod = waiting(&app, cpu, mebibytes * MI, ids);
                pod.labels.insert("app".to_owned(), app.clone());
                constrain(&mut pod, number, &app);
                pod
            })
            .clone()
    }

    /// First come, first served until the next does not fit.
    fn fill(&mut self, node: &mut ExistingNode, stay: usize, dice: &mut Dice, ids: &mut Dice) {
        let allocatable = node.allocatable();
        let name = node.name().to_owned();
        let mut used = Resources::new();
        loop {
            let number = self.next % self.templates.len();
            self.next += 1;
            let template = self.template(number, dice, ids);
            used.add(&template.requests);
            if !used.fits(&allocatable) {
                break;
            }
            self.made[number] += 1;
            if dice.below(100) >= stay {
                continue;
            }
            let pod = PodView {
                id: PodId::new("default", format!("app-{number}-{}", self.made[number])),
                uid: format!("{:016x}", ids.roll()).into(),
                node_name: Some(name.as_str().into()),
                phase: PodPhase::Running,
                unschedulable: false,
                ..template
            };
            node.requested.add(&pod.requests);
            node.pods.push(Arc::new(pod));
        }
        node.pods.sort_by(|a, b| a.id.cmp(&b.id));
    }

    /// Every second deployment has a budget.
    fn budgets(&self) -> Vec<Arc<PdbView>> {
        (0..self.templates.len()).step_by(2).map(budget).collect()
    }
}

/// The budget of a deployment; every hundredth lets nobody go now.
fn budget(number: usize) -> Arc<PdbView> {
    let app = format!("app-{number}");
    Arc::new(PdbView {
        selector: Some(karpenter_model::selector::Selector::labels([("app", app.as_str())])),
        id: PodId::new("default", app),
        disruptions_allowed: i32::from(!number.is_multiple_of(200)),
        never_allows: false,
        lets_unready_go: false,
    })
}

fn empty_node(number: usize, known: &InstanceType, zone: &str, kind: &str) -> ExistingNode {
    let name = format!("node-{number:05}");
    let labels: Labels = [
        (labels::REGISTERED, "true"),
        (labels::INITIALIZED, "true"),
        (labels::HOSTNAME, name.as_str()),
        (labels::INSTANCE_TYPE, &known.name),
        (labels::ZONE, zone),
        (labels::CAPACITY_TYPE, kind),
        (labels::NODEPOOL, POOL),
        (labels::ARCH, "amd64"),
        (labels::OS, "linux"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    let condition = ConditionView { status: Status::True, since: Timestamp::UNIX_EPOCH };
    let node = NodeView {
        labels: labels.clone(),
        capacity: known.capacity.clone().into(),
        allocatable: known.allocatable().into(),
        ready: true,
        provider_id: Some(format!("id-{name}")),
        ..example::node(&name)
    };
    let claim = ClaimView {
        labels,
        pool: Some(POOL.to_owned()),
        launched: condition,
        registered: condition,
        initialized: condition,
        consolidatable: true,
        provider_id: node.provider_id.clone(),
        capacity: node.capacity.clone(),
        allocatable: node.allocatable.clone(),
        ..example::claim(&format!("{name}-claim"))
    };
    ExistingNode { node: Some(Arc::new(node)), claim: Some(Arc::new(claim)), ..ExistingNode::default() }
}
