//! Changes in, snapshot out: a synchronous index of the cluster.
//!
//! Whoever watches the API translates each event into a [`Change`] and calls [`ClusterState::apply`]; whoever decides asks
//! for [`ClusterState::nodes`], [`ClusterState::pending_pods`] and the rest. There is no I/O, no clock and no lock here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::{DaemonView, PodId, PodView};
use karpenter_model::pool::{self, PoolView};
use karpenter_model::volumes::UnsupportedVolumes;

mod bound;
mod by_name;
mod costs;
mod default_spread;
mod devices;
mod entries;
mod expectations;
mod holding;
mod intake;
mod launching;
mod ledger;
mod refusals;
mod siblings;
mod stamp;
mod usage;
mod volumes;
use by_name::ByAge;
pub use by_name::{ByName, PodSet};
pub use costs::Prices;
pub use default_spread::{DefaultConstraints, WorkloadChange, Workloads};
pub use devices::DeviceChange;
pub use expectations::Expectations;
pub use intake::{DeviceRequests, Intake, intake};
pub use refusals::{Refusals, Standing, World};
pub use volumes::{VolumeChange, VolumeError, Volumes};

use self::bound::Bound;
use self::devices::Devices;
use self::holding::Holding;
use self::launching::Launching;
use self::ledger::Ledger;
use self::siblings::Unjudged;
use self::stamp::Stamp;
use self::usage::Usage;

/// The kinds whose first complete list has to be in before anything is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Pods,
    Nodes,
    Claims,
    Pools,
    Daemons,
    Namespaces,
    Pdbs,
    VolumeClaims,
    Volumes,
    StorageClasses,
    CsiNodes,
    Attachments,
    Slices,
    DeviceClasses,
    ResourceClaims,
}

impl Source {
    /// Those that every pass needs.
    pub const ALL: [Self; 12] = [
        Self::Pods,
        Self::Nodes,
        Self::Claims,
        Self::Pools,
        Self::Daemons,
        Self::Namespaces,
        Self::Pdbs,
        Self::VolumeClaims,
        Self::Volumes,
        Self::StorageClasses,
        Self::CsiNodes,
        Self::Attachments,
    ];
    /// Beside these, where devices are looked at.
    pub const DEVICES: [Self; 3] = [Self::Slices, Self::DeviceClasses, Self::ResourceClaims];
}

#[derive(Debug, Clone)]
pub enum Change {
    Pod(Arc<PodView>),
    PodGone(PodId),
    Node(Arc<NodeView>),
    NodeGone(String),
    Claim(Arc<ClaimView>),
    ClaimGone(String),
    Pool(Arc<PoolView>),
    PoolGone(String),
    Daemon(Arc<DaemonView>),
    DaemonGone(PodId),
    Namespace(String, BTreeMap<String, String>),
    NamespaceGone(String),
    Pdb(Arc<PdbView>),
    PdbGone(PodId),
    Volume(VolumeChange),
    Workload(WorkloadChange),
    Device(DeviceChange),
    /// The complete list of one kind has been applied, and what is not on it has been removed.
    Complete(Source),
    /// The complete list of one kind has been applied; `known` are the names on it, whatever else was known is gone.
    Listed(Source, BTreeSet<String>),
}

