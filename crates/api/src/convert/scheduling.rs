//! Where a pod may go: selectors, affinities, tolerations, spread constraints, host ports.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelectorTerm, PodAffinityTerm, PodSpec, Toleration as ApiToleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::scheduling::{
    AffinityTerm, HostPort, Namespaces, NodePolicy, PodScheduling, Preferred, SpreadConstraint, WhenUnsatisfiable,
};
use karpenter_model::selector::{Selector, SelectorExpression, SelectorOperator};
use karpenter_model::taints::{Effect, Toleration, TolerationOperator};

use super::{Entry, Problems, requirements};
use crate::validation::{label_value, qualified_name};

pub(super) fn pod_scheduling(
    problems: &mut Problems,
    meta: &ObjectMeta,
    spec: &PodSpec,
    rules: &LabelRules,
) -> PodScheduling {
    let selector = spec.node_selector.iter().flatten();
    let affinity = spec.affinity.as_ref();
    let node = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
    let pod = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let anti = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let mut terms = PodTerms { problems, meta, rules };
    PodScheduling {
        node_selector: selector
            .map(|(key, value)| Requirement::any_of(rules.normalized(key), [value.as_str()]))
            .collect(),
        required_terms: node
            .and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref())
            .map(|required| terms.node_terms(&required.node_selector_terms))
            .unwrap_or_default(),
        preferred_terms: node
            .and_then(|node| node.preferred_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(index, preferred)| {
                let field =
                    format!("{NODE_AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution[{index}].preference");
                Preferred { weight: preferred.weight, value: terms.node_term(&field, &preferred.preference) }
            })
            .collect(),
        tolerations: spec.tolerations.iter().flatten().map(toleration).collect(),
        spread: spec
            .topology_spread_constraints
            .iter()
            .flatten()
            .enumerate()
            .filter_map(|(index, constraint)| terms.spread(index, constraint))
            .collect(),
        affinity: terms.pod_terms(
            "podAffinity",
            pod.and_then(|pod| pod.required_during_scheduling_ignored_during_execution.as_deref()),
        ),
        preferred_affinity: pod
            .and_then(|pod| pod.preferred_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(|weighted| terms.preferred("podAffinity", weighted.weight, &weighted.pod_affinity_term))
            .collect(),
        anti_affinity: terms.pod_terms(
            "podAntiAffinity",
            anti.and_then(|anti| anti.required_during_scheduling_ignored_during_execution.as_deref()),
        ),
        preferred_anti_affinity: anti
            .and_then(|anti| anti.preferred_during_scheduling_ignored_during_execution.as_ref())
            .into_iter()
            .flatten()
            .map(|weighted| terms.preferred("podAntiAffinity", weighted.weight, &weighted.pod_affinity_term))
            .collect(),
        host_ports: host_ports(spec),
        // Filled where claims, volumes and classes are known.
        volumes: karpenter_model::scheduling::PodVolumes::default(),
    }
}

const NODE_AFFINITY: &str = "spec.affinity.nodeAffinity";

/// Reads the terms of one pod.
struct PodTerms<'a> {
    problems: &'a mut Problems,
    meta: &'a ObjectMeta,
    rules: &'a LabelRules,
}

