//! Pods that no pass could place are left out of passes until something changes that they depend on.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::claim::{ClaimView, ConditionView};
use karpenter_model::pod::{PodClass, PodId, PodView};
use karpenter_model::text::Text;
use karpenter_model::uid::Uid;

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

/// Who was refused, and which kinds of pods. A pod that is like one that was refused would be refused too, so it need not be
/// tried; `W` is what it is told.
#[derive(Debug)]
pub struct Refusals<W> {
    pods: BTreeMap<PodId, Refused>,
    /// By namespace and where in memory the class is, which it keeps as long as the entry holds it.
    classes: BTreeMap<(Text, usize), RefusedClass<W>>,
}

#[derive(Debug, Clone)]
struct Refused {
    uid: Uid,
    world: World,
    at: Timestamp,
}

#[derive(Debug)]
struct RefusedClass<W> {
    class: Arc<PodClass>,
    world: World,
    at: Timestamp,
    why: W,
}

/// What is known about a pod that waits.
#[derive(Debug, PartialEq, Eq)]
pub enum Standing<'a, W> {
    /// It may find a place.
    Open,
    /// It would be refused again, for the same reasons.
    Refused,
    /// It has not been tried, but pods like it were refused for this.
    LikeRefused(&'a W),
}

impl<W> Default for Refusals<W> {
    fn default() -> Self {
        Self { pods: BTreeMap::new(), classes: BTreeMap::new() }
    }
}

fn key(pod: &PodView) -> (Text, usize) {
    (pod.id.namespace.clone(), Arc::as_ptr(&pod.class).addr())
}

impl<W> Refusals<W> {
    /// No pass could place the pod in this world.
    pub fn note(&mut self, pod: &PodView, world: World, now: Timestamp, why: W) {
        self.pods.insert(pod.id.clone(), Refused { uid: pod.uid.clone(), world, at: now });
        self.classes.insert(key(pod), RefusedClass { class: pod.class.clone(), world, at: now, why });
    }

    /// The pod has heard what was said about pods like it.
    pub fn note_told(&mut self, pod: &PodView) {
        if let Some(known) = self.classes.get(&key(pod)) {
            let refused = Refused { uid: pod.uid.clone(), world: known.world, at: known.at };
            self.pods.insert(pod.id.clone(), refused);
        }
    }

    pub fn standing(&self, pod: &PodView, world: World, now: Timestamp) -> Standing<'_, W> {
        let holds = |before: World, at: Timestamp| {
            now.duration_since(at) < FORGET
                && if looks_at_others(pod) { before == world } else { before.room == world.room }
        };
        let own = self.pods.get(&pod.id).filter(|refused| refused.uid == pod.uid);
        if own.is_some_and(|refused| holds(refused.world, refused.at)) {
            return Standing::Refused;
        }
        match self.classes.get(&key(pod)) {
            Some(known) if Arc::ptr_eq(&known.class, &pod.class) && holds(known.world, known.at) => {
                Standing::LikeRefused(&known.why)
            }
            _ => Standing::Open,
        }
    }

    /// Whether a pass may find a place for the pod.
    pub fn is_open(&self, pod: &PodView, world: World, now: Timestamp) -> bool {
        matches!(self.standing(pod, world, now), Standing::Open)
    }

    /// Forgets pods that do not wait any more, and classes whose time is over.
    pub fn retain(&mut self, waits: impl Fn(&PodId) -> bool, now: Timestamp) {
        self.pods.retain(|id, _| waits(id));
        self.classes.retain(|_, known| now.duration_since(known.at) < FORGET);
    }

    pub fn len(&self) -> usize {
        self.pods.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }
}

/// Where the pod may go depends on where other pods are.
pub(crate) fn looks_at_others(pod: &PodView) -> bool {
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
        refusals.note(&plain, before, time(0), "full");
        refusals.note(&social, before, time(0), "full");
        for (name, pod, world, second, want) in [
            ("nothing changed", &plain, before, 59, true),
            ("a pod was bound", &plain, bound, 1, true),
            ("a pod was bound near which it wants to be", &social, bound, 1, false),
            ("there is more room", &plain, grown, 1, false),
            ("a minute has passed", &plain, before, 60, false),
            ("never refused, nor was one like it", &example::pod("new"), before, 1, false),
        ] {
            let standing = refusals.standing(pod, world, time(second));
            assert_eq!(standing, if want { Standing::Refused } else { Standing::Open }, "{name}");
        }
        refusals.retain(|id| id.name == "social", time(59));
        assert_eq!((refusals.len(), refusals.classes.len()), (1, 2));
        refusals.retain(|_| true, time(60));
        assert_eq!((refusals.len(), refusals.classes.len()), (1, 0));
    }

    /// SCH-249: a pod like one that fits nowhere is told so without being tried, until something changes.
    #[test]
    fn classes_are_remembered() {
        let plain = example::pod("first");
        let like = |name: &str| PodView { class: plain.class.clone(), ..example::pod(name) };
        let (before, grown) = (World { all: 5, room: 2 }, World { all: 7, room: 3 });
        let mut refusals = Refusals::default();
        refusals.note(&plain, before, time(0), "full");
        let second = like("second");
        assert_eq!(refusals.standing(&second, before, time(1)), Standing::LikeRefused(&"full"));
        refusals.note_told(&second);
        assert_eq!(refusals.standing(&second, before, time(2)), Standing::Refused);
        let elsewhere = PodId::new("other", "third");
        let elsewhere = PodView { id: elsewhere, ..like("third") };
        for (name, pod, world, at) in [
            ("there is more room", like("third"), grown, 1),
            ("a minute has passed", like("third"), before, 60),
            ("told, and a minute has passed", second, before, 60),
            ("in another namespace", elsewhere, before, 1),
            ("of a class of its own", example::pod("third"), before, 1),
        ] {
            assert_eq!(refusals.standing(&pod, world, time(at)), Standing::Open, "{name}");
        }
        let replaced = PodView { uid: "new".into(), ..plain.clone() };
        assert_eq!(
            refusals.standing(&replaced, before, time(1)),
            Standing::LikeRefused(&"full"),
            "another of its name"
        );
    }
}
