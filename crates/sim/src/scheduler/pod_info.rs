//! A pod with everything the filters ask of it, worked out once.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, Volume};

use super::cluster::{Cluster, Key};
use super::resources::{Resize, Resources, requests};
use super::selector::{Labels, Selector, Wanted, labels_of};

#[derive(Debug, Clone)]
pub(super) struct PodInfo {
    pub(super) key: Key,
    pub(super) pod: Arc<Pod>,
    pub(super) requests: Resources,
    pub(super) ports: Vec<HostPort>,
    pub(super) affinity: Vec<AffinityTerm>,
    pub(super) anti_affinity: Vec<AffinityTerm>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPort {
    ip: String,
    protocol: String,
    port: i32,
}

impl HostPort {
    /// An address that is not given stands for all of them.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        const ANY: &str = "0.0.0.0";
        self.protocol == other.protocol
            && self.port == other.port
            && (self.ip == other.ip || self.ip == ANY || other.ip == ANY)
    }
}

#[derive(Debug, Clone)]
pub(super) struct AffinityTerm {
    pub(super) topology_key: String,
    selector: Selector,
    namespaces: BTreeSet<String>,
    namespace_selector: Selector,
}

impl AffinityTerm {
    pub(super) fn new(owner: &Pod, term: &PodAffinityTerm) -> Self {
        let labels = labels_of(&owner.metadata);
        let selector = Selector::new(term.label_selector.as_ref())
            .with_label_keys(term.match_label_keys.as_deref(), labels, Wanted::Same)
            .with_label_keys(term.mismatch_label_keys.as_deref(), labels, Wanted::Different);
        let mut namespaces: BTreeSet<_> = term.namespaces.iter().flatten().cloned().collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.extend(owner.metadata.namespace.clone());
        }
        let namespace_selector = Selector::new(term.namespace_selector.as_ref());
        Self { topology_key: term.topology_key.clone(), selector, namespaces, namespace_selector }
    }

    pub(super) fn matches(&self, info: &PodInfo, cluster: &Cluster) -> bool {
        let namespace = &info.key.namespace;
        self.selector.matches(info.labels())
            && (self.namespaces.contains(namespace)
                || self.namespace_selector.matches(cluster.namespace_labels(namespace)))
    }
}

impl PodInfo {
    pub(super) fn new(pod: Arc<Pod>) -> Self {
        let resize = if node_of(&pod).is_some() { Resize::Counts } else { Resize::Ignored };
        let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref());
        let required = |terms: Option<&Vec<PodAffinityTerm>>| -> Vec<_> {
            terms.into_iter().flatten().map(|t| AffinityTerm::new(&pod, t)).collect()
        };
        let together = affinity.and_then(|a| a.pod_affinity.as_ref());
        let apart = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
        Self {
            key: Key::of(&pod.metadata),
            requests: requests(&pod, resize),
            ports: host_ports(&pod),
            affinity: required(together.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())),
            anti_affinity: required(apart.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())),
            pod,
        }
    }

    pub(super) fn labels(&self) -> &Labels {
        labels_of(&self.pod.metadata)
    }

    pub(super) fn priority(&self) -> i32 {
        priority(&self.pod)
    }

    /// Milli-CPUs and bytes for comparing nodes. A pod that asks for nothing counts a little, as in the real one, so that
    /// such pods do not pile up.
    pub(super) fn weight(&self) -> [i64; 2] {
        let at_least = |asked: i64, small: i64| if asked == 0 { small } else { asked };
        [at_least(self.requests.milli_cpu, 100), at_least(self.requests.memory, 200 << 20)]
    }

    pub(super) fn volumes(&self) -> impl Iterator<Item = &Volume> {
        self.pod.spec.iter().flat_map(|s| s.volumes.iter().flatten())
    }

    /// The claims behind the pod's volumes: those it names, and those made for it from a template.
    pub(super) fn claims(&self) -> impl Iterator<Item = (Key, ClaimSource)> {
        self.volumes().filter_map(|volume| {
            let (name, source) = if let Some(claim) = &volume.persistent_volume_claim {
                (claim.claim_name.clone(), ClaimSource::Named)
            } else {
                volume.ephemeral.as_ref()?;
                (format!("{}-{}", self.key.name, volume.name), ClaimSource::Template)
            };
            Some((Key { namespace: self.key.namespace.clone(), name }, source))
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimSource {
    Named,
    Template,
}

pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|n| !n.is_empty())
}

pub(super) fn nominated_node(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref().filter(|n| !n.is_empty())
}

pub(super) fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|s| s.priority).unwrap_or_default()
}

/// Has run to its end: it holds nothing on its node any more.
pub(super) fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// Of containers and sidecars, which run beside them; other init containers give theirs back before.
fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let sidecars = spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|c| c.ports.iter().flatten());
    ports
        .filter_map(|p| {
            let port = p.host_port.filter(|p| *p > 0)?;
            let ip = p.host_ip.clone().filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".into());
            let protocol = p.protocol.clone().filter(|p| !p.is_empty()).unwrap_or_else(|| "TCP".into());
            Some(HostPort { ip, protocol, port })
        })
        .collect()
}
