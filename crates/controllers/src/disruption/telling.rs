//! What a pass found worth telling, told about the objects that it is about.

use jiff::SignedDuration;
use karpenter_disruption::balanced;
use karpenter_disruption::methods::validation::Checked;
use karpenter_disruption::methods::{Command, Going, Method, RepairOf};
use karpenter_disruption::report::{Note, Subject as Names};
use karpenter_model::budget::DisruptionReason;
use karpenter_model::claim::ClaimView;
use karpenter_model::labels;
use karpenter_model::pool::ConsolidationPolicy;
use karpenter_model::protection::Protection;

use super::driving::Underway;
use super::looking::World;
use crate::context::Context;
use crate::events::catalogue::{self, Score};
use crate::events::{Event, Subject};

/// How long it is told that a protection is over: within it the event is said once.
const TOLD: SignedDuration = SignedDuration::from_mins(2);

/// Node and claim, those that exist.
fn subjects(ctx: &Context, names: &Names) -> Vec<Subject> {
    let state = ctx.state();
    let node = names.node.as_ref().and_then(|name| state.node(name)).map(|node| Subject::node(&node.name, &node.uid));
    let claim = names.claim.as_ref().and_then(|name| state.claim(name));
    node.into_iter().chain(claim.map(|claim| Subject::claim(&claim.name, &claim.uid))).collect()
}

fn pool(ctx: &Context, name: &str) -> Option<Subject> {
    ctx.state().pool(name).map(|pool| Subject::pool(&pool.name, &pool.uid))
}

fn publish(ctx: &Context, names: &Names, event: impl Fn(&Subject) -> Event) {
    for subject in subjects(ctx, names) {
        ctx.report.events.publish(event(&subject));
    }
}

pub(super) fn notes(ctx: &Context, notes: &[Note]) {
    for note in notes {
        tell(ctx, note);
    }
}

fn tell(ctx: &Context, note: &Note) {
    match note {
        Note::Blocked { subject, why } => publish(ctx, subject, |object| catalogue::disruption_blocked(object, why)),
        Note::RepairBlocked { subject, pool: name } => {
            publish(ctx, subject, |object| catalogue::node_repair_blocked(object, name));
            if let Some(pool) = pool(ctx, name) {
                ctx.report.events.publish(catalogue::node_repair_blocked(&pool, name));
            }
        }
        Note::PoolClosed { pool: name, reason } => {
            if let Some(pool) = pool(ctx, name) {
                ctx.report.events.publish(catalogue::disruption_blocked_by_budget(&pool, reason.as_str()));
            }
        }
        Note::Unconsolidatable { subject, why } => {
            publish(ctx, subject, |object| catalogue::unconsolidatable(object, why));
        }
        Note::Considered { subject, text, savings } => {
            publish(ctx, subject, |object| catalogue::consolidation_candidate(object, text, *savings));
        }
        Note::Rejected { subject, text, cause, savings } => {
            publish(ctx, subject, |object| catalogue::consolidation_rejected(object, text, cause, *savings));
        }
        Note::Judged { pool, policy, approved, score } => {
            ctx.report.consolidation_judged(pool, policy.as_str(), *approved, score.map(|score| score.value));
        }
        Note::Approved { subject, pool: name, score } => {
            #[expect(clippy::cast_possible_truncation, reason = "a small whole number")]
            let k = balanced::K as i64;
            let score = Score {
                score: score.value,
                threshold: balanced::THRESHOLD,
                k,
                savings_percent: 100.0 * score.savings,
                disruption_percent: 100.0 * score.disruption,
            };
            match subject {
                Some(names) => publish(ctx, names, |object| catalogue::consolidation_approved(object, &score)),
                None => {
                    if let Some(pool) = pool(ctx, name) {
                        ctx.report.events.publish(catalogue::consolidation_approved(&pool, &score));
                    }
                }
            }
        }
    }
}

/// How a second look ended. Nodes of a consolidation hear why nothing comes of it, those of emptiness do not (DIS-146, X19).
pub(super) fn checked(ctx: &Context, command: &Command, checked: &Checked) {
    ctx.report.disruption_checked(command, checked);
    if let Err(why) = checked.outcome
        && command.method != Method::Emptiness
    {
        for going in &command.going {
            let (text, savings) = (command.text_of(&going.node), command.savings);
            tell(ctx, &Note::Rejected { subject: going.subject(), text, cause: why.as_str(), savings });
        }
    }
}

/// What pods that may not be moved say about themselves (DIS-44, DIS-45).
pub(super) fn protections(ctx: &Context, world: &World) {
    let now = ctx.clock.now();
    let ours = world.nodes().iter().filter(|node| node.is_managed());
    for pod in ours.flat_map(|node| &node.pods).filter(|pod| pod.is_active()) {
        let subject = || Subject::pod(&pod.id, &pod.uid);
        let end = pod.protection.until(pod.started_at);
        let event = match (&pod.protection, end) {
            (Protection::Invalid(value), _) => {
                let cause = format!("{value:?} is neither \"true\" nor a duration greater than zero");
                catalogue::invalid_do_not_disrupt(&subject(), &cause)
            }
            (_, Some(end)) if now < end => catalogue::do_not_disrupt_until(&subject(), end),
            // Whoever looks later finds a pod like any other.
            (_, Some(end)) if now.duration_since(end) < TOLD => catalogue::do_not_disrupt_elapsed(&subject()),
            _ => continue,
        };
        ctx.report.events.publish(event);
    }
}

/// A claim of a command was deleted.
pub(super) fn terminating(ctx: &Context, claim: &ClaimView, command: &Underway, pods: usize) {
    let method = command.method();
    let policy = claim.labels.get(labels::NODEPOOL).and_then(|pool| ctx.state().pool(pool).cloned());
    let policy = policy.filter(|_| !method.consolidation_type().is_empty());
    ctx.report.disruption_terminating(
        claim,
        &reason_label(method.reason()),
        policy.map_or("", |pool| policy_label(pool.consolidation_policy)),
        pods,
    );
    if let Some(repair) = &command.record.repair {
        ctx.report.repaired(claim, &repair.condition, image(ctx, &claim.name).as_deref(), repair.bound());
    }
    let node = command.going.get(&claim.name).cloned();
    let names = Names { node, claim: Some(claim.name.clone()) };
    publish(ctx, &names, |object| catalogue::disruption_terminating(object, method.reason().as_str()));
}

fn image(ctx: &Context, claim: &str) -> Option<String> {
    ctx.claims.get(claim).and_then(|claim| claim.status.as_ref()?.image_id.clone())
}

/// A reboot was asked for: counted like a deletion, at once (V15-48).
pub(super) fn rebooting(ctx: &Context, going: &Going, repair: &RepairOf) {
    let Some(claim) = ctx.state().claim(&going.claim).cloned() else { return };
    let reason = reason_label(DisruptionReason::Unhealthy);
    ctx.report.disruption_terminating(&claim, &reason, "", going.pods);
    ctx.report.repaired(&claim, &repair.condition_type, image(ctx, &going.claim).as_deref(), repair.bound);
}

/// In snake case (DIS-187).
fn policy_label(policy: ConsolidationPolicy) -> &'static str {
    match policy {
        ConsolidationPolicy::WhenEmpty => "when_empty",
        ConsolidationPolicy::WhenEmptyOrUnderutilized => "when_empty_or_underutilized",
        ConsolidationPolicy::Balanced => "balanced",
    }
}

/// In lower case (DIS-187, V15-17).
pub(crate) fn reason_label(reason: DisruptionReason) -> String {
    reason.as_str().to_lowercase()
}
