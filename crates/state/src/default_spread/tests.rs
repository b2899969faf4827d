use karpenter_model::example;
use karpenter_model::labels;
use karpenter_model::pod::Controller;
use karpenter_model::scheduling::{NodePolicy, WhenUnsatisfiable};

use super::*;
use crate::{Change, ClusterState};

fn map(text: &str) -> BTreeMap<String, String> {
    let pair = |word: &str| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())).unwrap();
    text.split_whitespace().map(pair).collect()
}

fn id(namespace: &str, name: &str) -> PodId {
    PodId::new(namespace, name)
}

fn labelled(text: &str) -> Selector {
    Selector::labels(map(text).iter().map(|(key, value)| (key.as_str(), value.as_str())))
}

/// `"v1 ReplicationController name"`.
fn pod(labels: &str, controller: &str) -> PodView {
    let words: Vec<&str> = controller.split_whitespace().collect();
    let controller = match words.as_slice() {
        [api_version, kind, name] => Some(Controller {
            api_version: (*api_version).to_owned(),
            kind: (*kind).to_owned(),
            name: (*name).to_owned(),
        }),
        _ => None,
    };
    let pod = PodView { unschedulable: true, ..example::pod("p") };
    pod.but(|pod| (pod.labels, pod.controller) = (map(labels).into(), controller))
}

fn service(name: &str, selector: Option<&str>) -> WorkloadChange {
    WorkloadChange::Service(Arc::new(ServiceView { id: id("default", name), selector: selector.map(map) }))
}

fn workload(kind: WorkloadKind, name: &str, selector: Selector) -> WorkloadChange {
    WorkloadChange::Workload(Arc::new(WorkloadView { kind, id: id("default", name), selector }))
}

fn workloads(changes: impl IntoIterator<Item = WorkloadChange>) -> Workloads {
    let mut all = Workloads::default();
    changes.into_iter().for_each(|change| all.apply(change));
    all
}

/// The expressions in words.
fn deduced(changes: impl IntoIterator<Item = WorkloadChange>, pod: &PodView) -> String {
    let Some(selector) = workloads(changes).selector(pod) else { return "none".to_owned() };
    let text = |one: &SelectorExpression| format!("{} {:?} {}", one.key, one.operator, one.values.join("|"));
    selector.expressions().iter().map(text).collect::<Vec<_>>().join(", ")
}

/// SC-230, VC-106, SCH-149: who owns the pod.
#[test]
fn selectors_of_owners() {
    use WorkloadKind::{ReplicaSet, ReplicationController, StatefulSet};
    let web = "app=web hash=1";
    let not_in = SelectorExpression {
        key: "tier".to_owned(),
        operator: SelectorOperator::NotIn,
        values: vec!["back".to_owned()],
    };
    for (name, change, pod, want) in [
        (
            "ReplicaSet",
            workload(ReplicaSet, "o", labelled(web)),
            pod(web, "apps/v1 ReplicaSet o"),
            "app In web, hash In 1",
        ),
        (
            "StatefulSet, its pods have more labels",
            workload(StatefulSet, "o", labelled("app=db")),
            pod("app=db pod-name=o-0 index=0", "apps/v1 StatefulSet o"),
            "app In db",
        ),
        (
            "ReplicationController",
            workload(ReplicationController, "o", labelled("app=web")),
            pod(web, "v1 ReplicationController o"),
            "app In web",
        ),
        (
            "expressions are kept",
            workload(ReplicaSet, "o", labelled("app=web").and(not_in)),
            pod(web, "apps/v1 ReplicaSet o"),
            "app In web, tier NotIn back",
        ),
        ("Job", workload(ReplicaSet, "o", labelled(web)), pod(web, "batch/v1 Job o"), "none"),
        ("not its controller", workload(ReplicaSet, "o", labelled(web)), pod(web, ""), "none"),
        ("gone", workload(ReplicaSet, "o", labelled(web)), pod(web, "apps/v1 ReplicaSet gone"), "none"),
        (
            "another kind of the name",
            workload(ReplicaSet, "o", labelled(web)),
            pod(web, "apps/v1 StatefulSet o"),
            "none",
        ),
        ("another group", workload(ReplicaSet, "o", labelled(web)), pod(web, "x/v1 ReplicaSet o"), "none"),
        ("empty", workload(ReplicaSet, "o", Selector::default()), pod(web, "apps/v1 ReplicaSet o"), "none"),
    ] {
        assert_eq!(deduced([change], &pod), want, "{name}");
    }
}

