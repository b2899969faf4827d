//! Spread constraints for pods that declare none, with a selector deduced from who stands behind the pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::pod::{PodId, PodView};
use karpenter_model::scheduling::SpreadConstraint;
use karpenter_model::selector::{Selector, SelectorExpression, SelectorOperator};
use karpenter_model::workloads::{ServiceView, WorkloadKind, WorkloadView};

/// What pods without constraints of their own are given; empty: nothing (SCH-147).
pub type DefaultConstraints = Vec<SpreadConstraint>;

#[derive(Debug, Clone)]
pub enum WorkloadChange {
    Service(Arc<ServiceView>),
    ServiceGone(PodId),
    Workload(Arc<WorkloadView>),
    WorkloadGone(WorkloadKind, PodId),
}

/// Who stands behind pods. It is only kept when there are defaults to give.
#[derive(Debug, Default)]
pub struct Workloads {
    /// In the order of their names, so that those that contradict each other always end the same.
    services: BTreeMap<PodId, Arc<ServiceView>>,
    workloads: BTreeMap<(WorkloadKind, PodId), Arc<WorkloadView>>,
}

impl Workloads {
    pub(crate) fn apply(&mut self, change: WorkloadChange) {
        match change {
            WorkloadChange::Service(service) => {
                self.services.insert(service.id.clone(), service);
            }
            WorkloadChange::ServiceGone(id) => {
                self.services.remove(&id);
            }
            WorkloadChange::Workload(workload) => {
                self.workloads.insert((workload.kind, workload.id.clone()), workload);
            }
            WorkloadChange::WorkloadGone(kind, id) => {
                self.workloads.remove(&(kind, id));
            }
        }
    }

    /// The pod with the defaults, if it has no constraints of its own and somebody stands behind it (SCH-148).
    pub fn with_defaults(&self, pod: &Arc<PodView>, defaults: &DefaultConstraints) -> Arc<PodView> {
        if defaults.is_empty() || !pod.scheduling.spread.is_empty() {
            return pod.clone();
        }
        let Some(selector) = self.selector(pod) else { return pod.clone() };
        let mut given = PodView::clone(pod);
        let with_selector =
            |constraint: &SpreadConstraint| SpreadConstraint { selector: Some(selector.clone()), ..constraint.clone() };
        given.scheduling.spread = defaults.iter().map(with_selector).collect();
        Arc::new(given)
    }

    /// Which pods belong to this one (SCH-149, V15-99): the labels by which Services of the namespace find it, and its
    /// controller's own selector. `None` when nobody stands behind the pod.
    pub fn selector(&self, pod: &PodView) -> Option<Selector> {
        let mut labels = self.service_labels(pod);
        let mut further = Vec::new();
        if let Some(workload) = self.controller(pod) {
            match workload.kind {
                // Its selector is a plain list of labels, which replace those of Services.
                WorkloadKind::ReplicationController => {
                    let own = workload.selector.expressions().iter();
                    labels.extend(own.filter_map(|one| Some((one.key.clone(), one.values.first()?.clone()))));
                }
                WorkloadKind::ReplicaSet | WorkloadKind::StatefulSet => {
                    further.extend(workload.selector.expressions().iter().cloned());
                }
            }
        }
        let labels = labels.into_iter().map(|(key, value)| SelectorExpression {
            key,
            operator: SelectorOperator::In,
            values: vec![value],
        });
        let selector = Selector::new(labels.chain(further));
        (!selector.expressions().is_empty()).then_some(selector)
    }

    fn service_labels(&self, pod: &PodView) -> BTreeMap<String, String> {
        let first = PodId::new(pod.id.namespace.clone(), "");
        let own = self.services.range(first..).take_while(|(id, _)| id.namespace == pod.id.namespace);
        let selectors = own.filter_map(|(_, service)| service.selector.as_ref());
        let matching =
            selectors.filter(|selector| selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value)));
        matching.flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn controller(&self, pod: &PodView) -> Option<&Arc<WorkloadView>> {
        let controller = pod.controller.as_ref()?;
        let id = PodId::new(pod.id.namespace.clone(), controller.name.clone());
        self.workloads.get(&(WorkloadKind::of(controller)?, id))
    }
}

#[cfg(test)]
mod tests;
