//! Claims whose instance is gone, and instances that no claim asked for (LIF-76 … LIF-79).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;

/// A claim and the nodes that carry its provider ID.
#[derive(Debug, Clone, Copy)]
pub struct ClaimAndNodes<'a> {
    pub claim: &'a ClaimView,
    pub nodes: &'a [&'a NodeView],
}

/// What was missing in the last listings. One listing can be partial or late, so nothing is done on its word alone (Y4).
#[derive(Debug, Default)]
pub struct Collector {
    /// Claim UID → how many listings in a row lacked its instance.
    lost: BTreeMap<String, u32>,
    /// Provider ID → since when no claim has it.
    orphaned: BTreeMap<String, Timestamp>,
}

/// How many listings in a row must lack an instance before the provider is asked for it by name.
const MISSES: u32 = 2;
/// A claim learns its provider ID a moment after the instance exists.
pub const ORPHAN_AGE: SignedDuration = SignedDuration::from_secs(30);

impl Collector {
    /// Claims whose instance seems to be gone: names, to be confirmed one by one with the provider.
    ///
    /// `listed` are the instances that are not terminating. A ready node proves its instance; an unregistered claim is
    /// left to its liveness (LIF-77).
    pub fn lost_claims(&mut self, claims: &[ClaimAndNodes<'_>], listed: &BTreeSet<String>) -> Vec<String> {
        let missing: Vec<&ClaimView> =
            claims.iter().filter(|entry| is_missing(entry, listed)).map(|entry| entry.claim).collect();
        let uids: BTreeSet<&str> = missing.iter().map(|claim| claim.uid.as_str()).collect();
        self.lost.retain(|uid, _| uids.contains(uid.as_str()));
        let mut lost = Vec::new();
        for claim in missing {
            let misses = self.lost.entry(claim.uid.clone()).or_default();
            *misses = misses.saturating_add(1);
            if *misses >= MISSES {
                lost.push(claim.name.clone());
            }
        }
        lost
    }

    /// Instances that have had no claim for [`ORPHAN_AGE`]: provider IDs. `claimed` are the IDs on claims.
    pub fn orphans(&mut self, listed: &BTreeSet<String>, claimed: &BTreeSet<String>, now: Timestamp) -> Vec<String> {
        let unclaimed: BTreeSet<&String> = listed.difference(claimed).collect();
        self.orphaned.retain(|id, _| unclaimed.contains(id));
        let mut orphans = Vec::new();
        for id in unclaimed {
            let since = *self.orphaned.entry(id.clone()).or_insert(now);
            if now.duration_since(since) >= ORPHAN_AGE {
                orphans.push(id.clone());
            }
        }
        orphans
    }
}

fn is_missing(entry: &ClaimAndNodes<'_>, listed: &BTreeSet<String>) -> bool {
    let ClaimAndNodes { claim, nodes } = entry;
    let known = claim.provider_id.as_ref().is_none_or(|id| listed.contains(id));
    let answers = matches!(nodes, [node] if node.ready);
    claim.registered.is_true() && claim.deleting_since.is_none() && !known && !answers
}
