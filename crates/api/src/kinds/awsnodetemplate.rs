//! AWSNodeTemplate, the v1alpha1 ancestor of EC2NodeClass (API-334). Read by conversion and by the legacy controller.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};

use super::SelectorRequirement;
use super::ec2nodeclass::MetadataOptions;
use super::provisioner::LegacyCondition;
use crate::values::QuantityText;

/// Also the typed form of a Provisioner's inline `provider`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", remote = "Self")]
#[kube(
    group = "karpenter.k8s.aws",
    version = "v1alpha1",
    kind = "AWSNodeTemplate",
    plural = "awsnodetemplates",
    singular = "awsnodetemplate",
    category = "karpenter",
    status = "AWSNodeTemplateStatus",
    schema = "disabled",
    derive = "Default",
    derive = "PartialEq",
    crates(kube_core = "::kube_core")
)]
pub struct AWSNodeTemplateSpec {
    /// Type meta inside the spec; ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Type meta inside the spec; ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ami_family: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ami_selector: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detailed_monitoring: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnet_selector: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_group_selector: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_options: Option<MetadataOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_device_mappings: Option<Vec<TemplateBlockDeviceMapping>>,
}

super::optional_spec!(AWSNodeTemplateSpec, "AWSNodeTemplateSpec");

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct AWSNodeTemplateStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subnets: Option<Vec<TemplateSubnet>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<TemplateSecurityGroup>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amis: Option<Vec<TemplateAmi>>,
    /// What is wrong with the template; ours, templates of old had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<LegacyCondition>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TemplateSubnet {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TemplateSecurityGroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TemplateAmi {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requirements: Option<Vec<SelectorRequirement>>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TemplateBlockDeviceMapping {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ebs: Option<TemplateBlockDevice>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct TemplateBlockDevice {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_on_termination: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<i64>,
    #[serde(rename = "kmsKeyID", skip_serializing_if = "Option::is_none")]
    pub kms_key_id: Option<String>,
    #[serde(rename = "snapshotID", skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_size: Option<QuantityText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<String>,
}
