//! Claims: bound ones have to reach the node, the others need a volume, there already or to be made, that does.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIStorageCapacity, StorageClass};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use karpenter_model::quantity::Quantity;
use kube::api::ObjectMeta;

use super::{Fault, Filter, Refusal, Stop};
use crate::scheduler::cluster::{Cluster, Key, NodeInfo};
use crate::scheduler::pod_info::{ClaimSource, PodInfo};
use crate::scheduler::selector::{Selector, labels_of, node_selector_matches};

const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// What to do about volumes before the pod is bound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumePlan {
    /// Claims, each with the volume that is there for it.
    pub bind: Vec<(Key, String)>,
    /// Claims for which a volume has to be made that reaches the node.
    pub provision: Vec<Key>,
}

impl VolumePlan {
    pub fn is_empty(&self) -> bool {
        self.bind.is_empty() && self.provision.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct Binding<'a> {
    cluster: &'a Cluster,
    bound: Vec<&'a Arc<PersistentVolumeClaim>>,
    /// Smallest first, so that each gets the tightest fit.
    unbound: Vec<&'a Arc<PersistentVolumeClaim>>,
}

impl<'a> Binding<'a> {
    pub(super) fn new(cluster: &'a Cluster, pod: &PodInfo) -> Result<Self, Stop> {
        let mut binding = Self { cluster, bound: Vec::new(), unbound: Vec::new() };
        let refuse = |reason: String| Stop::Refused(Refusal::lasting(Filter::VolumeBinding, reason));
        let mut claims = Vec::new();
        for (key, source) in pod.claims() {
            claims.push(usable(cluster, pod, &key, source).map_err(refuse)?);
        }
        let mut immediate = false;
        for claim in claims {
            if is_bound(claim) {
                binding.bound.push(claim);
            } else if waits_for_consumer(cluster, claim).map_err(Stop::Fault)? && volume_name(claim).is_none() {
                binding.unbound.push(claim);
            } else {
                immediate = true;
            }
        }
        if immediate {
            return Err(refuse("pod has unbound immediate PersistentVolumeClaims".to_owned()));
        }
        binding.unbound.sort_by_key(|c| requested(c));
        Ok(binding)
    }

    pub(super) fn plan(&self, node: &NodeInfo) -> Result<VolumePlan, Stop> {
        let mut reasons = Vec::new();
        match self.bound.iter().map(|c| self.reaches(c, node)).find(|r| *r != Reach::Yes) {
            Some(Reach::No) => reasons.push("node(s) didn't match PersistentVolume's node affinity".to_owned()),
            Some(Reach::Missing) => {
                reasons.push("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)".to_owned());
            }
            _ => {}
        }
        match self.plan_unbound(node).map_err(Stop::Fault)? {
            Ok(plan) if reasons.is_empty() => return Ok(plan),
            Ok(_) => {}
            // In kube-scheduler's order: node affinity, bind conflict, space, missing volume.
            Err(reason) if reasons.first().is_some_and(|r| r.contains("non-existent")) => reasons.insert(0, reason),
            Err(reason) => reasons.push(reason),
        }
        Err(Stop::Refused(Refusal { filter: Filter::VolumeBinding, reasons, lasting: true }))
    }

    fn reaches(&self, claim: &PersistentVolumeClaim, node: &NodeInfo) -> Reach {
        match volume_name(claim).and_then(|name| self.cluster.volumes.get(name)) {
            None => Reach::Missing,
            Some(volume) if volume_reaches(volume, &node.node) => Reach::Yes,
            Some(_) => Reach::No,
        }
    }

