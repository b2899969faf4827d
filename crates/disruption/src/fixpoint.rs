//! A cluster consolidated until nothing is left to do: every command in order, carried out on paper before the next is
//! looked for.
//!
//! Commands are decided by the methods that the controller uses. Between two of them everything has come to rest: pods run
//! where they were planned, new nodes are up, and budgets are free again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::budget::UNLIMITED;
use karpenter_model::claim::{ClaimView, ConditionView, Status};
use karpenter_model::duration::NillableDuration;
use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::node::NodeView;
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::pool::ConsolidationPolicy;
use karpenter_model::requirements::Requirements;
use karpenter_model::resources::Resources;
use karpenter_model::shared::{Labels, Shared};
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_solver::{Options, Placement, Plan, PlannedClaim, Solver, appraise};

use crate::candidates::{Candidate, Class, Facts, PoolFacts};
use crate::cost;
use crate::holds::{Hold, hold};
use crate::look::{Gates, Look};
use crate::methods::{Command, Consolidation, Decided, Method, Seen, empty};
use crate::simulation::{Question, Simulator};

/// A cluster on paper.
#[derive(Debug, Clone)]
pub struct World {
    pub snapshot: Snapshot,
    pub pools: BTreeMap<String, PoolFacts>,
    pub budgets: Vec<Arc<PdbView>>,
    /// Virtual pods of capacity buffers, by node.
    pub buffer_pods: BTreeMap<String, u32>,
    pub now: Timestamp,
    pub gates: Gates,
    pub options: Options,
}

/// A pod that has to move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    pub pod: PodId,
    pub from: String,
    pub to: String,
}

/// A node that a command brings.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    pub name: String,
    pub pool: String,
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    pub price: Price,
}

/// One command, carried out.
#[derive(Debug, Clone)]
pub struct Step {
    pub command: Command,
    pub moved: Vec<Moved>,
    pub started: Vec<Started>,
    /// What made it allowed, a line per pool.
    pub why: Vec<String>,
}

/// All that can be saved.
#[derive(Debug, Clone)]
pub struct Consolidated {
    pub steps: Vec<Step>,
    /// Nodes that are left, by name, with what holds them.
    pub held: Vec<(String, Hold)>,
    /// Of all nodes of pools, per hour.
    pub cost_before: f64,
    pub cost_after: f64,
    /// What the nodes that could go in the end cost, and what their pods would cost at least on nodes of whatever kind.
    pub free_cost: f64,
    pub free_bound: f64,
    /// The search was ended by the number of its steps.
    pub stopped: bool,
    pub world: World,
}

impl Consolidated {
    /// What is left between the cluster at the end and the cheapest that there could be, per hour.
    pub fn gap(&self) -> f64 {
        (self.free_cost - self.free_bound).max(0.0)
    }
}

/// Every command takes a node away or makes the cluster cheaper; so many are enough for any cluster, and a defect ends.
fn most_steps(world: &World) -> usize {
    world.snapshot.nodes.len() * 4 + 16
}

pub fn consolidated(mut world: World, rules: &LabelRules) -> Consolidated {
    let cost_before = world.cost();
    let most = most_steps(&world);
    let mut steps: Vec<Step> = Vec::new();
    let mut seen = Seen::default();
    while steps.len() < most {
        let Some(step) = world.step(rules, &mut seen, steps.len()) else { break };
        steps.push(step);
    }
    let held = world.held(rules);
    let (free_cost, free_bound) = world.gap(&held, rules);
    let (cost_after, stopped) = (world.cost(), steps.len() == most);
    Consolidated { steps, held, cost_before, cost_after, free_cost, free_bound, stopped, world }
}

