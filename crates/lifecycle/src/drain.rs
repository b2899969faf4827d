//! Which pods leave a node next (LIF-52 … LIF-57, LIF-61).

use jiff::{SignedDuration, Timestamp};
use karpenter_model::pod::{PodId, PodOwner, PodView};

use crate::eviction::{EvictionKey, is_force_eligible};

/// A drain lasts at least this long, so that pods bound at the last moment show up (LIF-56).
pub const MINIMUM_DRAIN: SignedDuration = SignedDuration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drain {
    /// Ask these to leave: those that are out of time, and the first tier that is not empty.
    pub evict: Vec<EvictionKey>,
    /// How many pods hold the drain, in all tiers.
    pub waiting: usize,
    pub deadline: Option<Timestamp>,
    /// When the answer may change although no pod does.
    pub again_at: Option<Timestamp>,
    /// A pod that may not be moved and has held the node for long, with since when; nothing ends that by itself (Y12).
    pub held_by: Option<(PodId, Timestamp)>,
}

/// A drain that lasts longer without a deadline is worth a word.
const LONG_DRAIN: SignedDuration = SignedDuration::from_mins(10);

/// `None` when nothing holds the node. `began` is absent without a claim: then nobody remembers when it began.
pub fn drain(
    pods: &[&PodView],
    deadline: Option<Timestamp>,
    began: Option<Timestamp>,
    now: Timestamp,
) -> Option<Drain> {
    let waiting: Vec<&PodView> = pods.iter().copied().filter(|pod| pod.is_waiting_eviction(now)).collect();
    let ends = began.map(|began| began.saturating_add(MINIMUM_DRAIN).unwrap_or(Timestamp::MAX));
    if waiting.is_empty() {
        let ends = ends.filter(|ends| now < *ends)?;
        return Some(Drain { evict: Vec::new(), waiting: 0, deadline, again_at: Some(ends), held_by: None });
    }
    let (forced, rest): (Vec<&PodView>, Vec<&PodView>) =
        waiting.iter().partition(|pod| is_force_eligible(pod, deadline, now));
    let first = rest.iter().map(|pod| tier(pod)).min();
    let in_turn = rest.iter().copied().filter(|pod| Some(tier(pod)) == first && pod.is_evictable(now));
    let evict = forced.iter().copied().chain(in_turn).map(EvictionKey::of).collect();
    let again_at = waiting.iter().flat_map(|pod| turning_points(pod, deadline)).filter(|at| *at > now).min();
    let long = began.filter(|began| deadline.is_none() && now.duration_since(*began) >= LONG_DRAIN);
    let holds =
        |pod: &&&PodView| pod.is_active() && pod.is_protected(now) && pod.protection.until(pod.started_at).is_none();
    let held_by = long.and_then(|began| Some((waiting.iter().find(holds)?.id.clone(), began)));
    Some(Drain { evict, waiting: waiting.len(), deadline, again_at, held_by })
}

/// Non-critical pods before critical ones, workloads before DaemonSets (LIF-55).
fn tier(pod: &PodView) -> (bool, bool) {
    (pod.critical, pod.owner == PodOwner::DaemonSet)
}

/// Just after: its protection ends, it is out of time, its deletion is stuck.
fn turning_points(pod: &PodView, deadline: Option<Timestamp>) -> impl Iterator<Item = Timestamp> {
    const MOMENT: SignedDuration = SignedDuration::from_millis(1);
    let protected_until = pod.protection.until(pod.started_at);
    let grace = pod.termination_grace_seconds.map(SignedDuration::from_secs);
    let out_of_time = deadline.zip(grace).and_then(|(deadline, grace)| deadline.saturating_sub(grace).ok());
    let stuck = pod.deleting_since.and_then(|since| since.time().saturating_add(SignedDuration::from_mins(1)).ok());
    let points = [protected_until, out_of_time.filter(|_| pod.deleting_since.is_none()), stuck];
    points.into_iter().flatten().filter_map(|at| at.saturating_add(MOMENT).ok())
}
