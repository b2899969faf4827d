//! Giving up preferences one at a time.

use karpenter_model::requirements::Requirements;
use karpenter_model::scheduling::{PodScheduling, Preferred, WhenUnsatisfiable, heaviest};
use karpenter_model::taints::Toleration;

use crate::options::Preferences;

/// What a pod being tried still asks for: its wishes can shrink, the pod itself stays as it is (SCH-91).
#[derive(Debug, Clone)]
pub(crate) struct Wishes {
    pub(crate) all: PodScheduling,
    preferences: Preferences,
}

impl Wishes {
    pub(crate) fn new(scheduling: &PodScheduling, preferences: Preferences) -> Self {
        let mut all = scheduling.clone();
        if preferences == Preferences::Ignore {
            // Steps 2 to 5 of relaxing could not help then, so there is nothing left for them (Q13).
            all.preferred_terms.clear();
            all.preferred_affinity.clear();
            all.preferred_anti_affinity.clear();
            all.spread.retain(|constraint| constraint.when == WhenUnsatisfiable::DoNotSchedule);
        }
        Self { all, preferences }
    }

    pub(crate) fn strict(&self) -> Requirements {
        self.all.strict_requirements()
    }

    /// With the heaviest preference, unless preferences are ignored.
    pub(crate) fn requirements(&self) -> Requirements {
        match self.preferences {
            Preferences::Respect => self.all.requirements(),
            Preferences::Ignore => self.strict(),
        }
    }

    /// What is left after the first step that applies (SCH-93); `None` when there is none left.
    pub(crate) fn relaxed(&self, some_pool_prefers_no_schedule: bool) -> Option<Self> {
        let mut less = self.clone();
        let wishes = &mut less.all;
        let relaxed = drop_required_term(&mut wishes.required_terms)
            || drop_heaviest(&mut wishes.preferred_affinity)
            || drop_heaviest(&mut wishes.preferred_anti_affinity)
            || drop_heaviest(&mut wishes.preferred_terms)
            || drop_soft_spread(wishes)
            || (some_pool_prefers_no_schedule && add_toleration(wishes));
        relaxed.then_some(less)
    }
}

/// The last required term stays.
fn drop_required_term(terms: &mut Vec<Requirements>) -> bool {
    let several = terms.len() > 1;
    if several {
        terms.remove(0);
    }
    several
}

fn drop_heaviest<T>(preferences: &mut Vec<Preferred<T>>) -> bool {
    heaviest(preferences).map(|index| preferences.remove(index)).is_some()
}

/// The last constraint takes the place of the one that goes.
fn drop_soft_spread(wishes: &mut PodScheduling) -> bool {
    let soft = wishes.spread.iter().position(|constraint| constraint.when == WhenUnsatisfiable::ScheduleAnyway);
    soft.map(|index| wishes.spread.swap_remove(index)).is_some()
}

fn add_toleration(wishes: &mut PodScheduling) -> bool {
    let toleration = Toleration::prefer_no_schedule();
    let missing = !wishes.tolerations.contains(&toleration);
    if missing {
        wishes.tolerations.push(toleration);
    }
    missing
}
