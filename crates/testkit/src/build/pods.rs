use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodCondition, PodSpec, PodStatus, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;

/// Starts with one container that asks for nothing, in namespace `default`.
pub fn pod(name: &str) -> PodBuilder {
    let container = Container { name: "main".into(), image: Some("none".into()), ..Container::default() };
    let metadata = ObjectMeta { name: Some(name.into()), namespace: Some("default".into()), ..ObjectMeta::default() };
    let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
    PodBuilder(Pod { metadata, spec: Some(spec), status: None })
}

#[derive(Debug, Clone)]
pub struct PodBuilder(Pod);

impl PodBuilder {
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.0.metadata.namespace = Some(namespace.into());
        self
    }

    #[must_use]
    pub fn uid(mut self, uid: &str) -> Self {
        self.0.metadata.uid = Some(uid.into());
        self
    }

    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.metadata.labels.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0.metadata.annotations.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    #[must_use]
    pub fn cpu(self, quantity: &str) -> Self {
        self.request("cpu", quantity)
    }

    #[must_use]
    pub fn memory(self, quantity: &str) -> Self {
        self.request("memory", quantity)
    }

    #[must_use]
    pub fn request(mut self, resource: &str, quantity: &str) -> Self {
        for container in &mut self.spec().containers {
            let resources = container.resources.get_or_insert_with(ResourceRequirements::default);
            let requests: &mut BTreeMap<_, _> = resources.requests.get_or_insert_default();
            requests.insert(resource.into(), Quantity(quantity.into()));
        }
        self
    }

    #[must_use]
    pub fn node_selector(mut self, key: &str, value: &str) -> Self {
        self.spec().node_selector.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    /// Tolerates every taint with this key.
    #[must_use]
    pub fn toleration(mut self, key: &str) -> Self {
        let toleration = Toleration { key: Some(key.into()), operator: Some("Exists".into()), ..Toleration::default() };
        self.spec().tolerations.get_or_insert_default().push(toleration);
        self
    }

    /// Bound to this node.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.spec().node_name = Some(node.into());
        self
    }

    /// As kube-scheduler leaves a pod that it could not place.
    #[must_use]
    pub fn unschedulable(mut self) -> Self {
        let condition = PodCondition {
            type_: "PodScheduled".into(),
            status: "False".into(),
            reason: Some("Unschedulable".into()),
            ..PodCondition::default()
        };
        let status = self.0.status.get_or_insert_with(PodStatus::default);
        status.phase = Some("Pending".into());
        status.conditions.get_or_insert_default().push(condition);
        self
    }

    pub fn build(self) -> Pod {
        self.0
    }

    fn spec(&mut self) -> &mut PodSpec {
        self.0.spec.get_or_insert_with(PodSpec::default)
    }
}
