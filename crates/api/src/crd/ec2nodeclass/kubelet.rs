//! Kubelet settings.

use super::super::patterns;
use super::super::schema::{Schema, boolean, int32, list, map, object, string, undescribed};
use crate::names::aws::{EVICTION_SIGNALS, RESERVED_RESOURCES};

/// A percentage up to 100, a quantity (a sign is let through), or nothing at all.
const THRESHOLD: &str = r"^(([0-9]{1,2}(\.[0-9]{1,2})?|100(\.0{1,2})?)%|(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?|)$";

fn keys_of(map: Schema, name: &str, keys: &[&str]) -> Schema {
    let keys = format!("['{}']", keys.join("','"));
    map.rule(&format!("valid keys for {name} are {keys}"), format!("self.all(x, x in {keys})"))
}

fn reserved(name: &str, description: &str) -> Schema {
    let reserved = map(description, undescribed(string("")).pattern(patterns::QUANTITY));
    keys_of(reserved, name, &RESERVED_RESOURCES)
        .rule(&format!("{name} value cannot be a negative resource quantity"), "self.all(x, !self[x].startsWith('-'))")
}

fn thresholds(name: &str, description: &str) -> Schema {
    keys_of(map(description, undescribed(string("")).pattern(THRESHOLD)), name, &EVICTION_SIGNALS)
}

pub(super) fn kubelet() -> Schema {
    object("Settings of the kubelet that matter for scheduling; they go into the user data of each node.")
        .field("clusterDNS", list("Addresses of the cluster's DNS service.", undescribed(string(""))))
        .field("cpuCFSQuota", boolean("Whether CPU limits of containers are enforced."))
        .field(
            "evictionHard",
            thresholds(
                "evictionHard",
                "Thresholds below which pods are evicted at once: a quantity or percentage by signal, as in `memory.available: 5%`.",
            ),
        )
        .field("evictionMaxPodGracePeriod", int32("Longest grace period, in seconds, of pods evicted for a soft threshold."))
        .field(
            "evictionSoft",
            thresholds(
                "evictionSoft",
                "Thresholds below which pods are evicted after a grace period. Each needs an entry in `evictionSoftGracePeriod`.",
            ),
        )
        .field(
            "evictionSoftGracePeriod",
            keys_of(
                map("Grace periods of the thresholds in `evictionSoft`, as in `memory.available: 1m`.", undescribed(string(""))),
                "evictionSoftGracePeriod",
                &EVICTION_SIGNALS,
            ),
        )
        .field(
            "imageGCHighThresholdPercent",
            int32("Disk usage, in percent, above which unused images are always removed.").min(0).max(100),
        )
        .field(
            "imageGCLowThresholdPercent",
            int32("Disk usage, in percent, below which unused images are never removed.").min(0).max(100),
        )
        .field(
            "kubeReserved",
            reserved("kubeReserved", "What is kept for the kubelet and the container runtime, by resource."),
        )
        .field("maxPods", int32("Most pods that the node runs.").min(0))
        .field("podsPerCore", int32("Most pods for each CPU core; `maxPods` still bounds the sum.").min(0))
        .field("systemReserved", reserved("systemReserved", "What is kept for the operating system, by resource."))
        .rule(
            "imageGCHighThresholdPercent must be greater than imageGCLowThresholdPercent",
            "has(self.imageGCHighThresholdPercent) && has(self.imageGCLowThresholdPercent) ? self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent : true",
        )
        .rule(
            "evictionSoft OwnerKey does not have a matching evictionSoftGracePeriod",
            "has(self.evictionSoft) ? self.evictionSoft.all(e, has(self.evictionSoftGracePeriod) && e in self.evictionSoftGracePeriod) : true",
        )
        .rule(
            "evictionSoftGracePeriod OwnerKey does not have a matching evictionSoft",
            "has(self.evictionSoftGracePeriod) ? self.evictionSoftGracePeriod.all(e, has(self.evictionSoft) && e in self.evictionSoft) : true",
        )
}