#[derive(Debug, Default)]
pub struct ClusterState {
    /// As they were written.
    pods: PodSet,
    /// Pods with volumes, with what these ask for filled in.
    resolved: BTreeMap<PodId, Arc<PodView>>,
    /// Pods by the volume claims they name.
    pods_by_claim: BTreeMap<PodId, BTreeSet<PodId>>,
    volumes: Volumes,
    workloads: Workloads,
    /// `None` when devices are not looked at.
    devices: Option<Devices>,
    /// Given to pods that wait and declare none.
    default_spread: DefaultConstraints,
    /// Terminal ones left out.
    bound: Bound,
    /// Pods that wait for capacity.
    waiting: BTreeSet<ByName>,
    unjudged: Unjudged,
    /// Living pods of each DaemonSet, the newest last.
    of_daemons: BTreeMap<PodId, BTreeSet<ByAge>>,
    nodes: BTreeMap<String, Arc<NodeView>>,
    claims: BTreeMap<String, Arc<ClaimView>>,
    pools: BTreeMap<String, Arc<PoolView>>,
    daemons: BTreeMap<PodId, Arc<DaemonView>>,
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    nominations: BTreeMap<String, Timestamp>,
    /// How many pods have no node and could get one.
    unbound: usize,
    listed: BTreeSet<Source>,
    pdbs: BTreeMap<PodId, Arc<PdbView>>,
    /// Where pods are expected.
    pub expectations: Expectations,
    ledger: Ledger,
    /// Claims without an instance that are not going.
    launching: Launching,
    /// Pods that keep the place they were promised.
    holding: Holding,
    usage: Usage,
    /// Claims that a disruption command has chosen, by name.
    marked: BTreeSet<String>,
    /// Claims that will soon have lived long enough, by name.
    expiring: BTreeSet<String>,
    /// Virtual pods of capacity buffers, by node.
    buffer_pods: BTreeMap<String, u32>,
    world: World,
    stamp: Stamp,
    /// A pass for pending pods has been made since the start.
    planned: bool,
}

/// What the picture lacks (SCH-241).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsynced {
    NotListed(Source),
    /// A claim without an instance may or may not take the pods that wait.
    ClaimNotLaunched(String),
}

