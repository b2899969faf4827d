//! All types of a region, as of EC2's last answers (AWS-112 … AWS-116).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::instance_type::{InstanceType, Offering};
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::PODS;

use super::evaluated::{Evaluated, Programs, evaluated, failing_expression};
use super::offerings::{Market, offerings_of};
use super::{PlacementGroup, Sizing, TypeFacts, resolve};
use crate::class::{ClassError, NodeClass};
use crate::cloud::{Filter, InstanceTypeInfo, TypeOffering};
use crate::expressions::on_a_large_stack;

/// The types that nodes can be made of.
pub fn type_filters() -> Vec<Filter> {
    vec![
        Filter::new("supported-virtualization-type", ["hvm"]),
        Filter::new("processor-info.supported-architecture", ["x86_64", "arm64"]),
    ]
}

/// Why there is no list, instead of an empty one that would look as if nothing were sold (AWS-115).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoListing {
    #[error("no instance types are known")]
    Types,
    #[error("no zones of instance types are known")]
    Offerings,
    #[error("the node class has no subnets")]
    Subnets,
    /// Defaults instead of what an expression says would make nodes that nobody asked for.
    #[error(transparent)]
    MaxPods(ClassError),
    #[error("{0}")]
    NotEvaluated(String),
}

/// What nodes were seen to have, by type: memory and volumes.
pub type Observed<'a> = dyn Fn(&str) -> (Option<Quantity>, Option<u32>) + Sync + 'a;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Catalogue {
    types: Vec<InstanceTypeInfo>,
    zones: BTreeMap<String, BTreeSet<String>>,
    /// All of them.
    everywhere: BTreeSet<String>,
}

impl Catalogue {
    /// Whether that changes anything, so that lists made from it are out of date.
    pub fn types_answered(&mut self, mut types: Vec<InstanceTypeInfo>) -> bool {
        types.sort_by(|a, b| a.name.cmp(&b.name));
        let changed = types != self.types;
        self.types = types;
        changed
    }

    pub fn offerings_answered(&mut self, offerings: Vec<TypeOffering>) -> bool {
        let mut zones: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for TypeOffering { instance_type, zone } in offerings {
            zones.entry(instance_type).or_default().insert(zone);
        }
        let changed = zones != self.zones;
        self.everywhere = zones.values().flatten().cloned().collect();
        self.zones = zones;
        changed
    }

    /// Every zone that sells anything.
    pub fn zones(&self) -> &BTreeSet<String> {
        &self.everywhere
    }

    pub fn get(&self, name: &str) -> Option<&InstanceTypeInfo> {
        self.types.binary_search_by(|known| known.name.as_str().cmp(name)).ok().map(|at| &self.types[at])
    }

    /// Every type, whether or not it can be had; one that cannot be made sense of is left out.
    pub fn listing(
        &self,
        class: &NodeClass,
        sizing: &Sizing,
        placement_group: Option<&PlacementGroup>,
        market: &Market<'_>,
        observed: &Observed<'_>,
    ) -> Result<Vec<InstanceType>, NoListing> {
        let types = self.resolved(class, sizing, placement_group, observed, None)?;
        let sold = |known: InstanceType| InstanceType {
            offerings: self.offerings(&known.name, class, sizing, placement_group, market),
            ..known
        };
        Ok(types.into_iter().map(sold).collect())
    }

    /// The same without offerings, which change more often.
    pub fn resolved(
        &self,
        class: &NodeClass,
        sizing: &Sizing,
        placement_group: Option<&PlacementGroup>,
        observed: &Observed<'_>,
        expressions: Option<&Programs>,
    ) -> Result<Vec<InstanceType>, NoListing> {
        if self.types.is_empty() {
            return Err(NoListing::Types);
        }
        if self.zones.is_empty() {
            return Err(NoListing::Offerings);
        }
        if class.subnets().is_empty() {
            return Err(NoListing::Subnets);
        }
        let resolved = || self.all_resolved(class, sizing, placement_group, observed, expressions);
        if expressions.is_some() && class.kubelet.has_expressions() {
            return on_a_large_stack(resolved).map_err(NoListing::NotEvaluated)?;
        }
        resolved()
    }

    fn all_resolved(
        &self,
        class: &NodeClass,
        sizing: &Sizing,
        placement_group: Option<&PlacementGroup>,
        observed: &Observed<'_>,
        expressions: Option<&Programs>,
    ) -> Result<Vec<InstanceType>, NoListing> {
        let nowhere = BTreeSet::new();
        let resolved = self.types.iter().filter_map(|info| {
            let (observed_memory, observed_attachments) = observed(&info.name);
            let zones = self.zones.get(&info.name).unwrap_or(&nowhere);
            let facts =
                TypeFacts { class, sizing, placement_group, zones, observed_memory, observed_attachments, expressions };
            match resolve(info, &facts) {
                Ok(known) => Some(Ok(known)),
                Err(error @ ClassError::MaxPods { .. }) => Some(Err(NoListing::MaxPods(error))),
                Err(_) => None,
            }
        });
        resolved.collect()
    }

