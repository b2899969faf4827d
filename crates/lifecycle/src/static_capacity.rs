//! Pools with a fixed number of nodes (LIF-104 … LIF-109).

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::claim::ClaimView;
use karpenter_model::duration::NillableDuration;
use karpenter_model::pod::{PodOwner, PodView};
use karpenter_model::pool::{ClaimCounts, PoolView};

/// How many nodes a pool still lacks. What is reserved or about to be replaced counts as there (Y15, Y34).
pub fn lacking(pool: &PoolView, counts: ClaimCounts) -> u64 {
    let Some(replicas) = pool.replicas.filter(|_| pool.ready && !pool.deleting) else { return 0 };
    let there = counts.active.saturating_add(counts.pending).saturating_add(counts.reserved);
    replicas.saturating_sub(there)
}

/// How many nodes a pool has too many. Claims that are being deleted are not counted again (Y28).
pub fn excess(pool: &PoolView, counts: ClaimCounts) -> u64 {
    pool.replicas.map_or(0, |replicas| counts.active.saturating_sub(replicas))
}

/// A claim of the pool with the pods on its node.
#[derive(Debug, Clone)]
pub struct Member {
    pub claim: Arc<ClaimView>,
    pub pods: Vec<Arc<PodView>>,
}

/// The claims to delete, cheapest first (LIF-107).
pub fn victims(members: &[Member], count: u64, now: Timestamp) -> Vec<Arc<ClaimView>> {
    let mut living: Vec<(Rank, &Member)> = members
        .iter()
        .filter(|member| member.claim.deleting_since.is_none())
        .map(|member| (Rank::of(member, now), member))
        .collect();
    living.sort_by(|(a, x), (b, y)| a.cmp(b).then_with(|| x.claim.name.cmp(&y.claim.name)));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    living.into_iter().take(count).map(|(_, member)| member.claim.clone()).collect()
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rank {
    Unlaunched,
    Empty,
    Moving(f64),
    Protected(f64),
}

impl Rank {
    fn of(member: &Member, now: Timestamp) -> Self {
        let Member { claim, pods } = member;
        if claim.provider_id.is_none() {
            return Self::Unlaunched;
        }
        let protected = pods.iter().any(|pod| pod.is_active() && pod.is_protected(now));
        if !protected && pods.iter().all(|pod| pod.owner == PodOwner::DaemonSet) {
            return Self::Empty;
        }
        let cost = pods.iter().map(|pod| pod.eviction_cost()).sum::<f64>() * lifetime_remaining(claim, now);
        if protected { Self::Protected(cost) } else { Self::Moving(cost) }
    }

    fn group(self) -> (u8, f64) {
        match self {
            Self::Unlaunched => (0, 0.0),
            Self::Empty => (1, 0.0),
            Self::Moving(cost) => (2, cost),
            Self::Protected(cost) => (3, cost),
        }
    }

    fn cmp(&self, other: &Self) -> Ordering {
        let ((a, x), (b, y)) = (self.group(), other.group());
        a.cmp(&b).then_with(|| x.total_cmp(&y))
    }
}

/// The share of its life that a claim still has before it; a whole one for a claim that never expires (DIS-77).
pub fn lifetime_remaining(claim: &ClaimView, now: Timestamp) -> f64 {
    let NillableDuration::After(lifetime) = claim.expire_after else { return 1.0 };
    let lifetime = lifetime.as_signed().as_secs_f64();
    if lifetime <= 0.0 {
        return 0.0;
    }
    let age = now.duration_since(claim.created_at).as_secs_f64();
    ((lifetime - age) / lifetime).clamp(0.0, 1.0)
}
