//! Which devices the claims of a pod would get on a candidate (dynamic resource allocation).
//!
//! [`Inventory`] is what there is when a pass begins. [`Devices`] adds what the pass has given so far: ask
//! [`Devices::allocate`] for a candidate, which changes nothing; [`Devices::commit`] the answer of the candidate that wins;
//! call [`Devices::keep_types`] whenever a candidate loses instance types, for whatever reason; go back with
//! [`Devices::undo_to`]. Nothing is ever written to the API: the scheduler allocates for real (SCH-216).
//!
//! Expressions of selectors are compiled at the edge into [`karpenter_model::devices::DeviceSelector`]; this module calls
//! them once per device and request.

mod amounts;
mod inventory;
mod ledger;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use karpenter_model::devices::{Consumer, DeviceId, ResourceClaim, TypeDevices};
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::{PodId, PodView};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirements, Undefined};

pub use inventory::{Facts, Inventory};
use ledger::Ledger;
use search::{Item, Outcome, Search};

/// At most so many devices per claim (SCH-204).
const MOST_DEVICES: usize = 32;

/// Devices looked at in one attempt. At about a microsecond each this is a small part of the five seconds that an attempt
/// may take (SCH-214), and the same on every machine.
const STEPS: u32 = 200_000;

/// Where the devices shall be used.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    /// Tells the candidates of a pass apart: the host name, or its placeholder.
    pub name: &'a str,
    /// The Node behind it, if there is one.
    pub node: Option<&'a str>,
    /// What is known of it by now, with what the pod asks for (SCH-197).
    pub requirements: &'a Requirements,
    /// What it may become, in order. An initialized node is one option without devices to come.
    pub types: Vec<TypeOption<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub struct TypeOption<'a> {
    pub name: &'a str,
    pub devices: &'a TypeDevices,
}

/// A device for a request of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    pub claim: PodId,
    /// `request`, or `request/alternative`.
    pub request: String,
    pub device: DeviceId,
    /// Published by the node itself once it runs.
    pub own: bool,
    /// Of no use elsewhere: the claim is for pods of this node only.
    pub(crate) local: bool,
    /// Of a shared device.
    pub consumed: BTreeMap<String, Quantity>,
    pub(crate) counters: BTreeMap<(String, String), Quantity>,
    /// Where it can be used from.
    pub(crate) topology: Requirements,
}

/// What a candidate would get; [`Devices::commit`] makes it so.
#[derive(Debug, Clone)]
pub struct Attempt {
    candidate: String,
    /// Types that can satisfy the claims; all others are out.
    pub by_type: BTreeMap<String, Vec<Taken>>,
    /// What is left of the candidate's requirements (SCH-197).
    pub requirements: Requirements,
}

/// Why a candidate cannot have the claims of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceRefusal {
    NoClaim(PodId),
    /// Something that the claim asks for is not understood.
    Unusable {
        claim: PodId,
        why: String,
    },
    /// The claim has devices that come with another node of this pass.
    OnAnotherNode(PodId),
    /// What the claim has, or could get, cannot be reached from there.
    NoDevices,
    TooManyDevices {
        claim: PodId,
        devices: usize,
    },
    /// The search was given up.
    TooHard,
}

impl fmt::Display for DeviceRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoClaim(claim) => write!(f, "resource claim {claim} not found"),
            Self::Unusable { claim, why } => write!(f, "resource claim {claim}: {why}"),
            Self::OnAnotherNode(claim) => write!(f, "resource claim {claim} has devices of another node"),
            Self::NoDevices => f.write_str("the devices of its resource claims cannot be had"),
            Self::TooManyDevices { claim, devices } => {
                write!(f, "resource claim {claim} asks for {devices} devices, at most {MOST_DEVICES} can be given")
            }
            Self::TooHard => f.write_str("no devices for its resource claims were found in reasonable time"),
        }
    }
}

/// The claims of a pod, each once.
pub fn claims_of(pod: &PodView) -> Vec<PodId> {
    let mut claims: Vec<PodId> = Vec::new();
    for name in &pod.resource_claims {
        let id = PodId::new(pod.id.namespace.clone(), name.clone());
        if !claims.contains(&id) {
            claims.push(id);
        }
    }
    claims
}

/// Devices during a pass.
#[derive(Debug)]
pub struct Devices {
    inventory: Arc<Inventory>,
    rules: LabelRules,
    ledger: Ledger,
}

impl Devices {
    pub fn new(inventory: Arc<Inventory>, rules: &LabelRules) -> Self {
        Self { inventory, rules: rules.clone(), ledger: Ledger::default() }
    }

