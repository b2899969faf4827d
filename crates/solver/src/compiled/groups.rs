//! Spread, affinity and anti-affinity: how many pods are where, and where one more may go.

mod badges;
mod leaving;
mod recount;

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::requirements::Requirements;
use karpenter_model::scheduling::{AffinityTerm, NodePolicy, PodScheduling, SpreadConstraint};
use karpenter_model::taints::Toleration;

use self::badges::Badges;
use self::leaving::{LeftPod, Support};
pub(crate) use self::recount::Touched;
use super::algebra::{Algebra, Asked, KeyId, ReqId, SetId};
use super::bits::Bits;
use super::domains::Universe;
use super::group::{Group, Identity, Kind, Picks, Site, Spot, Zones};
use super::intern::{Id, NONE, id};
use super::nodes::{Node, TaintLists, TaintsId};
use super::pods::{Badge, BadgeId};

/// The most combinations of tied domains that are tried for one candidate (SCH-251).
pub(crate) const MAX_COMBINATIONS: usize = 64;

/// An ordinary group, or one of required anti-affinity seen from the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum GroupRef {
    Own(usize),
    /// Counts the pods that own the term.
    Inverse(usize),
}

/// Which nodes count for a spread constraint (SCH-130).
#[derive(Debug, Default)]
struct Filter {
    /// Any of these must hold; `None`: labels do not matter.
    terms: Option<Vec<Asked>>,
    wanted: Option<Vec<Requirements>>,
    /// `None`: taints do not matter.
    tolerations: Option<Vec<Toleration>>,
    /// Every place will do.
    trivial: bool,
}

/// A place that pods are counted on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub(crate) req: ReqId,
    pub(crate) taints: TaintsId,
    pub(crate) site: Site,
}

/// The groups that have to do with a badge.
#[derive(Debug, Default, Clone)]
struct Concerned {
    counted_by: Vec<usize>,
    /// The same as a set.
    counted: Bits,
    /// Groups without a selector, which count only pods that run already.
    counted_unselected: Vec<usize>,
    counted_inverse: Bits,
    /// Inverse groups of hosts, and of other keys.
    against: [Vec<GroupRef>; 2],
}

/// Where a place is, in terms of one group.
enum Spots {
    One(Spot),
    Several(Vec<Spot>),
}

#[derive(Debug, Clone, Copy)]
enum Change {
    /// One pod more.
    Raised { group: GroupRef, spot: Spot, new_domain: bool },
    /// One pod less.
    Lowered { group: GroupRef, spot: Spot },
    /// One node less brings the domain.
    Support { at: usize, domain: usize },
    /// The domain is none any more.
    Dropped { group: GroupRef, domain: usize },
}

/// How far the counts had got.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    changes: usize,
    placed: usize,
    left_nodes: usize,
    left_pods: usize,
}

/// Existing nodes, as far as groups look at them.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// Sorted.
    pub(crate) names: Vec<String>,
    /// By node: its host, if it exists, as its label says; [`NONE`] otherwise.
    pub(crate) of_node: Vec<Id>,
    /// By place in the order of a pass: the host.
    pub(crate) of_slot: Vec<usize>,
    pub(crate) slots: Vec<Vec<usize>>,
}

/// All groups of a pass.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) universes: Vec<Universe>,
    filters: Vec<Filter>,
    own: Vec<Group>,
    by_identity: BTreeMap<Identity, usize>,
    inverse: Vec<Group>,
    inverse_by_identity: BTreeMap<Identity, usize>,
    /// By badge.
    concerned: Vec<Concerned>,
    badges: Badges,
    supports: Vec<Support>,
    /// Nodes that are gone for as long as a question is asked, and their pods that are to move.
    left_nodes: Vec<usize>,
    left_pods: Vec<LeftPod>,
    placed: Vec<(BadgeId, Place)>,
    changes: Vec<Change>,
    /// Placements before this one stay whatever is rolled back.
    firm: usize,
    /// Work space.
    picks: Picks,
}

/// What groups are made from.
#[derive(Clone, Copy)]
pub(crate) struct World<'a> {
    pub(crate) nodes: &'a [Node],
    pub(crate) hosts: &'a Hosts,
    pub(crate) badges: &'a [Badge],
    pub(crate) taints: &'a TaintLists,
    pub(crate) namespaces: &'a BTreeMap<String, BTreeMap<String, String>>,
}

