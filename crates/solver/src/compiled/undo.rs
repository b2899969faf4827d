//! What-if: placements that are taken back.

use super::algebra::ReqId;
use super::amounts;
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
    /// A pod came that asks for nothing but resources.
    Guest {
        at: usize,
        shape: Id,
        sign: Id,
    },
    Node {
        at: usize,
        before: Box<Slot>,
    },
    /// The same on a claim.
    Joined {
        at: usize,
        shape: Id,
        sign: Id,
        req: ReqId,
        rows: Vec<u64>,
        min_values_relaxed: bool,
    },
    Claim {
        at: usize,
        before: Box<Claim>,
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
            Change::Guest { at, shape, sign } => {
                self.sign_node(at, sign);
                let slot = &mut self.slots[at];
                slot.guests -= 1;
                amounts::give_back(&mut slot.available, &self.compiled.pods.shapes[shape as usize].amounts);
            }
            Change::Node { at, before } => {
                self.sign_node(at, before.sign);
                self.slots[at] = *before;
            }
            Change::Joined { at, shape, sign, req, rows, min_values_relaxed } => {
                let count = self.claims[at].pods.len();
                self.file_claim(at, (sign, count - 1));
                let claim = &mut self.claims[at];
                claim.pods.pop();
                (claim.sign, claim.req, claim.rows, claim.min_values_relaxed) = (sign, req, rows, min_values_relaxed);
                amounts::subtract(&mut claim.requests, &self.compiled.pods.shapes[shape as usize].amounts);
                // It was measured with somebody else perhaps.
                claim.measured = 0;
                claim.most.clear();
            }
            Change::Claim { at, before } => {
                self.file_claim(at, (before.sign, before.pods.len()));
                self.claims[at] = *before;
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

    /// The claim is found by another sign and number of pods.
    fn file_claim(&mut self, at: usize, (sign, count): (Id, usize)) {
        let now = &self.claims[at];
        self.signs[now.sign as usize].claims.clear(at);
        self.signs[sign as usize].claims.set(at);
        self.by_count[now.pods.len()].clear(at);
        self.by_count[count].set(at);
    }

    pub(crate) fn note(&mut self, change: impl FnOnce(&Self) -> Change) {
        if self.changes.is_some() {
            let change = change(self);
            self.changes.get_or_insert_default().push(change);
        }
    }
}
