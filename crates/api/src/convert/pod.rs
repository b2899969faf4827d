//! Pods.

use k8s_openapi::api::core::v1::{NodeSelectorTerm, Pod, PodSpec, Toleration as ApiToleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::{PodId, PodOwner, PodPhase, PodView};
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::taints::{Effect, Toleration, TolerationOperator};

use super::{Converted, Entry, Problems, created_at, deleting_since, non_empty, requirements, resources};

const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

pub fn pod(pod: &Pod, rules: &LabelRules) -> Converted<PodView> {
    let mut problems = Problems::new("Pod", &pod.metadata);
    let no_spec = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let status = pod.status.as_ref();
    let requests = resources::pod_requests(&mut problems, spec);
    let unreadable = problems.found.len();
    let requirements = pod_requirements(&mut problems, spec, rules);
    let view =
        PodView {
            id: PodId {
                namespace: pod.metadata.namespace.clone().unwrap_or_default(),
                name: pod.metadata.name.clone().unwrap_or_default(),
            },
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            created_at: created_at(&pod.metadata),
            deleting_since: deleting_since(&pod.metadata),
            phase: phase(status.and_then(|status| status.phase.as_deref())),
            owner: owner(pod.metadata.owner_references.as_deref().unwrap_or_default()),
            node_name: non_empty(spec.node_name.as_ref()),
            nominated_node_name: non_empty(status.and_then(|status| status.nominated_node_name.as_ref())),
            unschedulable: status.and_then(|status| status.conditions.as_ref()).into_iter().flatten().any(
                |condition| condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable"),
            ),
            requests,
            requirements,
            tolerations: spec.tolerations.iter().flatten().map(toleration).collect(),
            critical: spec.priority_class_name.as_deref().is_some_and(|name| CRITICAL.contains(&name)),
            termination_grace_seconds: spec.termination_grace_period_seconds,
            // A node chosen without knowing all that the pod asks for could be the wrong one.
            unplannable: problems.found.get(unreadable).or_else(|| problems.found.first()).map(ToString::to_string),
        };
    Converted { view, problems: problems.found }
}

fn phase(phase: Option<&str>) -> PodPhase {
    match phase {
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        Some("Pending") | None => PodPhase::Pending,
        Some(_) => PodPhase::Unknown,
    }
}

/// SCH-12, SCH-14: any owner reference counts, not just the controlling one.
fn owner(owners: &[OwnerReference]) -> PodOwner {
    let owned_by = |api_version: &str, kind: &str| {
        owners.iter().any(|owner| owner.api_version == api_version && owner.kind == kind)
    };
    if owned_by("apps/v1", "DaemonSet") {
        PodOwner::DaemonSet
    } else if owned_by("v1", "Node") {
        PodOwner::Node
    } else if owned_by("apps/v1", "StatefulSet") {
        PodOwner::StatefulSet
    } else {
        PodOwner::Other
    }
}

/// The strict requirements (SCH-52): the node selector and the first required node-affinity term.
fn pod_requirements(problems: &mut Problems, spec: &PodSpec, rules: &LabelRules) -> Requirements {
    let selector = spec.node_selector.iter().flatten();
    let mut all: Requirements =
        selector.map(|(key, value)| Requirement::any_of(rules.normalized(key), [value.as_str()])).collect();
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    if let Some(term) = required.and_then(|required| required.node_selector_terms.first()) {
        let field = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
        all.add_all(&term_requirements(problems, field, term, rules));
    }
    all
}

fn term_requirements(
    problems: &mut Problems,
    field: &str,
    term: &NodeSelectorTerm,
    rules: &LabelRules,
) -> Requirements {
    let entries = term.match_expressions.iter().flatten().map(|expression| Entry {
        key: &expression.key,
        operator: &expression.operator,
        values: expression.values.as_deref().unwrap_or_default(),
        min_values: None,
    });
    requirements(problems, &format!("{field}.matchExpressions"), rules, entries)
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
