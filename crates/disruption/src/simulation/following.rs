//! What was compiled for one look, taken along to the next.

use std::sync::Arc;

use jiff::Timestamp;
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::PodView;
use karpenter_model::snapshot::ExistingNode;
use karpenter_solver::WhatIf;

use super::{Known, Simulator};

/// A compiled snapshot, with what its pods were told by that may move.
#[derive(Debug)]
pub(crate) struct Kept {
    known: Box<WhatIf>,
    budgets: Vec<Arc<PdbView>>,
    at: Timestamp,
    until: Option<Timestamp>,
}

impl Kept {
    /// Pods may move that could not, or the other way round, though nothing has happened to them.
    fn is_doubtful(&self, budgets: &[Arc<PdbView>], now: Timestamp) -> bool {
        // How many pods a budget lets go at present decides about nodes, not about who moves with one that goes.
        let alike = |a: &PdbView, b: &PdbView| {
            (&a.id, &a.selector, a.never_allows, a.lets_unready_go)
                == (&b.id, &b.selector, b.never_allows, b.lets_unready_go)
        };
        let same = self.budgets.len() == budgets.len()
            && self.budgets.iter().zip(budgets).all(|(a, b)| Arc::ptr_eq(a, b) || alike(a, b));
        !same || now < self.at || self.until.is_some_and(|until| until <= now)
    }
}

impl Simulator<'_> {
    /// The pod as it moves with its node, if it does. `until`: the first moment at which the answer changes by itself.
    pub(super) fn moves(
        &self,
        node: &ExistingNode,
        pod: &Arc<PodView>,
        until: &mut Option<Timestamp>,
    ) -> Option<Arc<PodView>> {
        if node.is_going() || !pod.is_reschedulable() {
            return None;
        }
        if let Some(end) = pod.protection.until(pod.started_at).filter(|end| self.now < *end) {
            *until = Some(until.map_or(end, |known| known.min(end)));
        }
        self.may_move(pod).then(|| self.planned.get(&pod.id).unwrap_or(pod).clone())
    }

    /// Goes on with what was compiled for an earlier look of which all but the nodes was the same. Whether that can be done.
    pub(crate) fn recall(&mut self, mut kept: Kept, budgets: &[Arc<PdbView>]) -> bool {
        if !matches!(self.known, Known::NotYet) || !self.planned.is_empty() {
            return false;
        }
        let doubtful = kept.is_doubtful(budgets, self.now);
        // Where all pods are looked at again, so is until when this holds.
        let mut until = kept.until.filter(|_| !doubtful);
        let moves = |node: &ExistingNode, pod: &Arc<PodView>| self.moves(node, pod, &mut until);
        if kept.known.follow(self.snapshot, moves, &self.unsettled, doubtful).is_none() {
            return false;
        }
        self.until = until;
        self.known = Known::Compiled(kept.known);
        true
    }

    /// What was compiled, for the next look; nothing is known here any more.
    pub(crate) fn part_with(&mut self, budgets: &[Arc<PdbView>]) -> Option<Kept> {
        match std::mem::replace(&mut self.known, Known::NotYet) {
            Known::Compiled(known) if !known.has_kept() => {
                Some(Kept { known, budgets: budgets.to_vec(), at: self.now, until: self.until })
            }
            Known::Never => {
                self.known = Known::Never;
                None
            }
            Known::Compiled(_) | Known::Changed | Known::NotYet => None,
        }
    }
}
