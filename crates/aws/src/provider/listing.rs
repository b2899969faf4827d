//! What EC2 sells to a class, kept as long as nothing changes that it depends on (§3.8).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_model::instance_type::{InstanceType, Offering, Price};
use karpenter_model::labels;
use karpenter_model::pool::PoolView;
use karpenter_platform::{CallError, InstanceTypesError};

use super::facts::{Facts, disks_key, images_key, key};
use super::{AwsProvider, GroupError, OfferingRow, TypeRow};
use crate::class::NodeClass;
use crate::instance_types::catalogue::NoListing;
use crate::instance_types::offerings::Market;
use crate::instance_types::{Evaluated, PlacementGroup, expression_texts};

/// However little changes, a list is made anew after this time.
const KEPT: SignedDuration = SignedDuration::from_mins(5);

/// What types without offerings depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    class: u64,
    catalogue: u64,
    discovered: u64,
}

/// What the offerings of all types depend on.
#[derive(Debug, Clone, PartialEq)]
struct MarketState {
    prices: u64,
    shifted_zones: BTreeSet<String>,
    overlay_prices: Option<BTreeMap<String, Price>>,
}

/// What the offerings of one type depend on besides: refusals, and what is left of its reservations.
type TypeState = (u64, Vec<u32>);

/// The list of a class, with what it was made from.
#[derive(Debug)]
pub(super) struct Listing {
    shape: Shape,
    market: MarketState,
    made: Timestamp,
    states: Vec<TypeState>,
    types: Arc<Vec<InstanceType>>,
}

