//! Nodes that leave for as long as a question is asked, with those of their pods that move.

use super::super::algebra::Algebra;
use super::super::group::Spot;
use super::super::intern::{Id, NONE};
use super::super::pods::BadgeId;
use super::{Change, GroupRef, Groups, World};

/// How many active nodes bring each domain of a key to the groups that accept them.
#[derive(Debug)]
pub(super) struct Support {
    pub(super) universe: usize,
    pub(super) filter: usize,
    /// Before anybody left.
    all: Vec<u32>,
    now: Vec<u32>,
    groups: Vec<GroupRef>,
}

impl Groups {
    /// SCH-129: active nodes bring the domain of their label.
    pub(super) fn add_node_domains(&mut self, group: GroupRef, world: World<'_>, algebra: &mut Algebra) {
        let Some(universe) = self.get(group).universe else { return };
        let filter = self.get(group).identity.filter;
        let known = self.supports.iter().position(|known| (known.universe, known.filter) == (universe, filter));
        let at = known.unwrap_or_else(|| self.add_support(universe, filter, world, algebra));
        for domain in 0..self.supports[at].all.len() {
            if self.supports[at].all[domain] > 0 {
                self.get_mut(group).add_domain(domain);
            }
        }
        self.supports[at].groups.push(group);
        self.get_mut(group).support = Some(at);
    }

    fn add_support(&mut self, universe: usize, filter: usize, world: World<'_>, algebra: &mut Algebra) -> usize {
        let mut all = vec![0; self.universes[universe].len()];
        let mut gone: Vec<usize> = Vec::new();
        for at in 0..world.nodes.len() {
            if let Some(domain) = self.supported(universe, filter, at, world, algebra) {
                all[domain] += 1;
                if self.left_nodes.contains(&at) {
                    gone.push(domain);
                }
            }
        }
        let now = all.clone();
        self.supports.push(Support { universe, filter, all, now, groups: Vec::new() });
        let at = self.supports.len() - 1;
        for domain in gone {
            self.withdraw(at, domain);
        }
        at
    }

    /// The domain that an active node brings.
    fn supported(
        &self,
        universe: usize,
        filter: usize,
        node: usize,
        world: World<'_>,
        algebra: &mut Algebra,
    ) -> Option<usize> {
        let domain = self.universes[universe].of_node[node];
        let known = &world.nodes[node];
        let brings = !known.going
            && domain != NONE
            && self.accepts(filter, known.req, &known.hostname, known.taints, world.taints, algebra);
        brings.then_some(domain as usize)
    }

    fn withdraw(&mut self, at: usize, domain: usize) {
        self.supports[at].now[domain] -= 1;
        self.changes.push(Change::Support { at, domain });
        if self.supports[at].now[domain] == 0 {
            for turn in 0..self.supports[at].groups.len() {
                let group = self.supports[at].groups[turn];
                self.drop_domain(group, domain);
            }
        }
    }

    pub(super) fn give_back(&mut self, at: usize, domain: usize) {
        self.supports[at].now[domain] += 1;
    }

    /// A domain that neither pools nor nodes nor pods bring any more is none.
    fn drop_domain(&mut self, group: GroupRef, domain: usize) {
        let known = self.get(group);
        let supported = known.support.is_some_and(|at| self.supports[at].now[domain] > 0);
        if !supported && known.is_only_remembered(domain) {
            self.get_mut(group).remove_domain(domain);
            self.changes.push(Change::Dropped { group, domain });
        }
    }

    /// The node is no candidate any more and brings no domains.
    pub(crate) fn leave(&mut self, node: usize, world: World<'_>, algebra: &mut Algebra) {
        self.left_nodes.push(node);
        for at in 0..self.supports.len() {
            let Support { universe, filter, .. } = self.supports[at];
            if let Some(domain) = self.supported(universe, filter, node, world, algebra) {
                self.withdraw(at, domain);
            }
        }
    }

    /// A pod of the node moves: it is not counted there any more. `inverse`: one group for each of its terms.
    pub(crate) fn leave_pod(
        &mut self,
        node: usize,
        badge: Option<BadgeId>,
        inverse: &[GroupRef],
        world: World<'_>,
        algebra: &mut Algebra,
    ) {
        if let Some(badge) = badge {
            for turn in 0.. {
                let Some(group) = self.counting(badge, turn) else { break };
                self.uncount(group, node, world, algebra);
            }
            self.left_pods.push((node, badge));
        }
        for group in inverse {
            if let Some(spot) = self.spot_of_node(*group, node, world) {
                self.lower(*group, spot, world);
            }
        }
    }

    /// The groups that count pods of this badge that run.
    fn counting(&self, badge: BadgeId, turn: usize) -> Option<usize> {
        let known = self.concerned.get(badge as usize)?;
        known.counted_by.iter().chain(&known.counted_unselected).nth(turn).copied()
    }

    fn uncount(&mut self, at: usize, node: usize, world: World<'_>, algebra: &mut Algebra) {
        let group = GroupRef::Own(at);
        let Some(spot) = self.spot_of_node(group, node, world) else { return };
        let (filter, known) = (self.own[at].identity.filter, &world.nodes[node]);
        if self.accepts(filter, known.req, &known.hostname, known.taints, world.taints, algebra) {
            self.lower(group, spot, world);
        }
    }

    fn lower(&mut self, group: GroupRef, spot: Spot, world: World<'_>) {
        let slots = if let Spot::Host(at) = spot { &world.hosts.slots[at][..] } else { &[] };
        self.get_mut(group).bump(spot, 1, false, slots);
        self.changes.push(Change::Lowered { group, spot });
        if let Spot::Domain(domain) = spot {
            self.drop_domain(group, domain);
        }
    }

    /// A group that begins while nodes are gone was made as if they were not.
    pub(super) fn forget_left(&mut self, group: GroupRef, world: World<'_>, algebra: &mut Algebra) {
        if self.left_nodes.is_empty() {
            return;
        }
        if let GroupRef::Own(at) = group {
            for turn in 0..self.left_pods.len() {
                let (node, badge) = self.left_pods[turn];
                if self.own[at].counts_existing(&world.badges[badge as usize]) {
                    self.uncount(at, node, world, algebra);
                }
            }
        }
        let domains: Vec<usize> = self.get(group).support.into_iter().flat_map(|at| self.gone_domains(at)).collect();
        for domain in domains {
            self.drop_domain(group, domain);
        }
    }

    fn gone_domains(&self, at: usize) -> impl Iterator<Item = usize> + '_ {
        let Support { all, now, .. } = &self.supports[at];
        (0..all.len()).filter(|domain| all[*domain] > 0 && now[*domain] == 0)
    }

    pub(super) fn none_left(&mut self, nodes: usize, pods: usize) {
        self.left_nodes.truncate(nodes);
        self.left_pods.truncate(pods);
    }

    /// One group for each term of the pod, also where two say the same: how a pod that runs keeps others away.
    pub(crate) fn inverse_of_terms(
        &mut self,
        scheduling: &karpenter_model::scheduling::PodScheduling,
        world: World<'_>,
        algebra: &mut Algebra,
    ) -> Vec<GroupRef> {
        let terms = scheduling.anti_affinity.iter();
        terms.map(|term| GroupRef::Inverse(self.inverse_group(scheduling, term, world, algebra))).collect()
    }
}

/// Kept small: one for each pod that moved.
pub(super) type LeftPod = (usize, Id);
