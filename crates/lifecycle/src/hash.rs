//! Bringing claims to the hash version of their pool (LIF-94 … LIF-96, API-227 … API-229).

use karpenter_model::annotations::{NODEPOOL_HASH, NODEPOOL_HASH_VERSION};
use karpenter_model::claim::ClaimView;
use karpenter_model::pool::TemplateHash;

/// What to write on one claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehash {
    pub claim: String,
    /// `None`: the claim had drifted, and has to stay drifted.
    pub hash: Option<u64>,
}

/// The claims of the pool whose hash says nothing about the pool's any more.
pub fn rehashes<'a>(current: &TemplateHash, claims: impl IntoIterator<Item = &'a ClaimView>) -> Vec<Rehash> {
    let old = claims.into_iter().filter(|claim| claim.annotations.get(NODEPOOL_HASH_VERSION) != Some(&current.version));
    old.map(|claim| Rehash { claim: claim.name.clone(), hash: claim.drifted.is_none().then_some(current.value) })
        .collect()
}

/// Whether the pool's own annotations have to be written; claims come first (LIF-94).
pub fn is_stamped(current: &TemplateHash, annotation: impl Fn(&str) -> Option<String>) -> bool {
    annotation(NODEPOOL_HASH).as_deref() == Some(&current.value.to_string()) && is_current(current, annotation)
}

/// Whether the pool was stamped by this version of the hash.
pub fn is_current(current: &TemplateHash, annotation: impl Fn(&str) -> Option<String>) -> bool {
    annotation(NODEPOOL_HASH_VERSION).as_deref() == Some(&current.version)
}