/// Why a class has no list.
#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    #[error(transparent)]
    Nothing(#[from] NoListing),
    #[error(transparent)]
    Group(#[from] GroupError),
}

impl AwsProvider {
    pub(super) async fn types_of_pool(&self, pool: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        let name = &pool.node_class.name;
        let Some(object) = self.living_object(name) else {
            self.reports.notice(super::Notice::NoClassForPool(&pool.name));
            return Err(InstanceTypesError::NodeClassNotReady(format!("EC2NodeClass {name} is not there")));
        };
        let class = NodeClass::read(&object)
            .map_err(|error| InstanceTypesError::NodeClassNotReady(format!("EC2NodeClass {name}: {error}")))?;
        let listed = self.types_of_class(&class).await;
        listed.map_err(|error| CallError::new("instance types", error).into())
    }

    /// Every type as the class sees it, ready or not.
    pub async fn types_of_class(&self, class: &NodeClass) -> Result<Arc<Vec<InstanceType>>, ListingError> {
        let group = self.placement_group(class).await?;
        Ok(self.listing(class, group.as_ref())?)
    }

    /// The same list as long as it says the same.
    pub(super) fn listing(
        &self,
        class: &NodeClass,
        group: Option<&PlacementGroup>,
    ) -> Result<Arc<Vec<InstanceType>>, NoListing> {
        let now = self.now();
        let mut facts = self.facts();
        facts.unavailable.sweep(now);
        let programs = facts.expressions.compiled(expression_texts(class).into_iter(), now);
        let ids = class.subnets().iter().filter_map(|subnet| Some((subnet.zone.clone(), subnet.zone_id.clone()?)));
        facts.zone_ids.extend(ids);
        let shape = Shape {
            class: shape_key(class, group),
            catalogue: facts.catalogue_version,
            discovered: facts.discovered_version,
        };
        let market = MarketState {
            prices: facts.prices_version,
            shifted_zones: facts.shifted.now(now),
            overlay_prices: facts.overlay_prices.clone(),
        };
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        let known =
            listings.get(&class.name).filter(|known| known.shape == shape && now.duration_since(known.made) < KEPT);
        let listing = if let Some(known) = known {
            let states = type_states(&facts, class, &known.types, now);
            if known.market == market && known.states == states {
                return Ok(known.types.clone());
            }
            let sold = |(at, one): (usize, &InstanceType)| {
                let mut one = one.clone();
                if known.market != market || known.states[at] != states[at] {
                    one.offerings = self.offerings(&facts, &one.name, class, group, &market, now);
                }
                one
            };
            let types = known.types.iter().enumerate().map(sold).collect();
            Listing { shape, made: known.made, market, states, types: Arc::new(types) }
        } else {
            let (images, disks) = (images_key(class), disks_key(class));
            let observed = |name: &str| (facts.memory.get(name, images, now), facts.attachments.get(name, disks, now));
            let programs = self.settings.kubelet_expressions.then_some(&programs);
            let mut types = facts.catalogue.resolved(class, &self.settings.sizing, group, &observed, programs)?;
            for one in &mut types {
                one.offerings = self.offerings(&facts, &one.name, class, group, &market, now);
            }
            let states = type_states(&facts, class, &types, now);
            Listing { shape, made: now, market, states, types: Arc::new(types) }
        };
        let types = listing.types.clone();
        listings.insert(class.name.clone(), listing);
        Ok(types)
    }

    fn offerings(
        &self,
        facts: &Facts,
        name: &str,
        class: &NodeClass,
        group: Option<&PlacementGroup>,
        state: &MarketState,
        now: Timestamp,
    ) -> Vec<Offering> {
        let market = Market {
            zones: facts.catalogue.zones(),
            prices: &facts.prices,
            overlay_prices: state.overlay_prices.as_ref(),
            unavailable: &facts.unavailable,
            shifted_zones: &state.shifted_zones,
            reservations: self.settings.reserved_capacity.then_some(&facts.reservations),
            now,
        };
        facts.catalogue.offerings(name, class, &self.settings.sizing, group, &market)
    }

    /// What expressions in the class come to for these types (AWS-101).
    pub fn evaluated(&self, class: &NodeClass, types: &[InstanceType]) -> BTreeMap<String, Evaluated> {
        if !self.settings.kubelet_expressions || !class.kubelet.has_expressions() {
            return BTreeMap::new();
        }
        let now = self.now();
        let mut facts = self.facts();
        let programs = facts.expressions.compiled(expression_texts(class).into_iter(), now);
        facts.catalogue.evaluated(class, &self.settings.sizing, &programs, types)
    }

    /// Whether they hold for every type there is (AWS-99).
    pub fn expressions_hold(&self, class: &NodeClass) -> Option<Result<(), String>> {
        let now = self.now();
        let mut facts = self.facts();
        let programs = facts.expressions.compiled(expression_texts(class).into_iter(), now);
        facts.catalogue.expressions_hold(class, &self.settings.sizing, &programs)
    }

    /// Rows of the metrics of types, by name.
    pub fn type_rows(&self) -> Vec<TypeRow> {
        let facts = self.facts();
        let row = |info: &crate::cloud::InstanceTypeInfo| TypeRow {
            instance_type: info.name.clone(),
            cores: info.vcpus,
            memory_bytes: info.memory_mib.saturating_mul(1 << 20),
        };
        facts.catalogue.types().iter().map(row).collect()
    }

    /// Rows of the metrics of offerings: available if any pool could have it, at the price that was seen last. A pool
    /// without a list is left out; a type that nobody sells any more has no row (AWS-236).
    pub async fn offering_rows(&self, pools: &[PoolView]) -> Vec<OfferingRow> {
        let mut lists = Vec::new();
        for pool in pools {
            lists.extend(self.types_of_pool(pool).await.ok());
        }
        offering_rows(&lists, self.settings.reserved_capacity)
    }
}

fn offering_rows(lists: &[Arc<Vec<InstanceType>>], reserved_capacity: bool) -> Vec<OfferingRow> {
    let mut rows: BTreeMap<(String, String, String), (bool, f64)> = BTreeMap::new();
    for one in lists.iter().flat_map(|list| list.iter()) {
        for offering in &one.offerings {
            let (Some(zone), Some(capacity_type)) = (offering.zone(), offering.capacity_type()) else { continue };
            let key = |kind: &str| (one.name.clone(), kind.to_owned(), zone.to_owned());
            let row = rows.entry(key(capacity_type)).or_default();
            row.0 |= offering.is_launchable();
            row.1 = offering.price.per_hour();
            if reserved_capacity {
                rows.entry(key(labels::CAPACITY_TYPE_RESERVED)).or_default();
            }
        }
    }
    let row = |((instance_type, capacity_type, zone), (available, price_per_hour))| OfferingRow {
        instance_type,
        capacity_type,
        zone,
        available,
        price_per_hour,
    };
    rows.into_iter().map(row).collect()
}

/// Everything of the class that its list depends on (§3.8).
fn shape_key(class: &NodeClass, group: Option<&PlacementGroup>) -> u64 {
    let (spec, status) = (&class.spec, &class.status);
    let resolved = (&status.amis, &status.subnets, &status.capacity_reservations);
    let disks = (&spec.block_device_mappings, &spec.instance_store_policy);
    let network = (&spec.network_interfaces, &spec.connection_tracking);
    let group = group.map(|group| (&group.id, &group.strategy, group.partitions));
    key(&(&class.uid, class.family.as_str(), resolved, &spec.kubelet, disks, network, &spec.cpu_options, group))
}

fn type_states(facts: &Facts, class: &NodeClass, types: &[InstanceType], now: Timestamp) -> Vec<TypeState> {
    let mut left: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for one in class.status.capacity_reservations.iter().flatten() {
        left.entry(&one.instance_type).or_default().push(facts.reservations.available(&one.id, now));
    }
    let state = |one: &InstanceType| {
        let left = left.get(one.name.as_str()).cloned().unwrap_or_default();
        (facts.unavailable.sequence(&one.name), left)
    };
    types.iter().map(state).collect()
}