/// SC-227, SC-231, VC-107, Z15: Services of the namespace that find the pod; contradicting ones by name.
#[test]
fn selectors_of_services() {
    let front = pod("app=web tier=frontend", "");
    let other = ServiceView { id: id("other", "s"), selector: Some(map("app=web")) };
    for (name, changes, want) in [
        ("one", vec![service("a", Some("app=web"))], "app In web"),
        (
            "two",
            vec![service("a", Some("app=web")), service("b", Some("tier=frontend"))],
            "app In web, tier In frontend",
        ),
        ("nil", vec![service("a", None)], "none"),
        ("empty", vec![service("a", Some(""))], "none"),
        ("no match", vec![service("a", Some("app=db"))], "none"),
        ("half a match", vec![service("a", Some("app=web tier=back"))], "none"),
        ("other namespace", vec![WorkloadChange::Service(Arc::new(other))], "none"),
        ("gone", vec![service("a", Some("app=web")), WorkloadChange::ServiceGone(id("default", "a"))], "none"),
    ] {
        assert_eq!(deduced(changes, &front), want, "{name}");
    }
    let job = pod("app=web", "batch/v1 Job o");
    assert_eq!(deduced([service("a", Some("app=web"))], &job), "app In web", "SC-227");
    assert_eq!(deduced([], &pod("app=web", "")), "none", "SC-227");
}

/// V15-99, SC-231, SC-232, VC-108: Services and owner together.
#[test]
fn services_and_owners() {
    use WorkloadKind::{ReplicaSet, ReplicationController};
    let tiered = pod("app=web hash=1 tier=front", "apps/v1 ReplicaSet o");
    let set = || workload(ReplicaSet, "o", labelled("app=web hash=1"));
    assert_eq!(deduced([service("s", Some("tier=front")), set()], &tiered), "app In web, hash In 1, tier In front");
    let legacy = pod("app=web", "v1 ReplicationController o");
    let old = workload(ReplicationController, "o", labelled("app=legacy"));
    assert_eq!(deduced([service("s", Some("app=web")), old], &legacy), "app In legacy");
    let odd = pod("app=web", "apps/v1 ReplicaSet o");
    let changes = [service("s", Some("app=web")), workload(ReplicaSet, "o", labelled("app=other"))];
    let selector = workloads(changes).selector(&odd).unwrap();
    assert!(!selector.matches(&map("app=web")) && !selector.matches(&map("app=other")), "it selects nothing");
}

fn default_constraint(when: WhenUnsatisfiable) -> SpreadConstraint {
    SpreadConstraint {
        key: labels::ZONE.to_owned(),
        max_skew: 1,
        when,
        selector: None,
        min_domains: Some(3),
        node_affinity_policy: NodePolicy::Honor,
        node_taints_policy: NodePolicy::Ignore,
    }
}

/// SC-233, VC-109, VC-110, SCH-148, SCH-150, Q16, Z16: who gets what, and that nobody else's pod is touched.
#[test]
fn defaults_are_given_to_pods_without_constraints() {
    let defaults = vec![default_constraint(WhenUnsatisfiable::DoNotSchedule)];
    let set = workload(WorkloadKind::ReplicaSet, "o", labelled("app=web"));
    let all = workloads([set, service("s", Some("tier=front"))]);
    let plain = Arc::new(pod("app=web", "apps/v1 ReplicaSet o"));
    let given = all.with_defaults(&plain, &defaults);
    assert_eq!(given.scheduling.spread.len(), 1);
    assert_eq!(given.scheduling.spread[0].selector, Some(labelled("app=web")));
    assert_eq!(given.scheduling.spread[0].min_domains, Some(3), "VC-110: carried");
    assert!(plain.scheduling.spread.is_empty(), "the original is left alone");

    let tiered = Arc::new(pod("app=web tier=front", "apps/v1 ReplicaSet o"));
    let other = all.with_defaults(&tiered, &defaults);
    assert_ne!(other.scheduling.spread[0].selector, given.scheduling.spread[0].selector, "VC-109: other labels");
    let elsewhere = Arc::new(PodView { id: id("other", "p"), ..PodView::clone(&plain) });
    assert!(all.with_defaults(&elsewhere, &defaults).scheduling.spread.is_empty(), "VC-109: other namespace");

    let mut own = PodView::clone(&plain);
    own.scheduling.spread = vec![default_constraint(WhenUnsatisfiable::ScheduleAnyway)];
    let own = Arc::new(own);
    assert_eq!(all.with_defaults(&own, &defaults), own, "VC-110: own constraints");
    assert_eq!(all.with_defaults(&plain, &Vec::new()), plain, "VC-110: nothing configured");
    let mut alone = all;
    alone.apply(WorkloadChange::WorkloadGone(WorkloadKind::ReplicaSet, id("default", "o")));
    assert_eq!(alone.with_defaults(&plain, &defaults), plain, "nobody stands behind it");
}

/// SCH-148: pods that wait come out of the state with the defaults.
#[test]
fn waiting_pods_have_the_defaults() {
    let mut state =
        ClusterState::default().with_default_spread(vec![default_constraint(WhenUnsatisfiable::DoNotSchedule)]);
    state.apply(Change::Pod(Arc::new(pod("app=web", "apps/v1 ReplicaSet o"))));
    assert!(state.pending_pods()[&id("default", "p")].scheduling.spread.is_empty());
    state.apply(Change::Workload(workload(WorkloadKind::ReplicaSet, "o", labelled("app=web"))));
    assert_eq!(state.pending_pods()[&id("default", "p")].scheduling.spread.len(), 1);
}
