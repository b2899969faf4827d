//! One pass over the pending pods, in the specified order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use karpenter_model::labels::LabelRules;
use karpenter_model::pod::{PodId, PodPhase, PodView};
use karpenter_model::pool::by_precedence;
use karpenter_model::resources::{CPU, MEMORY};
use karpenter_model::snapshot::{ExistingNode, Snapshot};

use crate::devices::{Devices, Facts, Inventory};
use crate::options::Options;
use crate::places::{AllPods, Placed};
use crate::plain::claim::{OpenClaim, Rules};
use crate::plain::node::NodeSlot;
use crate::plain::relax::Trial;
use crate::plain::template::Template;
use crate::plain::topology::Topology;
use crate::plan::{Placement, Plan, Refusal, RefusedBy, Unplaced};
use crate::reservations::Reservations;

pub(crate) struct Pass<'a> {
    labels: &'a LabelRules,
    options: &'a Options,
    templates: Vec<Template<'a>>,
    nodes: Vec<NodeSlot<'a>>,
    claims: Vec<OpenClaim<'a>>,
    topology: Topology<'a>,
    reservations: Reservations,
    devices: Option<Devices>,
    /// Names of nodes that are going away.
    going: BTreeSet<&'a str>,
    some_pool_prefers_no_schedule: bool,
    placed: BTreeMap<PodId, Placement>,
    refused: BTreeMap<PodId, Vec<RefusedBy>>,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot, labels: &'a LabelRules, options: &'a Options) -> Self {
        let mut offers: Vec<_> = snapshot.pools.iter().collect();
        // SCH-84, however they were listed (SC-368).
        offers.sort_by(|a, b| by_precedence(&a.pool, &b.pool));
        let templates: Vec<Template<'a>> =
            offers.into_iter().map(|offer| Template::new(offer, snapshot, labels, options)).collect();
        let mut active: Vec<_> = snapshot.nodes.iter().filter(|node| node.stays()).collect();
        // SCH-87: initialized ones first, then by name.
        active.sort_by_key(|node| (!node.is_initialized(), node.name().to_owned()));
        Self {
            labels,
            options,
            some_pool_prefers_no_schedule: templates.iter().any(Template::prefers_no_schedule),
            templates,
            nodes: active.into_iter().map(|node| NodeSlot::new(node, snapshot, labels)).collect(),
            claims: Vec::new(),
            topology: Topology::new(snapshot, labels),
            reservations: Reservations::new(snapshot, labels),
            devices: Facts::of(snapshot).map(|facts| Devices::new(Arc::new(Inventory::new(facts)), labels)),
            going: snapshot.nodes.iter().filter(|node| node.is_going()).map(ExistingNode::name).collect(),
            placed: BTreeMap::new(),
            refused: BTreeMap::new(),
        }
    }

    /// SCH-90: a pod that fails goes to the end, until a full round has placed nobody.
    pub(crate) fn run(mut self, snapshot: &'a Snapshot, should_stop: &mut dyn FnMut() -> bool) -> Plan {
        self.register_all(snapshot);
        self.run_rest(snapshot, should_stop);
        self.finish(snapshot)
    }

    pub(crate) fn register_all(&mut self, snapshot: &'a Snapshot) {
        for pod in in_order(snapshot) {
            self.topology.register(&Trial::new(pod, self.options.preferences));
        }
    }

    /// Pods that have no place yet.
    pub(crate) fn run_rest(&mut self, snapshot: &'a Snapshot, should_stop: &mut dyn FnMut() -> bool) {
        let mut queue: VecDeque<&'a PodView> = in_order(snapshot);
        queue.retain(|pod| !self.placed.contains_key(&pod.id));
        let mut tried_at: BTreeMap<&PodId, usize> = BTreeMap::new();
        while let Some(pod) = queue.pop_front() {
            if tried_at.get(&pod.id) == Some(&queue.len()) {
                break;
            }
            match self.attempt(pod, should_stop) {
                Attempt::Placed(placement) => {
                    self.refused.remove(&pod.id);
                    self.placed.insert(pod.id.clone(), placement);
                }
                Attempt::Failed(reasons) => {
                    self.refused.insert(pod.id.clone(), reasons);
                    tried_at.insert(&pod.id, queue.len());
                    queue.push_back(pod);
                }
                Attempt::Stopped => break,
            }
        }
    }

    /// SCH-92: try, relax one step, try again.
    fn attempt(&mut self, pod: &'a PodView, should_stop: &mut dyn FnMut() -> bool) -> Attempt {
        let ignored = (pod.uses_devices && self.devices.is_none()).then_some(Refusal::DevicesIgnored);
        if let Some(why) = pod.unplannable.clone().map(Refusal::Unreadable).or(ignored) {
            // Whoever made the snapshot should have left it out; it must not be planned without what it asks for (Q7).
            let pools = self.templates.iter().map(|template| template.pool.name.clone());
            let refused = |pool| RefusedBy { pool, why: why.clone() };
            return Attempt::Failed(pools.map(refused).collect());
        }
        let mut trial = Trial::new(pod, self.options.preferences);
        loop {
            if should_stop() {
                return Attempt::Stopped;
            }
            let reasons = match self.place(&trial) {
                Ok(placement) => return Attempt::Placed(placement),
                Err(reasons) => reasons,
            };
            // Waiting for a reservation is not a reason to give up wishes (SCH-92, SCH-114).
            let deferred = reasons.iter().any(|refused| refused.why == Refusal::Reserved);
            if deferred || !trial.relax(self.some_pool_prefers_no_schedule) {
                // The next attempt starts from all wishes again (SCH-91).
                self.topology.register(&Trial::new(pod, self.options.preferences));
                return Attempt::Failed(reasons);
            }
            self.topology.register(&trial);
        }
    }

    /// SCH-96: existing nodes, then claims with the fewest pods, then new ones by pool.
    fn place(&mut self, trial: &Trial<'_>) -> Result<Placement, Vec<RefusedBy>> {
        let moves_freely = self.moves_freely(trial.pod);
        for slot in self.nodes.iter_mut().filter(|slot| moves_freely || !slot.node.unsettled) {
            if let Some((requirements, attempt)) = slot.try_add(trial, &self.topology, self.devices.as_ref()) {
                slot.commit(trial, requirements, &mut self.topology);
                if let (Some(devices), Some(attempt)) = (&mut self.devices, attempt) {
                    devices.commit(attempt);
                }
                return Ok(Placement::Existing(slot.node.name().to_owned()));
            }
        }
        let mut order: Vec<usize> = (0..self.claims.len()).collect();
        order.sort_by_key(|index| self.claims[*index].pods.len());
        for index in order {
            let rules = Rules {
                labels: self.labels,
                options: self.options,
                reservations: &self.reservations,
                devices: self.devices.as_ref(),
            };
            if let Ok(addition) = self.claims[index].try_add(trial, &self.topology, rules) {
                self.claims[index].commit(
                    trial,
                    addition,
                    &mut self.topology,
                    &mut self.reservations,
                    self.devices.as_mut(),
                );
                return Ok(Placement::New(index));
            }
        }
        self.open(trial)
    }

    /// The pod needs a place anyway: it waits for one, or its node is going (SCH-98).
    fn moves_freely(&self, pod: &PodView) -> bool {
        pod.phase == PodPhase::Pending || pod.node_name.as_ref().is_some_and(|name| self.going.contains(name.as_str()))
    }

    /// A new claim of the first pool that can.
    fn open(&mut self, trial: &Trial<'_>) -> Result<Placement, Vec<RefusedBy>> {
        let mut reasons = Vec::new();
        let number = self.claims.len();
        for template in &mut self.templates {
            let rules = Rules {
                labels: self.labels,
                options: self.options,
                reservations: &self.reservations,
                devices: self.devices.as_ref(),
            };
            match OpenClaim::open(template, number, trial, &self.topology, rules) {
                Ok((mut claim, addition)) => {
                    claim.commit(trial, addition, &mut self.topology, &mut self.reservations, self.devices.as_mut());
                    template.charge(&claim.largest_capacity());
                    self.claims.push(claim);
                    return Ok(Placement::New(number));
                }
                Err(why) => {
                    let blocks = why == Refusal::Reserved;
                    reasons.push(RefusedBy { pool: template.pool.name.clone(), why });
                    // Lighter pools must not take what waits for a heavier pool's reservation (SCH-114).
                    if blocks {
                        break;
                    }
                }
            }
        }
        Err(reasons)
    }

    pub(crate) fn finish(self, snapshot: &Snapshot) -> Plan {
        let all: AllPods = Arc::new(snapshot.pending.values().cloned().collect());
        let at = |pod: &PodId| all.binary_search_by(|known| known.id.cmp(pod)).ok().and_then(|at| at.try_into().ok());
        let places = self.placed.into_iter().filter_map(|(pod, place)| Some((at(&pod)?, place))).collect();
        let mut plan = Plan { placed: Placed::new(&all, places), ..Plan::default() };
        for slot in &self.nodes {
            if let Some(given) = self.devices.as_ref().and_then(|devices| devices.given(&slot.candidate())) {
                plan.devices.insert(slot.node.name().to_owned(), given.values().flatten().cloned().collect());
            }
        }
        let mut numbers = BTreeMap::new();
        let rules = Rules {
            labels: self.labels,
            options: self.options,
            reservations: &self.reservations,
            devices: self.devices.as_ref(),
        };
        for (old, claim) in self.claims.into_iter().enumerate() {
            let pool = claim.pool.name.clone();
            match claim.finish(rules, &all) {
                Ok(planned) => {
                    numbers.insert(old, plan.claims.len());
                    plan.claims.push(planned);
                }
                // Cut to the allowed number of types the claim no longer offers enough values.
                Err(pods) => plan.unplaced.extend(pods.into_iter().map(|pod| Unplaced::truncated(pod, &pool))),
            }
        }
        plan.placed.retain(|_, placement| match placement {
            Placement::Existing(_) => true,
            Placement::New(index) => numbers.get(index).map(|new| *index = *new).is_some(),
        });
        plan.unplaced.extend(self.refused.into_iter().map(|(pod, reasons)| Unplaced { pod, reasons }));
        plan.unplaced.sort_by(|a, b| a.pod.cmp(&b.pod));
        let failed: BTreeSet<&PodId> = plan.unplaced.iter().map(|unplaced| &unplaced.pod).collect();
        let known = |pod: &&PodId| failed.contains(*pod) || plan.placed.contains_key(pod);
        plan.untried = snapshot.pending.keys().filter(|pod| !known(pod)).cloned().collect();
        plan
    }
}

/// How an attempt to place a pod ends.
enum Attempt {
    Placed(Placement),
    Failed(Vec<RefusedBy>),
    Stopped,
}

/// SCH-89.
fn in_order(snapshot: &Snapshot) -> VecDeque<&PodView> {
    let mut pods: Vec<&PodView> = snapshot.pending.values().map(AsRef::as_ref).collect();
    pods.sort_by(|a, b| by_size(a, b));
    pods.into()
}

/// The order of [`in_order`].
pub(crate) fn by_size(a: &PodView, b: &PodView) -> std::cmp::Ordering {
    let size = |pod: &PodView| (pod.requests.amount(CPU), pod.requests.amount(MEMORY));
    size(b).cmp(&size(a)).then_with(|| (a.created_at, &a.uid, &a.id).cmp(&(b.created_at, &b.uid, &b.id)))
}
