//! Who stands behind pods, by their selectors.

use std::collections::BTreeMap;

use crate::pod::{Controller, PodId};
use crate::selector::Selector;

/// A Service, by the pods it sends requests to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceView {
    pub id: PodId,
    /// `None`: it sends them to no pod.
    pub selector: Option<BTreeMap<String, String>>,
}

/// A kind whose selector says which pods belong together (SCH-149).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkloadKind {
    ReplicationController,
    ReplicaSet,
    StatefulSet,
}

impl WorkloadKind {
    pub fn of(controller: &Controller) -> Option<Self> {
        match (controller.api_version.as_str(), controller.kind.as_str()) {
            ("v1", "ReplicationController") => Some(Self::ReplicationController),
            ("apps/v1", "ReplicaSet") => Some(Self::ReplicaSet),
            ("apps/v1", "StatefulSet") => Some(Self::StatefulSet),
            _ => None,
        }
    }
}

/// A controller of pods, by its selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadView {
    pub kind: WorkloadKind,
    pub id: PodId,
    /// One that cannot be read is empty and contributes nothing.
    pub selector: Selector,
}
