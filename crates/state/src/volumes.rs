//! What the volumes of a pod ask for, from claims, volumes and storage classes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::labels;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::requirements::Requirements;
use karpenter_model::scheduling::PodVolumes;
use karpenter_model::volumes::{
    AttachmentView, CsiNodeView, StorageClassView, UnsupportedVolumes, VolumeClaimView, VolumeSource, VolumeView,
};

use crate::Source;

/// Combinations of places beyond this are not looked at: three zones and a handful of racks stay far below it, and the
/// combinations of volumes that restrict different labels would double with each of them.
const MOST_ALTERNATIVES: usize = 1024;

/// Why nothing can be planned for a pod with volumes (SCH-152, SCH-156).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VolumeError {
    #[error("persistent volume claim {0} not found")]
    NoClaim(PodId),
    #[error("persistent volume claim {0} is being deleted")]
    ClaimGoing(PodId),
    #[error("persistent volume claim {0} has lost its volume")]
    ClaimLost(PodId),
    #[error("persistent volume {volume} of claim {claim} not found")]
    NoVolume { claim: PodId, volume: String },
    #[error("persistent volume {volume} of claim {claim} is being deleted")]
    VolumeGoing { claim: PodId, volume: String },
    #[error("persistent volume claim {0} is not bound completely")]
    NotBound(PodId),
    #[error("persistent volume claim {0} has neither a volume nor a storage class")]
    NoClassName(PodId),
    #[error("storage class {class} of persistent volume claim {claim} not found")]
    NoClass { claim: PodId, class: String },
    #[error("persistent volume claim {claim} waits for a volume of storage class {class}, which binds immediately")]
    Immediate { claim: PodId, class: String },
    #[error("storage class {class} of persistent volume claim {claim} uses unsupported topology key {key}")]
    TopologyKey { claim: PodId, class: String, key: String },
    #[error("persistent volume claim {claim} needs provisioner {provisioner}, which is not supported")]
    Provisioner { claim: PodId, provisioner: String },
    #[error("persistent volume {volume} of claim {claim}: {why}")]
    Unreadable { claim: PodId, volume: String, why: String },
    #[error("its volumes can be attached together in more than {MOST_ALTERNATIVES} combinations of places")]
    TooManyPlaces,
}

/// Everything about storage that is known of the cluster.
#[derive(Debug, Default)]
pub struct Volumes {
    claims: BTreeMap<PodId, Arc<VolumeClaimView>>,
    /// Claims by the volume they name: volumes are many and come one by one.
    by_volume: BTreeMap<String, BTreeSet<PodId>>,
    persistent: BTreeMap<String, Arc<VolumeView>>,
    classes: BTreeMap<String, Arc<StorageClassView>>,
    nodes: BTreeMap<String, Arc<CsiNodeView>>,
    attachments: BTreeMap<String, Arc<AttachmentView>>,
    pub(crate) unsupported: UnsupportedVolumes,
}

/// Something about storage changed.
#[derive(Debug, Clone)]
pub enum VolumeChange {
    Claim(Arc<VolumeClaimView>),
    ClaimGone(PodId),
    Volume(Arc<VolumeView>),
    VolumeGone(String),
    Class(Arc<StorageClassView>),
    ClassGone(String),
    CsiNode(Arc<CsiNodeView>),
    CsiNodeGone(String),
    Attachment(Arc<AttachmentView>),
    AttachmentGone(String),
}

impl Volumes {
    /// The claims whose meaning may have changed.
    pub(crate) fn apply(&mut self, change: VolumeChange) -> BTreeSet<PodId> {
        match change {
            VolumeChange::Claim(claim) => {
                let id = claim.id.clone();
                self.forget_claim(&id);
                if let Some(volume) = &claim.volume {
                    self.by_volume.entry(volume.clone()).or_default().insert(id.clone());
                }
                self.claims.insert(id.clone(), claim);
                BTreeSet::from([id])
            }
            VolumeChange::ClaimGone(id) => {
                self.forget_claim(&id);
                BTreeSet::from([id])
            }
            VolumeChange::Volume(volume) => {
                let name = volume.name.clone();
                self.persistent.insert(name.clone(), volume);
                self.by_volume.get(&name).cloned().unwrap_or_default()
            }
            VolumeChange::VolumeGone(name) => {
                self.persistent.remove(&name);
                self.by_volume.get(&name).cloned().unwrap_or_default()
            }
            VolumeChange::Class(class) => {
                let name = class.name.clone();
                self.classes.insert(name.clone(), class);
                self.claims_of_class(&name)
            }
            VolumeChange::ClassGone(name) => {
                self.classes.remove(&name);
                self.claims_of_class(&name)
            }
            VolumeChange::CsiNode(node) => {
                self.nodes.insert(node.name.clone(), node);
                BTreeSet::new()
            }
            VolumeChange::CsiNodeGone(name) => {
                self.nodes.remove(&name);
                BTreeSet::new()
            }
            VolumeChange::Attachment(attachment) => {
                self.attachments.insert(attachment.name.clone(), attachment);
                BTreeSet::new()
            }
            VolumeChange::AttachmentGone(name) => {
                self.attachments.remove(&name);
                BTreeSet::new()
            }
        }
    }

