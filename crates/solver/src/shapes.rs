//! Why a new node has the shape it has, and why a pod has no place on the nodes that exist.
//!
//! Worked out from a finished plan, for whoever reads it; planning does not wait for it.

use std::collections::BTreeMap;
use std::fmt;

use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Incompatibility, Requirement, Requirements, Undefined};
use karpenter_model::resources::Resources;
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_model::taints::{Taint, first_untolerated};

use crate::plan::{Placement, Plan, PlannedClaim};

/// What a new node is like, if its first choice can be had.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    pub instance_type: String,
    /// How full it is of everything its pods ask for, the fullest first.
    pub fill: Vec<Fill>,
    /// The dearest type that would still be cheaper, and what it lacks; `None` when there is none.
    pub cheaper: Option<Cheaper>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fill {
    pub resource: String,
    pub requested: Quantity,
    pub allocatable: Quantity,
}

impl Fill {
    pub fn share(&self) -> f64 {
        if self.allocatable.is_zero() { 1.0 } else { self.requested.as_f64() / self.allocatable.as_f64() }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Cheaper {
    pub instance_type: String,
    pub lacks: Lack,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Lack {
    Resource {
        resource: String,
        short_by: Quantity,
    },
    /// It is not what the claim asks for.
    Requirements(Vec<Incompatibility>),
    /// It would do for the pods, but not for something else: `minValues`, ports, volumes, or the number of types.
    LeftOut,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.instance_type)?;
        if let Some(first) = self.fill.first() {
            write!(f, " is {:.0} % full of {}", first.share() * 100.0, first.resource)?;
        }
        match &self.cheaper {
            None => f.write_str("; nothing is cheaper"),
            Some(Cheaper { instance_type, lacks: Lack::Resource { resource, short_by } }) => {
                write!(f, "; {instance_type} would be cheaper but lacks {short_by} of {resource}")
            }
            Some(Cheaper { instance_type, lacks: Lack::Requirements(all) }) => {
                write!(
                    f,
                    "; nothing that is asked for is cheaper ({instance_type} differs in {})",
                    keys(all).join(", ")
                )
            }
            Some(Cheaper { instance_type, lacks: Lack::LeftOut }) => {
                write!(f, "; {instance_type} would be cheaper but was left out")
            }
        }
    }
}

/// Why the claim becomes this node; `None` when it cannot become any.
pub fn shape<'a>(snapshot: &'a Snapshot, rules: &LabelRules, claim: &PlannedClaim) -> Option<Shape> {
    let offer = snapshot.pools.iter().find(|offer| offer.pool.name == claim.pool.name)?;
    let first = claim.instance_types.first()?;
    let chosen = offer.instance_types.iter().find(|known| known.name == *first)?;
    let allocatable = allocatable(chosen, &claim.requirements, rules);
    let filled = claim.requests.iter().filter(|(_, amount)| !amount.is_zero());
    let mut fill: Vec<Fill> = filled
        .map(|(name, requested)| Fill { resource: name.to_owned(), requested, allocatable: allocatable.amount(name) })
        .collect();
    fill.sort_by(|a, b| b.share().total_cmp(&a.share()).then_with(|| a.resource.cmp(&b.resource)));
    // Offerings as the pods want them, whatever the type.
    let mut asked = Requirements::clone(&claim.requirements);
    asked.remove(labels::INSTANCE_TYPE);
    let price = |known: &InstanceType| known.cheapest_price(&asked, rules);
    let cheaper: Vec<&InstanceType> =
        offer.instance_types.iter().filter(|known| price(known) < claim.price && known.name != *first).collect();
    let dearest = |among: &mut dyn Iterator<Item = &'a InstanceType>| {
        among.max_by(|a, b| (price(a), &b.name).cmp(&(price(b), &a.name)))
    };
    // Of those that are asked for, if there are any: that others are cheaper is no news.
    let asked_for = dearest(&mut cheaper.iter().copied().filter(|known| conflicts(known, &asked).is_empty()));
    let cheaper = asked_for
        .or_else(|| dearest(&mut cheaper.iter().copied()))
        .map(|known| Cheaper { instance_type: known.name.clone(), lacks: lack(known, claim, &asked, rules) });
    Some(Shape { instance_type: first.clone(), fill, cheaper })
}

fn allocatable(known: &InstanceType, asked: &Requirements, rules: &LabelRules) -> Resources {
    let launched = known.launchable_offerings(asked, rules);
    launched.first().map_or_else(|| known.allocatable(), |offering| known.allocatable_with(&offering.overrides))
}

fn conflicts(known: &InstanceType, asked: &Requirements) -> Vec<Incompatibility> {
    let conflict = |mine: &Requirement| {
        let found = known.requirements.get(mine.key())?;
        let clash = !found.intersects(mine);
        clash.then(|| Incompatibility::Conflict { asked: mine.clone(), found: found.clone() })
    };
    asked.iter().filter_map(conflict).collect()
}

fn lack(known: &InstanceType, claim: &PlannedClaim, asked: &Requirements, rules: &LabelRules) -> Lack {
    let conflicts = conflicts(known, asked);
    if !conflicts.is_empty() {
        return Lack::Requirements(conflicts);
    }
    match claim.requests.worst_shortage(&allocatable(known, asked, rules)) {
        Some((resource, short_by)) => Lack::Resource { resource: resource.to_owned(), short_by },
        None => Lack::LeftOut,
    }
}

