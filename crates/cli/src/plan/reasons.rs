//! Why new nodes are what they are, and why pods have no place; what many pods share is worked out once.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use karpenter_model::labels::LabelRules;
use karpenter_model::snapshot::Snapshot;
use karpenter_solver::{NodesLeft, Plan, PlannedClaim, Unplaced, shape};

/// How often an existing node is looked at in all. A look takes about a microsecond, so explaining ends within seconds
/// however many pods fail on however many nodes.
const MOST_LOOKS: usize = 2_000_000;

pub(super) struct Reasons<'a> {
    snapshot: &'a Snapshot,
    plan: &'a Plan,
    rules: &'a LabelRules,
    left: Option<NodesLeft<'a>>,
    looks: usize,
    /// By pool and a digest of what the claim asks for.
    shapes: BTreeMap<(String, u64), Option<String>>,
    /// By workload and by what its pools say.
    refusals: BTreeMap<(String, Vec<String>), Vec<String>>,
}

impl<'a> Reasons<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, plan: &'a Plan, rules: &'a LabelRules) -> Self {
        let (shapes, refusals) = (BTreeMap::new(), BTreeMap::new());
        Self { snapshot, plan, rules, left: None, looks: 0, shapes, refusals }
    }

    /// Why the claim becomes the node it becomes.
    pub(super) fn shape(&mut self, claim: &PlannedClaim) -> Option<String> {
        let mut asked = DefaultHasher::new();
        (claim.requirements.to_string(), claim.requests.to_string(), &claim.instance_types[..]).hash(&mut asked);
        let key = (claim.pool.name.clone(), asked.finish());
        let (snapshot, rules) = (self.snapshot, self.rules);
        let why = || shape(snapshot, rules, claim).map(|shape| shape.to_string());
        self.shapes.entry(key).or_insert_with(why).clone()
    }

    /// What rules out each pool and each group of existing nodes. Pods of one workload that no pool takes for the same
    /// reasons are looked at once.
    pub(super) fn refusals(&mut self, unplaced: &Unplaced, maker: &str) -> Vec<String> {
        let of_pools: Vec<String> = match &unplaced.reasons[..] {
            [] => vec!["there is no nodepool to launch from".to_owned()],
            reasons => reasons.iter().map(|refused| format!("nodepool {}: {}", refused.pool, refused.why)).collect(),
        };
        let key = (maker.to_owned(), of_pools);
        if let Some(known) = self.refusals.get(&key) {
            return known.clone();
        }
        let mut all = key.1.clone();
        all.extend(self.refusing_nodes(unplaced));
        self.refusals.insert(key, all.clone());
        all
    }

    fn refusing_nodes(&mut self, unplaced: &Unplaced) -> Vec<String> {
        let (snapshot, plan, rules) = (self.snapshot, self.plan, self.rules);
        let left = self.left.get_or_insert_with(|| NodesLeft::new(snapshot, rules, plan));
        if self.looks + left.len() > MOST_LOOKS {
            return vec!["existing nodes: not looked into, too many pods have no place".to_owned()];
        }
        self.looks += left.len();
        left.refusing(&unplaced.pod).iter().map(|nodes| format!("existing nodes: {nodes}")).collect()
    }
}
