//! Capacity buffers: spare room for a workload, kept by pods that exist in memory only.

use std::sync::Arc;

use jiff::Timestamp;

use crate::pod::{PodId, PodOwner, PodPhase, PodView};
use crate::resources::Resources;
use crate::scheduling::PodVolumes;

/// More pods than this are not kept in memory for one buffer; a cluster has far fewer to spare.
pub const MOST_VIRTUAL_PODS: u32 = 10_000;

/// A CapacityBuffer as decisions see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferView {
    pub id: PodId,
    pub uid: String,
    pub reference: Option<BufferReference>,
    pub replicas: Option<u32>,
    pub percentage: Option<u32>,
    pub limits: Resources,
    /// The `ReadyForProvisioning` condition is True.
    pub ready: bool,
    /// What the status says how many pods there should be.
    pub desired: Option<u32>,
}

/// What the pods of a buffer look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BufferReference {
    PodTemplate { name: String },
    Scalable { group: String, kind: String, name: String },
}

/// What was found where a buffer points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// Such a pod, without the volumes that belong to one pod alone.
    pub pod: PodView,
    /// How many the workload has; a PodTemplate has none.
    pub workload_replicas: Option<u32>,
    /// Of a PodTemplate.
    pub generation: Option<i64>,
}

/// What looking at a reference came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    Shape(Box<Shape>),
    Missing,
    /// It could not be looked at.
    Failed(String),
}

/// What a buffer's status says, and what is to be done (SCH-181, SCH-184, V15-108).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    Resolved {
        replicas: u32,
        /// Name and generation; `None` clears what the status says (SCH-183).
        pod_template: Option<(String, Option<i64>)>,
    },
    /// The user has to act: the virtual pods go, a pass is triggered, nothing is retried before the next poll.
    Unresolved { reason: Reason, message: String },
    /// It is tried again; the virtual pods of before stay.
    Retry { message: String },
}

/// Reasons of the condition `ReadyForProvisioning`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    Resolved,
    PodTemplateNotFound,
    ScalableRefNotFound,
    ResolutionFailed,
}

impl Reason {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resolved => "Resolved",
            Self::PodTemplateNotFound => "PodTemplateNotFound",
            Self::ScalableRefNotFound => "ScalableRefNotFound",
            Self::ResolutionFailed => "ResolutionFailed",
        }
    }
}

impl Resolution {
    pub fn reason(&self) -> Reason {
        match self {
            Self::Resolved { .. } => Reason::Resolved,
            Self::Unresolved { reason, .. } => *reason,
            Self::Retry { .. } => Reason::ResolutionFailed,
        }
    }
}

/// Kinds of the group `apps` that can be scaled.
const SCALABLE: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];

impl BufferReference {
    /// Whether there is any sense in looking for it (SCH-180); an empty group is read as `apps`.
    pub fn is_supported(&self) -> bool {
        match self {
            Self::PodTemplate { .. } => true,
            Self::Scalable { group, kind, .. } => {
                (group.is_empty() || group == "apps") && SCALABLE.contains(&kind.as_str())
            }
        }
    }

    /// Whether it points to this object of the buffer's own namespace (V15-108).
    pub fn points_to(&self, kind: &str, name: &str) -> bool {
        match self {
            Self::PodTemplate { name: own } => kind == "PodTemplate" && own == name,
            Self::Scalable { kind: own_kind, name: own, .. } => self.is_supported() && own_kind == kind && own == name,
        }
    }
}

