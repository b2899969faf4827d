//! KWOKNodeClass: the class of fake nodes (API-112, API-113).

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::Condition;
use crate::values::DurationText;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", remote = "Self")]
#[kube(
    group = "karpenter.kwok.sh",
    version = "v1alpha1",
    kind = "KWOKNodeClass",
    plural = "kwoknodeclasses",
    singular = "kwoknodeclass",
    shortname = "kwoknc",
    shortname = "kwokncs",
    category = "karpenter",
    status = "KWOKNodeClassStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "::kube_core")
)]
pub struct KWOKNodeClassSpec {
    /// Time between launch and creation of the Node; absent = none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_registration_delay: Option<DurationText>,
}

super::optional_spec!(KWOKNodeClassSpec, "KWOKNodeClassSpec");

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct KWOKNodeClassStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
