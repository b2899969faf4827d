use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;

/// Starts without capacity, taints and conditions.
pub fn node(name: &str) -> NodeBuilder {
    NodeBuilder(Node {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        spec: None,
        status: None,
    })
}

#[derive(Debug, Clone)]
pub struct NodeBuilder(Node);

impl NodeBuilder {
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

    /// kwok plays its kubelet.
    #[must_use]
    pub fn fake(self) -> Self {
        self.annotation("kwok.x-k8s.io/node", "fake")
    }

    #[must_use]
    pub fn provider_id(mut self, id: &str) -> Self {
        self.spec().provider_id = Some(id.into());
        self
    }

    #[must_use]
    pub fn taint(mut self, key: &str, effect: &str) -> Self {
        let taint = Taint { key: key.into(), effect: effect.into(), ..Taint::default() };
        self.spec().taints.get_or_insert_default().push(taint);
        self
    }

    /// All of it can be allocated.
    #[must_use]
    pub fn capacity(mut self, resource: &str, quantity: &str) -> Self {
        let status = self.0.status.get_or_insert_with(NodeStatus::default);
        for amounts in [&mut status.capacity, &mut status.allocatable] {
            amounts.get_or_insert_default().insert(resource.into(), Quantity(quantity.into()));
        }
        self
    }

    #[must_use]
    pub fn ready(mut self) -> Self {
        let condition = NodeCondition { type_: "Ready".into(), status: "True".into(), ..NodeCondition::default() };
        let status = self.0.status.get_or_insert_with(NodeStatus::default);
        status.conditions.get_or_insert_default().push(condition);
        self
    }

    pub fn build(self) -> Node {
        self.0
    }

    fn spec(&mut self) -> &mut NodeSpec {
        self.0.spec.get_or_insert_with(NodeSpec::default)
    }
}
