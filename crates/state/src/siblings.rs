//! Pods that kube-scheduler has not come to, although it has refused others (SCH-12).
//!
//! kube-scheduler looks at one pod after the other and writes to each that it has found nothing. For a thousand pods that takes
//! seconds, in which a window would stay open for the last of them. Pods of a workload that differ in nothing but their names are
//! refused alike: who was there when one of them was refused waits as well. Of a pod that is made later nothing is known;
//! room may have come up meanwhile.
//!
//! When a window closes, the others that were there when somebody was refused are planned for, too, if they have been kept waiting since.
//! Where there is room for them the planner finds it as kube-scheduler will, and buys nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::pod::{PodId, PodView};

use crate::{ClusterState, is_unbound};

/// A scheduler that is not busy has come to a pod after this long. Times of creation are whole seconds, rounded down.
const KEPT_WAITING: SignedDuration = SignedDuration::from_secs(1);

/// Pods that nobody has looked at.
#[derive(Debug, Default)]
pub(crate) struct Unjudged {
    /// By where their class is in memory; they keep it there.
    by_class: BTreeMap<usize, BTreeSet<PodId>>,
    /// When each scheduler has last refused somebody, and of which priority: who has more comes before him.
    refusals: BTreeMap<Box<str>, (Timestamp, i32)>,
}

impl Unjudged {
    pub(crate) fn note(&mut self, pod: &PodView) {
        if may_be_presumed(pod) {
            self.by_class.entry(class(pod)).or_default().insert(pod.id.clone());
        }
    }

    pub(crate) fn forget(&mut self, pod: &PodView) {
        if let Some(pods) = self.by_class.get_mut(&class(pod)) {
            pods.remove(&pod.id);
            if pods.is_empty() {
                self.by_class.remove(&class(pod));
            }
        }
    }

    fn like(&self, pod: &PodView) -> Vec<PodId> {
        self.by_class.get(&class(pod)).into_iter().flatten().cloned().collect()
    }

    /// The pod was there when its scheduler refused somebody who was no more important, and has waited for it since.
    fn is_kept_waiting(&self, pod: &PodView, now: Timestamp) -> bool {
        let created = Timestamp::from(pod.created_at);
        self.refusals.get(&pod.scheduler).is_some_and(|(at, priority)| {
            pod.priority <= *priority && created < *at && now.duration_since(created) >= KEPT_WAITING
        })
    }
}

fn class(pod: &PodView) -> usize {
    Arc::as_ptr(&pod.class).addr()
}

/// Pods without a maker have nobody to share a class with but by chance.
fn may_be_presumed(pod: &PodView) -> bool {
    pod.unjudged && !pod.unschedulable && pod.controller.is_some() && is_unbound(pod)
}

impl ClusterState {
    /// kube-scheduler has refused this pod just now. Whoever is like it and has not been looked at counts as refused from here
    /// on; these are returned.
    pub fn presume_refused(&mut self, like: &PodView, now: Timestamp) -> Vec<Arc<PodView>> {
        self.unjudged.refusals.insert(like.scheduler.clone(), (now, like.priority));
        let siblings = self.unjudged.like(like);
        let known = siblings.iter().filter_map(|id| self.pods.get(id));
        let theirs = known.filter(|pod| pod.id.namespace == like.id.namespace);
        let theirs: Vec<_> = theirs.map(|pod| pod.0.clone()).collect();
        self.presume(&theirs)
    }

    /// kube-scheduler is busy with others: whoever was there when it refused somebody, and is still to be looked at, counts as refused
    /// from here on.
    pub fn presume_kept_waiting(&mut self, now: Timestamp) -> usize {
        let unjudged = self.unjudged.by_class.values().flatten().filter_map(|id| self.pods.get(id));
        let waiting = unjudged.filter(|pod| self.unjudged.is_kept_waiting(pod, now));
        let waiting: Vec<_> = waiting.map(|pod| pod.0.clone()).collect();
        self.presume(&waiting).len()
    }

    fn presume(&mut self, pods: &[Arc<PodView>]) -> Vec<Arc<PodView>> {
        let presumed: Vec<_> =
            pods.iter().map(|pod| Arc::new(PodView { unschedulable: true, ..PodView::clone(pod) })).collect();
        for pod in &presumed {
            self.apply_pod(pod);
        }
        presumed
    }

