//! What the pods of a workload have in common is converted once and shared by all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeAffinity, Pod};
use karpenter_api::convert::{self, Problem};
use karpenter_api::names::annotations::DISRUPTION_COST;
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::{PodClass, PodId, PodOwner, PodTemplate, PodView};
use karpenter_model::shared::Shared;

use super::pod_text::{Common, Digest, PodObject, PodText};
use super::pod_wire;
use crate::sharing::Sharing;

/// A pod that a watch brought, with what metrics want to know beyond the view.
#[derive(Debug, Clone)]
pub struct SeenPod {
    pub view: Arc<PodView>,
    /// When `PodScheduled` and `Ready` last changed.
    pub(crate) scheduled_at: Option<Timestamp>,
    pub(crate) ready_at: Option<Timestamp>,
    /// What ReplicaSets are told about the pod, and what of that we said.
    pub(crate) deletion_cost: Option<Box<str>>,
    pub(crate) managed_cost: Option<Box<str>>,
    pub problems: Vec<Problem>,
}

/// The same for all pods of a class.
#[derive(Debug)]
struct PodFacts {
    class: Arc<PodClass>,
    owner: PodOwner,
    critical: bool,
    priority: i32,
    disruption_cost: i32,
    /// We are told, so what ReplicaSets are told does not matter.
    says_disruption_cost: bool,
}

/// Facts by digest. What no pod has any more is dropped when the number of entries has doubled.
#[derive(Debug, Default)]
pub struct PodClasses {
    known: Mutex<Known>,
    /// What ReplicaSets are told is ours to say, so it is nobody's wish (V15-91).
    manages_deletion_costs: bool,
}

#[derive(Debug, Default)]
struct Known {
    facts: HashMap<Digest, Arc<PodFacts>>,
    look_again_at: usize,
    /// What the latest class of each workload has of it, by the path of its owner: pods of a StatefulSet are a class each.
    workloads: HashMap<Box<str>, Shared<PodTemplate>>,
    sharing: Sharing,
}

impl Known {
    /// Small tables are not worth a look.
    const FEW: usize = 256;

    fn keep(&mut self, digest: Digest, facts: &Arc<PodFacts>) {
        if self.facts.len() >= self.look_again_at.max(Self::FEW) {
            self.facts.retain(|_, facts| Arc::strong_count(&facts.class) > 1);
            self.look_again_at = self.facts.len() * 2;
            self.workloads.retain(|_, template| template.owners() > 1);
        }
        self.facts.insert(digest, facts.clone());
    }

    /// The same facts, with what others of the workload have kept once.
    fn shared(&mut self, mut facts: PodFacts) -> PodFacts {
        let class = Arc::make_mut(&mut facts.class);
        self.sharing.pod(class);
        match self.workloads.get(&class.owner_path) {
            // Equal amounts may be written differently.
            Some(known)
                if *known == class.template
                    && known.requests.to_string() == class.requests.to_string()
                    && known.limits.to_string() == class.limits.to_string() =>
            {
                class.template = known.clone();
            }
            _ => drop(self.workloads.insert(class.owner_path.clone(), class.template.clone())),
        }
        facts
    }
}

impl PodClasses {
    /// Whether what ReplicaSets are told about pods is ours to say.
    pub(crate) fn managing_deletion_costs(manages_deletion_costs: bool) -> Self {
        Self { manages_deletion_costs, ..Self::default() }
    }

    /// A pod that was not watched but answered with.
    pub(crate) fn read_answer(&self, pod: &Pod, rules: &LabelRules) -> Result<SeenPod, String> {
        let text = serde_json::to_string(pod).map_err(|error| error.to_string())?;
        let object = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        self.read(&object, rules)
    }

