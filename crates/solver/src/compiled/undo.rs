//! What-if: placements that are taken back.

use super::claims::Claim;
use super::groups;
use super::intern::Id;
use super::pass::{Pass, PoolState, Slot};
use crate::devices::Devices;
use crate::reservations::Reservations;

/// How far a pass had got.
#[derive(Debug)]
pub(crate) struct Mark {
    changes: usize,
    groups: groups::Mark,
    reservations: Reservations,
    devices: Option<usize>,
}

/// What a change has to be taken back to.
#[derive(Debug)]
pub(crate) enum Change {
    Node {
        at: usize,
        before: Slot,
    },
    Claim {
        at: usize,
        before: Claim,
    },
    Opened,
    Pool {
        at: usize,
        before: PoolState,
    },
    /// A claim was found too full for a demand.
    Dead {
        demand: usize,
        claim: usize,
    },
    /// A node was found too small for a shape.
    TooSmall {
        shape: Id,
        node: usize,
    },
    Placed {
        pod: usize,
    },
    /// A node is no candidate for now.
    Closed {
        slot: usize,
    },
}

impl Pass<'_> {
    /// From here on changes are remembered.
    pub(crate) fn mark(&mut self) -> Mark {
        let changes = self.changes.get_or_insert_with(Vec::new).len();
        let devices = self.devices.as_ref().map(Devices::mark);
        Mark { changes, groups: self.groups.mark(), reservations: self.reservations.clone(), devices }
    }

    /// Everything is as it was at the mark. What was learned about requirements and types stays.
    pub(crate) fn roll_back(&mut self, to: &Mark) {
        let mut changes = self.changes.take().unwrap_or_default();
        for change in changes.drain(to.changes..).rev() {
            self.take_back(change);
        }
        self.changes = Some(changes);
        self.groups.roll_back(to.groups, &self.compiled.hosts);
        self.reservations = to.reservations.clone();
        self.rewound += 1;
        if let (Some(devices), Some(mark)) = (&mut self.devices, to.devices) {
            devices.undo_to(mark);
        }
        // What failed since the mark might not fail now.
        self.epoch += 1;
    }

    fn take_back(&mut self, change: Change) {
        match change {
            Change::Node { at, before } => {
                let now = self.slots[at].sign as usize;
                self.node_signs[now].nodes.clear(at);
                self.node_signs[before.sign as usize].nodes.set(at);
                self.slots[at] = before;
            }
            Change::Claim { at, before } => {
                let now = &self.claims[at];
                self.signs[now.sign as usize].claims.clear(at);
                self.signs[before.sign as usize].claims.set(at);
                self.by_count[now.pods.len()].clear(at);
                self.by_count[before.pods.len()].set(at);
                self.claims[at] = before;
            }
            Change::Opened => {
                if let Some(gone) = self.claims.pop() {
                    let at = self.claims.len();
                    self.signs[gone.sign as usize].claims.clear(at);
                    self.by_count[gone.pods.len()].clear(at);
                    self.sealed.clear(at);
                    // The next claim with this number is another one.
                    self.demands.iter_mut().for_each(|demand| demand.dead.clear(at));
                }
            }
            Change::Pool { at, before } => self.pools[at] = before,
            Change::Dead { demand, claim } => self.demands[demand].dead.clear(claim),
            Change::TooSmall { shape, node } => self.too_small[shape as usize].clear(node),
            Change::Placed { pod } => self.placed[pod] = None,
            Change::Closed { slot } => self.closed.clear(slot),
        }
    }

    pub(crate) fn note(&mut self, change: impl FnOnce(&Self) -> Change) {
        if self.changes.is_some() {
            let change = change(self);
            self.changes.get_or_insert_default().push(change);
        }
    }
}