impl Groups {
    pub(crate) fn new(universes: Vec<Universe>, world: World<'_>, algebra: &mut Algebra) -> Self {
        let mut groups = Self {
            universes,
            filters: vec![Filter { trivial: true, ..Filter::default() }],
            own: Vec::new(),
            by_identity: BTreeMap::new(),
            inverse: Vec::new(),
            inverse_by_identity: BTreeMap::new(),
            concerned: vec![Concerned::default(); world.badges.len()],
            badges: Badges::default(),
            supports: Vec::new(),
            left_nodes: Vec::new(),
            left_pods: Vec::new(),
            placed: Vec::new(),
            changes: Vec::new(),
            firm: 0,
            picks: Picks::default(),
        };
        groups.add_inverse_of_bound_pods(world, algebra);
        groups
    }

    fn get(&self, group: GroupRef) -> &Group {
        match group {
            GroupRef::Own(at) => &self.own[at],
            GroupRef::Inverse(at) => &self.inverse[at],
        }
    }

    fn get_mut(&mut self, group: GroupRef) -> &mut Group {
        match group {
            GroupRef::Own(at) => &mut self.own[at],
            GroupRef::Inverse(at) => &mut self.inverse[at],
        }
    }

    pub(crate) fn is_host(&self, group: GroupRef) -> bool {
        self.get(group).universe.is_none()
    }

    pub(crate) fn group(&self, group: GroupRef) -> &Group {
        self.get(group)
    }

    fn universe(&self, key: &str) -> Option<usize> {
        self.universes.iter().position(|universe| universe.name == key)
    }

    /// The groups of these wishes, in the order in which groups were made (SCH-123).
    pub(crate) fn of_wishes(
        &mut self,
        namespace: &str,
        wishes: &PodScheduling,
        world: World<'_>,
        algebra: &mut Algebra,
    ) -> Vec<GroupRef> {
        let mut owned = Vec::new();
        for constraint in &wishes.spread {
            owned.push(self.of_spread(namespace, wishes, constraint, world, algebra));
        }
        for term in wishes.affinity.iter().chain(wishes.preferred_affinity.iter().map(|preferred| &preferred.value)) {
            let identity = self.term_identity(&wishes.tolerations, Kind::Affinity, term, world);
            owned.push(self.own_group(identity, world, algebra));
        }
        let anti = wishes.anti_affinity.iter();
        for term in anti.chain(wishes.preferred_anti_affinity.iter().map(|preferred| &preferred.value)) {
            let identity = self.term_identity(&wishes.tolerations, Kind::AntiAffinity, term, world);
            owned.push(self.own_group(identity, world, algebra));
        }
        owned.sort_unstable();
        owned.dedup();
        owned
    }

