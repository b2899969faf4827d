//! A snapshot in numbers, and the passes over it.
//!
//! Whatever scheduling compares is interned once ([`intern`], [`algebra`]); instance types are columns of rows
//! ([`catalogue`]), pods are classes ([`pods`]), counts of pods per domain are dense lists ([`groups`]). A [`pass`] places
//! pods in exactly the specified order and can be rolled back.

pub(crate) mod algebra;
pub(crate) mod amounts;
pub(crate) mod bits;
pub(crate) mod candidates;
pub(crate) mod catalogue;
pub(crate) mod claims;
mod crowd;
mod devices;
pub(crate) mod domains;
pub(crate) mod evaluation;
mod explain;
mod finish;
pub(crate) mod group;
pub(crate) mod groups;
mod guided;
pub(crate) mod intern;
pub(crate) mod nodes;
pub(crate) mod pass;
pub(crate) mod pods;
pub(crate) mod pools;
pub(crate) mod queues;
pub(crate) mod refresh;
pub(crate) mod room;
pub(crate) mod stock;
pub(crate) mod undo;
pub(crate) mod what_if;
pub(crate) mod wishes;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodView;
use karpenter_model::pool::by_precedence;
use karpenter_model::requirements::{Operator, Requirements};
use karpenter_model::scheduling::PodScheduling;
use karpenter_model::snapshot::Snapshot;

use self::algebra::Algebra;
use self::amounts::Names;
use self::catalogue::Catalogue;
use self::domains::Universe;
use self::groups::{Hosts, asked_values, position};
use self::intern::NONE;
use self::nodes::{Node, Reading, TaintLists};
use self::pods::Pods;
use self::pools::Pool;
use crate::devices::{Facts, Inventory};
use crate::plan::Work;
use crate::reservations::Reservations;

/// So much may be kept whatever the cluster: a few megabytes.
const SPARE: usize = if cfg!(test) { 64 } else { 20_000 };

#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) algebra: Algebra,
    pub(crate) names: Names,
    pub(crate) taints: TaintLists,
    pub(crate) catalogues: Vec<Catalogue>,
    /// In order of precedence (SCH-84).
    pub(crate) pools: Vec<Pool>,
    pub(crate) pods: Pods,
    /// By name.
    pub(crate) nodes: Vec<Node>,
    /// Active nodes in the order in which they are tried (SCH-87).
    pub(crate) order: Vec<usize>,
    pub(crate) hosts: Hosts,
    pub(crate) namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) reservations: Reservations,
    pub(crate) offers: finish::Offers,
    /// What is known about devices, if anybody asks.
    pub(crate) inventory: Option<Arc<Inventory>>,
    around: Around,
    /// Keys of labels that pods ask about.
    keys: BTreeSet<String>,
    /// What was looked at, ever; pods count their own.
    work: Work,
}

/// What the meaning of a node depends on besides itself and the keys and labels that are asked about.
#[derive(Debug, Default)]
struct Around {
    daemons: Vec<Arc<PodView>>,
    pools: Vec<(String, Arc<Vec<InstanceType>>)>,
}

