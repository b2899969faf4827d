//! What the provider knows, and how others tell it what they found out.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use karpenter_model::instance_type::Price;
use karpenter_model::quantity::Quantity;

use super::AwsProvider;
use super::attempts::Attempts;
use super::groups::Groups;
use crate::class::NodeClass;
use crate::cloud::{InstanceInfo, ReservationInfo, SubnetInfo};
use crate::expressions;
use crate::fnv;
use crate::instance_types::catalogue::Catalogue;
use crate::instance_types::{DiscoveredAttachments, DiscoveredMemory};
use crate::pricing::PriceBook;
use crate::reboot::AcceptedReboots;
use crate::reservations::ReservationCounts;
use crate::selection::subnets::FreeAddresses;
use crate::unavailable::Unavailable;
use crate::zonal_shift::{ShiftInfo, ShiftedZones};

/// EC2 may take this long to show an instance that it has just launched.
const SHOWN_WITHIN: SignedDuration = SignedDuration::from_mins(1);

/// An instance as it was last seen.
#[derive(Debug, Clone)]
pub(super) struct Remembered {
    pub(super) info: InstanceInfo,
    /// Launched by this process, and not shown by EC2 yet.
    unseen_until: Option<Timestamp>,
}

#[derive(Debug)]
pub(super) struct Facts {
    pub(super) catalogue: Catalogue,
    /// Moves with the catalogue.
    pub(super) catalogue_version: u64,
    pub(super) prices: PriceBook,
    pub(super) prices_version: u64,
    /// By type; `None` while overlays are off (AWS-135).
    pub(super) overlay_prices: Option<BTreeMap<String, Price>>,
    pub(super) unavailable: Unavailable,
    pub(super) reservations: ReservationCounts,
    pub(super) shifted: ShiftedZones,
    pub(super) addresses: FreeAddresses,
    pub(super) memory: DiscoveredMemory,
    pub(super) attachments: DiscoveredAttachments,
    /// Moves with either of the two.
    pub(super) discovered_version: u64,
    /// Of classes, compiled (AWS-100).
    pub(super) expressions: expressions::Cache,
    pub(super) groups: Groups,
    pub(super) attempts: Attempts,
    pub(super) reboots: AcceptedReboots,
    pub(super) service_cidr: Option<String>,
    /// Ids of zones by name, as subnets say.
    pub(super) zone_ids: BTreeMap<String, String>,
    /// When this process began to lead; it knows every launch since.
    pub(super) leading_since: Option<Timestamp>,
    instances: BTreeMap<String, Remembered>,
}

impl Facts {
    pub(super) fn new(region: &str) -> Self {
        Self {
            catalogue: Catalogue::default(),
            catalogue_version: 0,
            prices: PriceBook::built_in(region),
            prices_version: 0,
            overlay_prices: None,
            unavailable: Unavailable::default(),
            reservations: ReservationCounts::default(),
            shifted: ShiftedZones::default(),
            addresses: FreeAddresses::default(),
            memory: DiscoveredMemory::default(),
            attachments: DiscoveredAttachments::default(),
            discovered_version: 0,
            expressions: expressions::Cache::default(),
            groups: Groups::default(),
            attempts: Attempts::default(),
            reboots: AcceptedReboots::default(),
            service_cidr: None,
            zone_ids: BTreeMap::new(),
            leading_since: None,
            instances: BTreeMap::new(),
        }
    }

    pub(super) fn is_shifted(&self, zone: &str, now: Timestamp) -> bool {
        self.zone_ids.get(zone).is_some_and(|id| self.shifted.now(now).contains(id))
    }

    pub(super) fn instance(&self, id: &str) -> Option<&Remembered> {
        self.instances.get(id)
    }

    /// EC2 shows it.
    pub(super) fn seen(&mut self, info: &InstanceInfo) {
        self.instances.insert(info.id.clone(), Remembered { info: info.clone(), unseen_until: None });
    }

    /// It was just launched, and EC2 may not show it for a while.
    pub(super) fn launched(&mut self, info: InstanceInfo, now: Timestamp) {
        let until = now.saturating_add(SHOWN_WITHIN).unwrap_or(Timestamp::MAX);
        self.instances.insert(info.id.clone(), Remembered { info, unseen_until: Some(until) });
    }