    /// The inverse groups that the pod is counted in wherever it goes.
    pub(crate) fn inverse_of(
        &mut self,
        scheduling: &PodScheduling,
        world: World<'_>,
        algebra: &mut Algebra,
    ) -> Vec<GroupRef> {
        let mut all: Vec<GroupRef> = scheduling
            .anti_affinity
            .iter()
            .map(|term| GroupRef::Inverse(self.inverse_group(scheduling, term, world, algebra)))
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn pool_domains(&self, universe: Option<usize>, taints: &TaintLists, tolerations: Option<&[Toleration]>) -> Bits {
        let mut domains = Bits::default();
        if let Some(universe) = universe.map(|at| &self.universes[at]) {
            domains = Bits::new(universe.len());
            for (list, bits) in &universe.pools {
                if tolerations.is_none_or(|by| taints.tolerated(*list, by)) {
                    domains.union(bits);
                }
            }
        }
        domains
    }

    fn of_spread(
        &mut self,
        namespace: &str,
        wishes: &PodScheduling,
        constraint: &SpreadConstraint,
        world: World<'_>,
        algebra: &mut Algebra,
    ) -> GroupRef {
        let tolerations = match constraint.node_taints_policy {
            NodePolicy::Ignore => None,
            NodePolicy::Honor => Some(&wishes.tolerations[..]),
        };
        let identity = Identity {
            kind: Kind::Spread { max_skew: constraint.max_skew, min_domains: constraint.min_domains },
            key: constraint.key.clone(),
            namespaces: BTreeSet::from([namespace.to_owned()]),
            selector: constraint.selector.clone(),
            filter: self.filter(wishes, constraint, algebra),
            domains: self.pool_domains(self.universe(&constraint.key), world.taints, tolerations),
        };
        self.own_group(identity, world, algebra)
    }

    fn filter(&mut self, wishes: &PodScheduling, constraint: &SpreadConstraint, algebra: &mut Algebra) -> usize {
        let wanted = (constraint.node_affinity_policy == NodePolicy::Honor).then(|| {
            let with_selector = |term: &Requirements| {
                let mut all = wishes.node_selector.clone();
                all.add_all(term);
                all
            };
            match &wishes.required_terms[..] {
                [] => vec![wishes.node_selector.clone()],
                terms => terms.iter().map(with_selector).collect(),
            }
        });
        let tolerations = (constraint.node_taints_policy == NodePolicy::Honor).then(|| wishes.tolerations.clone());
        let same = |known: &Filter| known.wanted == wanted && known.tolerations == tolerations;
        if let Some(at) = self.filters.iter().position(same) {
            return at;
        }
        let terms: Option<Vec<Asked>> =
            wanted.as_ref().map(|terms| terms.iter().map(|term| algebra.intern(term)).collect());
        let anywhere = wanted.as_ref().is_none_or(|terms| terms.iter().any(Requirements::is_empty));
        self.filters.push(Filter { terms, trivial: anywhere && tolerations.is_none(), wanted, tolerations });
        self.filters.len() - 1
    }

    /// Pool domains of affinity depend on tolerations, so they are part of what a group is (Q33).
    fn term_identity(&self, tolerations: &[Toleration], kind: Kind, term: &AffinityTerm, world: World<'_>) -> Identity {
        Identity {
            kind,
            key: term.key.clone(),
            namespaces: term.namespaces.resolve(world.namespaces),
            selector: term.selector.clone(),
            filter: 0,
            domains: self.pool_domains(self.universe(&term.key), world.taints, Some(tolerations)),
        }
    }

    fn own_group(&mut self, identity: Identity, world: World<'_>, algebra: &mut Algebra) -> GroupRef {
        if let Some(at) = self.by_identity.get(&identity) {
            return GroupRef::Own(*at);
        }
        let at = self.own.len();
        let universe = self.universe(&identity.key);
        self.by_identity.insert(identity.clone(), at);
        self.own.push(Group::new(identity, universe.map(|at| (at, &self.universes[at]))));
        let group = GroupRef::Own(at);
        self.add_node_domains(group, world, algebra);
        self.count_bound_pods(at, world, algebra);
        self.forget_left(group, world, algebra);
        // Relaxing changes tolerations and terms, so a group may begin in the middle of a pass.
        for turn in 0..self.placed.len() {
            let (badge, place) = self.placed[turn];
            if self.own[at].selects(&world.badges[badge as usize]) {
                self.count(at, place, turn >= self.firm, world, algebra);
            }
        }
        group
    }

    fn inverse_group(
        &mut self,
        scheduling: &PodScheduling,
        term: &AffinityTerm,
        world: World<'_>,
        algebra: &mut Algebra,
    ) -> usize {
        // Relaxing may let the owner put up with soft taints later, and then those domains count as well.
        let mut tolerations = scheduling.tolerations.clone();
        tolerations.push(Toleration::prefer_no_schedule());
        let identity = self.term_identity(&tolerations, Kind::AntiAffinity, term, world);
        if let Some(at) = self.inverse_by_identity.get(&identity) {
            return *at;
        }
        let at = self.inverse.len();
        let universe = self.universe(&identity.key);
        self.inverse_by_identity.insert(identity.clone(), at);
        self.inverse.push(Group::new(identity, universe.map(|at| (at, &self.universes[at]))));
        let group = GroupRef::Inverse(at);
        // Domains that exist on nodes only count here too (Q34).
        self.add_node_domains(group, world, algebra);
        self.forget_left(group, world, algebra);
        for badge in self.badges.meant_by(&self.inverse[at].identity, world.badges) {
            if self.inverse[at].selects(&world.badges[badge as usize]) {
                let keyed = usize::from(self.inverse[at].universe.is_some());
                let known = &mut self.concerned[badge as usize];
                known.counted_inverse.set(at);
                known.against[keyed].push(group);
            }
        }
        at
    }

    fn spot_of_node(&self, group: GroupRef, node: usize, world: World<'_>) -> Option<Spot> {
        let (domain, spot): (Id, fn(usize) -> Spot) = match self.get(group).universe {
            Some(universe) => (self.universes[universe].of_node[node], Spot::Domain),
            None => (world.hosts.of_node[node], Spot::Host),
        };
        (domain != NONE).then(|| spot(domain as usize))
    }

    /// SCH-131.
    fn count_bound_pods(&mut self, at: usize, world: World<'_>, algebra: &mut Algebra) {
        let group = GroupRef::Own(at);
        let filter = self.own[at].identity.filter;
        for badge in self.badges.meant_by(&self.own[at].identity, world.badges) {
            let worn = &world.badges[badge as usize];
            if self.own[at].selects(worn) {
                let known = &mut self.concerned[badge as usize];
                known.counted_by.push(at);
                known.counted.set(at);
            } else if self.own[at].counts_existing(worn) {
                self.concerned[badge as usize].counted_unselected.push(at);
            } else {
                continue;
            }
            for turn in 0..self.badges.holders(badge, world.nodes).len() {
                let (node, count) = self.badges.holders(badge, world.nodes)[turn];
                let known = &world.nodes[node as usize];
                let Some(spot) = self.spot_of_node(group, node as usize, world) else { continue };
                if self.accepts(filter, known.req, &known.hostname, known.taints, world.taints, algebra) {
                    self.add(group, spot, count, false, world.hosts);
                }
            }
        }
    }

    /// SCH-124, SCH-136: bound pods with required anti-affinity keep others away; terminating ones still do.
    fn add_inverse_of_bound_pods(&mut self, world: World<'_>, algebra: &mut Algebra) {
        for (at, node) in world.nodes.iter().enumerate() {
            for (pod, term) in &node.shy {
                let group = GroupRef::Inverse(self.inverse_group(&pod.scheduling, term, world, algebra));
                if let Some(spot) = self.spot_of_node(group, at, world) {
                    self.add(group, spot, 1, false, world.hosts);
                }
            }
        }
    }

    fn accepts(
        &self,
        filter: usize,
        req: ReqId,
        hostname: &str,
        taints: TaintsId,
        lists: &TaintLists,
        algebra: &mut Algebra,
    ) -> bool {
        let filter = &self.filters[filter];
        if filter.trivial {
            return true;
        }
        let meets = |term: &Asked| algebra.strict(req, term.req).is_some() && term.allows_host(hostname);
        let labels = filter.terms.as_ref().is_none_or(|terms| terms.iter().any(meets));
        labels && filter.tolerations.as_ref().is_none_or(|by| lists.tolerated(taints, by))
    }

    fn add(&mut self, group: GroupRef, spot: Spot, pods: u32, logged: bool, hosts: &Hosts) {
        let known = self.get_mut(group);
        let new_domain = matches!(spot, Spot::Domain(at) if known.add_domain(at));
        let slots = if let Spot::Host(at) = spot { &hosts.slots[at][..] } else { &[] };
        known.bump(spot, pods, true, slots);
        if logged {
            self.changes.push(Change::Raised { group, spot, new_domain });
        }
    }

    /// Inverse groups that keep pods of this badge away: those of hosts, and the others.
    pub(crate) fn against(&self, badge: BadgeId) -> &[Vec<GroupRef>; 2] {
        &self.concerned[badge as usize].against
    }

    /// Whether the group counts pods of this badge.
    pub(crate) fn selects(&self, group: GroupRef, badge: BadgeId) -> bool {
        let known = &self.concerned[badge as usize];
        match group {
            GroupRef::Own(at) => known.counted.has(at),
            GroupRef::Inverse(at) => known.counted_inverse.has(at),
        }
    }

    /// The group's key, by name.
    pub(crate) fn key(&self, group: GroupRef) -> &str {
        &self.get(group).identity.key
    }

    /// What one group, not of hosts, lets the pod choose from, and its key; `None` when it does not restrict.
    pub(crate) fn options(
        &mut self,
        reference: GroupRef,
        badge: BadgeId,
        (strict, candidate): (ReqId, ReqId),
        algebra: &mut Algebra,
        out: &mut Vec<SetId>,
    ) -> Option<KeyId> {
        let own = self.selects(reference, badge);
        let group = match reference {
            GroupRef::Own(at) => &self.own[at],
            GroupRef::Inverse(at) => &self.inverse[at],
        };
        let universe = &mut self.universes[group.universe?];
        let (pod, node) = (algebra.get(strict, universe.key), algebra.get(candidate, universe.key));
        [pod, node].into_iter().flatten().for_each(|set| universe.know(set, algebra));
        let picks = &mut self.picks;
        picks.clear(universe.len());
        if !group.options(own, universe.allowed(pod), universe.allowed(node), picks) {
            return None;
        }
        out.extend(picks.ones.iter().map(|domain| universe.only(*domain, algebra)));
        if !picks.any.is_empty() {
            out.push(universe.any_of(&picks.any, algebra));
        }
        Some(universe.key)
    }

    /// Every domain that one group, not of hosts, lets the pod choose from, whatever the candidate.
    pub(crate) fn admitted(
        &mut self,
        reference: GroupRef,
        badge: BadgeId,
        asked: ReqId,
        algebra: &mut Algebra,
    ) -> Zones {
        let own = self.selects(reference, badge);
        let group = match reference {
            GroupRef::Own(at) => &self.own[at],
            GroupRef::Inverse(at) => &self.inverse[at],
        };
        let Some(universe) = group.universe.map(|at| &mut self.universes[at]) else { return Zones::Anywhere };
        let pod = algebra.get(asked, universe.key);
        if let Some(set) = pod {
            universe.know(set, algebra);
        }
        match group.admitted(own, universe.allowed(pod)) {
            None => Zones::Anywhere,
            Some(domains) if domains.is_empty() => Zones::Nowhere,
            Some(domains) => Zones::Only(domains.iter().map(|domain| universe.name_of(domain).to_owned()).collect()),
        }
    }

    /// The ways in which a candidate can be narrowed so that the pod may go there, best first; empty when it may not
    /// (SCH-137, SCH-251). `groups`: not those of hosts, ordered by key.
    pub(crate) fn choices(
        &mut self,
        groups: &[GroupRef],
        badge: BadgeId,
        strict: ReqId,
        candidate: ReqId,
        algebra: &mut Algebra,
    ) -> Vec<Vec<SetId>> {
        let mut combinations: Vec<Vec<SetId>> = vec![Vec::new()];
        let mut key = NONE;
        let mut options = Vec::new();
        for reference in groups {
            options.clear();
            let Some(this_key) = self.options(*reference, badge, (strict, candidate), algebra, &mut options) else {
                continue;
            };
            let same_key = std::mem::replace(&mut key, this_key) == this_key;
            let mut next = Vec::new();
            'all: for narrowed in &combinations {
                for option in &options {
                    let mut narrowed = narrowed.clone();
                    match if same_key { narrowed.pop() } else { None } {
                        Some(last) => {
                            let met = algebra.meet_sets(last, *option);
                            // Groups that agree on no domain fail here: without values, a node that lacks the key would
                            // seem to do (SCH-137).
                            if algebra.requirement(met).is_empty() {
                                continue;
                            }
                            narrowed.push(met);
                        }
                        None => narrowed.push(*option),
                    }
                    next.push(narrowed);
                    if next.len() == MAX_COMBINATIONS {
                        break 'all;
                    }
                }
            }
            combinations = next;
        }
        combinations
    }

