//! Replacements that cannot be had while the node is there: it goes first, or it stays (V15-49, V15-73 … V15-79).

use std::collections::BTreeMap;
use std::fmt;

use super::drift::from_template;
use super::{Command, StaticPool};
use crate::candidates::Candidate;
use crate::command::Decision;
use crate::look::Look;
use crate::reserved::{self, Supply, TerminateFirst};
use crate::simulation::{Question, Simulator};

/// Why a node of a static pool stays (V15-24).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stuck {
    AtLimit,
    ReservationsFull,
    NothingFits,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtLimit => "static NodePool is at its node limit and cannot stage a replacement",
            Self::ReservationsFull => "static NodePool's capacity reservations are full and cannot stage a replacement",
            Self::NothingFits => "static NodePool's template fits no instance type and cannot stage a replacement",
        })
    }
}

/// How a node of a static pool goes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Way {
    Replace,
    First(TerminateFirst),
}

/// A way with the node that takes it.
pub(super) struct Step<'c, 'a> {
    way: Way,
    candidate: &'c Candidate<'a>,
}

impl Step<'_, '_> {
    pub(super) fn apply(&self, command: Command) -> Command {
        match self.way {
            Way::Replace => Command {
                decision: Decision::Replace,
                replacements: vec![from_template(&self.candidate.pool.view)],
                savings: 0.0,
                ..command
            },
            Way::First(reason) => {
                Command { decision: Decision::TerminateFirst, terminate_first: Some(reason), ..command }
            }
        }
    }
}

/// What one pass has taken from static pools so far.
#[derive(Debug, Default)]
pub(super) struct Staged {
    taken: BTreeMap<String, u64>,
    first: BTreeMap<String, u64>,
}

impl Staged {
    /// One node at a time, and of those that go first one per pool: the next has to see the slot filled again (V15-77).
    /// `None` while the pool has more nodes than it should, or cannot say what it is offered: scaling down comes first,
    /// and the next look may know more.
    pub(super) fn one<'c, 'a>(
        &mut self,
        candidate: &'c Candidate<'a>,
        look: &Look<'a>,
        pools: &BTreeMap<String, StaticPool>,
        gate: bool,
    ) -> Result<Option<Step<'c, 'a>>, Stuck> {
        let pool = &candidate.pool.view;
        let Some(known) = pools.get(&pool.name) else { return Ok(None) };
        if known.claims > pool.replicas.unwrap_or_default() {
            return Ok(None);
        }
        let may_go_first = gate && pool.ready && !pool.deleting;
        if gate {
            let Some(types) = &candidate.pool.instance_types else { return Ok(None) };
            let supply = reserved::supply(pool, types, look.rules);
            if supply != Supply::Open {
                return match own_slot(candidate, look, &supply) {
                    Ok(()) if may_go_first => Ok(self.go_first(candidate, TerminateFirst::NoReservedCapacity)),
                    Ok(()) => Err(Stuck::ReservationsFull),
                    Err(why) => Err(why),
                };
            }
        }
        let taken = self.taken.entry(pool.name.clone()).or_default();
        if known.room > *taken {
            *taken += 1;
            return Ok(Some(Step { way: Way::Replace, candidate }));
        }
        if may_go_first { Ok(self.go_first(candidate, TerminateFirst::StaticAtLimit)) } else { Err(Stuck::AtLimit) }
    }

    fn go_first<'c, 'a>(&mut self, candidate: &'c Candidate<'a>, reason: TerminateFirst) -> Option<Step<'c, 'a>> {
        let first = self.first.entry(candidate.pool_name().to_owned()).or_default();
        *first += 1;
        (*first == 1).then_some(Step { way: Way::First(reason), candidate })
    }
}

/// When everything is full, only a node whose own slot is offered again makes room for its successor (V15-78).
pub(super) fn own_slot(candidate: &Candidate<'_>, look: &Look<'_>, supply: &Supply) -> Result<(), Stuck> {
    match supply {
        Supply::Open => Ok(()),
        Supply::Nothing => Err(Stuck::NothingFits),
        Supply::Full { offered } => {
            let own = reserved::reservation(candidate.node, look.rules);
            if own.is_some_and(|own| offered.contains(own)) { Ok(()) } else { Err(Stuck::ReservationsFull) }
        }
    }
}

/// A dynamic node that holds the only reserved instance that its pods could have (V15-74).
pub(super) struct GivenBack {
    receiving: crate::simulation::Receiving,
    nominated: Vec<karpenter_solver::PlannedClaim>,
}

impl GivenBack {
    pub(super) fn over(self, command: Command) -> Command {
        Command {
            decision: Decision::TerminateFirst,
            terminate_first: Some(TerminateFirst::NoReservedCapacity),
            receiving: self.receiving,
            foreseen: self.nominated,
            ..command
        }
    }
}

pub(super) fn give_back(
    candidate: &Candidate<'_>,
    look: &Look<'_>,
    simulator: &mut Simulator<'_>,
    question: Question<'_>,
) -> Option<GivenBack> {
    let own = reserved::reservation(candidate.node, look.rules)?;
    let freed = reserved::freed(look.snapshot, own, look.rules);
    let simulated = simulator.without(&[candidate], Question { giving_back: Some((own, freed)), ..question });
    simulated.homeless.is_empty().then(|| GivenBack {
        receiving: simulated.receiving(&look.snapshot.pending),
        nominated: simulated.claims().to_vec(),
    })
}
