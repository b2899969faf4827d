//! Whether a class can use a type at all (AWS-136).

use super::PlacementGroup;
use crate::class::NodeClass;
use crate::cloud::InstanceTypeInfo;
use crate::family::AmiFamily;

/// Why a type is listed but never on offer to a class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    #[error("AL2023 does not support the a1 family")]
    Image,
    #[error("network interfaces are not supported: {0}")]
    Interfaces(&'static str),
    #[error("nested virtualization is not supported")]
    NestedVirtualization,
    #[error("placement strategy {0} is not supported")]
    PlacementStrategy(String),
    #[error("connection tracking needs the nitro hypervisor")]
    ConnectionTracking,
}

pub fn unusable(info: &InstanceTypeInfo, class: &NodeClass, group: Option<&PlacementGroup>) -> Option<Unusable> {
    if class.family == AmiFamily::Al2023 && info.name.starts_with("a1.") {
        return Some(Unusable::Image);
    }
    if let Some(why) = unusable_interfaces(info, class) {
        return Some(Unusable::Interfaces(why));
    }
    let nested = class.spec.cpu_options.as_ref().and_then(|options| options.nested_virtualization.as_deref());
    let features = info.processor.as_ref().map(|processor| &processor.features[..]).unwrap_or_default();
    if nested == Some("enabled") && !features.iter().any(|feature| feature == "nested-virtualization") {
        return Some(Unusable::NestedVirtualization);
    }
    if let Some(group) = group
        && !info.placement_strategies.contains(&group.strategy)
    {
        return Some(Unusable::PlacementStrategy(group.strategy.clone()));
    }
    (class.spec.connection_tracking.is_some() && !info.is_nitro()).then_some(Unusable::ConnectionTracking)
}

fn unusable_interfaces(info: &InstanceTypeInfo, class: &NodeClass) -> Option<&'static str> {
    let interfaces = class.interfaces();
    if interfaces.is_empty() {
        return None;
    }
    if !matches!(info.network.ena.as_deref(), Some("required" | "supported")) {
        return Some("it has no ENA");
    }
    for interface in interfaces {
        let card = info.network.cards.iter().find(|card| card.index == interface.network_card_index);
        match card {
            None => return Some("it has too few network cards"),
            Some(card) if i64::from(interface.device_index) >= card.maximum_interfaces => {
                return Some("a network card takes too few of them");
            }
            Some(_) => {}
        }
    }
    let efa = i64::try_from(class.efa_only_interfaces().count()).unwrap_or(i64::MAX);
    (efa > info.network.maximum_efa).then_some("it takes too few EFA interfaces")
}
