//! Settings of the kubelet as arguments, in a fixed order (AWS-174).

use std::collections::BTreeMap;

use karpenter_api::kinds::ec2nodeclass::KubeletConfiguration;
use karpenter_model::taints::Taint;

use super::{Bootstrap, UserDataError};

pub(super) fn kubelet_args(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let empty = KubeletConfiguration::default();
    let kubelet = bootstrap.kubelet.unwrap_or(&empty);
    let grace = grace_periods(kubelet)?;
    let args = [
        labels_arg(bootstrap.labels),
        Some(format!("--register-with-taints=\"{}\"", join(bootstrap.taints.iter().map(taint_text)))),
        Some(format!("--max-pods={}", bootstrap.max_pods())),
        kubelet.pods_per_core.map(|pods| format!("--pods-per-core={pods}")),
        map_arg("system-reserved", "=", kubelet.system_reserved.as_ref()),
        map_arg("kube-reserved", "=", kubelet.kube_reserved.as_ref()),
        map_arg("eviction-hard", "<", kubelet.eviction_hard.as_ref()),
        map_arg("eviction-soft", "<", kubelet.eviction_soft.as_ref()),
        map_arg("eviction-soft-grace-period", "=", grace.as_ref()),
        kubelet.eviction_max_pod_grace_period.map(|seconds| format!("--eviction-max-pod-grace-period={seconds}")),
        kubelet.image_gc_high_threshold_percent.map(|percent| format!("--image-gc-high-threshold={percent}")),
        kubelet.image_gc_low_threshold_percent.map(|percent| format!("--image-gc-low-threshold={percent}")),
        kubelet.cpu_cfs_quota.map(|quota| format!("--cpu-cfs-quota={quota}")),
    ];
    Ok(args.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

pub(super) fn labels_arg(labels: &BTreeMap<String, String>) -> Option<String> {
    let pairs = join(labels.iter().map(|(key, value)| format!("{key}={value}")));
    (!labels.is_empty()).then(|| format!("--node-labels=\"{pairs}\""))
}

fn map_arg(name: &str, sign: &str, entries: Option<&BTreeMap<String, String>>) -> Option<String> {
    let entries = entries.filter(|entries| !entries.is_empty())?;
    let pairs = join(entries.iter().map(|(key, value)| format!("{key}{sign}{value}")));
    Some(format!("--{name}=\"{pairs}\""))
}

fn taint_text(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{}", taint.key, taint.effect.as_str())
}

fn join(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

/// Durations as Go writes them: `1m` is `1m0s`.
pub(super) fn grace_periods(kubelet: &KubeletConfiguration) -> Result<Option<BTreeMap<String, String>>, UserDataError> {
    let read = |(signal, text): (&String, &karpenter_api::values::DurationText)| match text.parse() {
        Ok(duration) => Ok((signal.clone(), duration.to_string())),
        Err(error) => Err(UserDataError::Kubelet(format!("evictionSoftGracePeriod[{signal}]: {error}"))),
    };
    kubelet.eviction_soft_grace_period.as_ref().map(|all| all.iter().map(read).collect()).transpose()
}