impl World {
    fn look<'a>(&'a self, none: &'a Nothing, rules: &'a LabelRules) -> Look<'a> {
        Look {
            snapshot: &self.snapshot,
            facts: Facts { pools: &self.pools, budgets: &self.budgets, queued: &none.queued, now: self.now },
            planned: &none.planned,
            buffer_pods: &self.buffer_pods,
            pool_costs: &none.costs,
            rules,
            options: self.options,
            gates: self.gates,
            roll: None,
        }
    }

    /// Of all nodes of pools, per hour.
    pub fn cost(&self) -> f64 {
        self.snapshot.nodes.iter().map(|node| self.price(node)).sum::<f64>() + 0.0
    }

    fn price(&self, node: &ExistingNode) -> f64 {
        let pool = node.pool().and_then(|pool| self.pools.get(pool)).filter(|_| node.is_managed());
        let name = node.labels().get(labels::INSTANCE_TYPE);
        let types = pool.and_then(|pool| pool.instance_types.as_ref());
        let known = types.zip(name).and_then(|(types, name)| types.iter().find(|known| known.name == *name));
        cost::price(node, known).per_hour()
    }

    /// The next command in the order of a pass, carried out.
    fn step(&mut self, rules: &LabelRules, seen: &mut Seen, done: usize) -> Option<Step> {
        let none = Nothing::default();
        let look = self.look(&none, rules);
        let mut simulator = Simulator::new(look.snapshot, &look.facts, look.planned, rules, look.options);
        let command = next(&look, &mut simulator, seen)?;
        let names: BTreeSet<&str> = command.going.iter().map(|going| going.node.as_str()).collect();
        let candidates = look.candidates(Class::Graceful, &mut Vec::new());
        let going: Vec<&Candidate<'_>> =
            candidates.iter().filter(|candidate| names.contains(candidate.name())).collect();
        let why = reasons(&going, &look, &command);
        let question = Question { leave_unsettled_alone: true, ..Question::default() };
        let plan = (command.method != Method::Emptiness).then(|| simulator.without(&going, question).plan);
        drop(simulator);
        let (moved, started) = self.carry_out(&command, plan.as_ref(), rules, done);
        Some(Step { command, moved, started, why })
    }

    /// The cluster after the command.
    fn carry_out(
        &mut self,
        command: &Command,
        plan: Option<&Plan>,
        rules: &LabelRules,
        done: usize,
    ) -> (Vec<Moved>, Vec<Started>) {
        let going: BTreeSet<&str> = command.going.iter().map(|going| going.node.as_str()).collect();
        let (gone, mut nodes): (Vec<ExistingNode>, Vec<ExistingNode>) =
            std::mem::take(&mut self.snapshot.nodes).into_iter().partition(|node| going.contains(node.name()));
        for node in &gone {
            self.use_pool(node, Resources::subtract);
        }
        let mut started = Vec::new();
        let mut fresh: Vec<ExistingNode> = Vec::new();
        for (index, claim) in command.replacements.iter().enumerate() {
            let name = format!("new-{}-{}", done + 1, index + 1);
            if let Some((node, what)) = self.launched(claim, &name, rules) {
                self.use_pool(&node, Resources::add);
                started.push(what);
                fresh.push(node);
            }
        }
        let mut moved = Vec::new();
        for node in &gone {
            for pod in node.pods.iter().filter(|pod| pod.is_reschedulable()) {
                let target = match plan.and_then(|plan| plan.placed.get(&pod.id)) {
                    Some(Placement::Existing(name)) => nodes.iter_mut().find(|node| node.name() == *name),
                    Some(Placement::New(_)) => {
                        let at = command.replacements.iter().position(|claim| claim.pods.contains(&pod.id));
                        at.and_then(|at| fresh.get_mut(at))
                    }
                    None => None,
                };
                if let Some(target) = target {
                    moved.push(Moved {
                        pod: pod.id.clone(),
                        from: node.name().to_owned(),
                        to: target.name().to_owned(),
                    });
                    bind(target, pod);
                }
            }
        }
        nodes.extend(fresh);
        nodes.sort_by(|a, b| a.name().cmp(b.name()));
        self.snapshot.nodes = nodes;
        (moved, started)
    }

    fn use_pool(&mut self, node: &ExistingNode, change: impl Fn(&mut Resources, &Resources)) {
        let offer = self.snapshot.pools.iter_mut().find(|offer| Some(offer.pool.name.as_str()) == node.pool());
        if let Some(offer) = offer {
            change(&mut offer.usage, &node.capacity());
        }
    }

    /// The cheapest that the claim can become, up and running, with what DaemonSets put on it.
    fn launched(&self, claim: &PlannedClaim, name: &str, rules: &LabelRules) -> Option<(ExistingNode, Started)> {
        let offer = self.snapshot.pools.iter().find(|offer| offer.pool.name == claim.pool.name)?;
        let cheapest = claim.instance_types.first()?;
        let known = offer.instance_types.iter().find(|known| known.name == *cheapest)?;
        let offering = *known.launchable_offerings(&claim.requirements, rules).first()?;
        let what = Started {
            name: name.to_owned(),
            pool: claim.pool.name.clone(),
            instance_type: known.name.clone(),
            zone: offering.zone().unwrap_or_default().to_owned(),
            capacity_type: offering.capacity_type().unwrap_or_default().to_owned(),
            price: offering.price,
        };
        let mut asked = Requirements::clone(&claim.requirements);
        asked.add_all(&offering.requirements);
        asked.add_all(&known.requirements);
        let labels = Labels::from(labels_of(&asked, &claim.pool.labels, name, known));
        let capacity = Shared::from(known.capacity_with(&offering.overrides));
        let allocatable = Shared::from(known.allocatable_with(&offering.overrides));
        let condition = ConditionView { status: Status::True, since: Timestamp::UNIX_EPOCH };
        let id = Some(format!("plan://{name}"));
        let node = NodeView {
            uid: name.to_owned(),
            provider_id: id.clone(),
            created_at: self.now,
            has_finalizer: true,
            labels: labels.clone(),
            taints: claim.pool.taints.clone(),
            capacity: capacity.clone(),
            allocatable: allocatable.clone(),
            ready: true,
            ..NodeView::new(name)
        };
        let view = ClaimView {
            uid: name.to_owned(),
            created_at: self.now,
            has_finalizer: true,
            labels,
            pool: Some(claim.pool.name.clone()),
            requirements: Requirements::clone(&claim.requirements).into(),
            requests: claim.requests.clone(),
            taints: claim.pool.taints.clone(),
            startup_taints: claim.pool.startup_taints.clone(),
            expire_after: claim.pool.expire_after,
            termination_grace_period: claim.pool.termination_grace_period,
            provider_id: id,
            node_name: Some(name.to_owned()),
            capacity,
            allocatable,
            launched: condition,
            registered: condition,
            initialized: condition,
            consolidatable: claim.pool.consolidate_after != NillableDuration::Never,
            pool_uid: Some(claim.pool.uid.clone()),
            ..ClaimView::new(name, claim.pool.node_class.clone())
        };
        let mut node =
            ExistingNode { node: Some(Arc::new(node)), claim: Some(Arc::new(view)), ..ExistingNode::default() };
        for daemon in &self.snapshot.daemons {
            if accepts(&node, daemon, rules) {
                bind(&mut node, daemon);
            }
        }
        Some((node, what))
    }

    fn held(&self, rules: &LabelRules) -> Vec<(String, Hold)> {
        let none = Nothing::default();
        let look = self.look(&none, rules);
        let mut simulator = Simulator::new(look.snapshot, &look.facts, look.planned, rules, look.options);
        let nodes = self.snapshot.nodes.iter();
        nodes.filter_map(|node| Some((node.name().to_owned(), hold(node, &look, &mut simulator)?))).collect()
    }

    /// What nodes that nothing but prices holds cost, and what their pods cost at least wherever they run.
    fn gap(&self, held: &[(String, Hold)], rules: &LabelRules) -> (f64, f64) {
        let fixed: BTreeSet<&str> = held
            .iter()
            .filter(|(_, hold)| !matches!(hold, Hold::Hopeless(_) | Hold::NotWorthIt(_)))
            .map(|(name, _)| name.as_str())
            .collect();
        let mut world = self.snapshot.clone();
        let (fixed, free): (Vec<ExistingNode>, Vec<ExistingNode>) =
            world.nodes.into_iter().partition(|node| fixed.contains(node.name()) || !node.is_managed());
        world.nodes = fixed;
        world.pending.clear();
        for node in &free {
            for pod in node.pods.iter().filter(|pod| pod.is_reschedulable()) {
                world.pending.insert(pod.id.clone(), pod.clone());
            }
            if let Some(offer) = world.pools.iter_mut().find(|offer| Some(offer.pool.name.as_str()) == node.pool()) {
                offer.usage.subtract(&node.capacity());
            }
        }
        let cost = free.iter().map(|node| self.price(node)).sum::<f64>() + 0.0;
        let plan = Solver::new(rules).plan(&world, &self.options);
        // Pods that a fresh cluster could not place are not in the bound: the gap says less then, never more.
        (cost, appraise(&world, rules, &self.options, &plan).per_hour)
    }
}