    /// The pod as decisions see it; an error when it is no pod.
    pub fn read(&self, object: &PodObject<'_>, rules: &LabelRules) -> Result<SeenPod, String> {
        let content = object.content.as_ref().map_err(Clone::clone)?;
        if let Some(facts) = content.digest.and_then(|digest| self.lock().facts.get(&digest).cloned()) {
            return Ok(self.seen(object, content, &facts, Vec::new()));
        }
        let (facts, problems) = convert(object, content, rules)?;
        let facts = Arc::new(self.lock().shared(facts));
        // Problems name the pod, so they are found again for each.
        if let Some(digest) = content.digest.filter(|_| problems.is_empty() && facts.class.unplannable.is_none()) {
            self.lock().keep(digest, &facts);
        }
        Ok(self.seen(object, content, &facts, problems))
    }

    /// How many classes are known.
    pub fn len(&self) -> usize {
        self.lock().facts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn seen(
        &self,
        object: &PodObject<'_>,
        content: &PodText<'_>,
        facts: &Arc<PodFacts>,
        mut problems: Vec<Problem>,
    ) -> SeenPod {
        let (namespace, node_name, nominated_node_name) = {
            let sharing = &mut self.lock().sharing;
            let mut shared = |text: Option<&str>| text.map(|text| sharing.text(text));
            (shared(Some(&object.namespace)), shared(content.node.as_deref()), shared(content.nominated.as_deref()))
        };
        let id = PodId::new(namespace.unwrap_or_default(), &*object.name);
        let theirs = content.deletion_cost.as_deref().filter(|_| !self.manages_deletion_costs);
        let cost = convert::deletion_cost(theirs, content.managed_cost.as_deref(), facts.says_disruption_cost);
        let deletion_cost = cost.unwrap_or_else(|error| {
            problems.push(convert::unreadable_deletion_cost(&id, &error));
            0
        });
        let view = PodView {
            id,
            uid: (&*object.uid).into(),
            created_at: content.created.unwrap_or(Timestamp::UNIX_EPOCH).into(),
            deleting_since: content.deleted.map(Into::into),
            started_at: content.started.map(Into::into),
            node_name,
            nominated_node_name,
            class: facts.class.clone(),
            priority: facts.priority,
            disruption_cost: facts.disruption_cost,
            deletion_cost,
            phase: content.phase,
            owner: facts.owner,
            unschedulable: content.unschedulable,
            unjudged: content.unjudged,
            unready: content.unready,
            ready: content.ready,
            critical: facts.critical,
        };
        SeenPod {
            view: Arc::new(view),
            scheduled_at: content.scheduled_at,
            ready_at: content.ready_at,
            deletion_cost: content.deletion_cost.as_deref().map(Into::into),
            managed_cost: content.managed_cost.as_deref().map(Into::into),
            problems,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        // Nothing under the lock panics.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn convert(
    object: &PodObject<'_>,
    content: &PodText<'_>,
    rules: &LabelRules,
) -> Result<(PodFacts, Vec<Problem>), String> {
    let mut pod = whole(&content.common)?;
    // Problems name the pod, and so do the claims of its volumes.
    pod.metadata.name = Some(object.name.clone().into_owned());
    let converted = convert::pod(&pod, rules);
    let view = converted.view;
    let annotations = pod.metadata.annotations.as_ref();
    let facts = PodFacts {
        owner: view.owner,
        critical: view.critical,
        priority: view.priority,
        disruption_cost: view.disruption_cost,
        says_disruption_cost: annotations.is_some_and(|all| all.contains_key(DISRUPTION_COST)),
        class: view.class,
    };
    Ok((facts, converted.problems))
}

/// What the pod may share, in the form that everything is converted from.
fn whole(common: &Common<'_>) -> Result<Pod, String> {
    match common {
        Common::Json { pod, node_affinity } => {
            let mut pod: Pod = serde_json::from_slice(pod).map_err(|error| error.to_string())?;
            if !node_affinity.is_empty() {
                let node_affinity: Option<NodeAffinity> =
                    serde_json::from_slice(node_affinity).map_err(|error| error.to_string())?;
                pod.spec.get_or_insert_default().affinity.get_or_insert_default().node_affinity = node_affinity;
            }
            Ok(pod)
        }
        Common::Wire { pod, of_daemon_set } => pod_wire::whole(pod, *of_daemon_set),
    }
}

#[cfg(test)]
mod tests;
