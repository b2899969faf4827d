//! Subnets: selection, order and which one a launch uses (§2.4).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use karpenter_api::kinds::ec2nodeclass::{Subnet, SubnetSelectorTerm};
use karpenter_model::instance_type::InstanceType;
use karpenter_model::resources::PODS;

use super::tag_filters;
use crate::cloud::{Filter, SubnetInfo};

/// One query per term of tags, and one for all ids (AWS-60). Of a term with both, the id counts.
pub fn subnet_queries(terms: &[SubnetSelectorTerm]) -> Vec<Vec<Filter>> {
    let ids: Vec<&str> = terms.iter().filter_map(|term| term.id.as_deref()).collect();
    let by_id = (!ids.is_empty()).then(|| vec![Filter::new("subnet-id", ids)]);
    let tags = terms.iter().filter(|term| term.id.is_none()).filter_map(|term| term.tags.as_ref());
    tags.map(tag_filters).chain(by_id).collect()
}

/// Each once, those with the most free addresses first.
pub fn selected_subnets(found: impl IntoIterator<Item = SubnetInfo>) -> Vec<SubnetInfo> {
    let by_id: BTreeMap<String, SubnetInfo> = found.into_iter().map(|one| (one.id.clone(), one)).collect();
    let mut all: Vec<SubnetInfo> = by_id.into_values().collect();
    // Stable, so equal ones stay in the order of their ids.
    all.sort_by_key(|one| std::cmp::Reverse(one.free_addresses));
    all
}

pub fn subnet_status(selected: &[SubnetInfo]) -> Vec<Subnet> {
    let status = |one: &SubnetInfo| Subnet { id: one.id.clone(), zone: one.zone.clone(), zone_id: one.zone_id.clone() };
    selected.iter().map(status).collect()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    free: i64,
    until: Timestamp,
}

/// How many addresses are left in each subnet: what EC2 said, and what launches since will take (AWS-61 … AWS-66).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FreeAddresses {
    known: BTreeMap<String, Known>,
    in_flight: BTreeMap<String, i64>,
}

/// The subnet to use in a zone, and what the launch was taken to need of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZonalSubnet {
    pub id: String,
    predicted: i64,
    known_before: Option<i64>,
}

impl FreeAddresses {
    /// EC2 has answered: its counts are better than our guesses.
    pub fn refreshed(&mut self, answer: &[SubnetInfo], refresh_interval: SignedDuration, now: Timestamp) {
        let kept = SignedDuration::from_mins(5).max(refresh_interval + SignedDuration::from_mins(4));
        let until = now.saturating_add(kept).unwrap_or(Timestamp::MAX);
        for subnet in answer {
            self.known.insert(subnet.id.clone(), Known { free: subnet.free_addresses, until });
            self.in_flight.remove(&subnet.id);
        }
    }

    fn known(&self, id: &str, now: Timestamp) -> Option<i64> {
        self.known.get(id).filter(|known| now < known.until).map(|known| known.free)
    }

    fn free(&self, id: &str, now: Timestamp) -> i64 {
        self.in_flight.get(id).copied().or_else(|| self.known(id, now)).unwrap_or_default()
    }

    /// For each zone the subnet with the most free addresses; equal ones in the order of the status. What the launch will
    /// take is deducted at once, because the next one comes before EC2 has counted it.
    pub fn take(
        &mut self,
        subnets: &[Subnet],
        types: &[InstanceType],
        capacity_type: &str,
        now: Timestamp,
    ) -> BTreeMap<String, ZonalSubnet> {
        let mut best: BTreeMap<&str, (&str, i64)> = BTreeMap::new();
        for subnet in subnets {
            let free = self.free(&subnet.id, now);
            match best.get(subnet.zone.as_str()) {
                Some((_, most)) if *most >= free => {}
                _ => drop(best.insert(&subnet.zone, (&subnet.id, free))),
            }
        }
        let taken = best.into_iter().map(|(zone, (id, free))| {
            let predicted = predicted_use(types, zone, capacity_type);
            let known_before = self.known(id, now);
            self.in_flight.insert(id.to_owned(), free - predicted);
            (zone.to_owned(), ZonalSubnet { id: id.to_owned(), predicted, known_before })
        });
        taken.collect()
    }

    /// The fleet has answered: what was deducted from subnets that it did not use comes back, unless EC2 has counted them
    /// since (AWS-65).
    pub fn settle(&mut self, taken: &BTreeMap<String, ZonalSubnet>, used: &BTreeSet<String>, now: Timestamp) {
        for subnet in taken.values().filter(|subnet| !used.contains(&subnet.id)) {
            let unchanged = self.known(&subnet.id, now) == subnet.known_before;
            if let Some(free) = self.in_flight.get_mut(&subnet.id).filter(|_| unchanged) {
                *free += subnet.predicted;
            }
        }
    }

    /// EC2 says that none are left.
    pub fn exhausted(&mut self, id: &str, now: Timestamp) {
        let until = now.saturating_add(SignedDuration::from_mins(5)).unwrap_or(Timestamp::MAX);
        self.known.insert(id.to_owned(), Known { free: 0, until });
        self.in_flight.remove(id);
    }
}

/// The fewest pods of any type that could be launched there: each takes an address (AWS-64).
fn predicted_use(types: &[InstanceType], zone: &str, capacity_type: &str) -> i64 {
    let sold = |known: &&InstanceType| {
        known
            .offerings
            .iter()
            .any(|one| one.is_launchable() && one.zone() == Some(zone) && one.capacity_type() == Some(capacity_type))
    };
    types.iter().filter(sold).map(|known| known.capacity.amount(PODS).value()).min().unwrap_or_default()
}
