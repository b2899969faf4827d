//! Condition sets: how setting one condition changes the others (API-115 … API-123).
//!
//! Each kind has a root condition `Ready` that is computed from its dependents. Time comes in as an argument.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_core::Resource;

use crate::kinds::{Condition, ConditionStatus, EC2NodeClass, KWOKNodeClass, NodeClaim, NodeOverlay, NodePool};
use crate::names::aws::conditions as aws;
use crate::names::conditions::{self as names, messages, reasons};

/// The root of a kind and the conditions that decide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionSet {
    pub root: &'static str,
    pub dependents: &'static [&'static str],
}

pub const NODE_POOL: ConditionSet =
    ConditionSet { root: names::READY, dependents: &[names::VALIDATION_SUCCEEDED, names::NODE_CLASS_READY] };

pub const NODE_CLAIM: ConditionSet =
    ConditionSet { root: names::READY, dependents: &[names::LAUNCHED, names::REGISTERED, names::INITIALIZED] };

pub const NODE_OVERLAY: ConditionSet = ConditionSet { root: names::READY, dependents: &[names::VALIDATION_SUCCEEDED] };

pub const KWOK_NODE_CLASS: ConditionSet = ConditionSet { root: names::READY, dependents: &[] };

/// While the gate ReservedCapacity is off (AWS-17).
pub const EC2_NODE_CLASS: ConditionSet = ConditionSet {
    root: names::READY,
    dependents: &[
        aws::AMIS_READY,
        aws::SUBNETS_READY,
        aws::SECURITY_GROUPS_READY,
        aws::INSTANCE_PROFILE_READY,
        names::VALIDATION_SUCCEEDED,
        aws::PLACEMENT_GROUP_READY,
    ],
};

/// While the gate ReservedCapacity is on (AWS-17).
pub const EC2_NODE_CLASS_WITH_RESERVATIONS: ConditionSet = ConditionSet {
    root: names::READY,
    dependents: &[
        aws::AMIS_READY,
        aws::SUBNETS_READY,
        aws::SECURITY_GROUPS_READY,
        aws::INSTANCE_PROFILE_READY,
        names::VALIDATION_SUCCEEDED,
        aws::PLACEMENT_GROUP_READY,
        aws::CAPACITY_RESERVATIONS_READY,
    ],
};

/// A kind with a condition list in its status.
pub trait Conditioned {
    /// Empty when there is no status yet.
    fn conditions(&self) -> &[Condition];
    /// Makes the status and the list when they are missing.
    fn conditions_mut(&mut self) -> &mut Vec<Condition>;

    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions().iter().find(|condition| condition.type_ == type_)
    }
}

macro_rules! conditioned {
    ($($kind:ty),+) => { $(impl Conditioned for $kind {
        fn conditions(&self) -> &[Condition] {
            self.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default()
        }

        fn conditions_mut(&mut self) -> &mut Vec<Condition> {
            self.status.get_or_insert_default().conditions.get_or_insert_default()
        }
    })+ };
}

conditioned!(NodePool, NodeClaim, NodeOverlay, EC2NodeClass, KWOKNodeClass, crate::kinds::CapacityBuffer);

/// The conditions of one object under its set. Made by [`ConditionSet::of`].
#[derive(Debug)]
pub struct Conditions<'a> {
    set: ConditionSet,
    list: &'a mut Vec<Condition>,
    generation: i64,
    created: Timestamp,
    deleting: bool,
    now: Timestamp,
}

impl ConditionSet {
    /// The object's conditions, completed: a missing root or dependent is added as `Unknown` (API-116).
    pub fn of<K: Resource + Conditioned>(self, object: &mut K, now: Timestamp) -> Conditions<'_> {
        let ObjectMeta { generation, creation_timestamp, deletion_timestamp, .. } = object.meta();
        let (generation, deleting) = (generation.unwrap_or(0), deletion_timestamp.is_some());
        // Only an object that was never stored lacks the time; for it, it begins now.
        let created = creation_timestamp.as_ref().map_or(now, |time| time.0);
        let list = object.conditions_mut();
        let mut conditions = Conditions { set: self, list, generation, created, deleting, now };
        conditions.add_missing();
        conditions
    }

    fn contains(self, type_: &str) -> bool {
        type_ == self.root || self.dependents.contains(&type_)
    }
}