    /// What the candidate would get for these claims of a pod, in order (SCH-196, SCH-206).
    pub fn allocate(&self, candidate: &Candidate<'_>, claims: &[PodId]) -> Result<Attempt, DeviceRefusal> {
        let items = claims.iter().map(|id| self.item(candidate, id)).collect::<Result<Vec<_>, _>>()?;
        let most = items.iter().map(|item| match item {
            Item::Allocate(claim) => self.check(claim, candidate),
            Item::Reach(_) => Ok(()),
        });
        most.collect::<Result<(), _>>()?;
        let mut steps = STEPS;
        let mut attempt = Attempt {
            candidate: candidate.name.to_owned(),
            by_type: BTreeMap::new(),
            requirements: candidate.requirements.clone(),
        };
        for option in &candidate.types {
            let search = Search::new(self, candidate, *option, &items, attempt.requirements.clone());
            match search.run(&mut steps) {
                Outcome::Found { taken, requirements } => {
                    attempt.requirements = requirements;
                    attempt.by_type.insert(option.name.to_owned(), taken);
                }
                Outcome::None => {}
                Outcome::Refused(why) => return Err(why),
            }
        }
        if attempt.by_type.is_empty() { Err(DeviceRefusal::NoDevices) } else { Ok(attempt) }
    }

    /// What is to be done about one claim of a pod.
    fn item(&self, candidate: &Candidate<'_>, id: &PodId) -> Result<Item<'_>, DeviceRefusal> {
        let claim = self.inventory.claim(id).ok_or_else(|| DeviceRefusal::NoClaim(id.clone()))?;
        if let Some(owner) = self.ledger.owner(id) {
            if !self.ledger.is_local(id) {
                return Ok(Item::Reach(vec![self.ledger.topology(id)]));
            }
            let same = owner == candidate.name;
            return if same { Ok(Item::Reach(Vec::new())) } else { Err(DeviceRefusal::OnAnotherNode(id.clone())) };
        }
        match &claim.allocation {
            Some(allocation) if !self.inventory.moves(claim) => Ok(Item::Reach(allocation.terms.clone())),
            _ => Ok(Item::Allocate(claim)),
        }
    }

    /// What can be said about a claim before any device is looked at.
    fn check(&self, claim: &ResourceClaim, candidate: &Candidate<'_>) -> Result<(), DeviceRefusal> {
        let unusable = |why: String| DeviceRefusal::Unusable { claim: claim.id.clone(), why };
        self.inventory.usable(claim).map_err(unusable)?;
        let least = self.inventory.least_devices(claim, candidate, &self.rules);
        let too_many = least > MOST_DEVICES;
        if too_many { Err(DeviceRefusal::TooManyDevices { claim: claim.id.clone(), devices: least }) } else { Ok(()) }
    }

    /// The candidate has won: what it was offered is its own now.
    pub fn commit(&mut self, attempt: Attempt) {
        for (option, taken) in attempt.by_type {
            self.ledger.insert(&attempt.candidate, &option, taken);
        }
    }

    /// The candidate can no longer become any type but these: what the others had is free again (SCH-212, Q45).
    pub fn keep_types(&mut self, candidate: &str, kept: &BTreeSet<&str>) {
        self.ledger.keep(candidate, kept);
    }

    /// A point to come back to.
    pub fn mark(&self) -> usize {
        self.ledger.mark()
    }

    pub fn undo_to(&mut self, mark: usize) {
        self.ledger.undo_to(mark);
    }

    /// What the candidate was given, by the type that it may become.
    pub fn given(&self, candidate: &str) -> Option<&BTreeMap<String, Vec<Taken>>> {
        self.ledger.given(candidate)
    }

    /// The drivers of all devices that the candidate may get, sorted (SCH-215).
    pub fn drivers(&self, candidate: &str) -> BTreeSet<&str> {
        self.ledger.drivers(candidate)
    }

    fn undefined(&self) -> Undefined<'_> {
        Undefined::WellKnownAllowed(&self.rules)
    }
}

/// Whether only pods that move anyway have a claim, and some do (SCH-194, SC-309).
fn only_moving(consumers: &[Consumer], moving: &BTreeSet<String>) -> bool {
    let moves = |consumer: &Consumer| matches!(consumer, Consumer::Pod { uid } if moving.contains(uid));
    !consumers.is_empty() && consumers.iter().all(moves)
}

#[cfg(test)]
pub(crate) mod tests;