impl Around {
    fn of(snapshot: &Snapshot) -> Self {
        Self {
            daemons: snapshot.daemons.clone(),
            pools: snapshot.pools.iter().map(|offer| (offer.pool.name.clone(), offer.instance_types.clone())).collect(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let daemons = self.daemons.iter().zip(&other.daemons).all(|(a, b)| Arc::ptr_eq(a, b));
        let mut pools = self.pools.iter().zip(&other.pools);
        (self.daemons.len(), self.pools.len()) == (other.daemons.len(), other.pools.len())
            && daemons
            && pools.all(|((name, types), (other, known))| name == other && Arc::ptr_eq(types, known))
    }
}

impl Compiled {
    pub(crate) fn new(rules: &LabelRules) -> Self {
        let hosts = Hosts { names: Vec::new(), of_node: Vec::new(), of_slot: Vec::new(), slots: Vec::new() };
        Self {
            algebra: Algebra::new(rules),
            names: Names::default(),
            taints: TaintLists::default(),
            catalogues: Vec::new(),
            pools: Vec::new(),
            pods: Pods::default(),
            nodes: Vec::new(),
            order: Vec::new(),
            hosts,
            namespaces: BTreeMap::new(),
            reservations: Reservations::default(),
            offers: finish::Offers::default(),
            inventory: None,
            around: Around::default(),
            keys: BTreeSet::new(),
            work: Work::default(),
        }
    }

    pub(crate) fn work(&self) -> Work {
        Work { pods: self.pods.compiled, ..self.work }
    }

    /// Takes over another snapshot; what is the same object as before is not looked at again.
    pub(crate) fn update(&mut self, snapshot: &Snapshot, workers: usize) {
        self.update_with(snapshot, &[], workers);
    }

    /// The same with pods that run and might move.
    pub(crate) fn update_with(&mut self, snapshot: &Snapshot, residents: &[Arc<PodView>], workers: usize) {
        self.forget_what_is_gone(snapshot, residents.len());
        let before = (self.keys.len(), self.pods.labels_read());
        let kinds = self.pods.kinds.len();
        self.pods.update(snapshot, residents, &mut self.names, workers);
        for kind in &self.pods.kinds[kinds..] {
            add_keys(&mut self.keys, &kind.example.scheduling);
        }
        for term in snapshot.nodes.iter().flat_map(|node| &node.pods).flat_map(|pod| &pod.scheduling.anti_affinity) {
            add_key(&mut self.keys, &term.key);
        }
        self.namespaces.clone_from(&snapshot.namespaces);
        self.reservations = Reservations::new(snapshot, self.algebra.rules());
        self.inventory = Facts::of(snapshot).map(|facts| Arc::new(Inventory::new(facts)));
        let around = Around::of(snapshot);
        let same = around.is_same(&self.around);
        let as_read = before == (self.keys.len(), self.pods.labels_read());
        self.update_nodes(snapshot, !same || !as_read);
        self.around = around;
        self.update_pools(snapshot, same);
    }

    /// Tables only grow, so that numbers stay what they are. Where most of what they hold is gone from the cluster, all of it
    /// is compiled anew: then it has cost far more than that before, and will not again for as long.
    fn forget_what_is_gone(&mut self, snapshot: &Snapshot, residents: usize) {
        let types: usize = snapshot.pools.iter().map(|offer| offer.instance_types.len()).sum();
        // A pod has a class, a kind, a shape and a badge; requirements come from kinds, nodes and offerings, and narrow
        // each other.
        let alive = 4 * (snapshot.pending.len() + residents) + 2 * snapshot.nodes.len() + types;
        if self.pods.kept() + self.algebra.req_count() > 4 * alive + SPARE {
            let work = self.work();
            *self = Self::new(&self.algebra.rules().clone());
            self.pods.compiled = work.pods;
            self.work = work;
        }
    }

    /// How much is kept about pods and requirements.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.pods.kept() + self.algebra.req_count()
    }

    /// `same`: neither DaemonSets nor catalogues have changed.
    fn update_pools(&mut self, snapshot: &Snapshot, same: bool) {
        let mut offers: Vec<_> = snapshot.pools.iter().collect();
        // However they were listed (SC-368).
        offers.sort_by(|a, b| by_precedence(&a.pool, &b.pool));
        for daemon in &snapshot.daemons {
            self.names.amounts(&daemon.requests);
        }
        let offered = |known: &Catalogue| offers.iter().any(|offer| Arc::ptr_eq(&offer.instance_types, &known.types));
        if !self.catalogues.iter().all(offered) {
            // What was worked out for catalogues goes by their place in the list.
            self.catalogues.retain(offered);
            self.offers = finish::Offers::default();
        }
        let at: Vec<usize> = offers.iter().map(|offer| self.catalogue(&offer.instance_types)).collect();
        let known = if same { std::mem::take(&mut self.pools) } else { Vec::new() };
        self.pools.clear();
        let mut known: Vec<Option<Pool>> = known.into_iter().map(Some).collect();
        for (offer, at) in offers.into_iter().zip(at) {
            let resources = self.names.len();
            let old = known.iter_mut().find(|pool| pool.as_ref().is_some_and(|pool| pool.is_of(offer, at, resources)));
            let pool = if let Some(mut pool) = old.and_then(Option::take) {
                pool.charge_usage(offer);
                pool
            } else {
                let names = (&mut self.algebra, &mut self.names, &mut self.taints);
                Pool::new(offer, (at, &mut self.catalogues[at]), &snapshot.daemons, names)
            };
            self.pools.push(pool);
        }
    }

    fn catalogue(&mut self, types: &Arc<Vec<InstanceType>>) -> usize {
        if let Some(known) = self.catalogues.iter().position(|known| Arc::ptr_eq(&known.types, types)) {
            return known;
        }
        self.work.catalogues += 1;
        self.catalogues.push(Catalogue::new(types, &mut self.algebra, &mut self.names));
        self.catalogues.len() - 1
    }

    /// `reread`: something that nodes are read with has changed.
    fn update_nodes(&mut self, snapshot: &Snapshot, reread: bool) {
        let mut sources: Vec<_> = snapshot.nodes.iter().collect();
        sources.sort_by(|a, b| a.name().cmp(b.name()));
        // What a node is depends on all of these besides itself.
        let known = if reread { Vec::new() } else { std::mem::take(&mut self.nodes) };
        let mut known = known.into_iter().peekable();
        let mut same = Vec::with_capacity(sources.len());
        let moving = self.pods.moving();
        for source in &sources {
            while known.next_if(|node| node.name.as_str() < source.name()).is_some() {}
            same.push(known.next_if(|node| node.is_same(source, &moving)));
        }
        drop(moving);
        let mut reading = Reading {
            snapshot,
            algebra: &mut self.algebra,
            names: &mut self.names,
            taints: &mut self.taints,
            pods: &mut self.pods,
            keys: &self.keys,
        };
        let mut nodes = Vec::with_capacity(sources.len());
        for (source, same) in sources.into_iter().zip(same) {
            self.work.nodes += usize::from(same.is_none());
            nodes.push(same.unwrap_or_else(|| Node::new(source, &mut reading)));
        }
        self.nodes = nodes;
        let nodes = &self.nodes;
        self.order = (0..nodes.len()).filter(|at| !nodes[*at].going).collect();
        self.order.sort_by_key(|at| !nodes[*at].initialized);
        let labelled = nodes.iter().filter_map(|node| node.domain(labels::HOSTNAME));
        let mut names: Vec<String> =
            nodes.iter().map(|node| node.hostname.as_str()).chain(labelled).map(ToOwned::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        let of_node =
            nodes.iter().map(|node| node.domain(labels::HOSTNAME).map_or(NONE, |name| position(&names, name)));
        let of_slot: Vec<usize> = self.order.iter().map(|at| position(&names, &nodes[*at].hostname) as usize).collect();
        let mut slots = vec![Vec::new(); names.len()];
        of_slot.iter().enumerate().for_each(|(slot, host)| slots[*host].push(slot));
        self.hosts = Hosts { of_node: of_node.collect(), of_slot, slots, names };
    }

    /// The topology keys that anybody asks about, with all their values.
    fn universes(&mut self) -> Vec<Universe> {
        let mut keys: BTreeSet<&str> = BTreeSet::new();
        for kind in &self.pods.kinds {
            let wishes = &kind.example.scheduling;
            keys.extend(wishes.spread.iter().map(|constraint| constraint.key.as_str()));
            keys.extend(wishes.affinity.iter().chain(&wishes.anti_affinity).map(|term| term.key.as_str()));
            let preferred = wishes.preferred_affinity.iter().chain(&wishes.preferred_anti_affinity);
            keys.extend(preferred.map(|term| term.value.key.as_str()));
        }
        keys.extend(self.nodes.iter().flat_map(|node| &node.shy).map(|(_, term)| term.key.as_str()));
        keys.remove(labels::HOSTNAME);
        let keys: Vec<String> = keys.into_iter().map(ToOwned::to_owned).collect();
        keys.iter().map(|key| self.universe(key)).collect()
    }

    fn universe(&mut self, name: &str) -> Universe {
        let key = self.algebra.key(name);
        let mut values: Vec<String> = Vec::new();
        for kind in &self.pods.kinds {
            values.extend(asked_values(&kind.example.scheduling, name));
        }
        for node in &self.nodes {
            values.extend(node.domain(name).map(ToOwned::to_owned));
            let label = self.algebra.get(node.req, key);
            values.extend(
                label.into_iter().flat_map(|set| self.algebra.requirement(set).values()).map(ToOwned::to_owned),
            );
        }
        let mut of_pools = Vec::new();
        for at in 0..self.pools.len() {
            let listed = self.pool_values(at, name);
            values.extend(listed.iter().cloned());
            of_pools.push((self.pools[at].taints, listed));
        }
        let mut universe = Universe::new(key, name, values);
        for (taints, listed) in of_pools {
            let listed: Vec<usize> = listed.iter().filter_map(|value| universe.position(value)).collect();
            if !listed.is_empty() {
                universe.add_pool(taints, listed.into_iter());
            }
        }
        universe.of_node = self
            .nodes
            .iter()
            .map(|node| node.domain(name).and_then(|value| universe.position(value)).map_or(NONE, intern::id))
            .collect();
        universe
    }

    /// Domains that a pool could open: only listed values are domains; what a `NotIn` leaves out is none (SCH-127).
    fn pool_values(&mut self, at: usize, name: &str) -> Vec<String> {
        if name == labels::NODEPOOL {
            return Vec::new();
        }
        let pool = &self.pools[at];
        let own = pool.view.requirements.get(name).cloned();
        let key = self.algebra.key(name);
        let mut said: Vec<u32> =
            self.catalogues[pool.catalogue].column(key, &mut self.algebra).cloned().unwrap_or_default();
        said.sort_unstable();
        said.dedup();
        let of_types = said.into_iter().filter(|set| *set != NONE).map(|set| self.algebra.requirement(set));
        let both =
            of_types.map(|of_type| own.as_ref().map_or_else(|| of_type.clone(), |own| own.intersection(of_type)));
        let listed = both.chain(own.clone()).filter(|one| one.operator() == Operator::In);
        let mut values: Vec<String> =
            listed.flat_map(|one| one.values().map(ToOwned::to_owned).collect::<Vec<_>>()).collect();
        values.sort_unstable();
        values.dedup();
        values
    }
}

/// Keys of node labels that the pod asks about.
fn add_keys(keys: &mut BTreeSet<String>, scheduling: &PodScheduling) {
    let terms = [&scheduling.node_selector].into_iter().chain(&scheduling.required_terms);
    let wished = scheduling.preferred_terms.iter().map(|preferred| &preferred.value);
    let all = terms.chain(wished).chain(&scheduling.volumes.alternatives);
    all.flat_map(Requirements::iter).for_each(|asked| add_key(keys, asked.key()));
    scheduling.spread.iter().for_each(|constraint| add_key(keys, &constraint.key));
    let terms = scheduling.affinity.iter().chain(&scheduling.anti_affinity);
    let wished = scheduling.preferred_affinity.iter().chain(&scheduling.preferred_anti_affinity);
    terms.chain(wished.map(|preferred| &preferred.value)).for_each(|term| add_key(keys, &term.key));
}

fn add_key(keys: &mut BTreeSet<String>, key: &str) {
    if !keys.contains(key) {
        keys.insert(key.to_owned());
    }
}
