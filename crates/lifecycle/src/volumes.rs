//! Whether a drained node may go although volumes are still attached to it (LIF-64 … LIF-66).

use std::collections::BTreeSet;

use jiff::Timestamp;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Detachment {
    Detached,
    /// These attachments are waited for.
    Waiting(Vec<String>),
    /// The deadline has passed; go on without.
    GivenUp,
}

/// A VolumeAttachment of the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    pub name: String,
    /// The PersistentVolume; `None` for an inline volume, which nobody waits for.
    pub volume: Option<String>,
}

/// `kept` are volumes of pods that stay on the node to its end.
pub fn detachment(
    attachments: &[Attachment],
    kept: &BTreeSet<String>,
    deadline: Option<Timestamp>,
    now: Timestamp,
) -> Detachment {
    let holds = |attachment: &&Attachment| attachment.volume.as_ref().is_some_and(|volume| !kept.contains(volume));
    let names: Vec<String> = attachments.iter().filter(holds).map(|attachment| attachment.name.clone()).collect();
    if names.is_empty() {
        Detachment::Detached
    } else if deadline.is_some_and(|deadline| now >= deadline) {
        Detachment::GivenUp
    } else {
        Detachment::Waiting(names)
    }
}
