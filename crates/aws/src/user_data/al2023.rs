//! Amazon Linux 2023: documents for nodeadm, ours last because the last one wins (AWS-175 … AWS-177).

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Value, json};

use super::kubelet_args::{grace_periods, labels_arg};
use super::mime::{self, Part};
use super::{Bootstrap, UserDataError};

/// Members in the order of the alphabet, which is how tools for Kubernetes write them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeConfig {
    api_version: &'static str,
    kind: &'static str,
    spec: NodeConfigSpec,
}

#[derive(Debug, Serialize)]
struct NodeConfigSpec {
    cluster: BTreeMap<&'static str, String>,
    instance: BTreeMap<&'static str, BTreeMap<&'static str, &'static str>>,
    kubelet: KubeletPart,
}

#[derive(Debug, Serialize)]
struct KubeletPart {
    config: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flags: Vec<String>,
}

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let mut parts = match bootstrap.custom.filter(|custom| !custom.trim().is_empty()) {
        Some(custom) if mime::is_archive(custom) => mime::parse(custom)?,
        Some(custom) if is_yaml_mapping(custom) => vec![Part::new(mime::NODE_CONFIG, custom)],
        Some(custom) => vec![Part::new(mime::SHELL_SCRIPT, custom)],
        None => Vec::new(),
    };
    parts.push(Part::new(mime::NODE_CONFIG, &document(bootstrap)?));
    Ok(mime::write(&parts))
}

fn is_yaml_mapping(text: &str) -> bool {
    serde_saphyr::from_str::<Value>(text).is_ok_and(|value| value.is_object())
}

fn document(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let cluster = bootstrap.cluster;
    let cidr = cluster.service_cidr.clone().ok_or(UserDataError::NoServiceCidr)?;
    let mut described = BTreeMap::from([
        ("apiServerEndpoint", cluster.endpoint.clone()),
        ("cidr", cidr),
        ("name", cluster.name.clone()),
    ]);
    if let Some(ca) = &cluster.ca_bundle {
        STANDARD.decode(ca).map_err(|_| UserDataError::CaBundle)?;
        described.insert("certificateAuthority", ca.clone());
    }
    let strategy = bootstrap.joins_disks.then_some(("strategy", "RAID0"));
    let config = NodeConfig {
        api_version: "node.eks.aws/v1alpha1",
        kind: "NodeConfig",
        spec: NodeConfigSpec {
            cluster: described,
            instance: BTreeMap::from([("localStorage", strategy.into_iter().collect())]),
            kubelet: KubeletPart {
                config: kubelet_config(bootstrap)?,
                flags: labels_arg(bootstrap.labels).into_iter().collect(),
            },
        },
    };
    let yaml = serde_saphyr::to_string(&config).map_err(|error| UserDataError::Kubelet(error.to_string()))?;
    Ok(format!("# Karpenter Generated NodeConfig\n{yaml}"))
}

/// The class's own settings, with what the controller knows better.
fn kubelet_config(bootstrap: &Bootstrap<'_>) -> Result<BTreeMap<String, Value>, UserDataError> {
    let wrong = |error: serde_json::Error| UserDataError::Kubelet(error.to_string());
    let raw = bootstrap.kubelet.map(serde_json::to_value).transpose().map_err(wrong)?;
    let mut config: BTreeMap<String, Value> = match raw {
        Some(Value::Object(members)) => members.into_iter().collect(),
        _ => BTreeMap::new(),
    };
    if let Some(periods) = bootstrap.kubelet.map(grace_periods).transpose()?.flatten() {
        config.insert("evictionSoftGracePeriod".to_owned(), json!(periods));
    }
    config.insert("maxPods".to_owned(), json!(bootstrap.max_pods()));
    let dns = bootstrap.cluster_dns();
    if !dns.is_empty() {
        config.insert("clusterDNS".to_owned(), json!(dns));
    }
    let taints: Vec<Value> = bootstrap
        .taints
        .iter()
        .map(|taint| {
            let value = (!taint.value.is_empty()).then_some(("value", taint.value.as_str()));
            let members = [("effect", taint.effect.as_str()), ("key", taint.key.as_str())].into_iter().chain(value);
            json!(members.collect::<BTreeMap<_, _>>())
        })
        .collect();
    config.insert("registerWithTaints".to_owned(), Value::Array(taints));
    Ok(config)
}