impl PodTerms<'_> {
    fn node_terms(&mut self, terms: &[NodeSelectorTerm]) -> Vec<Requirements> {
        let field = |index: usize| {
            format!("{NODE_AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{index}]")
        };
        terms.iter().enumerate().map(|(index, term)| self.node_term(&field(index), term)).collect()
    }

    fn node_term(&mut self, field: &str, term: &NodeSelectorTerm) -> Requirements {
        if term.match_fields.as_ref().is_some_and(|fields| !fields.is_empty()) {
            self.problems.add(format!("{field}.matchFields"), "node fields cannot be selected on (API-135)");
        }
        let entries = term.match_expressions.iter().flatten().map(|expression| Entry {
            key: &expression.key,
            operator: &expression.operator,
            values: expression.values.as_deref().unwrap_or_default(),
            min_values: None,
        });
        requirements(self.problems, &format!("{field}.matchExpressions"), self.rules, entries)
    }

    fn pod_terms(&mut self, kind: &str, terms: Option<&[PodAffinityTerm]>) -> Vec<AffinityTerm> {
        terms.unwrap_or_default().iter().map(|term| self.pod_term(kind, term)).collect()
    }

    fn preferred(&mut self, kind: &str, weight: i32, term: &PodAffinityTerm) -> Preferred<AffinityTerm> {
        Preferred { weight, value: self.pod_term(kind, term) }
    }

    fn pod_term(&mut self, kind: &str, term: &PodAffinityTerm) -> AffinityTerm {
        let field = format!("spec.affinity.{kind}");
        let mut selector = self.selector(&field, term.label_selector.as_ref());
        for (keys, operator) in
            [(&term.match_label_keys, SelectorOperator::In), (&term.mismatch_label_keys, SelectorOperator::NotIn)]
        {
            selector = self.with_label_keys(selector, keys.as_deref(), operator);
        }
        let mut namespaces = Namespaces {
            listed: term.namespaces.iter().flatten().cloned().collect(),
            selector: self.selector(&format!("{field}.namespaceSelector"), term.namespace_selector.as_ref()),
        };
        if namespaces.listed.is_empty() && namespaces.selector.is_none() {
            namespaces = Namespaces::only(self.meta.namespace.as_deref().unwrap_or_default());
        }
        // Deprecated keys mean the stable ones here too (Q29).
        AffinityTerm { key: self.rules.normalized(&term.topology_key).to_owned(), selector, namespaces }
    }

    fn spread(&mut self, index: usize, constraint: &TopologySpreadConstraint) -> Option<SpreadConstraint> {
        let field = format!("spec.topologySpreadConstraints[{index}]");
        let when = match constraint.when_unsatisfiable.as_str() {
            "DoNotSchedule" => Ok(WhenUnsatisfiable::DoNotSchedule),
            "ScheduleAnyway" => Ok(WhenUnsatisfiable::ScheduleAnyway),
            other => Err(format!("{other:?} is neither DoNotSchedule nor ScheduleAnyway")),
        };
        let when = self.problems.check(&format!("{field}.whenUnsatisfiable"), when)?;
        let selector = self.selector(&field, constraint.label_selector.as_ref());
        let policy = |policy: Option<&str>, default| match policy {
            Some("Honor") => NodePolicy::Honor,
            Some("Ignore") => NodePolicy::Ignore,
            _ => default,
        };
        Some(SpreadConstraint {
            key: self.rules.normalized(&constraint.topology_key).to_owned(),
            max_skew: u32::try_from(constraint.max_skew).unwrap_or(0),
            when,
            selector: self.with_label_keys(selector, constraint.match_label_keys.as_deref(), SelectorOperator::In),
            min_domains: constraint.min_domains.and_then(|number| u32::try_from(number).ok()),
            node_affinity_policy: policy(constraint.node_affinity_policy.as_deref(), NodePolicy::Honor),
            node_taints_policy: policy(constraint.node_taints_policy.as_deref(), NodePolicy::Ignore),
        })
    }

    /// The pod's own values of the keys join the selector; keys the pod lacks are ignored (SCH-133).
    fn with_label_keys(
        &self,
        selector: Option<Selector>,
        keys: Option<&[String]>,
        operator: SelectorOperator,
    ) -> Option<Selector> {
        let no_labels = BTreeMap::new();
        let labels = self.meta.labels.as_ref().unwrap_or(&no_labels);
        let own = keys.unwrap_or_default().iter().filter_map(|key| Some((key, labels.get(key)?)));
        own.fold(selector, |selector, (key, value)| {
            let expression = SelectorExpression { key: key.clone(), operator, values: vec![value.clone()] };
            selector.map(|selector| selector.and(expression))
        })
    }

    fn selector(&mut self, field: &str, wanted: Option<&LabelSelector>) -> Option<Selector> {
        selector(self.problems, &format!("{field}.labelSelector"), wanted)
    }
}

