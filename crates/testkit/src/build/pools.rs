use karpenter_api::kinds::nodepool::{Budget, Disruption, NodeClaimTemplate, NodeClaimTemplateSpec, TemplateMetadata};
use karpenter_api::kinds::{NodeClassRef, NodePool, NodePoolSpec};

use super::{kwok_class_ref, requirement, taint};

/// Starts as a dynamic pool of the KWOKNodeClass `default`, without requirements and limits.
pub fn node_pool(name: &str) -> PoolBuilder {
    let spec = NodeClaimTemplateSpec { node_class_ref: kwok_class_ref("default"), ..NodeClaimTemplateSpec::default() };
    let template = NodeClaimTemplate { spec, ..NodeClaimTemplate::default() };
    PoolBuilder(NodePool::new(name, NodePoolSpec { template, ..NodePoolSpec::default() }))
}

#[derive(Debug, Clone)]
pub struct PoolBuilder(NodePool);

impl PoolBuilder {
    #[must_use]
    pub fn class(mut self, class: NodeClassRef) -> Self {
        self.0.spec.template.spec.node_class_ref = class;
        self
    }

    /// A label of the pool's nodes.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.metadata().labels.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    /// An annotation of the pool's nodes.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.metadata().annotations.get_or_insert_default().insert(key.into(), value.into());
        self
    }

    #[must_use]
    pub fn requirement(mut self, key: &str, operator: &str, values: &[&str]) -> Self {
        self.0.spec.template.spec.requirements.push(requirement(key, operator, values));
        self
    }

    #[must_use]
    pub fn taint(mut self, key: &str, effect: &str) -> Self {
        self.0.spec.template.spec.taints.get_or_insert_default().push(taint(key, effect));
        self
    }

    #[must_use]
    pub fn startup_taint(mut self, key: &str, effect: &str) -> Self {
        self.0.spec.template.spec.startup_taints.get_or_insert_default().push(taint(key, effect));
        self
    }

    /// A duration or `Never`.
    #[must_use]
    pub fn expire_after(mut self, duration: &str) -> Self {
        self.0.spec.template.spec.expire_after = Some(duration.into());
        self
    }

    #[must_use]
    pub fn termination_grace_period(mut self, duration: &str) -> Self {
        self.0.spec.template.spec.termination_grace_period = Some(duration.into());
        self
    }

    /// A duration or `Never`.
    #[must_use]
    pub fn consolidate_after(mut self, duration: &str) -> Self {
        self.disruption().consolidate_after = Some(duration.into());
        self
    }

    #[must_use]
    pub fn consolidation_policy(mut self, policy: &str) -> Self {
        self.disruption().consolidation_policy = Some(policy.into());
        self
    }

    /// A budget for every reason at all times; more than one may be added.
    #[must_use]
    pub fn budget(mut self, nodes: &str) -> Self {
        let budget = Budget { nodes: nodes.into(), ..Budget::default() };
        self.disruption().budgets.get_or_insert_default().push(budget);
        self
    }

    #[must_use]
    pub fn limit(mut self, resource: &str, quantity: &str) -> Self {
        self.0.spec.limits.get_or_insert_default().insert(resource.into(), quantity.into());
        self
    }

    #[must_use]
    pub fn weight(mut self, weight: i32) -> Self {
        self.0.spec.weight = Some(weight);
        self
    }

    /// Makes it a static pool.
    #[must_use]
    pub fn replicas(mut self, replicas: i64) -> Self {
        self.0.spec.replicas = Some(replicas);
        self
    }

    pub fn build(self) -> NodePool {
        self.0
    }

    fn metadata(&mut self) -> &mut TemplateMetadata {
        self.0.spec.template.metadata.get_or_insert_default()
    }

    fn disruption(&mut self) -> &mut Disruption {
        self.0.spec.disruption.get_or_insert_default()
    }
}
