use karpenter_api::kinds::{NodeClaim, NodeClaimSpec, NodeClassRef};
use karpenter_api::names::labels;

use super::{kwok_class_ref, requirement, taint};

/// Starts as a claim of nobody, of the KWOKNodeClass `default`.
pub fn node_claim(name: &str) -> ClaimBuilder {
    let spec = NodeClaimSpec { node_class_ref: kwok_class_ref("default"), ..NodeClaimSpec::default() };
    ClaimBuilder(NodeClaim::new(name, spec))
}

#[derive(Debug, Clone)]
pub struct ClaimBuilder(NodeClaim);

impl ClaimBuilder {
    /// The pool that it belongs to.
    #[must_use]
    pub fn pool(self, name: &str) -> Self {
        self.label(labels::NODEPOOL, name)
    }

    #[must_use]
    pub fn class(mut self, class: NodeClassRef) -> Self {
        self.0.spec.node_class_ref = class;
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
    pub fn requirement(mut self, key: &str, operator: &str, values: &[&str]) -> Self {
        self.0.spec.requirements.push(requirement(key, operator, values));
        self
    }

    #[must_use]
    pub fn taint(mut self, key: &str, effect: &str) -> Self {
        self.0.spec.taints.get_or_insert_default().push(taint(key, effect));
        self
    }

    #[must_use]
    pub fn startup_taint(mut self, key: &str, effect: &str) -> Self {
        self.0.spec.startup_taints.get_or_insert_default().push(taint(key, effect));
        self
    }

    /// The least that the instance must offer.
    #[must_use]
    pub fn request(mut self, resource: &str, quantity: &str) -> Self {
        let resources = self.0.spec.resources.get_or_insert_default();
        resources.requests.get_or_insert_default().insert(resource.into(), quantity.into());
        self
    }

    /// A duration or `Never`.
    #[must_use]
    pub fn expire_after(mut self, duration: &str) -> Self {
        self.0.spec.expire_after = Some(duration.into());
        self
    }

    #[must_use]
    pub fn termination_grace_period(mut self, duration: &str) -> Self {
        self.0.spec.termination_grace_period = Some(duration.into());
        self
    }

    pub fn build(self) -> NodeClaim {
        self.0
    }
}
