//! Controllers that a provider brings along hear of objects from here, so that one watch per kind is enough for all.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use karpenter_api::kinds::NodeClaim;

/// Wakes whoever is concerned; called by the watches, so nothing in it may wait.
pub trait Listener: fmt::Debug + Send + Sync {
    /// A node class is new, has changed or is gone.
    fn class_changed(&self, name: &str) {
        let _ = name;
    }
    /// A pool is new, has changed or is gone.
    fn pool_changed(&self, name: &str) {
        let _ = name;
    }
    /// A claim is new or has changed.
    fn claim_seen(&self, name: &str) {
        let _ = name;
    }
    fn claim_gone(&self, claim: &NodeClaim) {
        let _ = claim;
    }
    /// A node is new or has changed.
    fn node_seen(&self, name: &str) {
        let _ = name;
    }
}

/// None until somebody listens.
#[derive(Debug, Default)]
pub struct Listeners(RwLock<Vec<Arc<dyn Listener>>>);

impl Listeners {
    /// Before the watches start, so that nothing is missed.
    pub fn add(&self, listener: Arc<dyn Listener>) {
        // Nothing under the lock panics.
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(crate) fn tell(&self, news: impl Fn(&dyn Listener)) {
        for listener in self.0.read().unwrap_or_else(PoisonError::into_inner).iter() {
            news(listener.as_ref());
        }
    }
}
