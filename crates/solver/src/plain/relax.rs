//! Giving up preferences one at a time.

use karpenter_model::pod::PodView;
use karpenter_model::requirements::Requirements;
use karpenter_model::scheduling::{PodScheduling, Preferred, WhenUnsatisfiable, heaviest};
use karpenter_model::taints::Toleration;

use crate::options::Preferences;

/// A pod being tried: its wishes can shrink, the pod itself stays as it is (SCH-91).
#[derive(Debug, Clone)]
pub(crate) struct Trial<'a> {
    pub(crate) pod: &'a PodView,
    pub(crate) wishes: PodScheduling,
    /// With the heaviest preference, unless preferences are ignored.
    pub(crate) requirements: Requirements,
    pub(crate) strict: Requirements,
    preferences: Preferences,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(pod: &'a PodView, preferences: Preferences) -> Self {
        let mut wishes = pod.scheduling.clone();
        if preferences == Preferences::Ignore {
            // Steps 2 to 5 of relaxing could not help then, so there is nothing left for them (Q13).
            wishes.preferred_terms.clear();
            wishes.preferred_affinity.clear();
            wishes.preferred_anti_affinity.clear();
            wishes.spread.retain(|constraint| constraint.when == WhenUnsatisfiable::DoNotSchedule);
        }
        let mut trial =
            Self { pod, wishes, requirements: Requirements::new(), strict: Requirements::new(), preferences };
        trial.refresh();
        trial
    }

    fn refresh(&mut self) {
        self.strict = self.wishes.strict_requirements();
        self.requirements = match self.preferences {
            Preferences::Respect => self.wishes.requirements(),
            Preferences::Ignore => self.strict.clone(),
        };
    }

    /// Takes the first step that applies (SCH-93); `false` when there is none left.
    pub(crate) fn relax(&mut self, some_pool_prefers_no_schedule: bool) -> bool {
        let wishes = &mut self.wishes;
        let relaxed = drop_required_term(&mut wishes.required_terms)
            || drop_heaviest(&mut wishes.preferred_affinity)
            || drop_heaviest(&mut wishes.preferred_anti_affinity)
            || drop_heaviest(&mut wishes.preferred_terms)
            || drop_soft_spread(wishes)
            || (some_pool_prefers_no_schedule && add_toleration(wishes));
        if relaxed {
            self.refresh();
        }
        relaxed
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
