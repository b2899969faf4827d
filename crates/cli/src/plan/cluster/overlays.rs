//! NodeOverlays: other prices and further resources for the pools that are planned with.

use karpenter_api::convert;
use karpenter_api::kinds::NodeOverlay;
use karpenter_model::overlay::{self, OverlayView, PoolTypes, Verdict};
use karpenter_schema::FieldPath;

use super::{Cluster, Given};

/// What overlays say; those that cannot be understood are told and left out.
#[derive(Debug, Default)]
pub(super) struct Overlays(Vec<OverlayView>);

impl Cluster<'_> {
    pub(super) fn add_overlay(&mut self, given: &Given<'_>) {
        let Some(overlay) = self.parse::<NodeOverlay>(given) else { return };
        let converted = convert::overlay(&overlay, &self.catalogue.policy);
        self.note_problems(given, &converted, "");
        match &converted.view.invalid {
            Some(why) if converted.problems.is_empty() => {
                self.problem(given, &FieldPath::root().field("spec"), "spec", why);
            }
            Some(_) => {}
            None => self.overlays.0.push(converted.view),
        }
    }

    /// When all pools and overlays are known.
    pub(super) fn lay_overlays(&mut self) {
        if self.overlays.0.is_empty() {
            return;
        }
        let pools: Vec<_> = self.state.pools().into_iter().filter(|pool| pool.is_schedulable()).collect();
        let offered: Vec<PoolTypes<'_>> =
            pools.iter().map(|pool| PoolTypes { pool, instance_types: &self.instance_types }).collect();
        let evaluation = overlay::evaluate(&self.overlays.0, &offered, self.rules());
        for (name, verdict) in &evaluation.verdicts {
            match verdict {
                Verdict::Accepted => {}
                Verdict::Invalid(why) => self.problems.push(format!("NodeOverlay/{name}: {why}")),
                Verdict::Conflict { with, pool, instance_type } => self.notes.push(format!(
                    "NodeOverlay/{name} is not applied: NodeOverlay/{with} of the same weight says something about \
                     {instance_type} of nodepool {pool}, too"
                )),
            }
        }
        for pool in &pools {
            if let Ok(overlaid) = evaluation.store.apply_shared(&pool.name, &self.instance_types) {
                self.overlaid.insert(pool.name.clone(), overlaid);
            }
        }
    }
}
