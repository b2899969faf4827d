//! What a node is worth, and what emptying it costs its pods (DIS-72 … DIS-80, V15-89 … V15-91).

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::claim::ClaimView;
use karpenter_model::duration::NillableDuration;
use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodView;
use karpenter_model::requirements::Requirements;
use karpenter_model::snapshot::ExistingNode;

/// What taking any node away costs, whatever runs on it.
pub const PER_NODE: f64 = 1.0;

/// DIS-73: pods that nobody minds losing make nothing cheaper.
pub fn reschedule_cost(pods: &[Arc<PodView>]) -> f64 {
    let moved = pods.iter().filter(|pod| pod.is_reschedulable());
    PER_NODE + moved.map(|pod| pod.eviction_cost().max(0.0)).sum::<f64>()
}

/// No pod would have to find another place. Pods that nobody minds losing still have to (X12), so their number counts and
/// not their cost.
pub fn is_empty(pods: &[Arc<PodView>]) -> bool {
    !pods.iter().any(|pod| pod.is_reschedulable())
}

/// What the node costs per hour today, whether or not another one could be had (DIS-75); nothing when nobody knows.
pub fn price(node: &ExistingNode, instance_type: Option<&InstanceType>) -> Price {
    let label = |key: &str| node.labels().get(key).map(String::as_str);
    match (instance_type, label(labels::ZONE), label(labels::CAPACITY_TYPE)) {
        (Some(known), Some(zone), Some(kind)) => known.running_price(zone, kind).unwrap_or(Price::ZERO),
        _ => Price::ZERO,
    }
}

/// How much is saved per pod that has to move (DIS-76).
pub fn savings_ratio(price: Price, reschedule_cost: f64) -> f64 {
    price.per_hour() / reschedule_cost
}

/// The most saved per moved pod first; ties by name, so that equal clusters get equal commands (X22).
pub fn by_ratio(a: (f64, &str), b: (f64, &str)) -> Ordering {
    b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1))
}

/// The part of its allowed time that a claim still has, 1 when there is no end (DIS-77).
pub fn lifetime_remaining(claim: &ClaimView, now: Timestamp) -> f64 {
    let NillableDuration::After(whole) = claim.expire_after else { return 1.0 };
    let whole = whole.as_signed().as_secs_f64();
    let age = now.duration_since(claim.created_at).as_secs_f64();
    if whole <= 0.0 { 0.0 } else { ((whole - age) / whole).clamp(0.0, 1.0) }
}

/// What the first, cheapest type of a replacement would cost; nothing when it cannot be had (DIS-78, V15-83).
pub fn replacement_price(cheapest: Option<&InstanceType>, asked: &Requirements, rules: &LabelRules) -> Price {
    let offerings = cheapest.map(|known| known.launchable_offerings(asked, rules)).unwrap_or_default();
    offerings.first().map_or(Price::ZERO, |offering| offering.price)
}

/// DIS-78.
pub fn savings(sources: impl IntoIterator<Item = Price>, replacements: impl IntoIterator<Item = Price>) -> f64 {
    let sum = |prices: &mut dyn Iterator<Item = Price>| prices.map(Price::per_hour).sum::<f64>();
    sum(&mut sources.into_iter()) - sum(&mut replacements.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::SignedDuration;
    use karpenter_model::duration::GoDuration;
    use karpenter_model::example;
    use karpenter_model::pod::{PodOwner, PodPhase};

    fn pods(pods: impl IntoIterator<Item = PodView>) -> Vec<Arc<PodView>> {
        pods.into_iter().map(|pod| Arc::new(PodView { phase: PodPhase::Running, ..pod })).collect()
    }

    fn close(found: f64, want: f64) {
        assert!((found - want).abs() < 1e-6, "{found} instead of {want}");
    }

    /// DIS-73, DIS-76, V15-89, DC-66 … DC-70: a node's pods and what moving them costs.
    #[test]
    fn costs_of_nodes() {
        let plain = || example::pod("a");
        let costs = |disruption_cost| PodView { disruption_cost, ..plain() };
        close(reschedule_cost(&[]), 1.0);
        close(reschedule_cost(&pods([plain(), plain(), plain()])), 4.0);
        close(reschedule_cost(&pods([PodView { owner: PodOwner::DaemonSet, ..plain() }])), 1.0);
        close(reschedule_cost(&pods([costs(i32::MIN)])), 1.0);
        close(reschedule_cost(&pods([costs(i32::MIN), plain()])), 2.0);
        let of = |cost| reschedule_cost(&pods([costs(cost)]));
        assert!(of(101) > of(100) && of(100) > of(99) && of(-100) < of(0), "DC-66");
        let price = Price::new(4.84).unwrap();
        close(savings_ratio(price, 1.0), 4.84);
        close(savings_ratio(price, 4.0), 1.21);
        close(savings_ratio(Price::ZERO, 4.0), 0.0);
    }

    /// X12, DIS-74: a pod that nobody minds losing still needs a place, so its node is not empty.
    #[test]
    fn x12_unloved_pods_are_not_forgotten() {
        let unloved = PodView { disruption_cost: i32::MIN, ..example::pod("a") };
        assert!(!is_empty(&pods([unloved])));
        assert!(is_empty(&pods([PodView { owner: PodOwner::DaemonSet, ..example::pod("a") }])));
        assert!(is_empty(&[]));
    }

    /// DIS-76, X22, DC-124, DC-127.
    #[test]
    fn order() {
        let mut nodes = [(0.13, "a"), (4.0, "c"), (1.45, "x"), (1.45, "b")];
        nodes.sort_by(|a, b| by_ratio(*a, *b));
        assert_eq!(nodes.map(|(_, name)| name), ["c", "b", "x", "a"]);
    }

    /// DIS-77.
    #[test]
    fn lifetimes() {
        let claim = |expire_after| ClaimView { expire_after, created_at: Timestamp::UNIX_EPOCH, ..example::claim("a") };
        let at = |hours| Timestamp::UNIX_EPOCH.checked_add(SignedDuration::from_hours(hours)).unwrap();
        let ten = claim(NillableDuration::After(GoDuration::from_secs(36_000)));
        close(lifetime_remaining(&ten, at(0)), 1.0);
        close(lifetime_remaining(&ten, at(4)), 0.6);
        close(lifetime_remaining(&ten, at(11)), 0.0);
        close(lifetime_remaining(&claim(NillableDuration::Never), at(999)), 1.0);
        close(lifetime_remaining(&claim(NillableDuration::After(GoDuration::ZERO)), at(0)), 0.0);
    }

    /// DIS-78, DC-181.
    #[test]
    fn savings_of_commands() {
        let price = |value| Price::new(value).unwrap();
        close(savings([price(0.5)], [price(0.2), price(0.15)]), 0.15);
        close(savings([price(0.5)], [Price::ZERO]), 0.5);
        close(savings([price(0.5), price(0.5)], []), 1.0);
    }
}
