//! A pass that is told where to try first.

use karpenter_model::pod::PodView;

use super::Pass;
use crate::best::Engine;
use crate::claim::{OpenClaim, Rules};
use crate::plan::Placement;
use crate::relax::Trial;

impl<'a> Engine<'a> for Pass<'a> {
    fn on_node(&mut self, pod: &'a PodView) -> bool {
        let trial = Trial::new(pod, self.options.preferences);
        let moves_freely = self.moves_freely(pod);
        for slot in self.nodes.iter_mut().filter(|slot| moves_freely || !slot.node.unsettled) {
            if let Some(requirements) = slot.try_add(&trial, &self.topology) {
                slot.commit(&trial, requirements, &mut self.topology);
                self.placed.insert(pod.id.clone(), Placement::Existing(slot.node.name().to_owned()));
                return true;
            }
        }
        false
    }

    fn open(&mut self, pod: &'a PodView, pool: usize) -> Option<usize> {
        let trial = Trial::new(pod, self.options.preferences);
        let number = self.claims.len();
        let rules = Rules { labels: self.labels, options: self.options, reservations: &self.reservations };
        let template = &mut self.templates[pool];
        let (mut claim, addition) = OpenClaim::open(template, number, &trial, &self.topology, rules).ok()?;
        claim.commit(&trial, addition, &mut self.topology, &mut self.reservations);
        template.charge(&claim.largest_capacity());
        self.claims.push(claim);
        self.placed.insert(pod.id.clone(), Placement::New(number));
        Some(number)
    }

    fn add(&mut self, pod: &'a PodView, claim: usize) -> bool {
        let trial = Trial::new(pod, self.options.preferences);
        let rules = Rules { labels: self.labels, options: self.options, reservations: &self.reservations };
        let Ok(addition) = self.claims[claim].try_add(&trial, &self.topology, rules) else { return false };
        self.claims[claim].commit(&trial, addition, &mut self.topology, &mut self.reservations);
        self.placed.insert(pod.id.clone(), Placement::New(claim));
        true
    }
}
