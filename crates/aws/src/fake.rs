//! An account in memory: fills the traits of [`crate::cloud`] as AWS would, keeps to the rights of the published policy, and
//! fails when it is told to. For tests of this crate and of those that use it.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "only tests use it")]

mod classes;
mod fleets;
mod matching;
mod seen;
mod services;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use karpenter_platform::Clock;

use crate::cloud::{ApiError, InstanceInfo, LaunchTemplateRequest};
use crate::provider::Clients;

pub use classes::{Classes, cluster, ready_class, settings};
pub use fleets::Refusal;
pub use seen::Seen;
pub use state::{Machine, State};

/// The process ends at one of its calls, which was carried out or not; nothing is answered from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// Counted from one, over all calls.
    pub at_call: usize,
    pub carried_out: bool,
}

/// Shared by all who talk to it.
#[derive(Debug, Clone)]
pub struct Account {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn Clock>,
}

fn no_answer() -> ApiError {
    ApiError::new("", "connection reset by peer")
}

impl Account {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { state: Arc::default(), clock }
    }

    /// With these types, sold in the first three zones of the fixtures at half the price on spot.
    pub fn selling(clock: Arc<dyn Clock>, types: &[&str]) -> Self {
        let account = Self::new(clock);
        account.lock().sell(types);
        account
    }

    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn clients(&self) -> Clients {
        Clients { reads: Arc::new(self.clone()), writes: Arc::new(self.clone()), lookups: Arc::new(self.clone()) }
    }

    /// The next so many calls of this name fail so.
    pub fn fail(&self, call: &'static str, error: &ApiError, times: usize) {
        self.lock().faults.entry(call).or_default().extend(std::iter::repeat_n(error.clone(), times));
    }

    pub fn die(&self, death: Death) {
        self.lock().death = Some(death);
    }

    /// A new process: calls are answered again.
    pub fn revive(&self) {
        let mut state = self.lock();
        (state.death, state.dead) = (None, false);
    }

    /// How often it was called.
    pub fn calls(&self, name: &str) -> usize {
        self.lock().calls.iter().filter(|call| **call == name).count()
    }

    pub fn all_calls(&self) -> usize {
        self.lock().calls.len()
    }

    pub fn forget_calls(&self) {
        self.lock().calls.clear();
    }

    /// Instances that run or are about to.
    pub fn running(&self) -> Vec<InstanceInfo> {
        let now = self.clock.now();
        let state = self.lock();
        let infos = state.machines.values().map(|machine| machine.info(now));
        infos.filter(|info| ["pending", "running"].contains(&info.state.as_str())).collect()
    }

    pub fn templates(&self) -> BTreeMap<String, LaunchTemplateRequest> {
        self.lock().templates.values().map(|(_, request)| (request.name.clone(), request.clone())).collect()
    }

    /// Every call goes through here: counted, broken off, refused or carried out.
    fn call<T>(
        &self,
        name: &'static str,
        act: impl FnOnce(&mut State, Timestamp) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let now = self.clock.now();
        let mut state = self.lock();
        state.calls.push(name);
        if state.dead {
            return Err(no_answer());
        }
        if let Some(death) = state.death.filter(|death| state.calls.len() >= death.at_call) {
            state.dead = true;
            if death.carried_out {
                drop(act(&mut state, now));
            }
            return Err(no_answer());
        }
        if let Some(error) = state.faults.get_mut(name).and_then(std::collections::VecDeque::pop_front) {
            return Err(error);
        }
        act(&mut state, now)
    }
}

/// How long instances take to be shown and to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    pub shown_after: SignedDuration,
    pub running_after: SignedDuration,
    pub ended_after: SignedDuration,
}