impl BufferView {
    /// What to make of what was found (SCH-181). `found` is not asked for when the buffer points nowhere sensible.
    pub fn resolve(&self, found: impl FnOnce(&BufferReference) -> Found) -> Resolution {
        let Some(reference) = &self.reference else {
            let message = "neither podTemplateRef nor scalableRef is set".to_owned();
            return Resolution::Unresolved { reason: Reason::ResolutionFailed, message };
        };
        if let BufferReference::Scalable { group, kind, .. } = reference
            && !reference.is_supported()
        {
            return Resolution::Retry { message: format!("kind {kind:?} of group {group:?} cannot be scaled") };
        }
        match (found(reference), reference) {
            (Found::Shape(shape), BufferReference::PodTemplate { name }) => Resolution::Resolved {
                replicas: self.target(&shape),
                pod_template: Some((name.clone(), shape.generation)),
            },
            (Found::Shape(shape), BufferReference::Scalable { .. }) => {
                Resolution::Resolved { replicas: self.target(&shape), pod_template: None }
            }
            (Found::Missing, BufferReference::PodTemplate { name }) => Resolution::Unresolved {
                reason: Reason::PodTemplateNotFound,
                message: format!("PodTemplate {name} not found"),
            },
            (Found::Missing, BufferReference::Scalable { kind, name, .. }) => Resolution::Unresolved {
                reason: Reason::ScalableRefNotFound,
                message: format!("{kind} {name} not found"),
            },
            (Found::Failed(message), _) => Resolution::Retry { message },
        }
    }

    /// How many pods the buffer shall have (SCH-182): the larger of what is asked for, at most what the limits hold.
    pub fn target(&self, shape: &Shape) -> u32 {
        let wanted = self.replicas.max(self.percentage_of(shape));
        match (wanted, self.within_limits(&shape.pod.requests)) {
            (Some(wanted), Some(most)) => wanted.min(most),
            (Some(count), None) | (None, Some(count)) => count,
            (None, None) => 0,
        }
    }

    /// Rounded up; a workload without pods has no percentage.
    fn percentage_of(&self, shape: &Shape) -> Option<u32> {
        let replicas = shape.workload_replicas.filter(|replicas| *replicas > 0)?;
        let share = (u64::from(replicas) * u64::from(self.percentage?)).div_ceil(100);
        Some(u32::try_from(share).unwrap_or(u32::MAX))
    }

    /// How many such pods the limits hold; `None` when no limit is about anything that they ask for.
    fn within_limits(&self, requests: &Resources) -> Option<u32> {
        let counts = self.limits.iter().filter_map(|(name, limit)| {
            let (limit, need) = (limit.nanos(), requests.amount(name).nanos());
            (limit != 0 && need > 0).then(|| u32::try_from(limit.max(0) / need).unwrap_or(u32::MAX))
        });
        counts.min()
    }

    /// The pods that stand for the buffer (SCH-185); none unless it is ready and has any.
    pub fn virtual_pods(&self, shape: &Shape, now: Timestamp) -> Vec<Arc<PodView>> {
        let count = self.desired.filter(|_| self.ready && self.reference.is_some()).unwrap_or(0);
        (1..=count.min(MOST_VIRTUAL_PODS)).map(|number| Arc::new(self.virtual_pod(shape, number, now))).collect()
    }

    fn virtual_pod(&self, shape: &Shape, number: u32, now: Timestamp) -> PodView {
        let mut pod = shape.pod.clone();
        pod.id = PodId::new(self.id.namespace.clone(), format!("capacity-buffer-{}-{number}", self.id.name));
        pod.uid = format!("{}-{number}", self.uid).into();
        pod.created_at = now.into();
        pod.deleting_since = None;
        // Not pending: in a simulation it gets no node that pods just came to or left (SCH-190).
        pod.phase = PodPhase::Unknown;
        pod.owner = PodOwner::Other;
        pod.daemon_set = None;
        pod.daemon_set_uid = None;
        pod.controller = None;
        pod.node_name = None;
        pod.nominated_node_name = None;
        pod.unschedulable = true;
        pod.priority = i32::MIN;
        pod.volume_claims.clear();
        pod.scheduling.volumes = PodVolumes::default();
        pod.buffer = Some(self.id.clone());
        pod
    }
}

#[cfg(test)]
mod tests;
