//! Says of claims whether their nodes may be consolidated and whether they have drifted (DIS-64 … DIS-68, DIS-149 … DIS-157).

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_api::conditions as condition_sets;
use karpenter_api::kinds::{ConditionStatus, NodeClaim};
use karpenter_api::names::conditions;
use karpenter_disruption::consolidatable::{Consolidatable, consolidatable};
use karpenter_disruption::drift::{Drift, DriftReason, KnownTypes, drift};
use karpenter_model::claim::ClaimView;
use karpenter_model::pool::PoolView;
use karpenter_platform::InstanceError;

use crate::context::Context;
use crate::nodeclaim_lifecycle::{seen, write_conditions};
use crate::queue::{ReconcileError, Requeue};

/// How often a claim is looked at although nothing happened to it: providers find out about drift by themselves.
const LOOK_AGAIN: Duration = Duration::from_mins(5);
/// How long a type that was found on the list counts as listed.
const FOUND: SignedDuration = SignedDuration::from_mins(30);

pub async fn reconcile(ctx: Arc<Context>, name: String) -> Result<Requeue, ReconcileError> {
    let Some(seen) = seen(&ctx, &name) else { return Ok(Requeue::OnChange) };
    if seen.deleting_since.is_some() {
        return Ok(Requeue::OnChange);
    }
    let pool = seen.pool.as_deref().and_then(|pool| ctx.state().pool(pool).cloned());
    let now = ctx.clock.now();
    let quiet = consolidatable(&seen, pool.as_deref(), now);
    let drifted = drift_of(&ctx, &seen, pool.as_deref(), now).await;
    if !is_known(&seen, quiet, drifted.as_ref().ok())
        && let Some(claim) = ctx.claims.get(&name)
    {
        let mut changed = claim.as_ref().clone();
        if apply(&mut changed, quiet, drifted.as_ref().ok(), now) {
            write_conditions(&ctx, &claim, &changed).await?;
        }
    }
    // What was found out is stored before anything fails (DIS-157).
    drifted?;
    let end = match quiet {
        Consolidatable::No { again: Some(at) } => Duration::try_from(at.duration_since(now)).ok(),
        _ => None,
    };
    Ok(Requeue::After(end.map_or(LOOK_AGAIN, |end| end.min(LOOK_AGAIN))))
}

/// What becomes of the `Drifted` condition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Untouched,
    Clear,
    Drifted(String),
}

async fn drift_of(
    ctx: &Context,
    claim: &ClaimView,
    pool: Option<&PoolView>,
    now: Timestamp,
) -> Result<Verdict, ReconcileError> {
    let Some(pool) = pool else { return Ok(Verdict::Untouched) };
    let lately = ctx.memory.found_types().get(&claim.uid).is_some_and(|at| now.duration_since(*at) < FOUND);
    let listed = if lately { None } else { Some(ctx.provider.instance_types(pool).await) };
    // A list that cannot be had says nothing about the claim; the rest is judged all the same.
    let types = match &listed {
        Some(Ok(types)) => KnownTypes::Listed(types),
        None | Some(Err(_)) => KnownTypes::FoundLately,
    };
    let verdict = drift(claim, Some(pool), types, ctx.provider.label_rules(), now);
    let missing = verdict == Drift::Drifted(DriftReason::InstanceTypeNotFound);
    if matches!(types, KnownTypes::Listed(_)) && !missing {
        ctx.memory.found_types().insert(claim.uid.clone(), now);
    }
    match verdict {
        Drift::Untouched => Ok(Verdict::Untouched),
        Drift::Clear => Ok(Verdict::Clear),
        Drift::Drifted(reason) => Ok(Verdict::Drifted(reason.as_str().to_owned())),
        Drift::AskProvider => match ctx.provider.drift(claim).await {
            Ok(None) => Ok(Verdict::Clear),
            Ok(Some(reason)) => Ok(Verdict::Drifted(reason.as_str().to_owned())),
            Err(InstanceError::NotFound(_)) => Ok(Verdict::Untouched),
            Err(error) => Err(error.into()),
        },
    }
}

/// The claim says so already, as far as the view tells: reasons are not in it.
fn is_known(claim: &ClaimView, quiet: Consolidatable, drifted: Option<&Verdict>) -> bool {
    let quiet = match quiet {
        Consolidatable::Untouched => true,
        Consolidatable::No { .. } => !claim.consolidatable,
        Consolidatable::Yes => claim.consolidatable,
    };
    let drifted = match drifted {
        None | Some(Verdict::Untouched) => true,
        Some(Verdict::Clear) => claim.drifted.is_none(),
        Some(Verdict::Drifted(_)) => false,
    };
    quiet && drifted
}

/// Whether anything changed.
fn apply(claim: &mut NodeClaim, quiet: Consolidatable, drifted: Option<&Verdict>, now: Timestamp) -> bool {
    let mut all = condition_sets::NODE_CLAIM.of(claim, now);
    let quiet = match quiet {
        Consolidatable::Untouched => false,
        Consolidatable::No { .. } => all.remove(conditions::CONSOLIDATABLE),
        Consolidatable::Yes => all.set_true(conditions::CONSOLIDATABLE),
    };
    let drifted = match drifted {
        None | Some(Verdict::Untouched) => false,
        Some(Verdict::Clear) => all.remove(conditions::DRIFTED),
        Some(Verdict::Drifted(reason)) => all.set(conditions::DRIFTED, ConditionStatus::True, reason, reason),
    };
    quiet || drifted
}

#[cfg(test)]
mod tests {
    use karpenter_api::conditions::Conditioned as _;

    use super::*;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn types(claim: &NodeClaim) -> Vec<(String, String)> {
        let all = claim.conditions().iter();
        let ours = all.filter(|one| [conditions::CONSOLIDATABLE, conditions::DRIFTED].contains(&one.type_.as_str()));
        ours.map(|one| (one.type_.clone(), one.reason.clone())).collect()
    }

    /// DIS-156, DC-65, DC-147: both are set and both are removed in one look; since when stays while the reason changes.
    #[test]
    fn conditions_come_and_go_together() {
        let mut claim = NodeClaim::new("a", karpenter_api::kinds::NodeClaimSpec::default());
        let drifted = |reason: &str| Verdict::Drifted(reason.to_owned());
        assert!(apply(&mut claim, Consolidatable::Yes, Some(&drifted("AMIDrift")), time(1)));
        let both = types(&claim);
        assert!(both.contains(&(conditions::DRIFTED.to_owned(), "AMIDrift".to_owned())), "{both:?}");
        assert_eq!(both.len(), 2);
        assert!(!apply(&mut claim, Consolidatable::Yes, Some(&drifted("AMIDrift")), time(2)), "nothing new");
        assert!(apply(&mut claim, Consolidatable::Yes, Some(&drifted("NodePoolDrifted")), time(3)));
        let since = claim.conditions().iter().find(|one| one.type_ == conditions::DRIFTED).unwrap();
        assert_eq!(since.last_transition_time.0, time(1), "DIS-156");
        assert!(!apply(&mut claim, Consolidatable::Untouched, Some(&Verdict::Untouched), time(4)), "DC-147, DIS-65");
        assert!(!apply(&mut claim, Consolidatable::Untouched, None, time(4)), "DIS-157");
        assert!(apply(&mut claim, Consolidatable::No { again: None }, Some(&Verdict::Clear), time(5)));
        assert!(types(&claim).is_empty(), "DC-65");
    }
}
