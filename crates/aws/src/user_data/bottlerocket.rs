//! Bottlerocket: the user's own TOML with our settings laid over it (AWS-178 … AWS-180).

mod version;

use std::collections::BTreeMap;

use karpenter_api::kinds::ec2nodeclass::KubeletConfiguration;
use toml::{Table, Value};

use super::kubelet_args::grace_periods;
use super::{Bootstrap, Rendered, UserDataError};

pub use version::{ImageVersion, image_version};

/// Keys of `settings.kubernetes` that the images understand; others are left out, or the image would not boot.
const KNOWN: [&str; 48] = [
    "allowed-unsafe-sysctls",
    "api-server",
    "cloud-provider",
    "cluster-certificate",
    "cluster-dns-ip",
    "cluster-domain",
    "cluster-name",
    "container-log-max-files",
    "container-log-max-size",
    "container-log-max-workers",
    "container-log-monitor-interval",
    "cpu-cfs-quota-enforced",
    "cpu-manager-policy",
    "cpu-manager-policy-options",
    "cpu-manager-reconcile-period",
    "credential-providers",
    "device-ownership-from-security-context",
    "event-burst",
    "event-qps",
    "eviction-hard",
    "eviction-max-pod-grace-period",
    "eviction-soft",
    "eviction-soft-grace-period",
    "hostname-override-source",
    "ids-per-pod",
    "image-gc-high-threshold-percent",
    "image-gc-low-threshold-percent",
    "kube-api-burst",
    "kube-api-qps",
    "kube-reserved",
    "log-level",
    "max-pods",
    "memory-manager-policy",
    "node-labels",
    "node-taints",
    "pod-pids-limit",
    "registry-burst",
    "registry-qps",
    "seccomp-default",
    "server-tls-bootstrap",
    "shutdown-grace-period",
    "shutdown-grace-period-for-critical-pods",
    "single-process-oom-kill",
    "static-pods",
    "system-reserved",
    "topology-manager-policy",
    "topology-manager-policy-options",
    "topology-manager-scope",
];

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> Result<Rendered, UserDataError> {
    let mut settings = own_settings(bootstrap.custom.unwrap_or_default())?;
    let mut kubernetes = take_table(&mut settings, "kubernetes")?;
    let mut dropped = Vec::new();
    kubernetes.retain(|key, _| {
        let known = KNOWN.contains(&key);
        if !known {
            dropped.push(key.to_owned());
        }
        known
    });
    lay_over(&mut kubernetes, bootstrap)?;
    settings.insert("kubernetes".to_owned(), Value::Table(kubernetes));
    if bootstrap.joins_disks {
        let mut commands = take_table(&mut settings, "bootstrap-commands")?;
        commands.insert("000-mount-instance-storage".to_owned(), mount_storage(bootstrap.image));
        settings.insert("bootstrap-commands".to_owned(), Value::Table(commands));
    }
    let document = Table::from_iter([("settings".to_owned(), Value::Table(settings))]);
    let text = toml::to_string(&document).map_err(|error| UserDataError::Toml(error.to_string()))?;
    Ok(Rendered { text, dropped })
}

/// Only `settings` are for the image; errors say where, not what.
fn own_settings(custom: &str) -> Result<Table, UserDataError> {
    let mut document: Table = custom.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(0, |span| custom[..span.start.min(custom.len())].matches('\n').count() + 1);
        UserDataError::Toml(format!("line {line}: {}", error.message()))
    })?;
    take_table(&mut document, "settings")
}

fn take_table(table: &mut Table, key: &str) -> Result<Table, UserDataError> {
    match table.remove(key) {
        None => Ok(Table::new()),
        Some(Value::Table(inner)) => Ok(inner),
        Some(_) => Err(UserDataError::Toml(format!("{key} is not a table"))),
    }
}

fn lay_over(kubernetes: &mut Table, bootstrap: &Bootstrap<'_>) -> Result<(), UserDataError> {
    let (cluster, empty) = (bootstrap.cluster, KubeletConfiguration::default());
    let kubelet = bootstrap.kubelet.unwrap_or(&empty);
    let text = |text: &str| Value::String(text.to_owned());
    let mut labels = take_table(kubernetes, "node-labels")?;
    labels.extend(bootstrap.labels.iter().map(|(key, value)| (key.clone(), text(value))));
    let percent = |percent: Option<i32>| percent.map(|percent| text(&percent.to_string()));
    let map = |entries: Option<&BTreeMap<String, String>>| {
        entries.map(|all| Value::Table(all.iter().map(|(key, value)| (key.clone(), text(value))).collect()))
    };
    let grace = grace_periods(kubelet)?;
    let ours = [
        ("cluster-name", Some(text(&cluster.name))),
        ("api-server", Some(text(&cluster.endpoint))),
        ("cluster-certificate", cluster.ca_bundle.as_deref().map(text)),
        ("max-pods", Some(Value::Integer(bootstrap.max_pods()))),
        ("cluster-dns-ip", bootstrap.cluster_dns().first().map(|dns| text(dns))),
        ("system-reserved", map(kubelet.system_reserved.as_ref())),
        ("kube-reserved", map(kubelet.kube_reserved.as_ref())),
        ("eviction-hard", map(kubelet.eviction_hard.as_ref())),
        ("eviction-soft", map(kubelet.eviction_soft.as_ref())),
        ("eviction-soft-grace-period", map(grace.as_ref())),
        ("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period.map(|s| Value::Integer(s.into()))),
        ("image-gc-high-threshold-percent", percent(kubelet.image_gc_high_threshold_percent)),
        ("image-gc-low-threshold-percent", percent(kubelet.image_gc_low_threshold_percent)),
        ("cpu-cfs-quota-enforced", kubelet.cpu_cfs_quota.map(Value::Boolean)),
        ("node-labels", Some(Value::Table(labels))),
        ("node-taints", Some(Value::Table(taints(bootstrap)))),
    ];
    kubernetes.extend(ours.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    Ok(())
}

/// By key, because one key may have several effects.
fn taints(bootstrap: &Bootstrap<'_>) -> Table {
    let mut by_key: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for taint in bootstrap.taints {
        let text = format!("{}:{}", taint.value, taint.effect.as_str());
        by_key.entry(&taint.key).or_default().push(Value::String(text));
    }
    by_key.into_iter().map(|(key, values)| (key.to_owned(), Value::Array(values))).collect()
}

/// Older images have to be told what to keep on the joined disks.
fn mount_storage(image: ImageVersion) -> Value {
    let command = |words: &[&str]| Value::Array(words.iter().map(|word| Value::String((*word).to_owned())).collect());
    let dirs = ["--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"];
    let bind = ["apiclient", "ephemeral-storage", "bind"];
    let bind: Vec<&str> = bind.into_iter().chain(dirs.into_iter().filter(|_| !image.knows_what_to_bind())).collect();
    let commands = vec![command(&["apiclient", "ephemeral-storage", "init"]), command(&bind)];
    Value::Table(Table::from_iter([
        ("commands".to_owned(), Value::Array(commands)),
        ("essential".to_owned(), Value::Boolean(true)),
        ("mode".to_owned(), Value::String("always".to_owned())),
    ]))
}