/// What a cluster on paper has none of.
#[derive(Debug, Default)]
struct Nothing {
    queued: BTreeSet<String>,
    planned: BTreeMap<PodId, Arc<PodView>>,
    costs: BTreeMap<String, f64>,
}

fn next(look: &Look<'_>, simulator: &mut Simulator<'_>, seen: &mut Seen) -> Option<Command> {
    // What is not cheaper afterwards could go on for ever.
    let first = |decided: Decided| {
        decided.commands.into_iter().find(|command| command.replacements.is_empty() || command.savings > 0.0)
    };
    first(empty(look))
        .or_else(|| first(Consolidation::new(look, simulator, Method::Multi).multi(&mut || false)))
        .or_else(|| first(Consolidation::new(look, simulator, Method::Single).single(seen, &mut || false)))
}

/// Why each pool lets its nodes go.
fn reasons(going: &[&Candidate<'_>], look: &Look<'_>, command: &Command) -> Vec<String> {
    let reason = command.method.reason();
    let allowances = look.allowances(reason, &mut Vec::new());
    let mut nodes: BTreeMap<&str, (usize, ConsolidationPolicy)> = BTreeMap::new();
    for candidate in going {
        let entry = nodes.entry(candidate.pool_name()).or_insert((0, candidate.pool.view.consolidation_policy));
        entry.0 += 1;
    }
    let line = |(pool, (count, policy)): (&str, (usize, ConsolidationPolicy))| {
        let allowance = allowances.get(pool).copied().unwrap_or_default();
        let budget = if allowance.allowed == UNLIMITED {
            "without limit".to_owned()
        } else {
            format!("{} of {}", allowance.remaining(), allowance.nodes)
        };
        format!("{reason}: NodePool {pool} ({}) allows {budget}, {count} used", policy.as_str())
    };
    nodes.into_iter().map(line).collect()
}

fn bind(node: &mut ExistingNode, pod: &Arc<PodView>) {
    let name = node.name().to_owned();
    node.requested.add(&pod.requests);
    node.pods.push(Arc::new(PodView { node_name: Some(name.into()), ..PodView::clone(pod) }));
    node.pods.sort_by(|a, b| a.id.cmp(&b.id));
}

fn accepts(node: &ExistingNode, daemon: &PodView, rules: &LabelRules) -> bool {
    use karpenter_model::requirements::Undefined;
    let has = Requirements::from_labels(rules, node.labels());
    node.taints().iter().all(|taint| daemon.tolerates(taint))
        && has.is_compatible(&daemon.scheduling.strict_requirements(), Undefined::Denied)
}

/// Labels with one possible value each, as a node of this claim would have them.
fn labels_of(
    asked: &Requirements,
    template: &BTreeMap<String, String>,
    name: &str,
    known: &InstanceType,
) -> BTreeMap<String, String> {
    let single = asked.iter().filter_map(|one| Some((one.key().to_owned(), one.single_value()?.to_owned())));
    let mut all: BTreeMap<String, String> = template.clone();
    all.extend(single);
    for (key, value) in [
        (labels::REGISTERED, "true"),
        (labels::INITIALIZED, "true"),
        (labels::HOSTNAME, name),
        (labels::INSTANCE_TYPE, &known.name),
    ] {
        all.insert(key.to_owned(), value.to_owned());
    }
    all
}

/// Nodes that count as quiet: whoever plans looks at what there is in the end, not at when (DIS-64).
pub fn quiet(snapshot: &mut Snapshot, pools: &BTreeMap<String, PoolFacts>) {
    for node in &mut snapshot.nodes {
        let pool = node.pool().and_then(|pool| pools.get(pool));
        let after = pool.map(|pool| pool.view.consolidate_after);
        if let (Some(claim), Some(after)) = (&mut node.claim, after) {
            let claim = Arc::make_mut(claim);
            claim.consolidatable = after != NillableDuration::Never;
            claim.last_pod_event = None;
            claim.initialized.since = Timestamp::UNIX_EPOCH;
        }
    }
}

#[cfg(test)]
mod tests;
