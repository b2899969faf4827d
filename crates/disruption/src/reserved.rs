//! Whether a node that goes could be bought again, where capacity is reserved (V15-74 … V15-79).

use std::collections::BTreeSet;

use karpenter_model::claim::ConditionView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pool::PoolView;
use karpenter_model::requirements::Undefined;
use karpenter_model::snapshot::{ExistingNode, Snapshot};

/// Why a node goes before its replacement comes; the label `terminate_first_reason` (V15-18).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TerminateFirst {
    NoReservedCapacity,
    StaticAtLimit,
}

impl TerminateFirst {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoReservedCapacity => "no-reserved-capacity",
            Self::StaticAtLimit => "static-at-limit",
        }
    }
}

/// What a static pool's template could be bought as now (V15-78).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Supply {
    /// Something that is not reserved, even if it cannot be had for a while, or a reservation with room.
    Open,
    /// Only reservations, and all of them are full: a node goes first if its own reservation is still offered.
    Full { offered: BTreeSet<String> },
    /// The template fits nothing at all: its author has to hear that, and not that something is full (Z35).
    Nothing,
}

pub fn supply(pool: &PoolView, types: &[InstanceType], rules: &LabelRules) -> Supply {
    let undefined = Undefined::WellKnownAllowed(rules);
    let mut offered = BTreeSet::new();
    let mut any = false;
    for known in types.iter().filter(|known| pool.requirements.is_compatible(&known.requirements, undefined)) {
        for offering in known.offerings.iter().filter(|offering| offering.is_compatible(&pool.requirements, rules)) {
            any = true;
            let reserved = offering.capacity_type() == Some(labels::CAPACITY_TYPE_RESERVED);
            if !reserved || offering.is_launchable() {
                return Supply::Open;
            }
            offered.extend(offering.reservation(rules).filter(|_| offering.available).map(ToOwned::to_owned));
        }
    }
    if any { Supply::Full { offered } } else { Supply::Nothing }
}

/// The reservation that a node's instance is taken from.
pub fn reservation<'a>(node: &'a ExistingNode, rules: &LabelRules) -> Option<&'a str> {
    let label = |key: &str| node.labels().get(key).map(String::as_str);
    let reserved = label(labels::CAPACITY_TYPE) == Some(labels::CAPACITY_TYPE_RESERVED);
    rules.reservation_key().filter(|_| reserved).and_then(label)
}

/// How many instances come back to a reservation once the node and those that are going already are gone: their pods look
/// for a place too, so each of them needs its own (Z18). One whose instance is being terminated may be back already.
pub fn freed(snapshot: &Snapshot, id: &str, rules: &LabelRules) -> u32 {
    let comes_back = |node: &&ExistingNode| {
        let ending = node.claim.as_ref().and_then(|claim| claim.instance_terminating);
        node.is_going() && !ending.is_some_and(ConditionView::is_true) && reservation(node, rules) == Some(id)
    };
    let going = snapshot.nodes.iter().filter(comes_back).count();
    u32::try_from(going).unwrap_or(u32::MAX).saturating_add(1)
}
