//! Where pods are: existing nodes and planned claims, seen alike.

use std::collections::BTreeSet;
use std::sync::Arc;

use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodView;
use karpenter_model::requirements::{Operator, Requirement, Requirements};
use karpenter_model::snapshot::{ExistingNode, Snapshot};
use karpenter_model::taints::{Effect, Taint};

use crate::plan::{Placement, Plan, PlannedClaim};

#[derive(Clone)]
pub(super) struct Site<'a> {
    pub(super) name: String,
    pub(super) node: Option<&'a ExistingNode>,
    pub(super) claim: Option<&'a PlannedClaim>,
    pub(super) taints: Vec<Taint>,
    /// Placed there by the plan.
    pub(super) new_pods: Vec<&'a PodView>,
    /// There before, and not among the pods that are being placed.
    pub(super) old_pods: Vec<&'a PodView>,
    requirements: Requirements,
}

#[derive(Clone)]
pub(super) struct Sites<'a> {
    pub(super) all: Vec<Site<'a>>,
}

pub(super) fn is_soft(taint: &Taint) -> bool {
    taint.effect == Effect::PreferNoSchedule
}

impl<'a> Sites<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, rules: &LabelRules, plan: &'a Plan) -> Self {
        let placed_at = |wanted: &Placement| -> Vec<&'a PodView> {
            let here = plan.placed.iter().filter(|(_, at)| *at == wanted);
            here.filter_map(|(pod, _)| snapshot.pending.get(pod).map(AsRef::as_ref)).collect()
        };
        let nodes = snapshot.nodes.iter().map(|node| {
            let mut requirements = Requirements::from_labels(rules, node.labels());
            requirements.replace(Requirement::any_of(labels::HOSTNAME, [node.hostname()]));
            let old = |pod: &&Arc<PodView>| !pod.is_terminal() && !snapshot.pending.contains_key(&pod.id);
            Site {
                name: node.name().to_owned(),
                node: Some(node),
                claim: None,
                taints: node.taints(),
                new_pods: placed_at(&Placement::Existing(node.name().to_owned())),
                old_pods: node.pods.iter().filter(old).map(AsRef::as_ref).collect(),
                requirements,
            }
        });
        let claims = plan.claims.iter().enumerate().map(|(index, claim)| {
            let mut requirements = (*claim.requirements).clone();
            requirements.replace(Requirement::any_of(labels::HOSTNAME, [format!("claim-{index}")]));
            for key in [labels::REGISTERED, labels::INITIALIZED] {
                requirements.replace(Requirement::any_of(key, ["true"]));
            }
            Site {
                name: format!("claim {index} of {}", claim.pool.name),
                node: None,
                claim: Some(claim),
                taints: claim.pool.taints.clone(),
                new_pods: placed_at(&Placement::New(index)),
                old_pods: Vec::new(),
                requirements,
            }
        });
        Self { all: nodes.chain(claims).collect() }
    }
}

impl Site<'_> {
    /// Whatever the node becomes, it is as asked.
    pub(super) fn is_within(&self, asked: &Requirements) -> bool {
        asked.iter().all(|asked| match self.requirements.get(asked.key()) {
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
        match self.requirements.get(key) {
            Some(here) if here.operator() == Operator::In => here.values().map(ToOwned::to_owned).collect(),
            Some(here) => of_types(key).into_iter().filter(|value| here.has(value)).collect(),
            None if self.claim.is_some() => of_types(key),
            None => BTreeSet::new(),
        }
    }

    /// The value, when it is certain. A claim without a node counts for new pods only.
    pub(super) fn certain(&self, key: &str) -> Option<&str> {
        self.requirements.get(key).and_then(Requirement::single_value)
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
