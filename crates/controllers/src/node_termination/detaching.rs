//! Waits for the volumes of a drained node (LIF-64 … LIF-66).

use std::collections::BTreeSet;
use std::time::Duration;

use karpenter_api::conditions as condition_sets;
use karpenter_api::kinds::NodeClaim;
use karpenter_api::names::conditions::{self, reasons};
use karpenter_lifecycle::{Attachment, Detachment, NodeFacts, deadline, detachment};
use karpenter_model::pod::PodId;

use crate::context::Context;
use crate::nodeclaim_lifecycle::write_conditions;
use crate::queue::{ReconcileError, Requeue};

const VOLUME_POLL: Duration = Duration::from_secs(1);

pub(super) async fn wait(ctx: &Context, claim: &NodeClaim, facts: NodeFacts<'_>) -> Result<Requeue, ReconcileError> {
    let attachments = attachments_of(ctx, &facts.node.name);
    let verdict = detachment(&attachments, &kept_volumes(ctx, facts), facts.claim.and_then(deadline), ctx.clock.now());
    let mut changed = claim.clone();
    let mut all = condition_sets::NODE_CLAIM.of(&mut changed, ctx.clock.now());
    let (news, again) = match &verdict {
        Detachment::Detached => (all.set_true(conditions::VOLUMES_DETACHED), Duration::ZERO),
        Detachment::Waiting(names) => {
            ctx.report.awaiting_volumes(facts.node, names);
            let reason = reasons::AWAITING_VOLUME_DETACHMENT;
            (all.set_unknown(conditions::VOLUMES_DETACHED, reason, reason), VOLUME_POLL)
        }
        Detachment::GivenUp => {
            let reason = reasons::TERMINATION_GRACE_PERIOD_ELAPSED;
            (all.set_false(conditions::VOLUMES_DETACHED, reason, reason), Duration::ZERO)
        }
    };
    if news && write_conditions(ctx, claim, &changed).await?.is_none() {
        return Ok(Requeue::after_write(false));
    }
    Ok(Requeue::After(again))
}

fn attachments_of(ctx: &Context, node: &str) -> Vec<Attachment> {
    let all = ctx.state().volumes().attachments_on(node);
    all.iter().map(|known| Attachment { name: known.name.clone(), volume: known.volume.clone() }).collect()
}

/// Volumes of pods that stay on the node to its end. A claim that does not exist holds nothing.
fn kept_volumes(ctx: &Context, facts: NodeFacts<'_>) -> BTreeSet<String> {
    let now = ctx.clock.now();
    let state = ctx.state();
    let staying = facts.pods.iter().filter(|pod| !pod.is_drainable(now));
    let claims =
        staying.flat_map(|pod| pod.volume_claims.iter().map(|name| PodId::new(pod.id.namespace.clone(), name.clone())));
    claims.filter_map(|id| state.volumes().claim(&id)?.volume.clone()).collect()
}
