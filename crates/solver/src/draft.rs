//! A plan in the making, for planners that decide themselves who goes where.
//!
//! Whatever is asked of a draft, it stays valid: pods are only ever put where every rule lets them. A guided planner opens
//! claims and adds to them in its own order, leaves the rest to the specified one, and takes back what did not help.

use std::sync::Arc;

use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::pod::PodView;
use karpenter_model::pool::PoolView;
use karpenter_model::resources::Resources;

use crate::compiled::bits;
use crate::compiled::pass::{Pass, Trial};
use crate::compiled::undo;
use crate::plan::Plan;

/// A class of pods that are equal in everything that scheduling can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(usize);

/// A claim of the draft, by the order in which it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimId(usize);

/// A pool of the draft, by precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(usize);

/// Pods of one class.
#[derive(Debug)]
pub struct Class<'a> {
    pub id: ClassId,
    /// One of them.
    pub example: &'a Arc<PodView>,
    pub requests: &'a Resources,
    /// How many have no place yet.
    pub waiting: usize,
}

/// A type that a pool could open for a class.
#[derive(Debug)]
pub struct Choice<'a> {
    pub instance_type: &'a InstanceType,
    /// The cheapest offering that could be launched.
    pub price: Price,
    /// For pods, beside what DaemonSets take.
    pub room: Resources,
}

/// How far a draft had got.
#[derive(Debug)]
pub struct Mark(undo::Mark);

pub struct Draft<'c> {
    pass: Pass<'c>,
    /// Pods of each class, in the order of the queue.
    members: Vec<Vec<usize>>,
}

impl std::fmt::Debug for Draft<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Draft").field("claims", &self.pass.claims.len()).finish_non_exhaustive()
    }
}

impl<'c> Draft<'c> {
    pub(crate) fn new(mut pass: Pass<'c>) -> Self {
        let mut members = vec![Vec::new(); pass.compiled.pods.classes.len()];
        for pod in pass.register_all() {
            let class = pass.compiled.pods.pending[pod as usize].class as usize;
            members[class].push(pod as usize);
        }
        Self { pass, members }
    }

    /// Classes that have pods, largest first.
    pub fn classes(&self) -> Vec<Class<'_>> {
        let waiting = |class: usize| self.members[class].iter().filter(|pod| self.pass.placed[**pod].is_none()).count();
        let mut all: Vec<usize> = (0..self.members.len()).filter(|class| !self.members[*class].is_empty()).collect();
        let size = |class: &usize| {
            let pod = &self.pass.compiled.pods.all[self.members[*class][0]];
            (pod.requests.amount("cpu"), pod.requests.amount("memory"))
        };
        all.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| self.members[*a][0].cmp(&self.members[*b][0])));
        let class = |class: usize| {
            let example = &self.pass.compiled.pods.all[self.members[class][0]];
            Class { id: ClassId(class), example, requests: &example.requests, waiting: waiting(class) }
        };
        all.into_iter().map(class).collect()
    }

    /// Pools in order of precedence.
    pub fn pools(&self) -> impl Iterator<Item = (PoolId, &Arc<PoolView>)> {
        self.pass.compiled.pools.iter().enumerate().map(|(at, pool)| (PoolId(at), &pool.view))
    }

    /// The types that the pool could open for one pod of the class, cheapest first.
    pub fn choices(&mut self, class: ClassId, pool: PoolId) -> Vec<Choice<'_>> {
        let Some(trial) = self.trial(class) else { return Vec::new() };
        let Some(rules) = self.pass.host_rules(trial) else { return Vec::new() };
        self.pass.new_turn();
        let Ok(addition) = self.pass.try_new(trial, pool.0, &rules) else { return Vec::new() };
        let compiled = &mut *self.pass.compiled;
        let known = &compiled.pools[pool.0];
        let catalogue = &mut compiled.catalogues[known.catalogue];
        let order = catalogue.order(addition.req, &compiled.algebra).clone();
        let catalogue = &compiled.catalogues[known.catalogue];
        let room = |instance_type: &InstanceType| {
            let rows = bits::ones(&addition.rows);
            let row = rows.into_iter().find(|row| std::ptr::eq(catalogue.known(*row), instance_type));
            let mut room =
                row.map_or_else(Resources::new, |row| compiled.names.resources(&catalogue.rows[row].allocatable));
            let part = known.parts.iter().find(|part| row.is_some_and(|row| part.rows.has(row)));
            if let Some(part) = part {
                room.subtract(&part.overhead);
            }
            room
        };
        let types = order.places(&addition.rows, usize::MAX).into_iter();
        let types = types.map(|(price, of)| (price, catalogue.of(of)));
        types.map(|(price, instance_type)| Choice { instance_type, price, room: room(instance_type) }).collect()
    }

    /// Opens a claim of the pool with one pod of the class, if the rules and the pool's limits let it.
    pub fn open(&mut self, class: ClassId, pool: PoolId) -> Option<ClaimId> {
        let trial = self.trial(class)?;
        let rules = self.pass.host_rules(trial)?;
        self.pass.new_turn();
        let addition = self.pass.try_new(trial, pool.0, &rules).ok()?;
        Some(ClaimId(self.pass.open_with(trial, pool.0, addition)))
    }

    /// Adds up to so many pods of the class to the claim; how many it took.
    pub fn add(&mut self, class: ClassId, most: usize, claim: ClaimId) -> usize {
        (0..most).take_while(|_| self.trial(class).is_some_and(|trial| self.pass.add_to(trial, claim.0))).count()
    }

    /// Puts up to so many pods of the class on existing nodes, in their order; how many found a place.
    pub fn add_to_nodes(&mut self, class: ClassId, most: usize) -> usize {
        let mut placed = 0;
        while placed < most {
            let Some(trial) = self.trial(class) else { break };
            let Some(rules) = self.pass.host_rules(trial) else { break };
            self.pass.new_turn();
            if self.pass.place_on_node(trial, &rules).is_none() {
                break;
            }
            self.pass.epoch += 1;
            placed += 1;
        }
        placed
    }

    /// No more pods come to the claim.
    pub fn seal(&mut self, claim: ClaimId) {
        self.pass.sealed.set(claim.0);
    }

    /// What the claim would cost now: its cheapest type.
    pub fn price(&mut self, claim: ClaimId) -> Price {
        let compiled = &mut *self.pass.compiled;
        let known = &self.pass.claims[claim.0];
        let catalogue = &mut compiled.catalogues[compiled.pools[known.pool].catalogue];
        catalogue.order(known.req, &compiled.algebra).cheapest(&known.rows)
    }

    /// What the pods of the claim ask for.
    pub fn requests(&self, claim: ClaimId) -> Resources {
        self.pass.compiled.names.resources(&self.pass.claims[claim.0].requests)
    }

    /// Places everybody who has no place yet in the specified order.
    pub fn place_rest(&mut self, should_stop: &mut dyn FnMut() -> bool) {
        self.pass.run_rest(should_stop);
    }

    /// What comes after the mark can be taken back.
    pub fn mark(&mut self) -> Mark {
        Mark(self.pass.mark())
    }

    pub fn roll_back(&mut self, to: &Mark) {
        self.pass.roll_back(&to.0);
    }

    pub fn finish(self) -> Plan {
        self.pass.finish()
    }

    /// The next pod of the class that has no place, with all its wishes.
    fn trial(&mut self, class: ClassId) -> Option<Trial> {
        let pod = *self.members[class.0].iter().find(|pod| self.pass.placed[**pod].is_none())?;
        self.pass.trial(pod)
    }
}