    fn forget_claim(&mut self, id: &PodId) {
        let Some(volume) = self.claims.remove(id).and_then(|claim| claim.volume.clone()) else { return };
        if let Some(claims) = self.by_volume.get_mut(&volume) {
            claims.remove(id);
            if claims.is_empty() {
                self.by_volume.remove(&volume);
            }
        }
    }

    /// Classes are few and hardly ever change, so there is no index for them.
    fn claims_of_class(&self, name: &str) -> BTreeSet<PodId> {
        let concerned = self.claims.values().filter(|claim| claim.class.as_deref() == Some(name));
        concerned.map(|claim| claim.id.clone()).collect()
    }

    /// What is not on a complete list is gone.
    pub(crate) fn missing_from(&self, source: Source, known: &BTreeSet<String>) -> Vec<VolumeChange> {
        let gone = |names: &mut dyn Iterator<Item = &String>, change: fn(String) -> VolumeChange| {
            names.filter(|name| !known.contains(*name)).cloned().map(change).collect()
        };
        match source {
            Source::VolumeClaims => {
                let gone = self.claims.keys().filter(|id| !known.contains(&id.to_string()));
                gone.cloned().map(VolumeChange::ClaimGone).collect()
            }
            Source::Volumes => gone(&mut self.persistent.keys(), VolumeChange::VolumeGone),
            Source::StorageClasses => gone(&mut self.classes.keys(), VolumeChange::ClassGone),
            Source::CsiNodes => gone(&mut self.nodes.keys(), VolumeChange::CsiNodeGone),
            Source::Attachments => gone(&mut self.attachments.keys(), VolumeChange::AttachmentGone),
            _ => Vec::new(),
        }
    }

    /// How many volumes each driver that has reported can attach to the node (V15-103).
    pub fn limits(&self, node: &str) -> BTreeMap<String, Option<u32>> {
        self.nodes.get(node).map(|node| node.limits.clone()).unwrap_or_default()
    }

    /// Volumes that are, or are about to be, attached to the node.
    pub fn attachments_on(&self, node: &str) -> Vec<Arc<AttachmentView>> {
        self.attachments.values().filter(|attachment| attachment.node == node).cloned().collect()
    }

    /// The claim, as far as it is known.
    pub fn claim(&self, id: &PodId) -> Option<&Arc<VolumeClaimView>> {
        self.claims.get(id)
    }

    /// The pod with what its volumes ask for filled in. One that waits is checked first (SCH-152); whatever cannot be
    /// found makes it unplannable, so that it is never planned without what it asks for (SCH-156, V15-104).
    pub fn resolve(&self, pod: &PodView) -> PodView {
        let checked = if pod.is_provisionable() { self.check(pod) } else { Ok(()) };
        let mut resolved = pod.clone();
        match checked.and_then(|()| self.alternatives(pod)) {
            Ok(alternatives) => {
                resolved.scheduling.volumes = PodVolumes { alternatives, claims: self.by_driver(pod) };
            }
            Err(why) => {
                resolved.scheduling.volumes.claims = self.by_driver(pod);
                resolved.unplannable.get_or_insert(why.to_string());
            }
        }
        resolved
    }

    /// SCH-152: the first thing that is wrong.
    pub fn check(&self, pod: &PodView) -> Result<(), VolumeError> {
        claims(pod).try_for_each(|id| self.check_claim(&id))
    }

    fn check_claim(&self, id: &PodId) -> Result<(), VolumeError> {
        let claim = self.claims.get(id).ok_or_else(|| VolumeError::NoClaim(id.clone()))?;
        if claim.deleting {
            return Err(VolumeError::ClaimGoing(id.clone()));
        }
        if claim.lost {
            return Err(VolumeError::ClaimLost(id.clone()));
        }
        match &claim.volume {
            Some(volume) => self.check_bound(claim, volume)?,
            None => self.check_unbound(claim)?,
        }
        // What the provider cannot attach by the old name it cannot by the new one.
        let names = [self.driver(claim), self.written_provisioner(claim)];
        match names.into_iter().flatten().find(|name| self.unsupported.provisioners.contains(*name)) {
            Some(name) => Err(VolumeError::Provisioner { claim: id.clone(), provisioner: name.to_owned() }),
            None => Ok(()),
        }
    }

    fn check_bound(&self, claim: &VolumeClaimView, volume: &str) -> Result<(), VolumeError> {
        let known = self.volume(claim, volume)?;
        if known.deleting {
            return Err(VolumeError::VolumeGoing { claim: claim.id.clone(), volume: volume.to_owned() });
        }
        if claim.bind_completed { Ok(()) } else { Err(VolumeError::NotBound(claim.id.clone())) }
    }

