//! Whether a pool's nodes make it into the cluster (LIF-98 … LIF-103).

use std::collections::VecDeque;

use karpenter_model::claim::Status;

/// The last outcomes of a pool, `true` for a node that registered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ring(VecDeque<bool>);

const LENGTH: usize = 4;
/// So many failures among the last outcomes make a pool unhealthy.
const TOO_MANY: usize = 2;

impl Ring {
    /// What a condition from before a restart stands for (LIF-102).
    pub fn from_condition(status: Option<Status>) -> Self {
        Self(match status {
            Some(Status::True) => VecDeque::from([true]),
            Some(Status::False) => VecDeque::from([false; TOO_MANY]),
            Some(Status::Unknown) | None => VecDeque::new(),
        })
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn record(&mut self, registered: bool) {
        self.0.push_back(registered);
        if self.0.len() > LENGTH {
            self.0.pop_front();
        }
    }

    /// With one more outcome, without taking note of it.
    #[must_use]
    pub fn with(&self, registered: bool) -> Self {
        let mut ring = self.clone();
        ring.record(registered);
        ring
    }

    /// LIF-99.
    pub fn health(&self) -> Status {
        let failures = self.0.iter().filter(|registered| !**registered).count();
        match (self.0.is_empty(), failures >= TOO_MANY) {
            (true, _) => Status::Unknown,
            (false, true) => Status::False,
            (false, false) => Status::True,
        }
    }
}

/// What an outcome makes of the pool's condition; `None` leaves it as it is (LIF-100).
pub fn health_after(ring: &Ring, registered: bool, condition: Option<Status>) -> Option<Status> {
    let health = ring.with(registered).health();
    let decided = if registered { health == Status::True } else { health == Status::False };
    (decided && condition != Some(health)).then_some(health)
}

/// What the condition was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Generations {
    pub pool: i64,
    /// `None` when there is no class.
    pub class: Option<i64>,
}

/// Outcomes from before a change of pool or class say nothing about what is to come (LIF-101).
pub fn is_outdated(condition: Option<Generations>, current: Generations) -> bool {
    condition != Some(current)
}
