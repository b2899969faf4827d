//! A pod under its own name: sets of these need no second copy of 300,000 names.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use karpenter_model::pod::{PodId, PodView};

/// Equal and ordered by the pod's name alone.
#[derive(Debug, Clone)]
pub struct ByName(pub Arc<PodView>);

impl Deref for ByName {
    type Target = PodView;

    fn deref(&self) -> &PodView {
        &self.0
    }
}

impl Borrow<PodId> for ByName {
    fn borrow(&self) -> &PodId {
        &self.0.id
    }
}

impl PartialEq for ByName {
    fn eq(&self, other: &Self) -> bool {
        self.0.id == other.0.id
    }
}

impl Eq for ByName {}

impl Hash for ByName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.id.hash(state);
    }
}

/// Pods in no order. One of 300,000 is found with one look; in order it would take eighteen, each at another place of memory. Who
/// decides or shows something sorts them first.
#[expect(clippy::disallowed_types, reason = "the hash has no secret, so the order is the same every time")]
pub type PodSet = std::collections::HashSet<ByName, BuildHasherDefault<DefaultHasher>>;

impl PartialOrd for ByName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.id.cmp(&other.0.id)
    }
}

/// Ordered by age, then by name.
#[derive(Debug, Clone)]
pub(crate) struct ByAge(pub(crate) Arc<PodView>);

impl PartialEq for ByAge {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ByAge {}

impl PartialOrd for ByAge {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByAge {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.created_at, &self.0.id).cmp(&(other.0.created_at, &other.0.id))
    }
}
