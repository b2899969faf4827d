//! What a new instance is told to do first, in the form that the images of its family understand (§4.6 … §4.10).

mod al2;
mod al2023;
mod bottlerocket;
mod kubelet_args;
mod mime;
mod windows;

use std::collections::BTreeMap;
use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_api::kinds::ec2nodeclass::KubeletConfiguration;
use karpenter_model::labels;
use karpenter_model::taints::Taint;

use crate::family::AmiFamily;

pub use bottlerocket::{ImageVersion, image_version};

/// EC2 takes no more, before base64 (AWS-171).
pub const SIZE_LIMIT: usize = 16_384;
/// From here on the log warns.
pub const SIZE_WARNING: usize = 14_745;

/// Why there is no user data. The texts never contain any of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    #[error("spec.userData is not a MIME archive: {0}")]
    Mime(&'static str),
    #[error("spec.userData is not TOML: {0}")]
    Toml(String),
    #[error("the cluster's CA bundle is not base64")]
    CaBundle,
    #[error("spec.kubelet: {0}")]
    Kubelet(String),
    /// The class is not ready (AWS-177).
    #[error("the cluster's service CIDR is not known")]
    NoServiceCidr,
}

/// What the cluster is to a new node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cluster {
    pub name: String,
    pub endpoint: String,
    /// In base64.
    pub ca_bundle: Option<String>,
    /// Of services; only AL2023 wants it.
    pub service_cidr: Option<String>,
    /// The address of the cluster's DNS service.
    pub dns: Option<IpAddr>,
}

impl Cluster {
    /// AWS-111.
    pub fn is_ipv6(&self) -> bool {
        self.dns.is_some_and(|address| address.is_ipv6())
    }
}

/// Everything that user data is made of.
#[derive(Debug, Clone, Copy)]
pub struct Bootstrap<'a> {
    pub cluster: &'a Cluster,
    pub kubelet: Option<&'a KubeletConfiguration>,
    /// What the node takes, unless the class says so itself.
    pub pods: i64,
    pub labels: &'a BTreeMap<String, String>,
    pub taints: &'a [Taint],
    /// `spec.userData`.
    pub custom: Option<&'a str>,
    /// Local disks are joined to one for pods.
    pub joins_disks: bool,
    /// Of Bottlerocket.
    pub image: ImageVersion,
}

impl Bootstrap<'_> {
    /// AWS-170.
    fn max_pods(&self) -> i64 {
        self.kubelet.and_then(|kubelet| kubelet.max_pods).map_or(self.pods, i64::from)
    }

    /// What the class says, else the cluster's.
    fn cluster_dns(&self) -> Vec<String> {
        let own = self.kubelet.and_then(|kubelet| kubelet.cluster_dns.clone()).filter(|list| !list.is_empty());
        own.unwrap_or_else(|| self.cluster.dns.iter().map(ToString::to_string).collect())
    }
}

/// User data before base64, and what of the user's own was left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rendered {
    pub text: String,
    /// Keys of `settings.kubernetes` that Bottlerocket does not know (AWS-179).
    pub dropped: Vec<String>,
}

impl Rendered {
    pub fn base64(&self) -> String {
        STANDARD.encode(&self.text)
    }
}

impl From<String> for Rendered {
    fn from(text: String) -> Self {
        Self { text, dropped: Vec::new() }
    }
}

pub fn render(family: AmiFamily, bootstrap: &Bootstrap<'_>) -> Result<Rendered, UserDataError> {
    match family {
        AmiFamily::Al2 => al2::render(bootstrap).map(Into::into),
        AmiFamily::Al2023 => al2023::render(bootstrap).map(Into::into),
        AmiFamily::Bottlerocket => bottlerocket::render(bootstrap),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => {
            windows::render(bootstrap).map(Into::into)
        }
        // AWS-183: whoever brings his own image brings all of it.
        AmiFamily::Custom => Ok(bootstrap.custom.unwrap_or_default().to_owned().into()),
    }
}

/// Labels that the kubelet registers its node with (AWS-168). It may not set those of Kubernetes' own domains.
pub fn node_labels(
    claim: &BTreeMap<String, String>,
    capacity_type: &str,
    family: AmiFamily,
) -> BTreeMap<String, String> {
    let restricted = |key: &str| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        ["kubernetes.io", "k8s.io"]
            .iter()
            .any(|own| domain.strip_suffix(own).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    };
    let mut labels: BTreeMap<String, String> =
        claim.iter().filter(|(key, _)| !restricted(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    labels.insert(labels::CAPACITY_TYPE.to_owned(), capacity_type.to_owned());
    if family != AmiFamily::Custom {
        labels.insert(labels::DO_NOT_SYNC_TAINTS.to_owned(), "true".to_owned());
    }
    labels
}

/// Taints that the kubelet registers its node with (AWS-169).
pub fn node_taints(taints: &[Taint], startup: &[Taint]) -> Vec<Taint> {
    let mut all: Vec<Taint> = taints.iter().chain(startup).cloned().collect();
    let unregistered = Taint::unregistered();
    if !all.iter().any(|taint| taint.is_same(&unregistered)) {
        all.push(unregistered);
    }
    all
}

#[cfg(test)]
mod tests;
