//! NodePool: what nodes may look like and how far they may be disrupted (API-35, API-55).

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Condition, NodeClassRef, Requirement, Taint};
use crate::values::{DurationText, NillableDurationText, QuantityText};

/// Absent members keep their absence: the static hash tells it apart from an explicit empty value (API-223).
/// Defaults are filled by the API server; [`NodePoolSpec::default`] is an empty object without them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodePool",
    plural = "nodepools",
    singular = "nodepool",
    category = "karpenter",
    status = "NodePoolStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.nodes"),
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "::kube_core")
)]
pub struct NodePoolSpec {
    pub template: NodeClaimTemplate,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<Disruption>,
    /// Absent = unlimited. Key `nodes` counts nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, QuantityText>>,
    /// Absent = 0, below every explicit weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
    /// Present = static pool with this many nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<TemplateMetadata>,
    pub spec: NodeClaimTemplateSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TemplateMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimTemplateSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    pub requirements: Vec<Requirement>,
    pub node_class_ref: NodeClassRef,
    /// Absent = wait for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<DurationText>,
    /// The API server fills `720h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expire_after: Option<NillableDurationText>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// The API server fills `0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidate_after: Option<NillableDurationText>,
    /// The API server fills `WhenEmptyOrUnderutilized`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consolidation_policy: Option<String>,
    /// The API server fills one entry of `10%`; an explicitly empty list means no limit (API-46).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budgets: Option<Vec<Budget>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Absent = every reason; present but empty = none (API-47).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasons: Option<Vec<String>>,
    /// A count or a percentage. The API server fills `10%`.
    pub nodes: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<DurationText>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodePoolStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, QuantityText>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_class_observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
