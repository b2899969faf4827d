//! Who stands behind pods: Services and controllers, by their selectors; and the spread constraints that pods without any
//! are given.

use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{ReplicationController, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodId;
use karpenter_model::scheduling::{NodePolicy, SpreadConstraint, WhenUnsatisfiable};
use karpenter_model::selector::Selector;
use karpenter_model::workloads::{ServiceView, WorkloadKind, WorkloadView};

use super::{Converted, Problems, scheduling};
use crate::settings::DefaultConstraint;

fn id(meta: &ObjectMeta) -> PodId {
    PodId::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

pub fn service(service: &Service) -> ServiceView {
    ServiceView { id: id(&service.metadata), selector: service.spec.as_ref().and_then(|spec| spec.selector.clone()) }
}

pub fn replication_controller(controller: &ReplicationController) -> WorkloadView {
    let labels = controller.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let labels = labels.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    WorkloadView {
        kind: WorkloadKind::ReplicationController,
        id: id(&controller.metadata),
        selector: Selector::labels(labels),
    }
}

pub fn replica_set(set: &ReplicaSet) -> Converted<WorkloadView> {
    workload(WorkloadKind::ReplicaSet, "ReplicaSet", &set.metadata, set.spec.as_ref().map(|spec| &spec.selector))
}

pub fn stateful_set(set: &StatefulSet) -> Converted<WorkloadView> {
    workload(WorkloadKind::StatefulSet, "StatefulSet", &set.metadata, set.spec.as_ref().map(|spec| &spec.selector))
}

fn workload(
    kind: WorkloadKind,
    name: &str,
    meta: &ObjectMeta,
    selector: Option<&LabelSelector>,
) -> Converted<WorkloadView> {
    let mut problems = Problems::new(name, meta);
    let selector = scheduling::selector(&mut problems, "spec.selector", selector).unwrap_or_default();
    Converted { view: WorkloadView { kind, id: id(meta), selector }, problems: problems.found }
}

/// The configured constraints, each without a selector yet (SCH-147).
pub fn default_spread(constraints: &[DefaultConstraint], rules: &LabelRules) -> Vec<SpreadConstraint> {
    let policy = |policy: &Option<String>, default| match policy.as_deref() {
        Some("Honor") => NodePolicy::Honor,
        Some("Ignore") => NodePolicy::Ignore,
        _ => default,
    };
    let one = |constraint: &DefaultConstraint| SpreadConstraint {
        key: rules.normalized(&constraint.topology_key).to_owned(),
        max_skew: u32::try_from(constraint.max_skew).unwrap_or(1),
        when: if constraint.when_unsatisfiable == "ScheduleAnyway" {
            WhenUnsatisfiable::ScheduleAnyway
        } else {
            WhenUnsatisfiable::DoNotSchedule
        },
        selector: None,
        min_domains: constraint.min_domains.and_then(|number| u32::try_from(number).ok()),
        node_affinity_policy: policy(&constraint.node_affinity_policy, NodePolicy::Honor),
        node_taints_policy: policy(&constraint.node_taints_policy, NodePolicy::Ignore),
    };
    constraints.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use karpenter_model::labels;
    use serde_json::{Value, json};

    use super::*;
    use crate::settings::SchedulerConfig;

    fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
        serde_json::from_value(object).unwrap()
    }

    /// SCH-149, SC-230.
    #[test]
    fn selectors_are_read() {
        let meta = json!({"name": "o", "namespace": "n"});
        let template = json!({"spec": {"containers": []}});
        let selector = json!({"matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]});
        let set = replica_set(&read(json!({"metadata": meta, "spec": {"selector": selector, "template": template}})));
        assert_eq!((set.view.kind, set.view.id.to_string()), (WorkloadKind::ReplicaSet, "n/o".to_owned()));
        assert_eq!(set.view.selector.expressions().len(), 2);
        let spec = json!({"selector": selector, "serviceName": "s", "template": template});
        let stateful = stateful_set(&read(json!({"metadata": meta, "spec": spec})));
        assert_eq!((stateful.view.kind, stateful.view.selector), (WorkloadKind::StatefulSet, set.view.selector));
        let old = replication_controller(&read(json!({"metadata": meta, "spec": {"selector": {"app": "web"}}})));
        assert_eq!(old.selector, Selector::labels([("app", "web")]));
        let odd = json!({"matchExpressions": [{"key": "tier", "operator": "Near"}]});
        let odd = replica_set(&read(json!({"metadata": meta, "spec": {"selector": odd}})));
        assert!(odd.view.selector.expressions().is_empty() && odd.problems.len() == 1);
        assert!(service(&read(json!({"metadata": meta, "spec": {}}))).selector.is_none());
        assert_eq!(service(&read(json!({"metadata": meta, "spec": {"selector": {}}}))).selector.unwrap().len(), 0);
    }

    /// SC-234, SCH-147, V15-15, Q29.
    #[test]
    fn defaults_are_read() {
        let text = "podTopologySpread: {defaultConstraints: [
            {maxSkew: 2, topologyKey: failure-domain.beta.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway},
            {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, minDomains: 3,
             nodeTaintsPolicy: Honor, nodeAffinityPolicy: Ignore}]}";
        let config = SchedulerConfig::parse(text).unwrap();
        let all = default_spread(&config.default_constraints, &LabelRules::core());
        assert_eq!((all[0].key.as_str(), all[0].max_skew), (labels::ZONE, 2));
        assert_eq!(all[0].when, WhenUnsatisfiable::ScheduleAnyway);
        assert_eq!((all[0].node_affinity_policy, all[0].node_taints_policy), (NodePolicy::Honor, NodePolicy::Ignore));
        assert_eq!((all[1].min_domains, all[1].when), (Some(3), WhenUnsatisfiable::DoNotSchedule));
        assert_eq!((all[1].node_affinity_policy, all[1].node_taints_policy), (NodePolicy::Ignore, NodePolicy::Honor));
        assert!(
            default_spread(&SchedulerConfig::parse("").unwrap().default_constraints, &LabelRules::core()).is_empty()
        );
    }
}