    /// Counts a pod that was placed (SCH-135).
    pub(crate) fn record(
        &mut self,
        badge: BadgeId,
        inverse: &[GroupRef],
        place: Place,
        world: World<'_>,
        algebra: &mut Algebra,
    ) {
        let counted = self.concerned[badge as usize].counted_by.len();
        for turn in 0..counted {
            let group = self.concerned[badge as usize].counted_by[turn];
            self.count(group, place, true, world, algebra);
        }
        self.placed.push((badge, place));
        for group in inverse {
            match self.spots(*group, place, world.hosts, algebra) {
                Spots::One(spot) => self.add(*group, spot, 1, true, world.hosts),
                Spots::Several(all) => {
                    for spot in all {
                        self.add(*group, spot, 1, true, world.hosts);
                    }
                }
            }
        }
    }

    /// Where the place certainly is, in the group's terms.
    fn spot(&mut self, group: GroupRef, place: Place, hosts: &Hosts, algebra: &Algebra) -> Option<Spot> {
        let Some(universe) = self.get(group).universe else {
            return Some(match place.site {
                Site::Node(slot) => Spot::Host(hosts.of_slot[slot]),
                Site::Claim(at) => Spot::Claim(at),
            });
        };
        let universe = &mut self.universes[universe];
        let set = algebra.get(place.req, universe.key).filter(|set| algebra.is_in(*set))?;
        universe.know(set, algebra);
        universe.single(set).map(Spot::Domain)
    }