    /// What the class's expressions come to for these types, by name; only those that say anything.
    pub fn evaluated(
        &self,
        class: &NodeClass,
        sizing: &Sizing,
        programs: &Programs,
        types: &[InstanceType],
    ) -> BTreeMap<String, Evaluated> {
        let zones = BTreeSet::new();
        let facts = expression_facts(class, sizing, &zones, programs);
        let all = on_a_large_stack(|| {
            let evaluated = types.iter().filter_map(|known| {
                let pods = known.capacity.amount(PODS).value();
                Some((known.name.clone(), evaluated(self.get(&known.name)?, &facts, pods)))
            });
            evaluated.filter(|(_, evaluated)| *evaluated != Evaluated::default()).collect()
        });
        // As any expression that fails: the amounts are left out.
        all.unwrap_or_default()
    }

    /// Whether the class's expressions hold for every type; nothing is said while no type is known (AWS-99).
    pub fn expressions_hold(
        &self,
        class: &NodeClass,
        sizing: &Sizing,
        programs: &Programs,
    ) -> Option<Result<(), String>> {
        let zones = BTreeSet::new();
        let facts = expression_facts(class, sizing, &zones, programs);
        let failing = on_a_large_stack(|| self.types.iter().find_map(|info| failing_expression(info, &facts)));
        let failing = failing.unwrap_or_else(Some);
        (!self.types.is_empty()).then(|| failing.map_or(Ok(()), Err))
    }

    /// How one of the types can be bought; not at all if it is none of them.
    pub fn offerings(
        &self,
        name: &str,
        class: &NodeClass,
        sizing: &Sizing,
        placement_group: Option<&PlacementGroup>,
        market: &Market<'_>,
    ) -> Vec<Offering> {
        let Some(info) = self.get(name) else { return Vec::new() };
        let nowhere = BTreeSet::new();
        let zones = self.zones.get(name).unwrap_or(&nowhere);
        let (observed_memory, observed_attachments, expressions) = (None, None, None);
        let facts =
            TypeFacts { class, sizing, placement_group, zones, observed_memory, observed_attachments, expressions };
        offerings_of(info, &facts, market)
    }

    pub fn types(&self) -> &[InstanceTypeInfo] {
        &self.types
    }
}

/// Expressions ask neither for zones nor for what was observed.
fn expression_facts<'a>(
    class: &'a NodeClass,
    sizing: &'a Sizing,
    zones: &'a BTreeSet<String>,
    programs: &'a Programs,
) -> TypeFacts<'a> {
    TypeFacts {
        class,
        sizing,
        placement_group: None,
        zones,
        observed_memory: None,
        observed_attachments: None,
        expressions: Some(programs),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;
    use crate::fixtures::{class, class_with, sizing, type_info};
    use crate::pricing::PriceBook;
    use crate::unavailable::Unavailable;

    fn offering(instance_type: &str, zone: &str) -> TypeOffering {
        TypeOffering { instance_type: instance_type.to_owned(), zone: zone.to_owned() }
    }

    fn listed(catalogue: &Catalogue, class: &NodeClass) -> Result<Vec<(String, usize)>, NoListing> {
        let (zones, prices, unavailable, shifted) =
            (catalogue.zones(), PriceBook::built_in("us-east-1"), Unavailable::default(), BTreeSet::new());
        let market = Market {
            zones,
            prices: &prices,
            overlay_prices: None,
            unavailable: &unavailable,
            shifted_zones: &shifted,
            reservations: None,
            now: Timestamp::UNIX_EPOCH,
        };
        let types = catalogue.listing(class, &sizing(), None, &market, &|_| (None, None))?;
        let available = |known: &InstanceType| known.offerings.iter().filter(|one| one.available).count();
        Ok(types.iter().map(|known| (known.name.clone(), available(known))).collect())
    }

    /// AWS-113, AWS-115, AWS-116: every type is listed, also those that cannot be had; no facts are no list.
    #[test]
    fn every_type_is_listed() {
        let class = class(&json!({}));
        let mut catalogue = Catalogue::default();
        assert_eq!(listed(&catalogue, &class), Err(NoListing::Types));
        assert!(catalogue.types_answered(["m5.large", "a1.medium", "c5.large"].map(type_info).to_vec()));
        assert_eq!(listed(&catalogue, &class), Err(NoListing::Offerings));
        let offerings = || {
            vec![
                offering("m5.large", "test-zone-1a"),
                offering("m5.large", "test-zone-1a-local"),
                offering("a1.medium", "test-zone-1b"),
            ]
        };
        assert!(catalogue.offerings_answered(offerings()));
        assert_eq!(catalogue.zones().len(), 3, "local zones, too");
        let row = |name: &str, available: usize| (name.to_owned(), available);
        let want = [row("a1.medium", 0), row("c5.large", 0), row("m5.large", 2)];
        assert_eq!(listed(&catalogue, &class).unwrap(), want, "incompatible, sold nowhere, sold in one of our zones");
        assert_eq!(listed(&catalogue, &class_with(&json!({}), &json!({"subnets": []}))), Err(NoListing::Subnets));
        assert!(catalogue.get("m5.large").is_some() && catalogue.get("nothing").is_none());

        // AWS-114: only what changes something makes lists old.
        assert!(!catalogue.offerings_answered(offerings()));
        assert!(!catalogue.types_answered(["c5.large", "m5.large", "a1.medium"].map(type_info).to_vec()));
        assert!(catalogue.types_answered(vec![type_info("m5.large")]));
    }

    /// AWS-112: what is asked for.
    #[test]
    fn filters() {
        let text: Vec<String> =
            type_filters().iter().map(|one| format!("{}={}", one.name, one.values.join(","))).collect();
        assert_eq!(text, ["supported-virtualization-type=hvm", "processor-info.supported-architecture=x86_64,arm64"]);
    }
}
