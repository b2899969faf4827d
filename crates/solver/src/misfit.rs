//! Why no instance type is left for a pod.

use std::sync::Arc;

use karpenter_model::instance_type::{AllocatableGroup, InstanceType};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::Requirements;
use karpenter_model::resources::Resources;

use crate::plan::{Criterion, NoType, Refusal};

/// A type, with what its offerings leave for pods.
#[derive(Clone)]
pub(crate) struct Candidate<'a> {
    pub(crate) instance_type: &'a InstanceType,
    pub(crate) groups: Arc<Vec<AllocatableGroup<'a>>>,
}

pub(crate) fn candidate(instance_type: &InstanceType) -> Candidate<'_> {
    Candidate { instance_type, groups: Arc::new(instance_type.allocatable_groups()) }
}

/// Checks types and remembers what each of them lacked (SCH-107).
pub(crate) struct Misses<'r> {
    requirements: &'r Requirements,
    /// Which criteria the types met, one entry per type that was looked at.
    met: Vec<[bool; 3]>,
    nearest: Option<Nearest>,
    least: Option<Resources>,
    most: Resources,
}

/// The smallest shortage of a resource on a type that was offered, in proportion to the need.
struct Nearest {
    share: f64,
    resource: String,
    short_by: Quantity,
}

impl<'r> Misses<'r> {
    pub(crate) fn new(requirements: &'r Requirements) -> Self {
        Self { requirements, met: Vec::new(), nearest: None, least: None, most: Resources::new() }
    }

    /// Whether the type meets the requirements and some group of its offerings holds everything.
    pub(crate) fn check(&mut self, candidate: &Candidate<'_>, needed: &Resources, rules: &LabelRules) -> bool {
        let requirements = candidate.instance_type.requirements.intersects(self.requirements);
        let (mut resources, mut offering, mut both) = (false, false, false);
        for group in candidate.groups.iter() {
            let offered = group.offerings.iter().any(|offering| offering.is_compatible(self.requirements, rules));
            let fits = needed.fits(&group.allocatable);
            resources |= fits;
            offering |= offered;
            both |= offered && fits;
            if requirements && offered && !fits {
                self.note_shortage(needed, &group.allocatable);
            }
        }
        self.met.push([requirements, resources, offering]);
        let passes = requirements && both;
        if !passes {
            self.note_total(needed);
        }
        passes
    }

    fn note_shortage(&mut self, needed: &Resources, available: &Resources) {
        let Some((resource, short_by)) = needed.worst_shortage(available) else { return };
        let share = short_by.as_f64() / needed.amount(resource).as_f64();
        if self.nearest.as_ref().is_none_or(|known| share < known.share) {
            self.nearest = Some(Nearest { share, resource: resource.to_owned(), short_by });
        }
    }

    fn note_total(&mut self, needed: &Resources) {
        let lower = |known: &Resources| -> Resources {
            needed.iter().map(|(name, amount)| (name.to_owned(), amount.min(known.amount(name)))).collect()
        };
        self.least = Some(self.least.as_ref().map_or_else(|| needed.clone(), lower));
        self.most.raise_to(needed);
    }

    /// The most telling reason: criteria that no type meets, else two that none meets at once, else all three.
    pub(crate) fn into_refusal(self) -> Refusal {
        const ALL: [Criterion; 3] = [Criterion::Requirements, Criterion::Resources, Criterion::Offering];
        let Some(least) = self.least else { return Refusal::HostPort };
        let nobody = |wanted: &[usize]| !self.met.iter().any(|met| wanted.iter().all(|index| met[*index]));
        let alone: Vec<usize> = (0..3).filter(|index| nobody(&[*index])).collect();
        let pair = [[0, 1], [0, 2], [1, 2]].into_iter().find(|pair| nobody(pair));
        let (unmet, together) = match (&alone[..], pair) {
            ([], Some(pair)) => (pair.to_vec(), true),
            ([], None) => (vec![0, 1, 2], true),
            (some, _) => (some.to_vec(), false),
        };
        let mut requirements = self.requirements.clone();
        for pretended in [labels::REGISTERED, labels::INITIALIZED] {
            requirements.remove(pretended);
        }
        match self.nearest {
            Some(Nearest { resource, short_by, .. }) if alone == [1] => Refusal::TooSmall { resource, short_by },
            _ => Refusal::NoType(Box::new(NoType {
                unmet: unmet.into_iter().map(|index| ALL[index]).collect(),
                together,
                requirements,
                least,
                most: self.most,
            })),
        }
    }
}
