//! What the cloud remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::instance_type::{InstanceType, Offering, Price};
use karpenter_model::requirements::Requirement;
use karpenter_platform::{DriftReason, Instance};

use super::{RESERVATION_ID, Throttle, Trouble};
use crate::chance::Chance;

/// What can run out: one offering of one type.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OfferingKey {
    pub instance_type: String,
    pub zone: String,
    pub capacity_type: String,
    pub reservation: Option<String>,
}

impl OfferingKey {
    pub(super) fn of(instance_type: &str, offering: &Offering) -> Self {
        let reservation = offering.requirements.get(RESERVATION_ID).and_then(Requirement::single_value);
        Self {
            instance_type: instance_type.to_owned(),
            zone: offering.zone().unwrap_or_default().to_owned(),
            capacity_type: offering.capacity_type().unwrap_or_default().to_owned(),
            reservation: reservation.map(ToOwned::to_owned),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Record {
    pub instance: Instance,
    pub claim_uid: String,
    pub offering: OfferingKey,
    /// Per hour, when it was launched.
    pub price: Price,
    pub launched_at: Timestamp,
    /// When its end is through, once that has begun.
    pub gone_at: Option<Timestamp>,
    /// When it is taken back.
    pub interrupted_at: Option<Timestamp>,
    /// It was told so.
    pub announced: bool,
    pub reboots: BTreeSet<String>,
}

#[derive(Debug)]
pub(super) struct State {
    /// Every machine there ever was, by provider id; gone ones until listings have forgotten them.
    pub records: BTreeMap<String, Record>,
    pub by_claim: BTreeMap<String, String>,
    used: BTreeMap<OfferingKey, u32>,
    sold_out: BTreeMap<OfferingKey, Timestamp>,
    pub drifted: BTreeMap<String, DriftReason>,
    pub trouble: Trouble,
    pub chance: Chance,
    throttle: Throttle,
    /// Calls left, in thousandths, and since when.
    tokens: (u64, Option<Timestamp>),
    /// The last list of types with what it depended on.
    pub offers: Option<(OfferVersion, Arc<Vec<InstanceType>>)>,
    /// Counts what changes an offer.
    pub changes: u64,
}

/// Price list, changes of stock, and the next end of a shortage.
pub(super) type OfferVersion = (u64, u64, usize);

impl State {
    pub(super) fn new(seed: u64, throttle: Throttle) -> Self {
        Self {
            records: BTreeMap::new(),
            by_claim: BTreeMap::new(),
            used: BTreeMap::new(),
            sold_out: BTreeMap::new(),
            drifted: BTreeMap::new(),
            trouble: Trouble::default(),
            chance: Chance::about(seed, &["cloud"]),
            throttle,
            tokens: (u64::from(throttle.burst) * 1000, None),
            offers: None,
            changes: 0,
        }
    }

    pub(super) fn used(&self, key: &OfferingKey) -> u32 {
        self.used.get(key).copied().unwrap_or(0)
    }

    pub(super) fn is_sold_out(&self, key: &OfferingKey, now: Timestamp) -> bool {
        self.sold_out.get(key).is_some_and(|until| *until > now)
    }

    pub(super) fn shortages(&self, now: Timestamp) -> usize {
        self.sold_out.values().filter(|until| **until > now).count()
    }

    pub(super) fn sell_out(&mut self, key: OfferingKey, until: Timestamp) {
        self.changes += 1;
        self.sold_out.insert(key, until);
    }

    pub(super) fn take(&mut self, record: Record) {
        self.changes += 1;
        *self.used.entry(record.offering.clone()).or_default() += 1;
        let id = record.instance.provider_id.clone();
        self.by_claim.insert(record.claim_uid.clone(), id.clone());
        self.records.insert(id, record);
    }

    /// The machine no longer counts; what it was stays known for listings.
    pub(super) fn give_back(&mut self, id: &str) {
        self.changes += 1;
        let Some(record) = self.records.get(id) else { return };
        if let Some(used) = self.used.get_mut(&record.offering) {
            *used = used.saturating_sub(1);
        }
        if self.by_claim.get(&record.claim_uid).is_some_and(|known| known == id) {
            self.by_claim.remove(&record.claim_uid);
        }
        self.drifted.remove(id);
    }

    /// A token bucket; refuses when it is empty.
    pub(super) fn admit(&mut self, now: Timestamp) -> bool {
        let full = u64::from(self.throttle.burst) * 1000;
        let (tokens, since) = self.tokens;
        let passed = since.map_or(0, |since| now.duration_since(since).as_millis().max(0));
        let gained = u64::try_from(passed).unwrap_or(0).saturating_mul(u64::from(self.throttle.per_second));
        let tokens = tokens.saturating_add(gained).min(full);
        let admitted = tokens >= 1000;
        self.tokens = (if admitted { tokens - 1000 } else { tokens }, Some(now));
        admitted
    }

    pub(super) fn interrupt(&mut self, id: &str, at: Timestamp) -> bool {
        match self.records.get_mut(id) {
            Some(record) if record.gone_at.is_none() && record.interrupted_at.is_none_or(|known| at < known) => {
                record.interrupted_at = Some(at);
                true
            }
            _ => false,
        }
    }

    pub(super) fn interruptions(&self) -> BTreeMap<String, Timestamp> {
        let live = self.records.iter().filter(|(_, record)| record.gone_at.is_none());
        let told = live.filter(|(_, record)| record.announced);
        told.filter_map(|(id, record)| Some((id.clone(), record.interrupted_at?))).collect()
    }

    pub(super) fn running(&self) -> BTreeMap<String, String> {
        let live = self.records.iter().filter(|(_, record)| record.gone_at.is_none());
        live.map(|(id, record)| (id.clone(), record.claim_uid.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bucket_refills() {
        let mut state = State::new(1, Throttle { burst: 2, per_second: 1 });
        let at = |millis: i64| Timestamp::from_millisecond(millis).unwrap();
        let answers: Vec<bool> =
            [0, 0, 0, 500, 1000, 1000, 60_000, 60_000, 60_000].map(|millis| state.admit(at(millis))).into();
        assert_eq!(answers, [true, true, false, false, true, false, true, true, false]);
    }
}
