//! How many claims pools with a fixed size have and are about to get (SCH-240, LIF-104, LIF-109).

use std::collections::{BTreeMap, BTreeSet};

/// What is not in the API yet. Kept per pool as long as there is anything to keep, whatever happens to its claims (Y30).
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    reserved: BTreeMap<String, u64>,
    /// Claims that a disruption command is about to replace.
    pending: BTreeSet<String>,
}

impl Ledger {
    pub(crate) fn reserved(&self, pool: &str) -> u64 {
        self.reserved.get(pool).copied().unwrap_or_default()
    }

    pub(crate) fn reserve(&mut self, pool: &str, count: u64) {
        if count > 0 {
            let reserved = self.reserved.entry(pool.to_owned()).or_default();
            *reserved = reserved.saturating_add(count);
        }
    }

    /// More than was reserved, or for a pool nobody knows, is no harm (V15-80, VC-137).
    pub(crate) fn release(&mut self, pool: &str, count: u64) {
        if let Some(reserved) = self.reserved.get_mut(pool) {
            *reserved = reserved.saturating_sub(count);
            if *reserved == 0 {
                self.reserved.remove(pool);
            }
        }
    }

    pub(crate) fn is_pending(&self, claim: &str) -> bool {
        self.pending.contains(claim)
    }

    pub(crate) fn set_pending(&mut self, claim: &str, pending: bool) {
        if pending {
            self.pending.insert(claim.to_owned());
        } else {
            self.pending.remove(claim);
        }
    }
}
