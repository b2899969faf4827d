//! NodePools.

use karpenter_model::budget::{Budget, BudgetError, Budgets, DisruptionReason, Window};
use karpenter_model::duration::{GoDuration, NillableDuration};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pool::{ConsolidationPolicy, PoolView, TemplateHash};
use karpenter_model::requirements::Requirements;

use super::claim::node_class;
use super::{Converted, Problems, claim_entries, quantities, requirements, taints};
use crate::kinds::{self, NodePool};
use crate::legacy;
use crate::names::conditions;

pub fn pool(pool: &NodePool, rules: &LabelRules) -> Converted<PoolView> {
    let mut problems = Problems::new("NodePool", &pool.metadata);
    let name = pool.metadata.name.clone().unwrap_or_default();
    let spec = &pool.spec;
    let template = &spec.template.spec;
    let metadata = spec.template.metadata.as_ref();
    let node_class = node_class(&template.node_class_ref);

    let mut labels = metadata.and_then(|metadata| metadata.labels.clone()).unwrap_or_default();
    labels.insert(labels::NODEPOOL.to_owned(), name.clone());
    // No template may say it, so it follows from who owns the pool (AWS-258).
    if let Some(owner) = legacy::owner(&pool.metadata) {
        labels.insert(labels::PROVISIONER_NAME.to_owned(), owner.name.clone());
    }
    labels.insert(node_class.label_key(), node_class.name.clone());
    let mut all = Requirements::from_labels(rules, &labels);
    let field = "spec.template.spec.requirements";
    all.add_all(&requirements(&mut problems, field, rules, claim_entries(&template.requirements)));

    let limits = quantities(&mut problems, "spec.limits", spec.limits.as_ref());
    let node_taints = taints(&mut problems, "spec.template.spec.taints", template.taints.as_ref());
    let startup_taints = taints(&mut problems, "spec.template.spec.startupTaints", template.startup_taints.as_ref());
    let hash = problems.check("spec.template", crate::hash::node_pool_hash(&spec.template));
    let hash = hash.map(|hash| TemplateHash { value: hash.value, version: hash.version.to_owned() });
    // Until here a problem means that launched nodes would differ from what was asked for: the pool is not used then.
    let understood = problems.is_empty();
    let conditions = pool.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|c| c.type_ == conditions::READY && c.is_true());

    let expire_after = template.expire_after.as_ref();
    let grace = template.termination_grace_period.as_ref();
    let view = PoolView {
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        deleting: pool.metadata.deletion_timestamp.is_some(),
        ready: ready && understood,
        weight: spec.weight.and_then(|weight| u32::try_from(weight).ok()).unwrap_or(0),
        limits,
        replicas: spec.replicas.map(|replicas| u64::try_from(replicas).unwrap_or(0)),
        labels,
        annotations: metadata.and_then(|metadata| metadata.annotations.clone()).unwrap_or_default(),
        requirements: all,
        taints: node_taints,
        startup_taints,
        expire_after: expire_after
            .and_then(|text| problems.check("spec.template.spec.expireAfter", text.parse()))
            .unwrap_or(NillableDuration::Never),
        termination_grace_period: grace
            .and_then(|text| problems.check("spec.template.spec.terminationGracePeriod", text.parse())),
        budgets: budgets(&mut problems, spec.disruption.as_ref()),
        consolidation_policy: consolidation_policy(&mut problems, spec.disruption.as_ref()),
        consolidate_after: consolidate_after(&mut problems, spec.disruption.as_ref()),
        hash,
        node_class,
        name,
    };
    Converted { view, problems: problems.found }
}

/// Absent budgets were filled by the API server; an absent list therefore means what an empty one does: no limit.
fn budgets(problems: &mut Problems, disruption: Option<&kinds::nodepool::Disruption>) -> Budgets {
    let listed = disruption.and_then(|disruption| disruption.budgets.as_ref()).into_iter().flatten();
    let parsed: Vec<Option<Budget>> = listed
        .enumerate()
        .map(|(index, one)| problems.check(&format!("spec.disruption.budgets[{index}]"), budget(one)))
        .collect();
    parsed.into_iter().collect::<Option<Vec<Budget>>>().map_or(Budgets::Broken, Budgets::Parsed)
}

/// A policy that we do not know may want less than ours would do; empty nodes may go under any.
fn consolidation_policy(
    problems: &mut Problems,
    disruption: Option<&kinds::nodepool::Disruption>,
) -> ConsolidationPolicy {
    let Some(text) = disruption.and_then(|disruption| disruption.consolidation_policy.as_ref()) else {
        return ConsolidationPolicy::default();
    };
    let known = ConsolidationPolicy::ALL.into_iter().find(|policy| policy.as_str() == text);
    let read = known.ok_or_else(|| format!("unknown policy {text:?}"));
    problems.check("spec.disruption.consolidationPolicy", read).unwrap_or(ConsolidationPolicy::WhenEmpty)
}

/// Absent is the API server's default; what cannot be read consolidates nothing.
fn consolidate_after(problems: &mut Problems, disruption: Option<&kinds::nodepool::Disruption>) -> NillableDuration {
    match disruption.and_then(|disruption| disruption.consolidate_after.as_ref()) {
        None => NillableDuration::After(GoDuration::ZERO),
        Some(text) => {
            problems.check("spec.disruption.consolidateAfter", text.parse()).unwrap_or(NillableDuration::Never)
        }
    }
}

fn budget(budget: &kinds::nodepool::Budget) -> Result<Budget, String> {
    let text = |error: BudgetError| error.to_string();
    let window = match (&budget.schedule, &budget.duration) {
        (None, None) => None,
        (Some(schedule), Some(duration)) => Some(Window {
            schedule: schedule.parse().map_err(|error| text(BudgetError::Schedule(error)))?,
            duration: duration.parse().map_err(|error| error.to_string())?,
        }),
        _ => return Err("'schedule' must be set with 'duration'".to_owned()),
    };
    let known = |name: &String| DisruptionReason::ALL.into_iter().find(|reason| reason.as_str() == name);
    // A reason of a later version is none of ours; a budget for it alone restricts nothing that we do.
    let reasons = budget.reasons.as_ref().map(|names| names.iter().filter_map(known).collect());
    Ok(Budget { nodes: budget.nodes.parse().map_err(text)?, reasons, window })
}
