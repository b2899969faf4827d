//! A node as decisions see it.

use jiff::Timestamp;

use crate::claim::Status;
use crate::labels;
use crate::resources::Resources;
use crate::shared::{Labels, Shared};
use crate::taints::Taint;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    pub name: String,
    pub uid: String,
    pub provider_id: Option<String>,
    pub created_at: Timestamp,
    pub deleting_since: Option<Timestamp>,
    pub has_finalizer: bool,
    pub labels: Labels,
    /// Those that are about us.
    pub annotations: Labels,
    pub taints: Vec<Taint>,
    pub capacity: Shared<Resources>,
    pub allocatable: Shared<Resources>,
    pub ready: bool,
    /// What repair looks at; heartbeats and messages are left out, so that they change nothing (V15-34).
    pub conditions: Vec<NodeCondition>,
    /// Of the kernel's present run; empty when the kubelet does not say.
    pub boot_id: String,
}

/// A condition that a node reports of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCondition {
    pub kind: String,
    pub status: Status,
    pub reason: String,
    /// When the status last changed; `None` counts as since the node was made (V15-32).
    pub since: Option<Timestamp>,
}

impl NodeView {
    /// A node of which nothing but the name is known.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            uid: String::new(),
            provider_id: None,
            created_at: Timestamp::UNIX_EPOCH,
            deleting_since: None,
            has_finalizer: false,
            labels: Labels::new(),
            annotations: Labels::new(),
            taints: Vec::new(),
            capacity: Shared::default(),
            allocatable: Shared::default(),
            ready: false,
            conditions: Vec::new(),
            boot_id: String::new(),
        }
    }

    fn has_true_label(&self, key: &str) -> bool {
        self.labels.get(key).is_some_and(|value| value == "true")
    }

    pub fn is_registered(&self) -> bool {
        self.has_true_label(labels::REGISTERED)
    }

    pub fn is_initialized(&self) -> bool {
        self.has_true_label(labels::INITIALIZED)
    }

    /// Only the exact value `true` opts out (API-125).
    pub fn opts_out_of_taint_sync(&self) -> bool {
        self.has_true_label(labels::DO_NOT_SYNC_TAINTS)
    }
}
