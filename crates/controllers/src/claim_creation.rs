//! The NodeClaim object of a node that is wanted (SCH-217 … SCH-226).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_api::kinds::nodeclaim::ResourceRequests;
use karpenter_api::kinds::{self, NodeClaim, NodeClaimSpec};
use karpenter_api::names::{FINALIZER, annotations};
use karpenter_api::values::{DurationText, NillableDurationText, QuantityText};
use karpenter_model::duration::GoDuration;
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::Resources;
use karpenter_model::taints::Taint;
use karpenter_solver::PlannedClaim;
use kube::ResourceExt as _;
use kube::api::PostParams;

use crate::context::Context;
use crate::disruption::record::REPLACES;

/// What a claim is made from.
#[derive(Debug, Clone)]
pub(crate) struct ClaimOrder {
    /// As it was when the node was planned (SCH-223, SC-332).
    pub(crate) pool: Arc<PoolView>,
    pub(crate) requirements: Requirements,
    pub(crate) requests: Resources,
    pub(crate) min_values_relaxed: bool,
    /// Drivers that have to publish devices before the node is initialized (SCH-215).
    pub(crate) drivers: Vec<String>,
    /// The disruption command whose nodes it takes the place of.
    pub(crate) replaces: Option<String>,
}

impl ClaimOrder {
    pub(crate) fn planned(planned: &PlannedClaim) -> Self {
        Self {
            pool: planned.pool.clone(),
            requirements: (*planned.requirements).clone(),
            requests: planned.requests.clone(),
            min_values_relaxed: planned.min_values_relaxed,
            drivers: planned.drivers().into_iter().map(ToOwned::to_owned).collect(),
            replaces: None,
        }
    }

    /// A node of a static pool: the template, and the provider picks (SCH-225).
    pub(crate) fn from_template(pool: &Arc<PoolView>) -> Self {
        let requirements = pool.requirements.clone();
        Self {
            pool: pool.clone(),
            requirements,
            requests: Resources::new(),
            min_values_relaxed: false,
            drivers: Vec::new(),
            replaces: None,
        }
    }

