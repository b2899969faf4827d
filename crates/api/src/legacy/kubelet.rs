//! Kubelet settings of older versions (API-329 … API-331).

use std::collections::BTreeMap;

use karpenter_model::quantity::Quantity;

use super::findings::Report;
use crate::kinds::ec2nodeclass::KubeletConfiguration;
use crate::kinds::provisioner::LegacyKubeletConfiguration;
use crate::names::aws::{EVICTION_SIGNALS, RESERVED_RESOURCES};
use crate::values::QuantityText;

/// The same settings for an EC2NodeClass; nothing when none is left.
pub(super) fn converted(
    given: LegacyKubeletConfiguration,
    field: &str,
    report: &mut Report<'_>,
) -> Option<KubeletConfiguration> {
    check(&given, field, report);
    match given.container_runtime.as_deref() {
        None | Some("containerd") => {}
        Some(other) => {
            report.warn(format!("{field}.containerRuntime"), format!("{other} cannot be chosen any more; left out"));
        }
    }
    let reserved = |map: Option<BTreeMap<String, QuantityText>>| {
        map.map(|map| map.into_iter().map(|(name, quantity)| (name, quantity.to_string())).collect())
    };
    let kubelet = KubeletConfiguration {
        cluster_dns: given.cluster_dns,
        max_pods: given.max_pods,
        pods_per_core: given.pods_per_core,
        system_reserved: reserved(given.system_reserved),
        kube_reserved: reserved(given.kube_reserved),
        eviction_hard: given.eviction_hard,
        eviction_soft: given.eviction_soft,
        eviction_soft_grace_period: given.eviction_soft_grace_period,
        eviction_max_pod_grace_period: given.eviction_max_pod_grace_period,
        image_gc_high_threshold_percent: given.image_gc_high_threshold_percent,
        image_gc_low_threshold_percent: given.image_gc_low_threshold_percent,
        cpu_cfs_quota: given.cpu_cfs_quota,
        other: BTreeMap::new(),
    };
    (kubelet != KubeletConfiguration::default()).then_some(kubelet)
}

fn check(given: &LegacyKubeletConfiguration, field: &str, report: &mut Report<'_>) {
    for (name, number) in [("maxPods", given.max_pods), ("podsPerCore", given.pods_per_core)] {
        if number.is_some_and(|number| number < 0) {
            report.error(format!("{field}.{name}"), "must not be negative");
        }
    }
    check_reserved(given.system_reserved.as_ref(), &format!("{field}.systemReserved"), report);
    check_reserved(given.kube_reserved.as_ref(), &format!("{field}.kubeReserved"), report);
    check_thresholds(given.eviction_hard.as_ref(), &format!("{field}.evictionHard"), report);
    check_thresholds(given.eviction_soft.as_ref(), &format!("{field}.evictionSoft"), report);
    check_grace_periods(given, field, report);
    let percent = |name: &str, value: Option<i32>, report: &mut Report<'_>| {
        if value.is_some_and(|value| !(0..=100).contains(&value)) {
            report.error(format!("{field}.{name}"), "must be between 0 and 100");
        }
    };
    let (high, low) = (given.image_gc_high_threshold_percent, given.image_gc_low_threshold_percent);
    percent("imageGCHighThresholdPercent", high, report);
    percent("imageGCLowThresholdPercent", low, report);
    if let (Some(high), Some(low)) = (high, low)
        && high <= low
    {
        // Equal values were fine before v1.
        report.error(format!("{field}.imageGCLowThresholdPercent"), "must be below imageGCHighThresholdPercent in v1");
    }
}

fn check_reserved(given: Option<&BTreeMap<String, QuantityText>>, field: &str, report: &mut Report<'_>) {
    for (name, quantity) in given.into_iter().flatten() {
        let field = format!("{field}[{name}]");
        if !RESERVED_RESOURCES.contains(&name.as_str()) {
            report.error(&field, format!("is not one of {}", RESERVED_RESOURCES.join(", ")));
        }
        match quantity.parse() {
            Ok(quantity) if quantity < Quantity::ZERO => report.error(field, "must not be negative"),
            Ok(_) => {}
            Err(error) => report.error(field, error.to_string()),
        }
    }
}

fn check_signal(signal: &str, field: &str, report: &mut Report<'_>) {
    if !EVICTION_SIGNALS.contains(&signal) {
        report.error(field, format!("is not one of {}", EVICTION_SIGNALS.join(", ")));
    }
}

fn check_thresholds(given: Option<&BTreeMap<String, String>>, field: &str, report: &mut Report<'_>) {
    for (signal, threshold) in given.into_iter().flatten() {
        let field = format!("{field}[{signal}]");
        check_signal(signal, &field, report);
        let fine = match threshold.strip_suffix('%') {
            Some(percent) => is_percentage(percent),
            None => threshold.parse::<Quantity>().is_ok(),
        };
        if !fine {
            report.error(field, format!("{threshold:?} is neither a percentage from 0% to 100% nor a quantity"));
        }
    }
}

/// From 0 to 100, with two decimals at most: more are refused in v1.
fn is_percentage(text: &str) -> bool {
    let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    decimals <= 2 && text.parse::<f64>().is_ok_and(|percent| (0.0..=100.0).contains(&percent))
}

/// Soft thresholds and their grace periods pair up by signal.
fn check_grace_periods(given: &LegacyKubeletConfiguration, field: &str, report: &mut Report<'_>) {
    let has = |signal: &String, in_periods: bool| {
        if in_periods {
            given.eviction_soft_grace_period.as_ref().is_some_and(|map| map.contains_key(signal))
        } else {
            given.eviction_soft.as_ref().is_some_and(|map| map.contains_key(signal))
        }
    };
    for signal in given.eviction_soft.iter().flatten().map(|(signal, _)| signal).filter(|signal| !has(signal, true)) {
        report.error(format!("{field}.evictionSoft[{signal}]"), "needs an evictionSoftGracePeriod");
    }
    for (signal, period) in given.eviction_soft_grace_period.iter().flatten() {
        let field = format!("{field}.evictionSoftGracePeriod[{signal}]");
        check_signal(signal, &field, report);
        if !has(signal, false) {
            report.error(&field, "needs an evictionSoft threshold");
        }
        if let Err(error) = period.parse() {
            report.error(field, error.to_string());
        }
    }
}
