//! PodDisruptionBudgets: how many pods of a workload may be asked to leave (DIS-34 … DIS-38).

use std::sync::Arc;

use jiff::Timestamp;

use crate::pod::{PodId, PodView};
use crate::selector::Selector;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PdbView {
    pub id: PodId,
    /// `None` selects no pod, an empty one every pod of the namespace (DIS-34).
    pub selector: Option<Selector>,
    /// How many more pods may go now.
    pub disruptions_allowed: i32,
    /// The spec never lets a pod go (DIS-38).
    pub never_allows: bool,
    /// Pods that are not ready may always go (DIS-37).
    pub lets_unready_go: bool,
}

impl PdbView {
    pub fn applies_to(&self, pod: &PodView) -> bool {
        self.id.namespace == pod.id.namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(&pod.labels))
    }
}

/// No wait and no change of other pods lets this pod be evicted (DIS-35, DIS-36, DIS-38, SCH-16).
pub fn is_fully_blocked<'a>(
    pod: &PodView,
    budgets: impl IntoIterator<Item = &'a Arc<PdbView>>,
    now: Timestamp,
) -> bool {
    if !pod.is_evictable(now) {
        return false;
    }
    let mut own = budgets.into_iter().filter(|budget| budget.applies_to(pod));
    match (own.next(), own.next()) {
        (None, _) => false,
        (Some(budget), None) => budget.never_allows && !(budget.lets_unready_go && pod.unready),
        (Some(_), Some(_)) => true,
    }
}

/// Why a pod cannot be asked to leave now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// The budget allows no more at present.
    By(PodId),
    /// The API refuses to evict a pod of several budgets, whatever they allow (DIS-36).
    ByMany(Vec<PodId>),
}

/// Only pods that may be asked to leave are held; each is looked at by itself (DIS-35 … DIS-39).
pub fn held_by<'a>(pod: &PodView, budgets: impl IntoIterator<Item = &'a Arc<PdbView>>, now: Timestamp) -> Option<Held> {
    if !pod.is_evictable(now) {
        return None;
    }
    let own: Vec<&Arc<PdbView>> = budgets.into_iter().filter(|budget| budget.applies_to(pod)).collect();
    match own[..] {
        [] => None,
        [budget] => {
            let holds = budget.disruptions_allowed <= 0 && !(budget.lets_unready_go && pod.unready);
            holds.then(|| Held::By(budget.id.clone()))
        }
        _ => Some(Held::ByMany(own.iter().map(|budget| budget.id.clone()).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::pod::PodOwner;
    use crate::protection::Protection;

    fn budget(name: &str, never_allows: bool) -> Arc<PdbView> {
        Arc::new(PdbView {
            id: PodId { namespace: "default".into(), name: name.into() },
            selector: Some(Selector::labels([("app", "web")])),
            disruptions_allowed: 0,
            never_allows,
            lets_unready_go: false,
        })
    }

    /// SCH-16, DIS-34, DIS-35, DIS-36, DIS-37, DIS-38, DIS-39, DIS-40, SC-32.
    #[test]
    fn fully_blocked_pods() {
        let mut web = example::pod("a");
        web.labels.insert("app".into(), "web".into());
        let elsewhere = PodView { id: PodId { namespace: "other".into(), name: "a".into() }, ..web.clone() };
        let unready = PodView { unready: true, ..web.clone() };
        let lenient = Arc::new(PdbView { lets_unready_go: true, ..(*budget("c", true)).clone() });
        let nobody = Arc::new(PdbView { selector: None, ..(*budget("d", true)).clone() });
        for (name, pod, budgets, blocked) in [
            ("none", &web, vec![], false),
            ("might allow later", &web, vec![budget("a", false)], false),
            ("never", &web, vec![budget("a", true)], true),
            ("two, whatever they allow", &web, vec![budget("a", false), budget("b", false)], true),
            ("of another namespace", &elsewhere, vec![budget("a", true)], false),
            ("selects nobody", &web, vec![nobody], false),
            ("not ready, lenient", &unready, vec![lenient.clone()], false),
            ("ready, lenient", &web, vec![lenient], true),
            ("mirror", &PodView { owner: PodOwner::Node, ..web.clone() }, vec![budget("a", true)], false),
            (
                "protected otherwise",
                &web.clone().but(|pod| pod.protection = Protection::Always),
                vec![budget("a", true)],
                false,
            ),
        ] {
            assert_eq!(is_fully_blocked(pod, &budgets, Timestamp::UNIX_EPOCH), blocked, "{name}");
        }
    }

    /// DIS-34 … DIS-40, DC-17, DC-33 … DC-38, DC-188.
    #[test]
    fn held_pods() {
        let mut web = example::pod("a");
        web.labels.insert("app".into(), "web".into());
        let full = |change: fn(&mut PdbView)| {
            let mut budget = (*budget("a", false)).clone();
            change(&mut budget);
            Arc::new(budget)
        };
        let closed = || full(|_| ());
        let open = |name: &str| Arc::new(PdbView { disruptions_allowed: 1, ..(*budget(name, false)).clone() });
        let unready = PodView { unready: true, ..web.clone() };
        let done = PodView { phase: crate::pod::PodPhase::Succeeded, ..web.clone() };
        let mirror = PodView { owner: PodOwner::Node, ..web.clone() };
        let daemon = PodView { owner: PodOwner::DaemonSet, ..web.clone() };
        let other = PodView { id: PodId { namespace: "other".into(), name: "a".into() }, ..web.clone() };
        for (case, pod, budgets, held) in [
            ("DC-34", &web, vec![closed()], true),
            ("DC-33", &unready, vec![full(|budget| budget.lets_unready_go = true)], false),
            ("DIS-37, ready", &web, vec![full(|budget| budget.lets_unready_go = true)], true),
            ("DC-35, another namespace", &other, vec![closed()], false),
            ("DC-38, one may go", &web, vec![open("a")], false),
            ("DC-17, two that allow one", &web, vec![open("a"), open("b")], true),
            ("DC-188, no selector", &web, vec![full(|budget| budget.selector = None)], false),
            ("DC-188, all pods", &web, vec![full(|budget| budget.selector = Some(Selector::default()))], true),
            ("DC-16, done", &done, vec![closed()], false),
            ("DC-16, mirror", &mirror, vec![closed()], false),
            ("DC-16, daemon", &daemon, vec![closed()], true),
        ] {
            assert_eq!(held_by(pod, &budgets, Timestamp::UNIX_EPOCH).is_some(), held, "{case}");
        }
    }
}