    pub(crate) fn replacing(self, command: &str) -> Self {
        Self { replaces: Some(command.to_owned()), ..self }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CreationError {
    #[error("nodepool {0} is gone")]
    PoolGone(String),
    #[error("nodepool {pool} has {used} of {resource}, its limit is {limit}")]
    LimitExceeded { pool: String, resource: String, used: Quantity, limit: Quantity },
    #[error("creating a nodeclaim failed")]
    Call(#[from] kube::Error),
}

/// Creates the claim and takes note of it at once, so that the next pass knows it.
pub(crate) async fn create_claim(ctx: &Context, order: &ClaimOrder) -> Result<Arc<NodeClaim>, CreationError> {
    let pool = &order.pool;
    let known = ctx.state().pool(&pool.name).filter(|known| known.uid == pool.uid).cloned();
    let current = known.ok_or_else(|| CreationError::PoolGone(pool.name.clone()))?;
    check_limits(&current, &ctx.state().usage(&pool.name))?;
    let mut claim = node_claim(order, ctx.provider.label_rules(), ctx.features.default_termination_grace_period);
    claim.metadata.annotations.get_or_insert_default().extend(crate::overlays::annotations(ctx, order));
    let created = ctx.claims_api().create(&PostParams::default(), &claim).await?;
    let noted = ctx.note_claim(created);
    ctx.queues.claims.add(noted.name_any());
    ctx.queues.ghosts.add_after(noted.name_any(), crate::ghosts::AFTER);
    Ok(noted)
}

/// SCH-218: what is there may not be above the limit; what is to come was weighed when it was planned.
fn check_limits(pool: &PoolView, usage: &Resources) -> Result<(), CreationError> {
    let exceeded = pool.limits.iter().find(|(name, limit)| usage.amount(name) > *limit);
    exceeded.map_or(Ok(()), |(resource, limit)| {
        Err(CreationError::LimitExceeded {
            pool: pool.name.clone(),
            used: usage.amount(resource),
            resource: resource.to_owned(),
            limit,
        })
    })
}

fn node_claim(order: &ClaimOrder, rules: &LabelRules, default_grace: Option<GoDuration>) -> NodeClaim {
    let pool = &order.pool;
    let mut claim_labels = pool.labels.clone();
    claim_labels.extend(custom_labels(&order.requirements, rules));
    let requests =
        (!order.requests.is_empty()).then(|| ResourceRequests { requests: Some(quantities(&order.requests)) });
    let grace = pool.termination_grace_period.or(default_grace);
    NodeClaim {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", pool.name)),
            // Nothing is launched before it is stored (LIF-11); stored with the claim it costs no write of its own.
            finalizers: Some(vec![FINALIZER.to_owned()]),
            labels: Some(claim_labels),
            annotations: Some(claim_annotations(order)),
            owner_references: Some(vec![OwnerReference {
                api_version: "karpenter.sh/v1".to_owned(),
                kind: "NodePool".to_owned(),
                name: pool.name.clone(),
                uid: pool.uid.clone(),
                block_owner_deletion: Some(true),
                controller: None,
            }]),
            ..ObjectMeta::default()
        },
        spec: NodeClaimSpec {
            taints: taints(&pool.taints),
            startup_taints: taints(&pool.startup_taints),
            requirements: requirement_entries(&order.requirements),
            resources: requests,
            node_class_ref: kinds::NodeClassRef {
                group: pool.node_class.group.clone(),
                kind: pool.node_class.kind.clone(),
                name: pool.node_class.name.clone(),
            },
            termination_grace_period: grace.map(|grace| DurationText(grace.to_string())),
            expire_after: Some(NillableDurationText(pool.expire_after.to_string())),
        },
        status: None,
    }
}

/// A list without entries is left out, as everybody else leaves it out.
fn taints(taints: &[Taint]) -> Option<Vec<kinds::Taint>> {
    (!taints.is_empty()).then(|| taints.iter().map(taint).collect())
}

/// SCH-223.
fn claim_annotations(order: &ClaimOrder) -> BTreeMap<String, String> {
    let mut all = order.pool.annotations.clone();
    if let Some(hash) = &order.pool.hash {
        all.insert(annotations::NODEPOOL_HASH.to_owned(), hash.value.to_string());
        all.insert(annotations::NODEPOOL_HASH_VERSION.to_owned(), hash.version.clone());
    }
    all.insert(annotations::MIN_VALUES_RELAXED.to_owned(), order.min_values_relaxed.to_string());
    if let Some(command) = &order.replaces {
        all.insert(REPLACES.to_owned(), command.clone());
    }
    if !order.drivers.is_empty() {
        all.insert(annotations::REQUESTED_DRA_DRIVERS.to_owned(), order.drivers.join(","));
    }
    all
}

/// Labels that follow from requirements on keys which neither we nor the provider resolve (API-75).
fn custom_labels(requirements: &Requirements, rules: &LabelRules) -> BTreeMap<String, String> {
    requirements
        .iter()
        .filter(|requirement| !is_simulated(requirement) && !rules.is_well_known(requirement.key()))
        .filter(|requirement| !rules.is_restricted(requirement.key()))
        .map(|requirement| (requirement.key().to_owned(), requirement.any()))
        .filter(|(_, value)| !value.is_empty())
        .collect()
}

/// Keys that exist only inside a pass (API-74), the host name, which no claim asks for, and the name of a Provisioner, which
/// claims may have as a label only (AWS-258).
fn is_simulated(requirement: &Requirement) -> bool {
    [labels::REGISTERED, labels::INITIALIZED, labels::HOSTNAME, labels::PROVISIONER_NAME].contains(&requirement.key())
}

fn requirement_entries(requirements: &Requirements) -> Vec<kinds::Requirement> {
    requirements
        .iter()
        .filter(|requirement| !is_simulated(requirement))
        .flat_map(Requirement::entries)
        .map(|entry| kinds::Requirement {
            key: entry.key,
            operator: entry.operator.as_str().to_owned(),
            values: Some(entry.values).filter(|values| !values.is_empty()),
            min_values: entry.min_values.map(i64::from),
        })
        .collect()
}

pub(crate) fn quantities(resources: &Resources) -> BTreeMap<String, QuantityText> {
    resources.iter().map(|(name, amount)| (name.to_owned(), amount.into())).collect()
}

fn taint(taint: &Taint) -> kinds::Taint {
    kinds::Taint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.as_str().to_owned(),
        time_added: None,
    }
}

#[cfg(test)]
mod tests;
