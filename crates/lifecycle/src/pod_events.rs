//! When something last happened to the pods of a node (LIF-35).

use jiff::{SignedDuration, Timestamp};
use karpenter_model::moment::Moment;
use karpenter_model::pod::{PodOwner, PodView};

/// How often the same claim is stamped at most.
pub const STAMP_EVERY: SignedDuration = SignedDuration::from_secs(10);

/// How a pod came to be seen.
#[derive(Debug, Clone, Copy)]
pub enum Seen<'a> {
    /// In a list that began a watch: it may have been there for long (Y5).
    Listed,
    /// For the first time.
    New,
    /// After this.
    Changed(&'a PodView),
}

/// When the pod's node was last concerned by it; `None` when this sight of the pod tells nothing new.
pub fn pod_event(pod: &PodView, seen: Seen<'_>, now: Timestamp) -> Option<Timestamp> {
    if pod.node_name.is_none() || pod.owner == PodOwner::DaemonSet {
        return None;
    }
    match seen {
        Seen::Listed => {
            let left = pod.deleting_since.filter(|since| since.time() <= now);
            left.or(pod.started_at).map(Moment::time)
        }
        Seen::New => Some(now),
        Seen::Changed(before) => {
            let bound = before.node_name.is_none();
            let ended = pod.is_terminal() && !before.is_terminal();
            let leaves = pod.deleting_since.is_some() && before.deleting_since.is_none();
            (bound || ended || leaves).then_some(now)
        }
    }
}

/// What to write on the claim, given what is there.
pub fn pod_event_stamp(event: Timestamp, last: Option<Timestamp>) -> Option<Timestamp> {
    last.is_none_or(|last| event.duration_since(last) >= STAMP_EVERY).then_some(event)
}
