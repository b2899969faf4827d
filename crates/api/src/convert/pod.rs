//! Pods.

use std::num::ParseIntError;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::{Controller, DaemonView, PodClass, PodId, PodOwner, PodPhase, PodTemplate, PodView};
use karpenter_model::protection::Protection;

use super::{Converted, Problem, Problems, created_at, deleting_since, non_empty, resources, scheduling};
use crate::names::annotations;

const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

pub fn pod(pod: &Pod, rules: &LabelRules) -> Converted<PodView> {
    let mut problems = Problems::new("Pod", &pod.metadata);
    let no_spec = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&no_spec);
    let status = pod.status.as_ref();
    let requests = resources::pod_requests(&mut problems, spec, status);
    let mut refused = Problems::new("Pod", &pod.metadata);
    scheduling::check_pod(&mut refused, spec, rules);
    let scheduling = scheduling::pod_scheduling(&mut problems, &pod.metadata, spec, rules);
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let conditions = || status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let template = PodTemplate {
        daemon_set: daemon_set(owners).map(|owner| owner.name.clone()),
        daemon_set_uid: daemon_set(owners).map(|owner| owner.uid.clone()).filter(|uid| !uid.is_empty()),
        requests,
        scheduling,
        termination_grace_seconds: spec.termination_grace_period_seconds,
        limits: resources::pod_limits(spec),
        owner_path: owner_path(owners, pod.metadata.namespace.as_deref().unwrap_or_default()),
        scheduler: spec.scheduler_name.as_deref().unwrap_or_default().into(),
        controller: controller(owners),
        protection: Protection::read(annotation(pod, annotations::DO_NOT_DISRUPT)),
        uses_devices: uses_devices(spec),
        buffer: None,
        // A node chosen without knowing all that the pod asks for could be the wrong one.
        unplannable: problems
            .found
            .iter()
            .filter(|problem| !is_preference(problem))
            .chain(&refused.found)
            .next()
            .map(ToString::to_string),
    };
    let class = PodClass {
        labels: pod.metadata.labels.clone().unwrap_or_default().into(),
        volume_claims: volume_claims(pod, spec),
        resource_claims: resource_claims(pod, spec),
        template: template.into(),
    };
    let view = PodView {
        id: PodId::new(
            pod.metadata.namespace.clone().unwrap_or_default(),
            pod.metadata.name.clone().unwrap_or_default(),
        ),
        uid: pod.metadata.uid.as_deref().unwrap_or_default().into(),
        created_at: created_at(&pod.metadata).into(),
        deleting_since: deleting_since(&pod.metadata).map(Into::into),
        started_at: status.and_then(|status| status.start_time.as_ref()).map(|time| time.0.into()),
        node_name: non_empty(spec.node_name.as_ref()).map(Into::into),
        nominated_node_name: non_empty(status.and_then(|status| status.nominated_node_name.as_ref())).map(Into::into),
        class: Arc::new(class),
        priority: spec.priority.unwrap_or_default(),
        disruption_cost: disruption_cost(pod, &mut problems),
        deletion_cost: own_deletion_cost(pod, &mut problems),
        phase: phase(status.and_then(|status| status.phase.as_deref())),
        owner: owner(owners),
        unschedulable: conditions()
            .any(|condition| condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")),
        unjudged: !conditions().any(|condition| condition.type_ == "PodScheduled"),
        unready: conditions().any(|condition| condition.type_ == "Ready" && condition.status == "False"),
        ready: conditions().any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        critical: spec.priority_class_name.as_deref().is_some_and(|name| CRITICAL.contains(&name)),
    };
    Converted { view, problems: problems.found }
}

fn owner_path(owners: &[OwnerReference], namespace: &str) -> Box<str> {
    let path = owners.first().map(|owner| {
        format!("/apis/{}/namespaces/{namespace}/{}s/{}", owner.api_version, owner.kind.to_lowercase(), owner.name)
    });
    path.unwrap_or_default().into()
}

fn annotation<'a>(pod: &'a Pod, key: &str) -> Option<&'a str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// A value that cannot be read costs nothing (V15-90, V15-91).
fn disruption_cost(pod: &Pod, problems: &mut Problems) -> i32 {
    let text = annotation(pod, annotations::DISRUPTION_COST);
    let field = || format!("metadata.annotations[{}]", annotations::DISRUPTION_COST);
    text.and_then(|text| problems.check(&field(), text.parse())).unwrap_or_default()
}

