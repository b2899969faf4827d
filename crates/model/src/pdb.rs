//! PodDisruptionBudgets: how many pods of a workload may be asked to leave (DIS-34 … DIS-38).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::pod::{PodId, PodView};
use crate::selector::{Selector, SelectorOperator};

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

/// Budgets by what they select, so that a pod need not be compared with all of them.
#[derive(Debug, Default)]
pub struct PdbIndex<'a> {
    namespaces: BTreeMap<&'a str, OfNamespace<'a>>,
}

type Listed<'a> = Vec<(usize, &'a Arc<PdbView>)>;

#[derive(Debug, Default)]
struct OfNamespace<'a> {
    /// By key and value of a label that the selector lists.
    by_label: BTreeMap<&'a str, BTreeMap<&'a str, Listed<'a>>>,
    /// Of those that list none.
    others: Listed<'a>,
}

impl<'a> PdbIndex<'a> {
    pub fn new(budgets: &'a [Arc<PdbView>]) -> Self {
        let mut index = Self::default();
        for (at, budget) in budgets.iter().enumerate() {
            let Some(selector) = &budget.selector else { continue };
            let of_namespace = index.namespaces.entry(&budget.id.namespace).or_default();
            let listed = selector.expressions().iter().find(|one| one.operator == SelectorOperator::In);
            let Some(listed) = listed else {
                of_namespace.others.push((at, budget));
                continue;
            };
            let values = of_namespace.by_label.entry(&listed.key).or_default();
            for value in &listed.values {
                values.entry(value).or_default().push((at, budget));
            }
        }
        index
    }

    /// All that apply to the pod and perhaps some others, in the order in which they were listed.
    pub fn near(&self, pod: &PodView) -> Vec<&'a Arc<PdbView>> {
        self.listed(pod).into_iter().map(|(_, budget)| budget).collect()
    }

    /// The same, with their places in the list.
    pub fn listed(&self, pod: &PodView) -> Vec<(usize, &'a Arc<PdbView>)> {
        let Some(of_namespace) = self.namespaces.get(pod.id.namespace.as_str()) else { return Vec::new() };
        let mut found = of_namespace.others.clone();
        for (key, values) in &of_namespace.by_label {
            let value = pod.labels.get(key);
            found.extend(value.and_then(|value| values.get(value.as_str())).into_iter().flatten());
        }
        found.sort_unstable_by_key(|(at, _)| *at);
        found
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
            id: PodId::new("default", name),
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
        let elsewhere = PodView { id: PodId::new("other", "a"), ..web.clone() };
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

    /// DIS-34: the index leaves out only what does not apply.
    #[test]
    fn an_index_finds_what_applies() {
        let named =
            |name: &str, selector: Option<Selector>| Arc::new(PdbView { selector, ..(*budget(name, false)).clone() });
        let of = |key: &str, operator, values: &[&str]| {
            let values = values.iter().map(ToString::to_string).collect();
            Some(Selector::new([crate::selector::SelectorExpression { key: key.into(), operator, values }]))
        };
        let budgets = [
            named("a", of("app", SelectorOperator::In, &["db", "web"])),
            named("b", of("tier", SelectorOperator::Exists, &[])),
            named("c", of("app", SelectorOperator::NotIn, &["db"])),
            named("d", Some(Selector::default())),
            named("e", None),
            named("f", of("tier", SelectorOperator::In, &["back"])),
        ];
        let index = PdbIndex::new(&budgets);
        for labels in [&[][..], &[("app", "web")], &[("app", "db"), ("tier", "back")], &[("tier", "front")]] {
            let mut pod = example::pod("a");
            pod.labels.extend(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
            let found: Vec<&PodId> =
                index.near(&pod).into_iter().filter(|one| one.applies_to(&pod)).map(|one| &one.id).collect();
            let all: Vec<&PodId> = budgets.iter().filter(|one| one.applies_to(&pod)).map(|one| &one.id).collect();
            assert_eq!(found, all, "{labels:?}");
        }
        let elsewhere = PodView { id: PodId::new("other", "a"), ..example::pod("a") };
        assert!(index.near(&elsewhere).is_empty());
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
        let other = PodView { id: PodId::new("other", "a"), ..web.clone() };
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