impl Conditions<'_> {
    pub fn get(&self, type_: &str) -> Option<&Condition> {
        self.list.iter().find(|condition| condition.type_ == type_)
    }

    /// True, with the type as reason and no message (API-122).
    pub fn set_true(&mut self, type_: &str) -> bool {
        self.set(type_, ConditionStatus::True, type_, "")
    }

    pub fn set_false(&mut self, type_: &str, reason: &str, message: &str) -> bool {
        self.set(type_, ConditionStatus::False, reason, message)
    }

    pub fn set_unknown(&mut self, type_: &str, reason: &str, message: &str) -> bool {
        self.set(type_, ConditionStatus::Unknown, reason, message)
    }

    /// Sets a condition and, when that changed anything, the root. Returns whether it did (API-117 … API-121).
    pub fn set(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) -> bool {
        let changed = self.store(type_, status, reason, message);
        if changed && type_ != self.set.root {
            let (status, reason, message) = self.root_verdict();
            self.store(self.set.root, status, reason, &message);
        }
        changed
    }

    /// Removes a condition and sorts the rest by type. Root and dependents stay; returns whether one went (API-123).
    pub fn remove(&mut self, type_: &str) -> bool {
        if self.set.contains(type_) || self.get(type_).is_none() {
            return false;
        }
        self.list.retain(|condition| condition.type_ != type_);
        self.list.sort_by(|a, b| a.type_.cmp(&b.type_));
        true
    }

    fn add_missing(&mut self) {
        let set = self.set;
        for type_ in std::iter::once(set.root).chain(set.dependents.iter().copied()) {
            if self.get(type_).is_none() {
                self.set_unknown(type_, reasons::AWAITING_RECONCILIATION, messages::AWAITING_RECONCILIATION);
            }
        }
    }

    fn store(&mut self, type_: &str, status: ConditionStatus, reason: &str, message: &str) -> bool {
        let stored = self.get(type_);
        let since = match stored {
            Some(old) if old.status == status => old.last_transition_time.0,
            None if self.set.contains(type_) => self.created,
            _ => self.now,
        };
        let new = Condition {
            type_: type_.to_owned(),
            status,
            // Zero is what an absent member means; it is not written.
            observed_generation: (self.generation != 0).then_some(self.generation),
            last_transition_time: Time(since),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        if stored == Some(&new) {
            return false;
        }
        self.list.retain(|condition| condition.type_ != type_);
        if self.deleting {
            for other in self.list.iter_mut() {
                other.observed_generation = new.observed_generation;
            }
        }
        self.list.push(new);
        let root = self.set.root;
        self.list.sort_by_key(|condition| (condition.type_ == root, condition.last_transition_time.0));
        true
    }

    fn root_verdict(&self) -> (ConditionStatus, &'static str, String) {
        let is_current = |condition: &Condition| condition.observed_generation.unwrap_or(0) == self.generation;
        let dependents = self.list.iter().filter(|condition| self.set.dependents.contains(&condition.type_.as_str()));
        let mut unhealthy: Vec<_> = dependents.filter(|c| !c.is_true() || !is_current(c)).collect();
        if unhealthy.is_empty() {
            return (ConditionStatus::True, self.set.root, String::new());
        }
        unhealthy.sort_by_key(|condition| std::cmp::Reverse(condition.last_transition_time.0));
        let parts: Vec<_> = unhealthy.iter().map(|c| format!("{}={}", c.type_, c.status)).collect();
        let (status, reason) = if unhealthy.iter().any(|c| c.is_false() && is_current(c)) {
            (ConditionStatus::False, reasons::UNHEALTHY_DEPENDENTS)
        } else {
            (ConditionStatus::Unknown, reasons::RECONCILING_DEPENDENTS)
        };
        (status, reason, parts.join(", "))
    }
}

#[cfg(test)]
mod tests;
