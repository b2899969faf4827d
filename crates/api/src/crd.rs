//! The one definition of every custom resource: what `charts/karpenter-crd` ships, what `karpenter validate` checks
//! offline and what tests install on a real API server all come from here.
//!
//! Start with [`definitions`]; each kind has a file of its own below `crd/`.

mod awsnodetemplate;
mod capacitybuffer;
mod ec2nodeclass;
mod fragments;
mod kwoknodeclass;
mod manifest;
mod nodeclaim;
mod nodeoverlay;
mod nodepool;
mod patterns;
mod provisioner;
mod schema;

use std::sync::LazyLock;

use serde_json::Value;

pub use manifest::Crd;

static DEFINITIONS: LazyLock<Vec<Crd>> = LazyLock::new(|| {
    vec![
        nodepool::crd(),
        nodeclaim::crd(),
        nodeoverlay::crd(),
        capacitybuffer::crd(),
        ec2nodeclass::crd(),
        kwoknodeclass::crd(),
        provisioner::crd(),
        awsnodetemplate::crd(),
    ]
});

/// Every CRD, the current kinds first, then the legacy ones (`Crd::legacy`).
pub fn definitions() -> &'static [Crd] {
    &DEFINITIONS
}

/// The `CustomResourceDefinition` objects that a cluster needs, without the legacy kinds.
pub fn all() -> Vec<Value> {
    definitions().iter().filter(|c| !c.legacy).map(|c| c.manifest.clone()).collect()
}

/// EC2NodeClass with an open `spec.kubelet`, for clusters that ask for it.
pub fn ec2_node_class_with_open_kubelet() -> Value {
    ec2nodeclass::open_kubelet()
}

/// Whether a definition of EC2NodeClass leaves `spec.kubelet` open, be it ours or another's.
pub fn has_open_kubelet(definition: &Value) -> bool {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let schemas = versions.map(|version| &version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]);
    schemas.into_iter().any(|spec| spec["kubelet"]["x-kubernetes-preserve-unknown-fields"] == true)
}

/// The `CustomResourceDefinition` objects of the kinds that are only read to convert them.
pub fn legacy() -> Vec<Value> {
    definitions().iter().filter(|c| c.legacy).map(|c| c.manifest.clone()).collect()
}

/// The CRD that serves `group/version kind`, if it is one of ours.
pub fn find(group: &str, version: &str, kind: &str) -> Option<&'static Crd> {
    definitions().iter().find(|c| c.group == group && c.version == version && c.kind == kind)
}

#[cfg(test)]
mod tests;