    /// Where the place certainly or possibly is, in the group's terms.
    fn spots(&mut self, group: GroupRef, place: Place, hosts: &Hosts, algebra: &Algebra) -> Spots {
        if let Some(spot) = self.spot(group, place, hosts, algebra) {
            return Spots::One(spot);
        }
        let universe = self.get(group).universe.map(|universe| &self.universes[universe]);
        let Some((universe, set)) = universe.and_then(|universe| {
            let set = algebra.get(place.req, universe.key).filter(|set| algebra.is_in(*set))?;
            Some((universe, set))
        }) else {
            return Spots::Several(Vec::new());
        };
        Spots::Several(universe.allowed(Some(set)).into_iter().flat_map(Bits::iter).map(Spot::Domain).collect())
    }

    /// Ordinary groups count where the domain is certain; anti-affinity counts wherever the pod may be.
    fn count(&mut self, at: usize, place: Place, logged: bool, world: World<'_>, algebra: &mut Algebra) {
        let group = GroupRef::Own(at);
        let filter = self.own[at].identity.filter;
        if !self.filters[filter].trivial {
            let hostname = match place.site {
                Site::Node(slot) => world.hosts.names[world.hosts.of_slot[slot]].clone(),
                Site::Claim(at) => placeholder(at),
            };
            if !self.accepts(filter, place.req, &hostname, place.taints, world.taints, algebra) {
                return;
            }
        }
        if self.own[at].identity.kind == Kind::AntiAffinity {
            match self.spots(group, place, world.hosts, algebra) {
                Spots::One(spot) => self.add(group, spot, 1, logged, world.hosts),
                Spots::Several(all) => all.into_iter().for_each(|spot| self.add(group, spot, 1, logged, world.hosts)),
            }
        } else if let Some(spot) = self.spot(group, place, world.hosts, algebra) {
            self.add(group, spot, 1, logged, world.hosts);
        }
    }

