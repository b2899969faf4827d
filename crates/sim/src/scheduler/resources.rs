//! What a pod asks for and what a node has to give, in the units in which kube-scheduler compares them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Node, Pod, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use karpenter_model::quantity::Quantity;

type List = BTreeMap<String, Quantity>;

/// Milli-CPUs, bytes and whole numbers of everything else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Resources {
    pub(super) milli_cpu: i64,
    pub(super) memory: i64,
    pub(super) ephemeral_storage: i64,
    pub(super) scalars: BTreeMap<String, i64>,
}

impl Resources {
    fn new(list: &List) -> Self {
        let mut all = Self::default();
        for (name, &quantity) in list {
            match name.as_str() {
                "cpu" => all.milli_cpu = quantity.milli_value(),
                "memory" => all.memory = quantity.value(),
                "ephemeral-storage" => all.ephemeral_storage = quantity.value(),
                name if is_scalar(name) => _ = all.scalars.insert(name.to_owned(), quantity.value()),
                _ => {}
            }
        }
        all
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.milli_cpu = self.milli_cpu.saturating_add(other.milli_cpu);
        self.memory = self.memory.saturating_add(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.saturating_add(other.ephemeral_storage);
        for (name, value) in &other.scalars {
            let sum = self.scalars.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*value);
        }
    }

    pub(super) fn scalar(&self, name: &str) -> i64 {
        self.scalars.get(name).copied().unwrap_or_default()
    }
}

/// Names that are counted beside CPU, memory and storage: extended resources, huge pages, attachable volumes.
fn is_scalar(name: &str) -> bool {
    name.contains('/') || name.starts_with("hugepages-") || name.starts_with("attachable-volumes-")
}

/// What can be allocated on a node, and how many pods.
pub(super) fn allocatable(node: &Node) -> (Resources, i64) {
    let list = node.status.as_ref().and_then(|s| s.allocatable.as_ref()).map(parsed).unwrap_or_default();
    let pods = list.get("pods").map_or(0, |q| q.value());
    (Resources::new(&list), pods)
}

/// Whether a resize that the kubelet reports is counted: for pods on a node it is, for pods to be placed it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resize {
    Counts,
    Ignored,
}

/// The containers together, or the largest init container with the sidecars before it, whichever is more; requests of the
/// pod as a whole replace that; overhead comes on top.
pub(super) fn requests(pod: &Pod, resize: Resize) -> Resources {
    let Some(spec) = &pod.spec else { return Resources::default() };
    let statuses = if resize == Resize::Counts { container_statuses(pod) } else { BTreeMap::new() };
    let request = |c: &Container| effective(c, statuses.get(c.name.as_str()).copied(), pod);

    let mut running = List::new();
    for container in &spec.containers {
        add(&mut running, &request(container));
    }
    let mut sidecars = List::new();
    let mut starting = List::new();
    for container in spec.init_containers.iter().flatten() {
        if container.restart_policy.as_deref() == Some("Always") {
            let asked = request(container);
            add(&mut running, &asked);
            add(&mut sidecars, &asked);
            maximum(&mut starting, &sidecars);
        } else {
            let mut asked = plain(container.resources.as_ref());
            add(&mut asked, &sidecars);
            maximum(&mut starting, &asked);
        }
    }
    maximum(&mut running, &starting);
    for (name, quantity) in plain(spec.resources.as_ref()) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            running.insert(name, quantity);
        }
    }
    if let Some(overhead) = &spec.overhead {
        add(&mut running, &parsed(overhead));
    }
    Resources::new(&running)
}

fn container_statuses(pod: &Pod) -> BTreeMap<&str, &ContainerStatus> {
    let status = pod.status.as_ref();
    let containers = status.and_then(|s| s.container_statuses.as_ref()).into_iter().flatten();
    let init = status.and_then(|s| s.init_container_statuses.as_ref()).into_iter().flatten();
    containers.chain(init).map(|s| (s.name.as_str(), s)).collect()
}

/// While a resize is under way the larger of wanted, given and in use counts; one that cannot be had is not wanted.
fn effective(container: &Container, status: Option<&ContainerStatus>, pod: &Pod) -> List {
    let wanted = plain(container.resources.as_ref());
    let Some(status) = status.filter(|s| s.resources.is_some()) else { return wanted };
    let mut all = if resize_is_infeasible(pod) { List::new() } else { wanted };
    maximum(&mut all, &plain(status.resources.as_ref()));
    maximum(&mut all, &status.allocated_resources.as_ref().map(parsed).unwrap_or_default());
    all
}

fn resize_is_infeasible(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    conditions.into_iter().flatten().any(|c| c.type_ == "PodResizePending" && c.reason.as_deref() == Some("Infeasible"))
}

fn plain(resources: Option<&ResourceRequirements>) -> List {
    resources.and_then(|r| r.requests.as_ref()).map(parsed).unwrap_or_default()
}

/// The API server lets no malformed quantity in; one that comes another way counts as nothing.
fn parsed(list: &BTreeMap<String, ApiQuantity>) -> List {
    list.iter().filter_map(|(name, q)| Some((name.clone(), q.0.parse().ok()?))).collect()
}

fn add(list: &mut List, more: &List) {
    for (name, quantity) in more {
        *list.entry(name.clone()).or_default() += *quantity;
    }
}

fn maximum(list: &mut List, other: &List) {
    for (name, quantity) in other {
        let value = list.entry(name.clone()).or_default();
        *value = (*value).max(*quantity);
    }
}