    /// The pod as it is, or as it is presumed to be: news that say nothing about where it may go change nothing in that.
    pub(crate) fn as_presumed(&self, pod: &Arc<PodView>) -> Arc<PodView> {
        let known = self.pods.get(&pod.id).filter(|known| known.uid == pod.uid && known.is_presumed_waiting());
        if known.is_some() && may_be_presumed(pod) {
            Arc::new(PodView { unschedulable: true, ..PodView::clone(pod) })
        } else {
            pod.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::example;
    use karpenter_model::pod::Controller;

    use super::*;
    use crate::Change;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn owned() -> PodView {
        let (api_version, kind, name) = ("apps/v1".to_owned(), "ReplicaSet".to_owned(), "web".to_owned());
        example::pod("a").but(|pod| pod.controller = Some(Controller { api_version, kind, name }))
    }

    fn waiting(state: &ClusterState) -> Vec<String> {
        state.pending_pods().keys().map(|id| id.name.to_string()).collect()
    }

    fn refuse(state: &mut ClusterState, pod: &PodView) -> Vec<String> {
        let refused = PodView { unschedulable: true, unjudged: false, ..pod.clone() };
        state.apply(Change::Pod(Arc::new(refused.clone())));
        state.presume_refused(&refused, at(10)).iter().map(|pod| pod.id.name.to_string()).collect()
    }

    /// SCH-12: who is like a pod that was refused waits too, if it was there and nothing is known about it.
    #[test]
    fn siblings_of_a_refused_pod_wait() {
        let first = PodView { unjudged: true, ..owned() };
        let like = |name: &str| PodView { id: PodId::new("default", name), ..first.clone() };
        let elsewhere = PodView { id: PodId::new("other", "elsewhere"), ..like("b") };
        let others = [
            like("b"),
            PodView { node_name: Some("n".into()), unjudged: false, ..like("bound") },
            PodView { unjudged: false, ..like("gated") },
            PodView { deleting_since: Some(jiff::Timestamp::UNIX_EPOCH.into()), ..like("leaving") },
            PodView { unjudged: true, ..owned().but(|pod| pod.id = PodId::new("default", "of another class")) },
            elsewhere,
        ];
        let mut state = ClusterState::default();
        for pod in others.iter().chain([&first]) {
            state.apply(Change::Pod(Arc::new(pod.clone())));
        }
        assert!(waiting(&state).is_empty());
        assert_eq!(refuse(&mut state, &first), ["b"]);
        assert_eq!(waiting(&state), ["a", "b"]);
        assert!(refuse(&mut state, &first).is_empty(), "known already");
        state.apply(Change::Pod(Arc::new(like("c"))));
        assert_eq!(waiting(&state), ["a", "b"], "made later");
        assert_eq!(refuse(&mut state, &like("b")), ["c"], "what was presumed is said now");
        assert_eq!(waiting(&state), ["a", "b", "c"]);
    }

    /// SCH-12: whoever a busy scheduler keeps waiting waits as well, if he was there when it refused another and comes after him.
    #[test]
    fn whoever_is_kept_waiting_waits() {
        let refused = PodView { unjudged: true, ..owned() };
        let other = |name: &str, change: &dyn Fn(&mut PodView)| {
            let pod = PodView { id: PodId::new("default", name), created_at: at(8).into(), ..refused.clone() };
            pod.but(|pod| {
                pod.labels = [("of".to_owned(), "another".to_owned())].into_iter().collect::<BTreeMap<_, _>>().into();
                change(pod);
            })
        };
        let others = [
            other("behind", &|_| {}),
            other("just made", &|pod| pod.created_at = at(10).into()),
            other("more important", &|pod| pod.priority = 1),
            other("of another scheduler", &|pod| pod.scheduler = "mine".into()),
            other("gated", &|pod| pod.unjudged = false),
            other("looked after by nobody", &|pod| pod.controller = None),
        ];
        let mut state = ClusterState::default();
        for pod in others.iter().chain([&refused]) {
            state.apply(Change::Pod(Arc::new(pod.clone())));
        }
        assert_eq!(state.presume_kept_waiting(at(20)), 0, "nobody was refused");
        refuse(&mut state, &refused);
        assert_eq!(state.presume_kept_waiting(at(8)), 0, "not for long");
        assert_eq!(state.presume_kept_waiting(at(10)), 1);
        assert_eq!(waiting(&state), ["a", "behind"]);
        assert_eq!(state.presume_kept_waiting(at(60)), 0, "who was not there then is not kept waiting by it");
        state.apply(Change::Pod(Arc::new(PodView {
            node_name: Some("n".into()),
            unjudged: false,
            ..others[0].clone()
        })));
        assert_eq!(waiting(&state), ["a"], "it found room after all");
    }

    /// What was presumed holds until kube-scheduler says something, or the pod is another one.
    #[test]
    fn presumptions_end() {
        let (first, second) = (PodView { unjudged: true, ..owned() }, PodId::new("default", "b"));
        let second = PodView { id: second, ..first.clone() };
        let presumed = || {
            let mut state = ClusterState::default();
            state.apply(Change::Pod(Arc::new(first.clone())));
            state.apply(Change::Pod(Arc::new(second.clone())));
            assert_eq!(refuse(&mut state, &first), ["b"]);
            state
        };
        for (name, news, want) in [
            ("nothing new", second.clone(), true),
            ("bound", PodView { node_name: Some("n".into()), unjudged: false, ..second.clone() }, false),
            ("refused for another reason", PodView { unjudged: false, ..second.clone() }, false),
            ("another of its name", PodView { uid: "new".into(), ..second.clone() }, false),
        ] {
            let mut state = presumed();
            state.apply(Change::Pod(Arc::new(news)));
            assert_eq!(waiting(&state).contains(&"b".to_owned()), want, "{name}");
        }
        let mut state = presumed();
        state.apply(Change::PodGone(second.id.clone()));
        state.apply(Change::PodGone(first.id.clone()));
        assert!(state.unjudged.by_class.is_empty() && waiting(&state).is_empty());
    }
}
