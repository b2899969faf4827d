//! Claims in the order in which they are tried, where there are many of them.
//!
//! Looking through sets of claims, one set for each number of pods, is quickest while claims are few or groups of hosts rule
//! most of them out. With ten thousand claims of up to a thousand pods it is not.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::amounts::nanos;
use super::evaluation::Miss;
use super::group::Site;
use super::intern::{Id, id};
use super::pass::{Pass, Trial};
use super::undo::Change;

/// So many claims are looked through; in tests fewer, since their plans are small.
pub(crate) const FEW: usize = if cfg!(test) { 1 } else { 24 };
/// Where so many are passed over for one pod, looking through all of them at once is better.
const TOO_MANY: usize = if cfg!(test) { 2 } else { 64 };

/// Claims that may still take pods of a demand, those with the fewest pods first, then as they were opened.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Pods that the claim had when it was put here, which may be fewer than it has now, and the claim.
    heap: BinaryHeap<Reverse<(Id, Id)>>,
    /// Claims before this one are in it, or will never take such a pod.
    seen: usize,
    /// How often the pass had gone back.
    rewound: usize,
    /// Too many are passed over.
    pub(crate) useless: bool,
}

impl Queue {
    /// The claim may take such pods after all.
    pub(crate) fn put_back(&mut self, claim: usize, pods: usize) {
        if claim < self.seen {
            self.heap.push(Reverse((id(pods), id(claim))));
        }
    }
}

/// How looking through a queue ends.
pub(crate) enum Search {
    Found(Site),
    Nobody,
    GaveUp,
}

impl Pass<'_> {
    /// For a pod that no group of hosts has anything to say about.
    pub(crate) fn place_from_queue(&mut self, trial: Trial, demand: usize) -> Search {
        let mut queue = std::mem::take(&mut self.demands[demand].queue);
        self.fill(&mut queue, trial, demand);
        let mut aside: Vec<Reverse<(Id, Id)>> = Vec::new();
        let mut refused: Vec<Id> = Vec::new();
        let mut end = Search::Nobody;
        while let Some(Reverse((pods, claim))) = queue.heap.pop() {
            let at = claim as usize;
            let now = id(self.claims[at].pods.len());
            if now != pods {
                queue.heap.push(Reverse((now, claim)));
                continue;
            }
            if self.demands[demand].dead.has(at) || self.sealed.has(at) {
                continue;
            }
            let sign = self.claims[at].sign;
            let choices = if refused.contains(&sign) { None } else { self.claim_choices(trial, sign) };
            let tried = choices.map(|range| self.try_claim(trial, at, range));
            match tried {
                Some(Ok(addition)) => {
                    self.commit_to_claim(trial, at, addition);
                    queue.heap.push(Reverse((now + 1, claim)));
                    end = Search::Found(Site::Claim(at));
                    break;
                }
                Some(Err(Miss::Full)) => {
                    self.demands[demand].dead.set(at);
                    self.note(|_| Change::Dead { demand, claim: at });
                    self.measure(at);
                    continue;
                }
                Some(Err(_)) => {}
                None => refused.push(sign),
            }
            aside.push(Reverse((now, claim)));
            if aside.len() > TOO_MANY {
                queue.useless = true;
                end = Search::GaveUp;
                break;
            }
        }
        queue.heap.extend(aside);
        self.demands[demand].queue = queue;
        end
    }

    /// Adds claims that were opened since the queue was last looked at.
    fn fill(&mut self, queue: &mut Queue, trial: Trial, demand: usize) {
        if queue.rewound != self.rewound {
            *queue = Queue { rewound: self.rewound, ..Queue::default() };
        }
        for at in queue.seen..self.claims.len() {
            if self.demands[demand].dead.has(at) {
                continue;
            }
            if self.is_too_full(trial, at) {
                self.demands[demand].dead.set(at);
                self.note(|_| Change::Dead { demand, claim: at });
                continue;
            }
            queue.heap.push(Reverse((id(self.claims[at].pods.len()), id(at))));
        }
        queue.seen = self.claims.len();
    }

    /// Whether the claim's types are known to have too little of something.
    fn is_too_full(&self, trial: Trial, at: usize) -> bool {
        let claim = &self.claims[at];
        let asked = self.amounts(trial.shape);
        let mut most = claim.most.iter().enumerate();
        most.any(|(at, most)| nanos(&claim.requests, at) + nanos(asked, at) > *most)
    }

    /// Notes how much the claim's types have at most, now that it is full for somebody.
    fn measure(&mut self, at: usize) {
        let claim = &mut self.claims[at];
        if claim.measured == claim.pods.len() {
            return;
        }
        claim.measured = claim.pods.len();
        let columns = &self.compiled.pools[claim.pool].columns;
        claim.most = columns.iter().map(|column| column.most(&claim.rows)).collect();
    }
}
