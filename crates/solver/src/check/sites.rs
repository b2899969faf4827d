//! Where pods are: existing nodes and planned claims, seen alike.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodView;
use karpenter_model::requirements::{Operator, Requirement, Requirements};
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_model::taints::{Effect, Taint};

use super::kinds::{KindId, Kinds};
use super::market::{ListingId, Market};
use crate::plan::{Placement, Plan, PlannedClaim};

/// What every claim says about itself once it is a node.
static BEGUN: LazyLock<[Requirement; 2]> =
    LazyLock::new(|| [labels::REGISTERED, labels::INITIALIZED].map(|key| Requirement::any_of(key, ["true"])));

pub(super) struct Site<'a> {
    pub(super) name: String,
    pub(super) node: Option<&'a ExistingNode>,
    /// With what it shares with other claims.
    pub(super) claim: Option<(&'a PlannedClaim, ListingId)>,
    pub(super) taints: Cow<'a, [Taint]>,
    /// Placed there by the plan.
    pub(super) new_pods: Vec<(&'a PodView, KindId)>,
    /// There before, and not among the pods that are being placed.
    pub(super) old_pods: Vec<(&'a PodView, KindId)>,
    /// But for the host name.
    requirements: Cow<'a, Requirements>,
    host: Requirement,
}

pub(super) struct Sites<'a> {
    pub(super) all: Vec<Site<'a>>,
    pub(super) kinds: Kinds<'a>,
}

pub(super) fn is_soft(taint: &Taint) -> bool {
    taint.effect == Effect::PreferNoSchedule
}

impl<'a> Sites<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, rules: &LabelRules, plan: &'a Plan, market: &mut Market<'a>) -> Self {
        let mut kinds = Kinds::default();
        let mut on_claims: Vec<Vec<(&PodView, KindId)>> = vec![Vec::new(); plan.claims.len()];
        let mut on_nodes: BTreeMap<&str, Vec<(&PodView, KindId)>> = BTreeMap::new();
        for (id, at) in &plan.placed {
            let Some(pod) = snapshot.pending.get(id) else { continue };
            let placed = (pod.as_ref(), kinds.of(pod));
            match at {
                Placement::New(index) => on_claims.get_mut(*index).into_iter().for_each(|here| here.push(placed)),
                Placement::Existing(name) => on_nodes.entry(name).or_default().push(placed),
            }
        }
        let mut all = Vec::with_capacity(snapshot.nodes.len() + plan.claims.len());
        for node in &snapshot.nodes {
            let old = |pod: &&Arc<PodView>| !pod.is_terminal() && !snapshot.pending.contains_key(&pod.id);
            all.push(Site {
                name: node.name().to_owned(),
                node: Some(node),
                claim: None,
                taints: Cow::Owned(node.taints()),
                new_pods: on_nodes.get(node.name()).cloned().unwrap_or_default(),
                old_pods: node.pods.iter().filter(old).map(|pod| (pod.as_ref(), kinds.of(pod))).collect(),
                requirements: Cow::Owned(Requirements::from_labels(rules, node.labels())),
                host: Requirement::any_of(labels::HOSTNAME, [node.hostname()]),
            });
        }
        for ((index, claim), new_pods) in plan.claims.iter().enumerate().zip(on_claims) {
            all.push(Site {
                name: format!("claim {index} of {}", claim.pool.name),
                node: None,
                claim: Some((claim, market.listing(claim))),
                taints: Cow::Borrowed(&claim.pool.taints),
                new_pods,
                old_pods: Vec::new(),
                requirements: Cow::Borrowed(&claim.requirements),
                host: Requirement::any_of(labels::HOSTNAME, [format!("claim-{index}")]),
            });
        }
        kinds.count(&all);
        Self { all, kinds }
    }
}

impl Site<'_> {
    pub(super) fn get(&self, key: &str) -> Option<&Requirement> {
        if key == labels::HOSTNAME {
            return Some(&self.host);
        }
        let begun = BEGUN.iter().find(|begun| self.claim.is_some() && begun.key() == key);
        begun.or_else(|| self.requirements.get(key))
    }

    /// Whatever the node becomes, it is as asked.
    pub(super) fn is_within(&self, asked: &Requirements) -> bool {
        asked.iter().all(|asked| match self.get(asked.key()) {
            Some(here) if here.operator() == Operator::In => here.values().all(|value| asked.has(value)),
            Some(here) if here.operator() == Operator::DoesNotExist => {
                matches!(asked.operator(), Operator::NotIn | Operator::DoesNotExist)
            }
            Some(here) => {
                let mut both = here.intersection(asked);
                both.set_min_values(here.min_values());
                both == *here
            }
            None => matches!(asked.operator(), Operator::NotIn | Operator::DoesNotExist),
        })
    }

    /// The values that the site may turn out to have for a key.
    pub(super) fn possible(&self, key: &str, of_types: impl Fn(&str) -> BTreeSet<String>) -> BTreeSet<String> {
        match self.get(key) {
            Some(here) if here.operator() == Operator::In => here.values().map(ToOwned::to_owned).collect(),
            Some(here) => of_types(key).into_iter().filter(|value| here.has(value)).collect(),
            None if self.claim.is_some() => of_types(key),
            None => BTreeSet::new(),
        }
    }

    /// The value, when it is certain. A claim without a node counts for new pods only.
    pub(super) fn certain(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Requirement::single_value)
    }

    /// Where pods that were there before are counted: by the label of the node object.
    pub(super) fn counted_at(&self, key: &str) -> Option<&str> {
        let node = self.node?.node.as_ref()?;
        match node.labels.get(key) {
            Some(value) => Some(value),
            None if key == labels::HOSTNAME => Some(&node.name),
            None => None,
        }
    }

    pub(super) fn is_active(&self) -> bool {
        self.node.is_none_or(ExistingNode::stays)
    }
}
