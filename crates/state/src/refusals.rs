//! Pods that no pass could place are left out of passes until something changes that they depend on.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::claim::{ClaimView, ConditionView};
use karpenter_model::pod::{PodId, PodView};

/// A pod that fits nowhere is tried again after this long although nothing has changed that we know of: offers of the
/// cloud come and go without telling.
const FORGET: SignedDuration = SignedDuration::from_mins(1);

/// Two numbers that grow with the cluster's changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct World {
    /// With every change.
    pub all: u64,
    /// With changes that can give a place to a pod which does not care where others are: nodes, pools, volumes and pods
    /// that leave. That a pod was bound, or a claim went a step further, gives no room to anybody.
    pub room: u64,
}

#[derive(Debug, Default)]
pub struct Refusals(BTreeMap<PodId, Refused>);

#[derive(Debug)]
struct Refused {
    uid: String,
    world: World,
    at: Timestamp,
}

impl Refusals {
    /// No pass could place the pod in this world.
    pub fn note(&mut self, pod: &PodView, world: World, now: Timestamp) {
        self.0.insert(pod.id.clone(), Refused { uid: pod.uid.clone(), world, at: now });
    }

    /// The pod would be refused again, for the same reasons.
    pub fn stands(&self, pod: &PodView, world: World, now: Timestamp) -> bool {
        self.0.get(&pod.id).is_some_and(|refused| {
            refused.uid == pod.uid
                && now.duration_since(refused.at) < FORGET
                && if looks_at_others(pod) { refused.world == world } else { refused.world.room == world.room }
        })
    }

    /// Forgets pods that do not wait any more.
    pub fn retain(&mut self, waits: impl Fn(&PodId) -> bool) {
        self.0.retain(|id, _| waits(id));
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Where the pod may go depends on where other pods are.
fn looks_at_others(pod: &PodView) -> bool {
    let wishes = &pod.scheduling;
    !(wishes.spread.is_empty()
        && wishes.affinity.is_empty()
        && wishes.anti_affinity.is_empty()
        && wishes.preferred_affinity.is_empty()
        && wishes.preferred_anti_affinity.is_empty()
        && pod.resource_claims.is_empty())
}

/// The node of the old pod has more room with the new one.
pub(crate) fn frees(old: &PodView, new: &PodView) -> bool {
    let stays = old.node_name == new.node_name && !new.is_terminal() && old.requests == new.requests;
    old.node_name.is_some() && !old.is_terminal() && !stays
}

/// The claim can take other pods than before.
pub(crate) fn offers_other(old: &ClaimView, new: &ClaimView) -> bool {
    let going = |claim: &ClaimView| {
        claim.deleting_since.is_some() || claim.instance_terminating.is_some_and(ConditionView::is_true)
    };
    old.provider_id != new.provider_id
        || old.labels != new.labels
        || old.taints != new.taints
        || old.startup_taints != new.startup_taints
        || old.capacity != new.capacity
        || old.allocatable != new.allocatable
        || going(old) != going(new)
}

#[cfg(test)]
mod tests {
    use karpenter_model::example;
    use karpenter_model::scheduling::{AffinityTerm, Namespaces, PodScheduling};

    use super::*;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// SCH-249: leaving out who would fail again changes no outcome.
    #[test]
    fn refusals_stand_until_something_changes() {
        let term = AffinityTerm { key: "zone".into(), selector: None, namespaces: Namespaces::only("default") };
        let wishes = PodScheduling { affinity: vec![term], ..PodScheduling::default() };
        let (plain, social) = (example::pod("plain"), example::pod("social").but(|pod| pod.scheduling = wishes));
        let (before, bound, grown) = (World { all: 5, room: 2 }, World { all: 6, room: 2 }, World { all: 7, room: 3 });
        let mut refusals = Refusals::default();
        refusals.note(&plain, before, time(0));
        refusals.note(&social, before, time(0));
        for (name, pod, world, second, want) in [
            ("nothing changed", &plain, before, 59, true),
            ("a pod was bound", &plain, bound, 1, true),
            ("a pod was bound near which it wants to be", &social, bound, 1, false),
            ("there is more room", &plain, grown, 1, false),
            ("a minute has passed", &plain, before, 60, false),
            ("another pod of the name", &PodView { uid: "new".into(), ..plain.clone() }, before, 1, false),
            ("never refused", &example::pod("new"), before, 1, false),
        ] {
            assert_eq!(refusals.stands(pod, world, time(second)), want, "{name}");
        }
        refusals.retain(|id| id.name == "social");
        assert_eq!(refusals.len(), 1);
    }
}
