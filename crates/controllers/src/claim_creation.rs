//! The NodeClaim object of a planned node (SCH-219 … SCH-224).

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use karpenter_api::kinds::nodeclaim::ResourceRequests;
use karpenter_api::kinds::{self, NodeClaim, NodeClaimSpec};
use karpenter_api::names::annotations;
use karpenter_api::values::{DurationText, NillableDurationText, QuantityText};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::Resources;
use karpenter_model::taints::Taint;
use karpenter_solver::PlannedClaim;
use kube::ResourceExt as _;
use kube::api::PostParams;

use crate::context::Context;

/// Creates the claim and takes note of it at once, so that the next pass knows it.
pub(crate) async fn create_claim(ctx: &Context, planned: &PlannedClaim) -> Result<String, kube::Error> {
    let claim = node_claim(planned, ctx.provider.label_rules());
    let created = ctx.claims_api().create(&PostParams::default(), &claim).await?;
    let noted = ctx.note_claim(created);
    ctx.queues.claims.add(noted.name_any());
    Ok(noted.name_any())
}

fn node_claim(planned: &PlannedClaim, rules: &LabelRules) -> NodeClaim {
    let pool = &planned.pool;
    let mut claim_labels = pool.labels.clone();
    claim_labels.extend(custom_labels(&planned.requirements, rules));
    let mut claim_annotations = pool.annotations.clone();
    if let Some(hash) = &pool.hash {
        claim_annotations.insert(annotations::NODEPOOL_HASH.to_owned(), hash.value.to_string());
        claim_annotations.insert(annotations::NODEPOOL_HASH_VERSION.to_owned(), hash.version.clone());
    }
    NodeClaim {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", pool.name)),
            labels: Some(claim_labels),
            annotations: Some(claim_annotations),
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
            taints: Some(pool.taints.iter().map(taint).collect()),
            startup_taints: Some(pool.startup_taints.iter().map(taint).collect()),
            requirements: requirement_entries(&planned.requirements),
            resources: Some(ResourceRequests { requests: Some(quantities(&planned.requests)) }),
            node_class_ref: kinds::NodeClassRef {
                group: pool.node_class.group.clone(),
                kind: pool.node_class.kind.clone(),
                name: pool.node_class.name.clone(),
            },
            termination_grace_period: pool.termination_grace_period.map(|grace| DurationText(grace.to_string())),
            expire_after: Some(NillableDurationText(pool.expire_after.to_string())),
        },
        status: None,
    }
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

/// Keys that exist only inside a pass (API-74), and the host name, which no claim asks for.
fn is_simulated(requirement: &Requirement) -> bool {
    [labels::REGISTERED, labels::INITIALIZED, labels::HOSTNAME].contains(&requirement.key())
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