    /// The inner result is the plan or the reason why there is none.
    fn plan_unbound(&self, node: &NodeInfo) -> Result<Result<VolumePlan, String>, Fault> {
        let conflict = || Ok(Err("node(s) didn't find available persistent volumes to bind".to_owned()));
        let selected = |c: &PersistentVolumeClaim| annotation(&c.metadata, SELECTED_NODE).map(str::to_owned);
        if self.unbound.iter().any(|c| selected(c).is_some_and(|n| n != node.name())) {
            return conflict();
        }
        let mut plan = VolumePlan::default();
        let (chosen, open): (Vec<_>, Vec<_>) = self.unbound.iter().partition(|c| selected(c).is_some());
        let mut provision: Vec<&Arc<PersistentVolumeClaim>> = chosen;
        let mut taken = BTreeSet::new();
        for claim in open {
            if let Some(volume) = self.find_volume(claim, &node.node, &taken) {
                let name = Key::of(&volume.metadata).name;
                taken.insert(name.clone());
                plan.bind.push((Key::of(&claim.metadata), name));
            } else {
                provision.push(claim);
            }
        }
        for claim in provision {
            let class = class_of(claim).unwrap_or_default();
            let class = self.cluster.classes.get(&class).ok_or_else(|| {
                Fault(format!("running \"VolumeBinding\" filter plugin: failed to find storage class \"{class}\""))
            })?;
            if matches!(class.provisioner.as_str(), "" | "kubernetes.io/no-provisioner")
                || !topology_allows(class, &node.node)
            {
                return conflict();
            }
            if !self.has_space(class, claim, &node.node) {
                return Ok(Err("node(s) did not have enough free storage".to_owned()));
            }
            plan.provision.push(Key::of(&claim.metadata));
        }
        Ok(Ok(plan))
    }

    /// The one meant for the claim, or the smallest that is free, large enough and of the right kind.
    fn find_volume(
        &self,
        claim: &PersistentVolumeClaim,
        node: &Node,
        taken: &BTreeSet<String>,
    ) -> Option<&'a Arc<PersistentVolume>> {
        let class = class_of(claim).unwrap_or_default();
        let size = |v: &PersistentVolume| v.spec.as_ref().map_or(Quantity::ZERO, |s| storage(s.capacity.as_ref()));
        let candidates = self.cluster.volumes.iter().filter(|(name, volume)| {
            let free = claim_ref(volume).is_none() || is_for(volume, claim);
            !taken.contains(*name)
                && free
                && volume_class(volume) == class
                && size(volume) >= requested(claim)
                && same_kind(volume, claim)
                && volume.metadata.deletion_timestamp.is_none()
        });
        let candidates: Vec<_> = candidates.map(|(_, v)| v).collect();
        if let Some(meant) = candidates.iter().find(|v| is_for(v, claim)) {
            return volume_reaches(meant, node).then_some(meant);
        }
        let selector = claim.spec.as_ref().and_then(|s| s.selector.as_ref()).map(|s| Selector::new(Some(s)));
        let fits = |v: &&&Arc<PersistentVolume>| {
            v.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Available")
                && selector.as_ref().is_none_or(|s| s.matches(labels_of(&v.metadata)))
                && volume_reaches(v, node)
                && modes(claim.spec.as_ref().and_then(|s| s.access_modes.as_ref()))
                    .is_subset(&modes(v.spec.as_ref().and_then(|s| s.access_modes.as_ref())))
        };
        candidates.iter().filter(fits).min_by_key(|v| size(v)).copied()
    }

    /// Only drivers that report how much they have left are asked.
    fn has_space(&self, class: &StorageClass, claim: &PersistentVolumeClaim, node: &Node) -> bool {
        let reports = self.cluster.csi_drivers.get(&class.provisioner).and_then(|d| d.spec.storage_capacity);
        let name = Key::of(&class.metadata).name;
        let enough = |c: &CSIStorageCapacity| {
            let limit = c.maximum_volume_size.as_ref().or(c.capacity.as_ref());
            c.storage_class_name == name
                && limit.is_some_and(|l| quantity(l).value() >= requested(claim).value())
                && Selector::new(c.node_topology.as_ref()).matches(labels_of(&node.metadata))
        };
        reports != Some(true) || self.cluster.csi_capacities.values().any(|c| enough(c))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Yes,
    No,
    Missing,
}

fn usable<'a>(
    cluster: &'a Cluster,
    pod: &PodInfo,
    key: &Key,
    source: ClaimSource,
) -> Result<&'a Arc<PersistentVolumeClaim>, String> {
    let name = &key.name;
    let claim = cluster.claims.get(key).ok_or_else(|| match source {
        ClaimSource::Named => format!("persistentvolumeclaim \"{name}\" not found"),
        ClaimSource::Template => {
            format!("waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\"")
        }
    })?;
    if claim.status.as_ref().and_then(|s| s.phase.as_deref()) == Some("Lost") {
        let volume = volume_name(claim).map_or("", String::as_str);
        return Err(format!("persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""));
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
    }
    if source == ClaimSource::Template && !owned_by(claim, pod) {
        return Err(format!("PVC {key} was not created for pod {} (pod is not owner)", pod.key));
    }
    Ok(claim)
}

pub(super) fn owned_by(claim: &PersistentVolumeClaim, pod: &PodInfo) -> bool {
    let mut owners = claim.metadata.owner_references.iter().flatten();
    owners.any(|o| o.controller == Some(true) && Some(&o.uid) == pod.pod.metadata.uid.as_ref())
}

fn waits_for_consumer(cluster: &Cluster, claim: &PersistentVolumeClaim) -> Result<bool, Fault> {
    let Some(name) = class_of(claim) else { return Ok(false) };
    let Some(class) = cluster.classes.get(&name) else { return Ok(false) };
    class.volume_binding_mode.as_deref().map(|m| m == "WaitForFirstConsumer").ok_or_else(|| {
        Fault(format!(
            "running PreFilter plugin \"VolumeBinding\": VolumeBindingMode not set for StorageClass \"{name}\""
        ))
    })
}

/// The class a claim asks for; the empty one is none.
pub(super) fn class_of(claim: &PersistentVolumeClaim) -> Option<String> {
    let named = claim.spec.as_ref().and_then(|s| s.storage_class_name.as_deref());
    annotation(&claim.metadata, CLASS).or(named).filter(|c| !c.is_empty()).map(str::to_owned)
}

fn volume_class(volume: &PersistentVolume) -> String {
    let named = volume.spec.as_ref().and_then(|s| s.storage_class_name.as_deref());
    annotation(&volume.metadata, CLASS).or(named).unwrap_or_default().to_owned()
}

pub(in crate::scheduler) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    volume_name(claim).is_some() && annotation(&claim.metadata, BIND_COMPLETED).is_some()
}

