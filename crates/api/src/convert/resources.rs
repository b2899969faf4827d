//! What a pod needs, added up as the scheduler does (SCH-60, SCH-62).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use karpenter_model::quantity::{Quantity, QuantityError};
use karpenter_model::resources::{CPU, HUGEPAGES_PREFIX, MEMORY, PODS, Resources};

use super::Problems;

pub(super) fn amounts(problems: &mut Problems, field: &str, list: Option<&BTreeMap<String, ApiQuantity>>) -> Resources {
    let list = list.into_iter().flatten();
    list.filter_map(|(name, text)| Some((name.clone(), problems.check(&format!("{field}[{name}]"), amount(text))?)))
        .collect()
}

/// Nobody takes less than nothing: a server would have refused it, a file may say it all the same.
fn amount(text: &ApiQuantity) -> Result<Quantity, String> {
    let amount: Quantity = text.0.parse().map_err(|error: QuantityError| error.to_string())?;
    if amount.is_negative() { Err(format!("{:?} is negative", text.0)) } else { Ok(amount) }
}

fn requests(problems: &mut Problems, field: &str, resources: Option<&ResourceRequirements>) -> Resources {
    amounts(problems, &format!("{field}.resources.requests"), resources.and_then(|r| r.requests.as_ref()))
}

/// An init container that keeps running beside the others.
fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// What a container has while it is resized counts too; when it cannot be resized, only that does (SCH-61).
fn resized(
    problems: &mut Problems,
    asked: Resources,
    name: &str,
    statuses: Option<&Vec<ContainerStatus>>,
    infeasible: bool,
) -> Resources {
    let Some(status) = statuses.into_iter().flatten().find(|status| status.name == name) else { return asked };
    let field = format!("status.containerStatuses[{name}]");
    let mut has = requests(problems, &field, status.resources.as_ref());
    has.raise_to(&amounts(problems, &format!("{field}.allocatedResources"), status.allocated_resources.as_ref()));
    if has.is_empty() {
        return asked;
    }
    if !infeasible {
        has.raise_to(&asked);
    }
    has
}

pub(super) fn pod_requests(problems: &mut Problems, spec: &PodSpec, status: Option<&PodStatus>) -> Resources {
    let infeasible =
        status.and_then(|status| status.conditions.as_ref()).into_iter().flatten().any(|condition| {
            condition.type_ == "PodResizePending" && condition.reason.as_deref() == Some("Infeasible")
        });
    let of_app = status.and_then(|status| status.container_statuses.as_ref());
    let of_init = status.and_then(|status| status.init_container_statuses.as_ref());
    let mut running = Resources::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let asked = requests(problems, &format!("spec.containers[{index}]"), container.resources.as_ref());
        running.add(&resized(problems, asked, &container.name, of_app, infeasible));
    }
    let mut sidecars = Resources::new();
    let mut starting = Resources::new();
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let mut step = requests(problems, &format!("spec.initContainers[{index}]"), container.resources.as_ref());
        if is_sidecar(container) {
            step = resized(problems, step, &container.name, of_init, infeasible);
        }
        step.add(&sidecars);
        if is_sidecar(container) {
            sidecars = step.clone();
        }
        starting.raise_to(&step);
    }
    running.add(&sidecars);
    running.raise_to(&starting);
    for (name, amount) in requests(problems, "spec", spec.resources.as_ref()).iter() {
        if name == CPU || name == MEMORY || name.starts_with(HUGEPAGES_PREFIX) {
            running.set(name, amount);
        }
    }
    running.add(&amounts(problems, "spec.overhead", spec.overhead.as_ref()));
    running.set(PODS, Quantity::units(1));
    running
}

/// As requests are added up: what runs at the same time, or the largest step of the start. What cannot be read counts as
/// nothing.
pub(super) fn pod_limits(spec: &PodSpec) -> Resources {
    let of = |container: &Container| -> Resources {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        let parsed = |(name, amount): (&String, &ApiQuantity)| Some((name.clone(), amount.0.parse().ok()?));
        limits.into_iter().flatten().filter_map(parsed).collect()
    };
    let mut running = Resources::new();
    for container in &spec.containers {
        running.add(&of(container));
    }
    let (mut sidecars, mut starting) = (Resources::new(), Resources::new());
    for container in spec.init_containers.iter().flatten() {
        let mut step = of(container);
        step.add(&sidecars);
        if is_sidecar(container) {
            sidecars = step.clone();
        }
        starting.raise_to(&step);
    }
    running.add(&sidecars);
    running.raise_to(&starting);
    running
}
