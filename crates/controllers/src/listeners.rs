//! Controllers that a provider brings along hear of objects from here, so that one watch per kind is enough for all.

use std::fmt;
use std::sync::{Arc, OnceLock};

use karpenter_api::kinds::NodeClaim;

/// Wakes whoever is concerned; called by the watches, so nothing in it may wait.
pub trait Listener: fmt::Debug + Send + Sync {
    /// A node class is new, has changed or is gone.
    fn class_changed(&self, name: &str);
    /// A claim is new or has changed.
    fn claim_seen(&self, name: &str);
    fn claim_gone(&self, claim: &NodeClaim);
    /// A node is new or has changed.
    fn node_seen(&self, name: &str);
}

/// None until somebody listens, and then the same for ever.
#[derive(Default)]
pub struct Listeners(OnceLock<Arc<dyn Listener>>);

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listeners").field(&self.0.get()).finish()
    }
}

impl Listeners {
    /// Before the watches start. The first to come is the one that is told.
    pub fn add(&self, listener: Arc<dyn Listener>) {
        // A process has one provider, so a second listener would be a mistake that tests show at once.
        let _ = self.0.set(listener);
    }

    pub(crate) fn tell(&self, news: impl FnOnce(&dyn Listener)) {
        if let Some(listener) = self.0.get() {
            news(listener.as_ref());
        }
    }
}