impl ClusterState {
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Pod(pod) => self.apply_pod(&self.as_presumed(&pod)),
            Change::PodGone(id) => {
                self.remove_pod(&id);
                self.expectations.expect(&id, None);
            }
            Change::Node(node) => self.apply_node(&node),
            Change::NodeGone(name) => self.remove_node(&name),
            Change::Claim(claim) => self.apply_claim(&claim),
            Change::ClaimGone(name) => self.remove_claim(&name),
            Change::Pool(pool) => {
                let before = self.pools.insert(pool.name.clone(), pool.clone());
                if before.as_ref() != Some(&pool) {
                    self.stamp.touch();
                }
                self.changed_if(before != Some(pool));
            }
            Change::PoolGone(name) => {
                let gone = self.pools.remove(&name).is_some();
                self.changed_if(gone);
            }
            Change::Daemon(daemon) => {
                let before = self.daemons.insert(daemon.id.clone(), daemon.clone());
                self.changed_if(before != Some(daemon));
            }
            Change::DaemonGone(id) => {
                let gone = self.daemons.remove(&id).is_some();
                self.changed_if(gone);
            }
            Change::Namespace(name, labels) => {
                let before = self.namespaces.insert(name, labels.clone());
                self.changed_if(before != Some(labels));
            }
            Change::NamespaceGone(name) => {
                let gone = self.namespaces.remove(&name).is_some();
                self.changed_if(gone);
            }
            Change::Pdb(budget) => {
                let before = self.pdbs.insert(budget.id.clone(), budget.clone());
                self.changed_if(before != Some(budget));
            }
            Change::PdbGone(id) => {
                let gone = self.pdbs.remove(&id).is_some();
                self.changed_if(gone);
            }
            Change::Volume(change) => self.apply_volume(change),
            Change::Workload(change) => {
                self.changed_if(true);
                self.workloads.apply(change);
            }
            Change::Device(change) => self.apply_device(change),
            Change::Complete(source) => {
                self.listed.insert(source);
                self.changed_if(true);
            }
            Change::Listed(source, known) => self.apply_list(source, &known),
        }
    }

    fn apply_pod(&mut self, pod: &Arc<PodView>) {
        if self.replace_pod(pod) {
            return;
        }
        match self.pods.get(&pod.id) {
            Some(known) if known.0 == *pod => return,
            Some(known) if known.uid != pod.uid => self.expectations.expect(&pod.id, None),
            _ => {}
        }
        let old = self.take_pod(&pod.id);
        if old.as_ref().is_some_and(|old| refusals::frees(old, pod)) {
            self.world.room += 1;
        }
        let bound = |pod: &PodView| pod.node_name.clone().filter(|_| !pod.is_terminal());
        if old.as_deref().and_then(bound) != bound(pod) {
            self.stamp.touch();
        }
        for claim in volumes::claims(pod) {
            self.pods_by_claim.entry(claim).or_default().insert(pod.id.clone());
        }
        if pod.is_provisionable() {
            self.waiting.insert(ByName(pod.clone()));
        }
        if let Some(daemon) = living_daemon(pod) {
            self.of_daemons.entry(daemon).or_default().insert(ByAge(pod.clone()));
        }
        self.unbound += usize::from(is_unbound(pod));
        self.unjudged.note(pod);
        self.pods.insert(ByName(pod.clone()));
        self.place_pod(pod);
    }

    /// Most changes of a pod say only how it is: it stays where it is in every index.
    fn replace_pod(&mut self, pod: &Arc<PodView>) -> bool {
        let Some(known) = self.pods.get(&pod.id) else { return false };
        let stays = Arc::ptr_eq(&known.class, &pod.class)
            && known.uid == pod.uid
            && known.node_name == pod.node_name
            && known.created_at == pod.created_at
            && known.is_terminal() == pod.is_terminal()
            && known.is_active() == pod.is_active()
            && known.unjudged == pod.unjudged
            && known.is_provisionable() == pod.is_provisionable()
            && pod.volume_claims.is_empty();
        if !stays || pod.is_provisionable() || pod.daemon_set.is_some() {
            return false;
        }
        if let Some(node) = pod.node_name.as_ref().filter(|_| !pod.is_terminal()) {
            self.bound.replace(node, &known.0, pod);
        }
        self.pods.replace(ByName(pod.clone()));
        true
    }

    /// Files the pod with what its volumes ask for.
    fn place_pod(&mut self, pod: &Arc<PodView>) {
        let view = if pod.volume_claims.is_empty() { pod.clone() } else { Arc::new(self.volumes.resolve(pod)) };
        if !pod.volume_claims.is_empty() {
            self.resolved.insert(pod.id.clone(), view.clone());
        }
        if let Some(node) = pod.node_name.as_ref().filter(|_| !pod.is_terminal()) {
            self.bound.put(node, view);
            self.world.all += 1;
        }
    }

    fn remove_pod(&mut self, id: &PodId) {
        if self.take_pod(id).is_some_and(|pod| pod.node_name.is_some()) {
            self.world.room += 1;
            self.stamp.touch();
        }
    }

    fn take_pod(&mut self, id: &PodId) -> Option<Arc<PodView>> {
        let ByName(pod) = self.pods.take(id)?;
        self.unbound -= usize::from(is_unbound(&pod));
        self.unjudged.forget(&pod);
        self.resolved.remove(id);
        self.waiting.remove(id);
        self.forget_daemon_pod(&pod);
        for claim in volumes::claims(&pod) {
            if let Some(pods) = self.pods_by_claim.get_mut(&claim) {
                pods.remove(id);
                if pods.is_empty() {
                    self.pods_by_claim.remove(&claim);
                }
            }
        }
        if let Some(node) = &pod.node_name {
            self.world.all += 1;
            self.bound.remove(node, id);
        }
        Some(pod)
    }

    /// Something changed that any pod may depend on.
    fn changed_if(&mut self, changed: bool) {
        self.world.all += u64::from(changed);
        self.world.room += u64::from(changed);
    }

    fn forget_daemon_pod(&mut self, pod: &Arc<PodView>) {
        let Some(daemon) = living_daemon(pod) else { return };
        if let Some(pods) = self.of_daemons.get_mut(&daemon) {
            pods.remove(&ByAge(pod.clone()));
            if pods.is_empty() {
                self.of_daemons.remove(&daemon);
            }
        }
    }

    fn apply_volume(&mut self, change: VolumeChange) {
        self.changed_if(true);
        for claim in self.volumes.apply(change) {
            let pods: Vec<PodId> = self.pods_by_claim.get(&claim).into_iter().flatten().cloned().collect();
            for pod in pods.iter().filter_map(|id| self.pods.get(id).map(|pod| pod.0.clone())).collect::<Vec<_>>() {
                self.place_pod(&pod);
            }
        }
    }

    /// The pod with what its volumes ask for.
    fn view<'a>(&'a self, pod: &'a Arc<PodView>) -> &'a Arc<PodView> {
        self.resolved.get(&pod.id).unwrap_or(pod)
    }

    /// What the provider cannot work with; before the first change.
    #[must_use]
    pub fn without_volumes(mut self, unsupported: UnsupportedVolumes) -> Self {
        self.volumes.unsupported = unsupported;
        self
    }

    /// Spread constraints of pods that declare none (SCH-147); before the first change.
    #[must_use]
    pub fn with_default_spread(mut self, defaults: DefaultConstraints) -> Self {
        self.default_spread = defaults;
        self
    }

    /// The pod as a pass plans it: with the default spread constraints, if it has none of its own. Pods of nodes that are
    /// going come into a pass through this too.
    pub fn planned(&self, pod: &Arc<PodView>) -> Arc<PodView> {
        self.workloads.with_defaults(pod, &self.default_spread)
    }

    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    fn apply_list(&mut self, source: Source, known: &BTreeSet<String>) {
        match source {
            Source::Pods => {
                let gone = self.pods.iter().filter(|pod| !known.contains(&pod.id.to_string()));
                let gone: BTreeSet<PodId> = gone.map(|pod| pod.id.clone()).collect();
                for id in &gone {
                    self.remove_pod(id);
                    self.expectations.expect(id, None);
                }
            }
            Source::Nodes => {
                let gone: Vec<String> = self.nodes.keys().filter(|name| !known.contains(*name)).cloned().collect();
                for name in &gone {
                    self.remove_node(name);
                }
            }
            Source::Claims => {
                let gone: Vec<String> = self.claims.keys().filter(|name| !known.contains(*name)).cloned().collect();
                for name in &gone {
                    self.remove_claim(name);
                }
            }
            Source::Pools => self.pools.retain(|name, _| known.contains(name)),
            Source::Daemons => self.daemons.retain(|id, _| known.contains(&id.to_string())),
            Source::Namespaces => self.namespaces.retain(|name, _| known.contains(name)),
            Source::Pdbs => self.pdbs.retain(|id, _| known.contains(&id.to_string())),
            Source::VolumeClaims
            | Source::Volumes
            | Source::StorageClasses
            | Source::CsiNodes
            | Source::Attachments => {
                for change in self.volumes.missing_from(source, known) {
                    self.apply_volume(change);
                }
            }
            Source::Slices | Source::DeviceClasses | Source::ResourceClaims => self.retain_devices(source, known),
        }
        self.listed.insert(source);
        self.changed_if(true);
    }

    /// `None` when the picture is complete. What a pass has to wait for is less: [`ClusterState::waits_for`].
    pub fn unsynced(&self) -> Option<Unsynced> {
        let missing = self.unlisted().map(Unsynced::NotListed);
        missing.or_else(|| self.launching().next().map(|claim| Unsynced::ClaimNotLaunched(claim.name.clone())))
    }

    /// A kind whose first complete list is not in.
    pub fn unlisted(&self) -> Option<Source> {
        let devices = self.devices.as_ref().map(|_| Source::DEVICES);
        Source::ALL.into_iter().chain(devices.into_iter().flatten()).find(|source| !self.listed.contains(source))
    }

    /// Pods that wait for capacity.
    pub fn pending_pods(&self) -> BTreeMap<PodId, Arc<PodView>> {
        self.waiting.iter().map(|pod| (pod.id.clone(), self.planned(self.view(&pod.0)))).collect()
    }

    /// With what its volumes ask for.
    pub fn pod(&self, id: &PodId) -> Option<Arc<PodView>> {
        self.pods.get(id).map(|pod| self.view(&pod.0).clone())
    }

    /// All pods that are known now.
    pub fn pods(&self) -> PodSet {
        self.pods.clone()
    }

    /// Whether the complete list of a kind has been seen.
    pub fn is_listed(&self, source: Source) -> bool {
        self.listed.contains(&source)
    }

    /// What pools have to offer has changed, though nothing that is kept here has.
    pub fn note_offers_changed(&mut self) {
        self.changed_if(true);
    }

    /// Grows whenever something changes that could give a pod a place, or take it.
    pub fn world(&self) -> World {
        self.world
    }

    pub fn pdbs(&self) -> impl Iterator<Item = &Arc<PdbView>> {
        self.pdbs.values()
    }

    /// Pods bound to a node and not terminal.
    pub fn pods_on(&self, node: &str) -> Vec<Arc<PodView>> {
        self.bound.on(node).to_vec()
    }

    /// One pod per DaemonSet: the newest that lives, else its template (SCH-71, SCH-238).
    ///
    /// A pod of a DaemonSet is pinned to its node by an affinity that the DaemonSet controller added; the template's
    /// own affinity takes the place of it.
    pub fn daemons(&self) -> Vec<Arc<PodView>> {
        self.daemons.values().map(|daemon| self.representative(daemon)).collect()
    }

    fn representative(&self, daemon: &DaemonView) -> Arc<PodView> {
        let pods = self.of_daemons.get(&daemon.id).into_iter().flatten();
        // Of this very set, not of one that had its name before (Y33).
        let own = |ByAge(pod): &&ByAge| {
            pod.daemon_set_uid.as_ref().zip(daemon.uid.as_ref()).is_none_or(|(pod, set)| pod == set)
        };
        let Some(ByAge(newest)) = pods.rev().find(own) else {
            return Arc::new(daemon.template.clone());
        };
        let mut pod = PodView::clone(newest);
        pod.scheduling.required_terms.clone_from(&daemon.template.scheduling.required_terms);
        Arc::new(pod)
    }

    pub fn namespaces(&self) -> &BTreeMap<String, BTreeMap<String, String>> {
        &self.namespaces
    }

    pub fn pool(&self, name: &str) -> Option<&Arc<PoolView>> {
        self.pools.get(name)
    }

    /// In order of precedence.
    pub fn pools(&self) -> Vec<Arc<PoolView>> {
        let mut pools: Vec<_> = self.pools.values().cloned().collect();
        pools.sort_by(|a, b| pool::by_precedence(a, b));
        pools
    }

    pub fn claim(&self, name: &str) -> Option<&Arc<ClaimView>> {
        self.claims.get(name)
    }

    /// By name.
    pub fn claims(&self) -> impl Iterator<Item = &Arc<ClaimView>> {
        self.claims.values()
    }

    /// Whether some pod has no node yet, whatever kube-scheduler has said about it.
    pub fn has_unbound_pods(&self) -> bool {
        self.unbound > 0
    }

    /// How many virtual pods of buffers each node has; replaces what was known (LC-121).
    pub fn set_buffer_pods(&mut self, counts: BTreeMap<String, u32>) {
        self.buffer_pods = counts;
    }

    pub fn buffer_pods(&self, node: &str) -> u32 {
        self.buffer_pods.get(node).copied().unwrap_or_default()
    }

    /// A pass for pending pods has been made: whoever is expected on a node is known again.
    pub fn note_pass(&mut self) {
        self.planned = true;
    }

    /// Whether a node without pods may be called empty. After a start nobody knows which nodes were made for pods that are
    /// about to come, until the first pass has looked (Y14).
    pub fn knows_who_is_expected(&self) -> bool {
        self.planned
    }

    /// When something last changed that matters for consolidation, or was last looked at for no reason (SCH-243).
    pub fn consolidation_stamp(&mut self, now: Timestamp) -> Timestamp {
        self.stamp.read(now)
    }

    /// Prices or sizes were published anew, which is a reason to look at every node again (SCH-243).
    pub fn note_overlays_published(&mut self) {
        self.stamp.touch();
        self.changed_if(true);
    }

    /// A claim, or a node that has none, is expected to receive pods until then (SCH-24); a later nomination replaces an
    /// earlier one.
    pub fn nominate(&mut self, name: &str, until: Timestamp) {
        self.nominations.insert(name.to_owned(), until);
    }
}

fn is_unbound(pod: &PodView) -> bool {
    pod.node_name.is_none() && pod.is_active()
}

/// The DaemonSet that a pod stands for (SCH-238).
fn living_daemon(pod: &PodView) -> Option<PodId> {
    let name = pod.daemon_set.as_ref().filter(|_| pod.is_active())?;
    Some(PodId::new(pod.id.namespace.clone(), name.clone()))
}

#[cfg(test)]
mod tests;
