//! NodeOverlay: prices and extra resources laid over instance types (API-84).

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::{Condition, SelectorRequirement};
use crate::values::QuantityText;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "karpenter.sh",
    version = "v1alpha1",
    kind = "NodeOverlay",
    plural = "nodeoverlays",
    singular = "nodeoverlay",
    shortname = "overlays",
    category = "karpenter",
    status = "NodeOverlayStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "::kube_core")
)]
pub struct NodeOverlaySpec {
    pub requirements: Vec<SelectorRequirement>,
    /// Signed amount or signed percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_adjustment: Option<String>,
    /// Absolute replacement price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<BTreeMap<String, QuantityText>>,
    /// Absent = 0; higher wins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlayStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