    /// EC2 does not know it. `Some` while that only means that it does not know it yet.
    pub(super) fn not_shown(&mut self, id: &str, now: Timestamp) -> Option<InstanceInfo> {
        let young = |one: &&Remembered| one.unseen_until.is_some_and(|until| now < until);
        let early = self.instances.get(id).filter(young).map(|one| one.info.clone());
        if early.is_none() {
            self.instances.remove(id);
        }
        early
    }

    /// A listing has all there is: what is not in it is forgotten, but for what is too young to be shown and for zones that
    /// cannot be asked now (AWS-198).
    pub(super) fn all_seen(&mut self, infos: &[InstanceInfo], now: Timestamp) {
        let there: BTreeSet<&str> = infos.iter().map(|info| info.id.as_str()).collect();
        let shifted = self.shifted.now(now);
        let zone_ids = &self.zone_ids;
        self.instances.retain(|id, one| {
            let unreachable = zone_ids.get(&one.info.zone).is_some_and(|id| shifted.contains(id));
            there.contains(id.as_str()) || unreachable || one.unseen_until.is_some_and(|until| now < until)
        });
        for info in infos {
            self.seen(info);
        }
    }

    /// Launched by this process and not shown by EC2 so far.
    pub(super) fn unseen(&self, now: Timestamp) -> Vec<InstanceInfo> {
        let young = |one: &&Remembered| one.unseen_until.is_some_and(|until| now < until);
        self.instances.values().filter(young).map(|one| one.info.clone()).collect()
    }

    /// Termination was accepted.
    pub(super) fn ending(&mut self, id: &str) {
        if let Some(one) = self.instances.get_mut(id) {
            "shutting-down".clone_into(&mut one.info.state);
        }
    }
}

/// What a node was seen to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observation {
    /// AWS-120.
    Memory(Quantity),
    /// Volumes that the EBS driver attaches (AWS-313).
    Attachments(u32),
}

impl AwsProvider {
    /// Subnets as EC2 has just described them: zones, their ids and free addresses (AWS-62).
    pub fn subnets_described(&self, subnets: &[SubnetInfo]) {
        let now = self.now();
        let mut facts = self.facts();
        facts.addresses.refreshed(subnets, self.settings.subnet_refresh_interval, now);
        let ids = subnets.iter().filter_map(|subnet| Some((subnet.zone.clone(), subnet.zone_id.clone()?)));
        facts.zone_ids.extend(ids);
    }

    /// Reservations as EC2 has just described them: how much is left (AWS-77).
    pub fn reservations_described(&self, reservations: &[ReservationInfo]) {
        let now = self.now();
        let mut facts = self.facts();
        for one in reservations {
            facts.reservations.synced(&one.id, one.available, now);
        }
    }

    /// Prices that overlays give to types without one (AWS-135).
    pub fn overlay_prices_read(&self, prices: BTreeMap<String, Price>) {
        self.facts().overlay_prices = Some(prices);
    }

    /// What ARC has just said (AWS-226). Answers with the ids of zones that are shifted away from now.
    pub fn zonal_shifts_described(&self, shifts: &[ShiftInfo]) -> BTreeSet<String> {
        let now = self.now();
        let mut facts = self.facts();
        facts.shifted.answered(shifts);
        facts.shifted.now(now)
    }

    /// What a node of this class and type was seen to have; later lists go by it.
    pub fn observed(&self, class: &NodeClass, instance_type: &str, what: Observation) {
        let now = self.now();
        let mut facts = self.facts();
        let new = match what {
            Observation::Memory(memory) => facts.memory.observe(instance_type, images_key(class), memory, now),
            Observation::Attachments(limit) => facts.attachments.observe(instance_type, disks_key(class), limit, now),
        };
        facts.discovered_version += u64::from(new);
    }
}

/// What observed memory depends on besides the type: the images that the class has now.
pub(super) fn images_key(class: &NodeClass) -> u64 {
    key(&class.status.amis)
}

/// What observed volumes depend on besides the type: everything else that takes up slots.
pub(super) fn disks_key(class: &NodeClass) -> u64 {
    key(&(&class.spec.block_device_mappings, &class.spec.network_interfaces, class.family.as_str()))
}

/// Plain values with text keys always have a JSON form.
pub(super) fn key(value: &impl serde::Serialize) -> u64 {
    fnv::hash(&serde_json::to_vec(value).unwrap_or_default())
}