fn volume_name(claim: &PersistentVolumeClaim) -> Option<&String> {
    claim.spec.as_ref()?.volume_name.as_ref().filter(|n| !n.is_empty())
}

fn claim_ref(volume: &PersistentVolume) -> Option<&k8s_openapi::api::core::v1::ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

fn is_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    claim_ref(volume).is_some_and(|r| {
        r.name == claim.metadata.name
            && r.namespace == claim.metadata.namespace
            && r.uid.as_ref().is_none_or(|uid| uid.is_empty() || Some(uid) == claim.metadata.uid.as_ref())
    })
}

fn same_kind(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let mode = |m: Option<&String>| m.map_or("Filesystem", String::as_str).to_owned();
    let (volume, claim) = (volume.spec.as_ref(), claim.spec.as_ref());
    let attributes = |a: Option<&String>| a.cloned().unwrap_or_default();
    mode(volume.and_then(|s| s.volume_mode.as_ref())) == mode(claim.and_then(|s| s.volume_mode.as_ref()))
        && attributes(volume.and_then(|s| s.volume_attributes_class_name.as_ref()))
            == attributes(claim.and_then(|s| s.volume_attributes_class_name.as_ref()))
}

fn modes(modes: Option<&Vec<String>>) -> BTreeSet<&String> {
    modes.into_iter().flatten().collect()
}

/// Only labels are looked at, so the node goes in without its name.
fn volume_reaches(volume: &PersistentVolume, node: &Node) -> bool {
    let required = volume.spec.as_ref().and_then(|s| s.node_affinity.as_ref()).and_then(|a| a.required.as_ref());
    let metadata = ObjectMeta { labels: node.metadata.labels.clone(), ..ObjectMeta::default() };
    required.is_none_or(|r| node_selector_matches(r, &Node { metadata, ..Node::default() }))
}

fn topology_allows(class: &StorageClass, node: &Node) -> bool {
    let terms = class.allowed_topologies.as_deref().unwrap_or_default();
    let labels = labels_of(&node.metadata);
    let matches = |term: &k8s_openapi::api::core::v1::TopologySelectorTerm| {
        let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
        let all = expressions.iter().all(|e| labels.get(&e.key).is_some_and(|v| e.values.contains(v)));
        !expressions.is_empty() && all
    };
    terms.is_empty() || terms.iter().any(matches)
}

fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

fn requested(claim: &PersistentVolumeClaim) -> Quantity {
    let resources = claim.spec.as_ref().and_then(|s| s.resources.as_ref());
    storage(resources.and_then(|r| r.requests.as_ref()))
}

fn storage(list: Option<&std::collections::BTreeMap<String, ApiQuantity>>) -> Quantity {
    list.and_then(|l| l.get("storage")).map_or(Quantity::ZERO, quantity)
}

fn quantity(quantity: &ApiQuantity) -> Quantity {
    quantity.0.parse().unwrap_or(Quantity::ZERO)
}
