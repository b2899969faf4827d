//! What of a node pods cannot have (§3.4).

use karpenter_model::instance_type::Overhead;
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};

use super::TypeFacts;
use super::evaluated::{amounts, evaluated};
use super::pods::interface_limited_pods;
use crate::class::EvictionThreshold;
use crate::cloud::InstanceTypeInfo;

const MI: i64 = 1 << 20;
const GI: i64 = 1 << 30;

/// Millicores per CPU and per hundred, by slices of the machine (AWS-130).
const CPU_SLICES: [(i64, i64, i64); 4] = [(0, 1, 600), (1, 2, 100), (2, 4, 50), (4, i64::MAX, 25)];

pub(super) fn overhead(info: &InstanceTypeInfo, facts: &TypeFacts<'_>, capacity: &Resources) -> Overhead {
    let kubelet = &facts.class.kubelet;
    let evaluated = evaluated(info, facts, capacity.amount(PODS).value());
    let mut kube_reserved = Resources::new()
        .with(CPU, Quantity::milli(reserved_millicores(info.vcpus)))
        .with(MEMORY, Quantity::bytes((11 * reserving_pods(info, facts, capacity) + 255) * MI))
        .with(EPHEMERAL_STORAGE, Quantity::bytes(GI));
    for (name, amount) in kubelet.kube_reserved.iter().chain(amounts(&evaluated.kube_reserved).iter()) {
        kube_reserved.set(name, amount);
    }
    let mut system_reserved = kubelet.system_reserved.clone();
    for (name, amount) in amounts(&evaluated.system_reserved).iter() {
        system_reserved.set(name, amount);
    }
    let threshold = |set: Option<EvictionThreshold>, resource: &str, default: EvictionThreshold| {
        Quantity::bytes(set.unwrap_or(default).of(capacity.amount(resource).value()))
    };
    let hundred = EvictionThreshold::Amount(Quantity::bytes(100 * MI));
    let tenth = EvictionThreshold::Share(1_000);
    Overhead {
        kube_reserved,
        system_reserved,
        eviction_threshold: Resources::new()
            .with(MEMORY, threshold(kubelet.memory_eviction, MEMORY, hundred))
            .with(EPHEMERAL_STORAGE, threshold(kubelet.storage_eviction, EPHEMERAL_STORAGE, tenth)),
    }
}

fn reserved_millicores(vcpus: i64) -> i64 {
    CPU_SLICES.iter().map(|(from, to, share)| (vcpus.min(*to) - from).max(0) * share / 10).sum()
}

/// The pods that the images reserve memory for (AWS-129).
fn reserving_pods(info: &InstanceTypeInfo, facts: &TypeFacts<'_>, capacity: &Resources) -> i64 {
    if facts.class.family.reserves_by_interfaces() {
        interface_limited_pods(info, facts.class, 0)
    } else {
        capacity.amount(PODS).value()
    }
}