    pub(crate) fn mark(&mut self) -> Mark {
        self.firm = self.placed.len();
        Mark {
            changes: self.changes.len(),
            placed: self.placed.len(),
            left_nodes: self.left_nodes.len(),
            left_pods: self.left_pods.len(),
        }
    }

    pub(crate) fn roll_back(&mut self, to: Mark, hosts: &Hosts) {
        while self.changes.len() > to.changes {
            let Some(change) = self.changes.pop() else { return };
            match change {
                Change::Raised { group, spot, new_domain } => {
                    let slots = if let Spot::Host(at) = spot { &hosts.slots[at][..] } else { &[] };
                    let known = self.get_mut(group);
                    known.bump(spot, 1, false, slots);
                    if let (true, Spot::Domain(at)) = (new_domain, spot) {
                        known.remove_domain(at);
                    }
                }
                Change::Lowered { group, spot } => {
                    let slots = if let Spot::Host(at) = spot { &hosts.slots[at][..] } else { &[] };
                    self.get_mut(group).bump(spot, 1, true, slots);
                }
                Change::Support { at, domain } => self.give_back(at, domain),
                Change::Dropped { group, domain } => drop(self.get_mut(group).add_domain(domain)),
            }
        }
        self.placed.truncate(to.placed);
        self.none_left(to.left_nodes, to.left_pods);
    }
}

/// The host name that a claim goes by while it is planned (SCH-102).
pub(crate) fn placeholder(claim: usize) -> String {
    format!("hostname-placeholder-{claim:04}")
}

/// What a topology key's domains come from, besides pools and nodes: the values that pods ask for.
pub(crate) fn asked_values<'a>(scheduling: &'a PodScheduling, key: &'a str) -> impl Iterator<Item = String> + 'a {
    let terms = [&scheduling.node_selector].into_iter().chain(&scheduling.required_terms);
    let wished = scheduling.preferred_terms.iter().map(|preferred| &preferred.value);
    let all = terms.chain(wished).chain(&scheduling.volumes.alternatives);
    all.filter_map(|asked| asked.get(key)).flat_map(|asked| asked.values().map(ToOwned::to_owned))
}

/// Every domain is new to an index that starts from nothing.
pub(crate) fn position(names: &[String], name: &str) -> Id {
    names.binary_search_by(|known| known.as_str().cmp(name)).map_or(NONE, id)
}
