//! A node that has other pods than when groups were made, before anybody has gone anywhere.

use std::sync::Arc;

use karpenter_model::labels;

use super::super::algebra::{Algebra, ReqId};
use super::super::bits::Bits;
use super::super::group::{Kind, Spot};
use super::super::nodes::Node;
use super::super::pods::{Badge, BadgeId};
use super::{Concerned, GroupRef, Groups, World};

/// Groups whose counts are others now.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    own: Bits,
    inverse: Bits,
}

impl Touched {
    pub(crate) fn has(&self, group: GroupRef) -> bool {
        match group {
            GroupRef::Own(at) => self.own.has(at),
            GroupRef::Inverse(at) => self.inverse.has(at),
        }
    }

    fn set(&mut self, group: GroupRef) {
        match group {
            GroupRef::Own(at) => self.own.set(at),
            GroupRef::Inverse(at) => self.inverse.set(at),
        }
    }
}

impl Groups {
    /// Works out which groups have to do with badges that nobody wore before.
    pub(crate) fn know_badges(&mut self, badges: &[Badge]) {
        for badge in badges.iter().skip(self.concerned.len()) {
            let mut known = Concerned::default();
            for (at, group) in self.own.iter().enumerate() {
                if group.selects(badge) {
                    known.counted_by.push(at);
                    known.counted.set(at);
                } else if group.counts_existing(badge) {
                    known.counted_unselected.push(at);
                }
            }
            for (at, group) in self.inverse.iter().enumerate().filter(|(_, group)| group.selects(badge)) {
                known.counted_inverse.set(at);
                known.against[usize::from(group.universe.is_some())].push(GroupRef::Inverse(at));
            }
            self.concerned.push(known);
        }
    }

    /// The node is as `after` says, but for its pods the same as before; `None` where its pods ask about something that
    /// nobody asked about before, or was the last to ask. The node must be one that stays.
    pub(crate) fn recount(
        &mut self,
        node: usize,
        after: &Node,
        touched: &mut Touched,
        world: World<'_>,
        algebra: &mut Algebra,
    ) -> Option<()> {
        self.know_badges(world.badges);
        let before = &world.nodes[node];
        for (badge, was, is) in differences(&before.badges, &after.badges) {
            self.badges.hold(badge, node, is);
            let known = &self.concerned[badge as usize];
            let counting: Vec<usize> = known.counted_by.iter().chain(&known.counted_unselected).copied().collect();
            for at in counting {
                let group = GroupRef::Own(at);
                let Some(spot) = self.spot_of_node(group, node, world) else { continue };
                let filter = self.own[at].identity.filter;
                if !self.accepts(filter, before.req, &before.hostname, before.taints, world.taints, algebra) {
                    continue;
                }
                touched.set(group);
                self.shift(group, spot, was, is, world);
            }
        }
        let left = before.shy.iter().filter(|(pod, _)| !after.shy.iter().any(|(other, _)| Arc::ptr_eq(pod, other)));
        let came = after.shy.iter().filter(|(pod, _)| !before.shy.iter().any(|(other, _)| Arc::ptr_eq(pod, other)));
        for ((pod, term), (was, is)) in left.map(|one| (one, (1, 0))).chain(came.map(|one| (one, (0, 1)))) {
            if term.key != labels::HOSTNAME && self.universe(&term.key).is_none() {
                return None;
            }
            let group = GroupRef::Inverse(self.inverse_group(&pod.scheduling, term, world, algebra));
            touched.set(group);
            if let Some(spot) = self.spot_of_node(group, node, world) {
                self.shift(group, spot, was, is, world);
            }
            let known = self.get(group);
            if is < was && known.universe.is_some() && known.is_vacant() {
                // Who keeps nobody away any more still names the domains that it could.
                return None;
            }
        }
        Some(())
    }

    /// The domains of a spread constraint of which the emptiest always takes one more pod, whoever else moves: the constraint
    /// counts all nodes of a domain and knows no least number of domains. With its key; `None` for all other groups.
    pub(crate) fn open_domains(
        &mut self,
        reference: GroupRef,
        strict: ReqId,
        algebra: &Algebra,
    ) -> Option<(usize, Vec<usize>)> {
        let GroupRef::Own(at) = reference else { return None };
        let group = &self.own[at];
        let Kind::Spread { max_skew: 1.., min_domains: None } = group.identity.kind else { return None };
        if !self.filters[group.identity.filter].trivial {
            return None;
        }
        let universe = &mut self.universes[group.universe?];
        let pod = algebra.get(strict, universe.key);
        if let Some(set) = pod {
            universe.know(set, algebra);
        }
        Some((group.universe?, group.domains(universe.allowed(pod)).collect()))
    }

    /// The one domain of a key that nodes with these requirements are in.
    pub(crate) fn domain_of(&mut self, universe: usize, req: ReqId, algebra: &Algebra) -> Option<usize> {
        let universe = &mut self.universes[universe];
        let set = algebra.get(req, universe.key).filter(|set| algebra.is_in(*set))?;
        universe.know(set, algebra);
        universe.single(set)
    }

    /// The domain itself stays: a node that stays brings it.
    fn shift(&mut self, group: GroupRef, spot: Spot, was: u32, is: u32, world: World<'_>) {
        if is > was {
            self.add(group, spot, is - was, false, world.hosts);
        } else {
            let slots = if let Spot::Host(at) = spot { &world.hosts.slots[at][..] } else { &[] };
            self.get_mut(group).bump(spot, was - is, false, slots);
        }
    }
}

/// Badges that are worn by more pods or fewer; both lists by badge.
fn differences(before: &[(BadgeId, u32)], after: &[(BadgeId, u32)]) -> Vec<(BadgeId, u32, u32)> {
    let count = |list: &[(BadgeId, u32)], badge: BadgeId| {
        list.binary_search_by_key(&badge, |(badge, _)| *badge).map_or(0, |at| list[at].1)
    };
    let left = before.iter().map(|(badge, was)| (*badge, *was, count(after, *badge)));
    let came = after.iter().filter(|(badge, _)| count(before, *badge) == 0).map(|(badge, is)| (*badge, 0, *is));
    left.chain(came).filter(|(_, was, is)| was != is).collect()
}
