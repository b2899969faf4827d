//! What a pod needs, added up as the scheduler does (SCH-60, SCH-62).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use karpenter_model::quantity::Quantity;
use karpenter_model::resources::{CPU, HUGEPAGES_PREFIX, MEMORY, PODS, Resources};

use super::Problems;

pub(super) fn amounts(problems: &mut Problems, field: &str, list: Option<&BTreeMap<String, ApiQuantity>>) -> Resources {
    let list = list.into_iter().flatten();
    list.filter_map(|(name, text)| Some((name.clone(), problems.check(&format!("{field}[{name}]"), text.0.parse())?)))
        .collect()
}

fn requests(problems: &mut Problems, field: &str, resources: Option<&ResourceRequirements>) -> Resources {
    amounts(problems, &format!("{field}.resources.requests"), resources.and_then(|r| r.requests.as_ref()))
}

/// An init container that keeps running beside the others.
fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

pub(super) fn pod_requests(problems: &mut Problems, spec: &PodSpec) -> Resources {
    let mut running = Resources::new();
    for (index, container) in spec.containers.iter().enumerate() {
        running.add(&requests(problems, &format!("spec.containers[{index}]"), container.resources.as_ref()));
    }
    let mut sidecars = Resources::new();
    let mut starting = Resources::new();
    for (index, container) in spec.init_containers.iter().flatten().enumerate() {
        let mut step = requests(problems, &format!("spec.initContainers[{index}]"), container.resources.as_ref());
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
