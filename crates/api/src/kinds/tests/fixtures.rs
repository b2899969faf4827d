//! One manifest per kind that uses every field, in YAML as people write it.

use kube_core::Resource;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::*;
use super::{awsnodetemplate::AWSNodeTemplateStatus, provisioner::ProvisionerStatus, schema_of};

/// YAML -> typed -> YAML -> the same JSON value, and the manifest leaves out no field of the type.
fn check<K, Spec: JsonSchema, Status: JsonSchema>(yaml: &str)
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned,
{
    let written: Value = serde_saphyr::from_str(yaml).unwrap();
    let typed: K = serde_saphyr::from_str(yaml).unwrap();
    let again = serde_saphyr::to_string(&typed).unwrap();
    assert_eq!(serde_saphyr::from_str::<Value>(&again).unwrap(), written, "{again}");
    assert_eq!(serde_json::to_value(&typed).unwrap(), written);
    assert_complete("spec", &schema_of::<Spec>(), &written["spec"]);
    assert_complete("status", &schema_of::<Status>(), &written["status"]);
}

/// Every property of the schema occurs in the value; in a list, in one of its items.
fn assert_complete(path: &str, schema: &Value, value: &Value) {
    let options = schema.get("anyOf").or_else(|| schema.get("allOf")).and_then(Value::as_array);
    if let Some(option) = options.and_then(|options| options.first()) {
        return assert_complete(path, option, value);
    }
    for (name, member) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let value = value.get(name).unwrap_or_else(|| panic!("{path}.{name} is missing from the fixture"));
        assert_complete(&format!("{path}.{name}"), member, value);
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        assert_complete(path, items, values.first().unwrap_or_else(|| panic!("{path} is empty in the fixture")));
    }
}

/// API-7, API-9, API-14, API-16, API-29, API-30, API-35, API-55
#[test]
fn nodepool() {
    check::<NodePool, NodePoolSpec, NodePoolStatus>(include_str!("nodepool.yaml"));
}

/// API-69, API-76
#[test]
fn nodeclaim() {
    check::<NodeClaim, NodeClaimSpec, NodeClaimStatus>(include_str!("nodeclaim.yaml"));
}

/// API-84
#[test]
fn nodeoverlay() {
    check::<NodeOverlay, NodeOverlaySpec, NodeOverlayStatus>(include_str!("nodeoverlay.yaml"));
}

/// API-99, API-105
#[test]
fn capacitybuffer() {
    check::<CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus>(include_str!("capacitybuffer.yaml"));
}

/// API-112, API-113
#[test]
fn kwoknodeclass() {
    check::<KWOKNodeClass, KWOKNodeClassSpec, KWOKNodeClassStatus>(include_str!("kwoknodeclass.yaml"));
}

/// AWS-6, AWS-14, AWS-285
#[test]
fn ec2nodeclass() {
    check::<EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus>(include_str!("ec2nodeclass.yaml"));
}

/// API-312, API-329, AWS-256
#[test]
fn provisioner() {
    check::<Provisioner, ProvisionerSpec, ProvisionerStatus>(include_str!("provisioner.yaml"));
}

/// API-334
#[test]
fn awsnodetemplate() {
    check::<AWSNodeTemplate, AWSNodeTemplateSpec, AWSNodeTemplateStatus>(include_str!("awsnodetemplate.yaml"));
}
