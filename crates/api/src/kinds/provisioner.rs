//! Provisioner, the v1alpha5 ancestor of NodePool (API-312, AWS-256). Read by conversion and by the legacy
//! controller.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{SelectorRequirement, Taint};
use crate::values::{DurationText, QuantityText};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", remote = "Self")]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha5",
    kind = "Provisioner",
    plural = "provisioners",
    singular = "provisioner",
    category = "karpenter",
    status = "ProvisionerStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "::kube_core")
)]
pub struct ProvisionerSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requirements: Option<Vec<SelectorRequirement>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_configuration: Option<LegacyKubeletConfiguration>,
    /// Free-form; members that we do not know are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_ref: Option<ProviderRef>,
    /// Absent = empty nodes are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_empty: Option<i64>,
    /// Absent = nodes never expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_until_expired: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ProvisionerLimits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidation: Option<Consolidation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

super::optional_spec!(ProvisionerSpec, "ProvisionerSpec");

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LegacyKubeletConfiguration {
    #[serde(rename = "clusterDNS", skip_serializing_if = "Option::is_none")]
    pub cluster_dns: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_runtime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_pods: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_per_core: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_reserved: Option<BTreeMap<String, QuantityText>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_reserved: Option<BTreeMap<String, QuantityText>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_hard: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_soft: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_soft_grace_period: Option<BTreeMap<String, DurationText>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_max_pod_grace_period: Option<i32>,
    #[serde(rename = "imageGCHighThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_high_threshold_percent: Option<i32>,
    #[serde(rename = "imageGCLowThresholdPercent", skip_serializing_if = "Option::is_none")]
    pub image_gc_low_threshold_percent: Option<i32>,
    #[serde(rename = "cpuCFSQuota", skip_serializing_if = "Option::is_none")]
    pub cpu_cfs_quota: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProviderRef {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProvisionerLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, QuantityText>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Consolidation {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ProvisionerStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, QuantityText>>,
    #[cfg_attr(test, schemars(with = "Option<crate::kinds::tests::DateTime>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_scale_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<LegacyCondition>>,
}

/// Conditions of that time left out what was empty and knew a severity.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LegacyCondition {
    pub type_: String,
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    #[cfg_attr(test, schemars(with = "Option<crate::kinds::tests::DateTime>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