    fn check_unbound(&self, claim: &VolumeClaimView) -> Result<(), VolumeError> {
        let id = || claim.id.clone();
        let Some(name) = class_name(claim) else { return Err(VolumeError::NoClassName(id())) };
        let Some(class) = self.classes.get(name) else {
            return Err(VolumeError::NoClass { claim: id(), class: name.to_owned() });
        };
        if class.immediate {
            return Err(VolumeError::Immediate { claim: id(), class: name.to_owned() });
        }
        match class.topology_keys.intersection(&self.unsupported.topology_keys).next() {
            Some(key) => Err(VolumeError::TopologyKey { claim: id(), class: name.to_owned(), key: key.clone() }),
            None => Ok(()),
        }
    }

    fn volume(&self, claim: &VolumeClaimView, name: &str) -> Result<&VolumeView, VolumeError> {
        let missing = || VolumeError::NoVolume { claim: claim.id.clone(), volume: name.to_owned() };
        self.persistent.get(name).map(AsRef::as_ref).ok_or_else(missing)
    }

    /// Where all volumes of the pod can be attached together, in order; empty: anywhere (SCH-154).
    pub fn alternatives(&self, pod: &PodView) -> Result<Vec<Requirements>, VolumeError> {
        let mut all: Vec<Requirements> = Vec::new();
        for id in claims(pod) {
            let claim = self.claims.get(&id).ok_or(VolumeError::NoClaim(id))?;
            let places = self.places(claim)?;
            if !places.is_empty() {
                all = if all.is_empty() { deduplicated(places) } else { combined(&all, &places) };
            }
            if all.len() > MOST_ALTERNATIVES {
                return Err(VolumeError::TooManyPlaces);
            }
        }
        Ok(all)
    }

    /// Where one volume can be attached (SCH-153).
    fn places(&self, claim: &VolumeClaimView) -> Result<Vec<Requirements>, VolumeError> {
        let Some(volume) = &claim.volume else {
            let class = class_name(claim).and_then(|name| self.classes.get(name));
            return Ok(class.map(|class| class.terms.clone()).unwrap_or_default());
        };
        let known = self.volume(claim, volume)?;
        if let Some(why) = &known.unreadable {
            let (claim, volume) = (claim.id.clone(), volume.clone());
            return Err(VolumeError::Unreadable { claim, volume, why: why.clone() });
        }
        let mut terms = known.terms.clone();
        if known.source == VolumeSource::Local {
            for term in &mut terms {
                term.remove(labels::HOSTNAME);
            }
        }
        Ok(terms)
    }

    /// Volume claims by the driver that attaches them (SCH-158). A claim that is missing is not counted, nor is one whose
    /// volume is (SCH-159): it cannot be attached to anything now.
    fn by_driver(&self, pod: &PodView) -> BTreeMap<String, BTreeSet<String>> {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for id in claims(pod) {
            let Some(claim) = self.claims.get(&id) else { continue };
            if let Some(driver) = self.driver(claim) {
                all.entry(driver.to_owned()).or_default().insert(id.to_string());
            }
        }
        all
    }

    /// SCH-157.
    fn driver(&self, claim: &VolumeClaimView) -> Option<&str> {
        match &claim.volume {
            Some(volume) => self.persistent.get(volume)?.driver(),
            None => Some(self.classes.get(class_name(claim)?)?.driver()),
        }
    }

    /// What the class of an unbound claim calls its provisioner.
    fn written_provisioner(&self, claim: &VolumeClaimView) -> Option<&str> {
        let class = class_name(claim).filter(|_| claim.volume.is_none())?;
        Some(&self.classes.get(class)?.provisioner)
    }
}

/// The claims a pod names, in its own namespace.
pub(crate) fn claims(pod: &PodView) -> impl Iterator<Item = PodId> {
    pod.volume_claims.iter().map(|name| PodId::new(pod.id.namespace.clone(), name.clone()))
}

fn class_name(claim: &VolumeClaimView) -> Option<&str> {
    claim.class.as_deref().filter(|name| !name.is_empty())
}

/// Each of one with each of the other, without those that contradict each other; when all do, with them, so that the pod
/// fits nowhere instead of anywhere.
fn combined(left: &[Requirements], right: &[Requirements]) -> Vec<Requirements> {
    let merged = |a: &Requirements, b: &Requirements| {
        let mut both = a.clone();
        both.add_all(b);
        both
    };
    let pairs = || left.iter().flat_map(|a| right.iter().map(move |b| (a, b)));
    let possible: Vec<_> = pairs().filter(|(a, b)| a.intersects(b)).map(|(a, b)| merged(a, b)).collect();
    deduplicated(if possible.is_empty() { pairs().map(|(a, b)| merged(a, b)).collect() } else { possible })
}

/// Trying the same place twice changes nothing.
fn deduplicated(places: Vec<Requirements>) -> Vec<Requirements> {
    let mut seen: Vec<Requirements> = Vec::with_capacity(places.len());
    for place in places {
        if !seen.contains(&place) {
            seen.push(place);
        }
        // More than anybody looks at; whoever asked refuses them all.
        if seen.len() > MOST_ALTERNATIVES {
            break;
        }
    }
    seen
}

#[cfg(test)]
mod tests;
