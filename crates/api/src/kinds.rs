//! The custom resources, one file per kind, and the parts they share.
//!
//! Reading is lenient and writing is faithful: text with a grammar of its own (quantities, durations, operators,
//! effects) is kept as written and judged later, so that one odd field cannot take down a watch over all objects;
//! absent and explicitly empty stay different. The CRDs decide what the API server admits.

/// Reads a spec that the object may lack as an empty one. Its type derives serde with `remote = "Self"`, which makes the
/// derived code plain functions; the derived root type cannot be told that its spec is optional.
macro_rules! optional_spec {
    ($spec:ident, $name:literal) => {
        impl serde::Serialize for $spec {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $spec::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $spec {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(transparent)]
                struct Given(#[serde(with = $name)] $spec);
                Ok(Option::<Given>::deserialize(deserializer)?.map_or_else(Self::default, |given| given.0))
            }
        }
    };
}
use optional_spec;

pub mod awsnodetemplate;
pub mod capacitybuffer;
pub mod ec2nodeclass;
pub mod kwoknodeclass;
pub mod nodeclaim;
pub mod nodeoverlay;
pub mod nodepool;
pub mod provisioner;

mod condition;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

pub use awsnodetemplate::{AWSNodeTemplate, AWSNodeTemplateSpec};
pub use capacitybuffer::{CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus};
pub use condition::{Condition, ConditionStatus};
pub use ec2nodeclass::{EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus};
pub use kwoknodeclass::{KWOKNodeClass, KWOKNodeClassSpec, KWOKNodeClassStatus};
pub use nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
pub use nodeoverlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus};
pub use nodepool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use provisioner::{Provisioner, ProvisionerSpec};

/// A taint of a template or claim (API-14).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    pub key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    pub effect: String,
    #[cfg_attr(test, schemars(with = "Option<crate::kinds::tests::DateTime>"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

/// What a pool or claim asks of its nodes (API-16).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    pub key: String,
    pub operator: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// How many distinct values must stay possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_values: Option<i64>,
}

/// A requirement without `minValues`, as NodeOverlays, AMIs and Provisioners have it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct SelectorRequirement {
    pub key: String,
    pub operator: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

/// The NodeClass of a template or claim (API-29). `group` is a group, never `group/version`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct NodeClassRef {
    pub group: String,
    pub kind: String,
    pub name: String,
}

impl From<SelectorRequirement> for Requirement {
    fn from(SelectorRequirement { key, operator, values }: SelectorRequirement) -> Self {
        Self { key, operator, values, min_values: None }
    }
}

#[cfg(test)]
mod tests;
