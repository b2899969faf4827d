//! A pass that is told where to try first.

use karpenter_model::labels;
use karpenter_model::pod::PodView;
use karpenter_model::requirements::{Requirement, Requirements};

use super::pass::{Pass, Trial};
use crate::best::Engine;

impl<'a> Engine<'a> for Pass<'_> {
    fn on_node(&mut self, pod: &'a PodView) -> bool {
        self.trial_of(pod).is_some_and(|trial| self.try_on_node(trial))
    }

    fn open(&mut self, pod: &'a PodView, pool: usize) -> Option<usize> {
        let trial = self.trial_of(pod)?;
        self.try_open(trial, pool)
    }

    fn open_in(&mut self, pod: &'a PodView, pool: usize, zone: &str) -> Option<usize> {
        let trial = self.trial_of(pod)?;
        self.try_open_in(trial, pool, zone)
    }

    fn add(&mut self, pod: &'a PodView, claim: usize) -> bool {
        self.trial_of(pod).is_some_and(|trial| self.add_to(trial, claim))
    }
}

/// What an [`Engine`] is asked for, of a pod that is known by its place.
impl Pass<'_> {
    pub(crate) fn try_on_node(&mut self, trial: Trial) -> bool {
        let Some(rules) = self.host_rules(trial) else { return false };
        self.new_turn();
        let placed = self.place_on_node(trial, &rules).is_some();
        self.epoch += usize::from(placed);
        placed
    }

    pub(crate) fn try_open(&mut self, trial: Trial, pool: usize) -> Option<usize> {
        let rules = self.host_rules(trial)?;
        self.new_turn();
        let addition = self.try_new(trial, pool, &rules).ok()?;
        Some(self.open_with(trial, pool, addition))
    }

    pub(crate) fn try_open_in(&mut self, trial: Trial, pool: usize, zone: &str) -> Option<usize> {
        let rules = self.host_rules(trial)?;
        self.new_turn();
        let here = Requirements::from_iter([Requirement::any_of(labels::ZONE, [zone])]);
        let own = self.compiled.pools[pool].req;
        let here = self.compiled.algebra.intern(&here).req;
        let req = self.compiled.algebra.lenient(own, here)?;
        let addition = self.try_new_as(trial, pool, req, &rules).ok()?;
        Some(self.open_with(trial, pool, addition))
    }
}

impl Pass<'_> {
    /// The pod with all its wishes, if it waits.
    fn trial_of(&mut self, pod: &PodView) -> Option<Trial> {
        let at = self.compiled.pods.all.binary_search_by(|known| known.id.cmp(&pod.id)).ok()?;
        self.trial(at)
    }

    /// The pod at this place with all its wishes; `None` when it cannot be planned, or has a place.
    pub(crate) fn trial(&mut self, pod: usize) -> Option<Trial> {
        let class = self.compiled.pods.classes[self.compiled.pods.pending[pod].class as usize];
        if self.unplannable(class.kind).is_some() || self.placed[pod].is_some() {
            return None;
        }
        let variant = self.first_variant(class.kind);
        Some(Trial { pod, shape: class.shape, kind: class.kind, badge: class.badge, variant })
    }
}