/// One that cannot be read selects nothing (SCH-132).
pub(super) fn selector(problems: &mut Problems, field: &str, selector: Option<&LabelSelector>) -> Option<Selector> {
    let selector = selector?;
    let labels = selector.match_labels.iter().flatten().map(|(key, value)| {
        Ok(SelectorExpression { key: key.clone(), operator: SelectorOperator::In, values: vec![value.clone()] })
    });
    let expressions = selector.match_expressions.iter().flatten().map(|expression| {
        let operator = match expression.operator.as_str() {
            "In" => SelectorOperator::In,
            "NotIn" => SelectorOperator::NotIn,
            "Exists" => SelectorOperator::Exists,
            "DoesNotExist" => SelectorOperator::DoesNotExist,
            other => return Err(format!("operator {other:?} is none of In, NotIn, Exists, DoesNotExist")),
        };
        Ok(SelectorExpression {
            key: expression.key.clone(),
            operator,
            values: expression.values.clone().unwrap_or_default(),
        })
    });
    let parsed = labels.chain(expressions).collect::<Result<Vec<_>, String>>();
    problems.check(field, parsed).map(Selector::new)
}

/// SCH-17, SCH-20: what makes it pointless to plan a node for the pod. It is nobody's mistake as long as the pod does not
/// wait for one: many pods are pinned to a host.
pub(super) fn check_pod(problems: &mut Problems, spec: &PodSpec, rules: &LabelRules) {
    for (key, value) in spec.node_selector.iter().flatten() {
        let entry = Entry { key, operator: "In", values: std::slice::from_ref(value), min_values: None };
        check(problems, &format!("spec.nodeSelector[{key}]"), rules, &entry);
    }
    let node = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = node.and_then(|node| node.required_during_scheduling_ignored_during_execution.as_ref());
    let terms = required.map(|required| required.node_selector_terms.as_slice()).unwrap_or_default();
    for (at, term) in terms.iter().enumerate() {
        for (index, expression) in term.match_expressions.iter().flatten().enumerate() {
            let field = format!(
                "{NODE_AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{at}].matchExpressions[{index}]"
            );
            let entry = Entry {
                key: &expression.key,
                operator: &expression.operator,
                values: expression.values.as_deref().unwrap_or_default(),
                min_values: None,
            };
            check(problems, &field, rules, &entry);
        }
    }
}

fn check(problems: &mut Problems, field: &str, rules: &LabelRules, entry: &Entry<'_>) {
    const CAPACITY_TYPES: [&str; 3] =
        [labels::CAPACITY_TYPE_SPOT, labels::CAPACITY_TYPE_ON_DEMAND, labels::CAPACITY_TYPE_RESERVED];
    let key = rules.normalized(entry.key);
    if !rules.is_askable(key) {
        problems.add(field, format!("label {key:?} is restricted"));
    }
    if qualified_name(key).is_err() {
        problems.add(field, format!("{key:?} is not a label key"));
    }
    if let Some(value) = entry.values.iter().find(|value| label_value(value).is_err()) {
        problems.add(field, format!("{value:?} is not a label value"));
    }
    if entry.operator != "In" {
        return;
    }
    if entry.values.is_empty() {
        problems.add(field, "operator In needs a value");
    } else if key == labels::CAPACITY_TYPE && entry.values.iter().all(|value| !CAPACITY_TYPES.contains(&value.as_str()))
    {
        problems.add(field, format!("none of {:?} is a known value of {key}", entry.values));
    }
}

/// SCH-160: ports of app containers only.
fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let ports = spec.containers.iter().flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = u16::try_from(port.host_port?).ok().filter(|number| *number != 0)?;
            Some(HostPort {
                ip: port.host_ip.clone().filter(|ip| !ip.is_empty()).unwrap_or_else(|| "0.0.0.0".to_owned()),
                port: number,
                protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            })
        })
        .collect()
}

fn toleration(toleration: &ApiToleration) -> Toleration {
    let effect = toleration.effect.as_deref().filter(|effect| !effect.is_empty());
    let parsed = effect.and_then(Effect::parse);
    let operator = match toleration.operator.as_deref() {
        None | Some("" | "Equal") => TolerationOperator::Equal,
        Some("Exists") => TolerationOperator::Exists,
        Some("Gt") => TolerationOperator::Gt,
        Some("Lt") => TolerationOperator::Lt,
        Some(_) => TolerationOperator::Unknown,
    };
    Toleration {
        key: toleration.key.clone().unwrap_or_default(),
        // An effect of a later Kubernetes version must not read as "every effect".
        operator: if effect.is_some() && parsed.is_none() { TolerationOperator::Unknown } else { operator },
        value: toleration.value.clone().unwrap_or_default(),
        effect: parsed,
    }
}
