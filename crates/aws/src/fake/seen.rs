//! Who is told of everything and keeps it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::SignedDuration;

use crate::batching::Observer;
use crate::cloud::{Call, CallObserver};
use crate::launch::failures::LaunchFailure;
use crate::provider::{Notice, Reports};

/// All that was reported, as text.
#[derive(Debug, Default)]
pub struct Seen(Mutex<Vec<String>>);

impl Seen {
    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, text: String) {
        self.lock().push(text);
    }

    /// What has come since it was last asked for.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lock())
    }
}

impl Observer for Seen {
    fn batch_sent(&self, batcher: &'static str, size: usize, _: SignedDuration) {
        self.note(format!("batch {batcher} {size}"));
    }
}

impl CallObserver for Seen {
    fn attempted(&self, Call { service, operation, status, .. }: &Call<'_>) {
        self.note(format!("attempted {service} {operation} {status:?}"));
    }

    fn finished(&self, Call { service, operation, status, .. }: &Call<'_>, retries: u32) {
        self.note(format!("finished {service} {operation} {status:?} after {retries} retries"));
    }
}

impl Reports for Seen {
    fn launch_failed(&self, LaunchFailure { zone, zone_id, capacity_type, reason }: &LaunchFailure) {
        self.note(format!("launch failed {zone} {zone_id} {capacity_type} {reason}"));
    }

    fn termination_failed(&self, zone: &str, zone_id: &str) {
        self.note(format!("termination failed {zone} {zone_id}"));
    }

    fn user_data_rendered(&self, class: &str, bytes: usize) {
        assert!(bytes > 0);
        self.note(format!("user data of {class}"));
    }

    fn class_gone(&self, class: &str) {
        self.note(format!("class {class} gone"));
    }

    fn notice(&self, notice: Notice<'_>) {
        let whom = match notice {
            Notice::NoClassForClaim(claim) | Notice::SpotRoleMissing(claim) => &claim.name,
            Notice::NoClassForPool(pool) => pool,
        };
        self.note(format!("event on {whom}: {}", notice.message()));
    }
}