/// What ReplicaSets are told counts where nothing is said to us, unless we said it ourselves (V15-91, Z11).
pub fn deletion_cost(
    theirs: Option<&str>,
    managed: Option<&str>,
    says_disruption_cost: bool,
) -> Result<i32, ParseIntError> {
    theirs.filter(|_| !says_disruption_cost && theirs != managed).map_or(Ok(0), str::parse)
}

/// It costs nothing, and is reported (V15-90).
pub fn unreadable_deletion_cost(pod: &PodId, error: &ParseIntError) -> Problem {
    let field = format!("metadata.annotations[{}]", annotations::POD_DELETION_COST);
    Problem { object: format!("Pod/{pod}"), field, message: error.to_string() }
}

fn own_deletion_cost(pod: &Pod, problems: &mut Problems) -> i32 {
    let [theirs, managed, to_us] =
        [annotations::POD_DELETION_COST, annotations::MANAGED_DELETION_COST, annotations::DISRUPTION_COST]
            .map(|key| annotation(pod, key));
    let field = format!("metadata.annotations[{}]", annotations::POD_DELETION_COST);
    problems.check(&field, deletion_cost(theirs, managed, to_us.is_some())).unwrap_or_default()
}

/// The claim of an ephemeral volume is named after pod and volume.
fn volume_claims(pod: &Pod, spec: &PodSpec) -> Vec<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let claims = spec.volumes.iter().flatten().filter_map(|volume| {
        let named = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
        named.or_else(|| volume.ephemeral.as_ref().map(|_| format!("{name}-{}", volume.name)))
    });
    claims.collect()
}

/// A preference that cannot be read is none.
fn is_preference(problem: &Problem) -> bool {
    problem.field.contains("preferredDuringScheduling")
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

/// SCH-191: at the level of the pod, or by a container.
fn uses_devices(spec: &PodSpec) -> bool {
    let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let claims = |container: &Container| {
        let resources = container.resources.as_ref();
        resources.and_then(|resources| resources.claims.as_ref()).is_some_and(|claims| !claims.is_empty())
    };
    spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty()) || containers.any(claims)
}

/// A reference to a template stands for the claim that was made from it, once the status names that (SCH-192).
fn resource_claims(pod: &Pod, spec: &PodSpec) -> Vec<String> {
    let made = pod.status.as_ref().and_then(|status| status.resource_claim_statuses.as_ref());
    let claims = spec.resource_claims.iter().flatten().filter_map(|reference| {
        let from_template = || {
            let made = made.into_iter().flatten().find(|status| status.name == reference.name);
            made.and_then(|status| status.resource_claim_name.clone())
        };
        reference.resource_claim_name.clone().or_else(from_template)
    });
    claims.collect()
}

fn controller(owners: &[OwnerReference]) -> Option<Controller> {
    owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| Controller {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
    })
}

fn daemon_set(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    let controls = |owner: &&OwnerReference| {
        owner.controller == Some(true) && owner.api_version == "apps/v1" && owner.kind == "DaemonSet"
    };
    owners.iter().find(controls)
}

/// A DaemonSet by the pod it would create; requests that are missing come from limits (SCH-71).
pub fn daemon_set_view(daemon: &DaemonSet, rules: &LabelRules) -> Converted<DaemonView> {
    let template = daemon.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.name.clone_from(&daemon.metadata.name);
    metadata.namespace.clone_from(&daemon.metadata.namespace);
    metadata.creation_timestamp.clone_from(&daemon.metadata.creation_timestamp);
    let mut spec = template.spec.unwrap_or_default();
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        if let Some(resources) = &mut container.resources {
            let limits = resources.limits.clone().unwrap_or_default();
            let requests = resources.requests.get_or_insert_default();
            for (name, amount) in limits {
                requests.entry(name).or_insert(amount);
            }
        }
    }
    let Converted { view, mut problems } = pod(&Pod { metadata, spec: Some(spec), status: None }, rules);
    for problem in &mut problems {
        problem.object = format!("DaemonSet/{}", view.id);
        problem.field = format!("spec.template.{}", problem.field);
    }
    let view = PodView { owner: PodOwner::DaemonSet, ..view };
    Converted { view: DaemonView { id: view.id.clone(), uid: daemon.metadata.uid.clone(), template: view }, problems }
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