/// Existing nodes that do not take a pod, for one reason.
#[derive(Debug, Clone, PartialEq)]
pub struct NodesRefuse {
    pub why: NodeRefusal,
    pub nodes: usize,
    /// The first of them, by name; for a lack of resources the one that comes closest.
    pub example: String,
}

#[derive(Debug, Clone, PartialEq)]
pub enum NodeRefusal {
    Taint(Taint),
    Requirements(Vec<Incompatibility>),
    /// The nearest miss among these nodes.
    TooSmall {
        resource: String,
        short_by: Quantity,
    },
    /// Ports, volumes, spread or affinity.
    Rules,
}

impl fmt::Display for NodesRefuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, example) = (self.nodes, &self.example);
        match &self.why {
            NodeRefusal::Taint(taint) => write!(f, "{count} with taint {taint}, such as {example}"),
            NodeRefusal::Requirements(all) => {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                write!(f, "{count} with other labels, such as {example}: {}", all.join("; "))
            }
            NodeRefusal::TooSmall { resource, short_by } => {
                write!(f, "{count} with too little {resource}; {example} needs {short_by} more")
            }
            NodeRefusal::Rules => {
                write!(f, "{count} ruled out by ports, volumes, spread or affinity, such as {example}")
            }
        }
    }
}

/// Why no existing node takes a pod that the plan has no place for, nodes with the same reason together.
pub fn refusing_nodes(snapshot: &Snapshot, rules: &LabelRules, plan: &Plan, pod: &PodId) -> Vec<NodesRefuse> {
    NodesLeft::new(snapshot, rules, plan).refusing(pod)
}

/// The existing nodes with what a plan leaves of them: what refusals are looked up in. Made once for many pods.
#[derive(Debug)]
pub struct NodesLeft<'a> {
    snapshot: &'a Snapshot,
    nodes: Vec<NodeLeft<'a>>,
}

#[derive(Debug)]
struct NodeLeft<'a> {
    node: &'a ExistingNode,
    taints: Vec<Taint>,
    found: Requirements,
    left: Resources,
}

impl<'a> NodesLeft<'a> {
    pub fn new(snapshot: &'a Snapshot, rules: &LabelRules, plan: &Plan) -> Self {
        let mut taken: BTreeMap<&str, Resources> = BTreeMap::new();
        for (id, at) in &plan.placed {
            if let (Placement::Existing(name), Some(pod)) = (at, snapshot.pending.get(id)) {
                taken.entry(name).or_default().add(&pod.requests);
            }
        }
        let staying = snapshot.nodes.iter().filter(|node| node.stays());
        let nodes = staying.map(|node| {
            let mut found = Requirements::from_labels(rules, node.labels());
            found.replace(Requirement::any_of(labels::HOSTNAME, [node.hostname()]));
            let mut left = node.available();
            if let Some(taken) = taken.get(node.name()) {
                left.subtract(taken);
            }
            NodeLeft { node, taints: node.taints(), found, left }
        });
        Self { snapshot, nodes: nodes.collect() }
    }

    /// How many nodes a look goes over.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// As [`refusing_nodes`].
    pub fn refusing(&self, pod: &PodId) -> Vec<NodesRefuse> {
        let Some(pod) = self.snapshot.pending.get(pod) else { return Vec::new() };
        let asked = pod.scheduling.strict_requirements();
        let mut groups: Vec<(NodesRefuse, f64)> = Vec::new();
        for node in &self.nodes {
            let why = node.refusal(pod, &asked);
            let name = node.node.name();
            let nearness = match &why {
                NodeRefusal::TooSmall { resource, short_by } => {
                    short_by.as_f64() / pod.requests.amount(resource).as_f64()
                }
                _ => 0.0,
            };
            match groups.iter_mut().find(|(known, _)| same_reason(&known.why, &why)) {
                Some((known, nearest)) => {
                    known.nodes += 1;
                    if nearness < *nearest {
                        (known.why, known.example, *nearest) = (why, name.to_owned(), nearness);
                    }
                }
                None => groups.push((NodesRefuse { why, nodes: 1, example: name.to_owned() }, nearness)),
            }
        }
        groups.into_iter().map(|(group, _)| group).collect()
    }
}

impl NodeLeft<'_> {
    fn refusal(&self, pod: &PodView, asked: &Requirements) -> NodeRefusal {
        if let Some(taint) = first_untolerated(&self.taints, &pod.scheduling.tolerations) {
            return NodeRefusal::Taint(taint.clone());
        }
        let conflicts = self.found.incompatibilities(asked, Undefined::Denied);
        if !conflicts.is_empty() {
            return NodeRefusal::Requirements(conflicts);
        }
        match pod.requests.worst_shortage(&self.left) {
            Some((resource, short_by)) => NodeRefusal::TooSmall { resource: resource.to_owned(), short_by },
            None => NodeRefusal::Rules,
        }
    }
}

fn same_reason(a: &NodeRefusal, b: &NodeRefusal) -> bool {
    match (a, b) {
        (NodeRefusal::TooSmall { resource: a, .. }, NodeRefusal::TooSmall { resource: b, .. }) => a == b,
        (NodeRefusal::Requirements(a), NodeRefusal::Requirements(b)) => keys(a) == keys(b),
        _ => a == b,
    }
}

fn keys(all: &[Incompatibility]) -> Vec<&str> {
    all.iter()
        .map(|one| match one {
            Incompatibility::Undefined { key, .. } => key.as_str(),
            Incompatibility::Conflict { asked, .. } => asked.key(),
        })
        .collect()
}
