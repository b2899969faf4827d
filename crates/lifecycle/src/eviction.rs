//! Asking one pod to leave (LIF-58 … LIF-63, V15-113).

use jiff::{SignedDuration, Timestamp};
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::uid::Uid;

/// One pod, not whoever takes its name later.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvictionKey {
    pub id: PodId,
    pub uid: Uid,
}

impl EvictionKey {
    pub fn of(pod: &PodView) -> Self {
        Self { id: pod.id.clone(), uid: pod.uid.clone() }
    }
}

/// How far an eviction goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insistence {
    /// Evicts, and deletes when the deadline comes near.
    Delete { deadline: Option<Timestamp> },
    /// Only evicts, and gives up at the deadline.
    GiveUp { deadline: Timestamp },
}

impl Insistence {
    /// What holds when a pod is asked twice: the earlier deadline, and deletion over giving up (LIF-58, V15-113).
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        match (self, other) {
            (Self::Delete { deadline: a }, Self::Delete { deadline: b }) => {
                Self::Delete { deadline: [a, b].into_iter().flatten().min() }
            }
            (Self::GiveUp { deadline: a }, Self::GiveUp { deadline: b }) => Self::GiveUp { deadline: a.min(b) },
            (delete @ Self::Delete { .. }, Self::GiveUp { .. })
            | (Self::GiveUp { .. }, delete @ Self::Delete { .. }) => delete,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Nothing left to ask for.
    Drop,
    /// Not now: the pod may not be moved.
    Wait,
    Evict,
    /// Ignores budgets and protection.
    ForceDelete {
        grace_seconds: u32,
        deadline: Timestamp,
    },
}

/// LIF-59. A pod that is gone, or is another pod by now, ends the matter (Y31).
pub fn attempt(pod: Option<&PodView>, key: &EvictionKey, insistence: Insistence, now: Timestamp) -> Attempt {
    let Some(pod) = pod.filter(|pod| pod.uid == key.uid) else { return Attempt::Drop };
    match insistence {
        Insistence::Delete { deadline: Some(deadline) } if is_force_eligible(pod, Some(deadline), now) => {
            return Attempt::ForceDelete { grace_seconds: grace_seconds(deadline, now), deadline };
        }
        Insistence::GiveUp { deadline } if now >= deadline => return Attempt::Drop,
        Insistence::Delete { .. } | Insistence::GiveUp { .. } => {}
    }
    if !pod.is_active() {
        Attempt::Drop
    } else if pod.is_evictable(now) {
        Attempt::Evict
    } else {
        Attempt::Wait
    }
}

/// The pod would outlive the deadline if it were left alone (LIF-61).
pub(crate) fn is_force_eligible(pod: &PodView, deadline: Option<Timestamp>, now: Timestamp) -> bool {
    let Some(deadline) = deadline else { return false };
    match (pod.deleting_since, pod.termination_grace_seconds) {
        (Some(gone_at), _) => gone_at.time() > deadline,
        (None, Some(grace)) => {
            deadline.saturating_sub(SignedDuration::from_secs(grace)).is_ok_and(|latest| now > latest)
        }
        (None, None) => false,
    }
}

/// Never zero: that would take the pod's object away while its containers run on (LIF-62).
fn grace_seconds(deadline: Timestamp, now: Timestamp) -> u32 {
    u32::try_from(deadline.duration_since(now).as_secs().max(1)).unwrap_or(u32::MAX)
}

/// What the API said to an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvictionAnswer {
    /// Gone, or another pod under the same name.
    Gone,
    Blocked(Blocked),
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    Budget,
    /// The API does not evict pods under several budgets; it says so with a plain 500.
    SeveralBudgets,
}

const SEVERAL_BUDGETS: &str =
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";

/// LIF-60, but for success.
pub fn eviction_answer(code: u16, message: &str) -> EvictionAnswer {
    match code {
        _ if message == SEVERAL_BUDGETS => EvictionAnswer::Blocked(Blocked::SeveralBudgets),
        404 | 409 => EvictionAnswer::Gone,
        429 => EvictionAnswer::Blocked(Blocked::Budget),
        _ => EvictionAnswer::Failed,
    }
}
