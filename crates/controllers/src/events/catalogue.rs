//! One function per event, with its exact text (API-174, API-349, V15-22 … V15-24, V15-110).

use jiff::{SignedDuration, Timestamp};
use karpenter_model::pod::PodId;

use super::{Budget, Event, EventType, Subject};
use crate::metrics::ConditionChange;

const USUAL: SignedDuration = SignedDuration::from_mins(2);
/// Longer messages about failed launches are cut (V15-110).
const LONGEST: usize = 1024;

fn event(subject: &Subject, type_: EventType, reason: &str, message: String, dedupe: &[&str]) -> Event {
    Event {
        subject: subject.clone(),
        type_,
        reason: reason.to_owned(),
        message,
        dedupe: dedupe.iter().map(ToString::to_string).collect(),
        timeout: USUAL,
        budget: None,
    }
}

fn normal(subject: &Subject, reason: &str, message: impl Into<String>, dedupe: &[&str]) -> Event {
    event(subject, EventType::Normal, reason, message.into(), dedupe)
}

fn warning(subject: &Subject, reason: &str, message: impl Into<String>, dedupe: &[&str]) -> Event {
    event(subject, EventType::Warning, reason, message.into(), dedupe)
}

impl Event {
    fn every(self, timeout: SignedDuration) -> Self {
        Self { timeout, ..self }
    }

    fn within(self, budget: Budget) -> Self {
        Self { budget: Some(budget), ..self }
    }
}

/// The first letter in upper case, the rest as it is (API-173).
fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Cut to 1024 bytes, dots included, between two characters (V15-110).
pub fn shortened(text: &str) -> String {
    if text.len() <= LONGEST {
        return text.to_owned();
    }
    let end = (0..=LONGEST - 3).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &text[..end])
}

/// The first five, and how many more there are.
fn some_names(names: &[String]) -> String {
    let shown = names.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(5) {
        0 => shown,
        more => format!("{shown} and {more} other(s)"),
    }
}

/// In whole seconds, as RFC 3339 has it.
fn time(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}

/// Where a pod is going. At least one of the two is known.
pub fn nominated(pod: &Subject, claim: Option<&str>, node: Option<&str>) -> Event {
    let claim = claim.map(|name| format!("nodeclaim/{name}"));
    let node = node.map(|name| format!("node/{name}"));
    let places: Vec<String> = claim.into_iter().chain(node).collect();
    normal(pod, "Nominated", format!("Pod should schedule on: {}", places.join(", ")), &[&pod.uid])
        .within(Budget::Nominations)
}

pub fn failed_scheduling(pod: &Subject, error: &str) -> Event {
    warning(pod, "FailedScheduling", format!("Failed to schedule pod, {error}"), &[&pod.uid])
        .every(SignedDuration::from_mins(5))
}

/// What ruled out every instance type of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoTypes {
    Requirements,
    MinValues,
}

pub fn no_compatible_instance_types(pool: &Subject, why: NoTypes) -> Event {
    let ending = match why {
        NoTypes::Requirements => "",
        NoTypes::MinValues => " due to minValues incompatibility",
    };
    let message = format!("NodePool requirements filtered out all compatible available instance types{ending}");
    warning(pool, "NoCompatibleInstanceTypes", message, &[&pool.uid]).every(SignedDuration::from_mins(1))
}

/// On a Node or a NodeClaim; the cause is the whole message (API-349, V15-24). One cause does not silence another (X30).
pub fn disruption_blocked(object: &Subject, cause: &str) -> Event {
    normal(object, "DisruptionBlocked", cause, &[&object.uid, cause])
}

pub fn disruption_blocked_by_budget(pool: &Subject, reason: &str) -> Event {
    let message = format!("No allowed disruptions for disruption reason {reason} due to blocking budget");
    normal(pool, "DisruptionBlocked", message, &[&pool.uid, reason]).every(SignedDuration::from_mins(1))
}

pub fn disruption_launching(claim: &Subject, reason: &str) -> Event {
    let message = format!("Launching NodeClaim: {}", capitalized(reason));
    normal(claim, "DisruptionLaunching", message, &[&claim.uid, reason])
}

pub fn disruption_waiting_readiness(claim: &Subject) -> Event {
    let message = "Waiting on readiness to continue disruption";
    normal(claim, "DisruptionWaitingReadiness", message, &[&claim.uid])
}

/// On the Node and on the NodeClaim.
pub fn disruption_terminating(object: &Subject, reason: &str) -> Event {
    let message = format!("Disrupting {}: {}", object.kind, capitalized(reason));
    normal(object, "DisruptionTerminating", message, &[&object.uid, reason])
}

pub fn unconsolidatable(object: &Subject, cause: &str) -> Event {
    normal(object, "Unconsolidatable", cause, &[&object.uid]).every(SignedDuration::from_mins(15))
}

pub fn consolidation_candidate(object: &Subject, command: &str, savings: f64) -> Event {
    let message = format!("Consolidation candidate: {command} (savings: ${savings:.2})");
    normal(object, "ConsolidationCandidate", message, &[&object.uid, command])
}

/// `cause` is `budget`, `scheduling`, `churn` or `unknown`.
pub fn consolidation_rejected(object: &Subject, command: &str, cause: &str, savings: f64) -> Event {
    let message = format!("Consolidation rejected: {command}, reason: {cause} (savings: ${savings:.2})");
    normal(object, "ConsolidationRejected", message, &[&object.uid, command, cause])
}

/// How the Balanced policy judged a move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score {
    pub score: f64,
    pub threshold: f64,
    pub k: i64,
    pub savings_percent: f64,
    pub disruption_percent: f64,
}

/// On Node and NodeClaim of a single move, on the NodePool of one of several nodes.
pub fn consolidation_approved(object: &Subject, score: &Score) -> Event {
    let Score { score, threshold, k, savings_percent, disruption_percent } = score;
    let message = format!(
        "score {score:.2} >= threshold {threshold:.2} (k: {k}, savings {savings_percent:.1}%, disruption {disruption_percent:.1}%)"
    );
    normal(object, "ConsolidationApproved", message, &[&object.uid])
}

/// On Node, NodeClaim and NodePool (V15-23).
pub fn node_repair_blocked(object: &Subject, pool: &str) -> Event {
    let message = format!("more than 20% of nodes in nodepool \"{pool}\" are unhealthy");
    warning(object, "NodeRepairBlocked", message, &[&object.uid]).every(SignedDuration::from_mins(15))
}

/// What the legacy repair controller says, always on the Node, once for each of the objects concerned (V15-51).
pub fn legacy_node_repair_blocked(node: &Subject, concerned_uid: &str, standalone: bool) -> Event {
    let message = if standalone {
        "more then 20% nodes are unhealthy in the cluster"
    } else {
        "more than 20% nodes are unhealthy in the nodepool"
    };
    warning(node, "NodeRepairBlocked", message, &[concerned_uid]).every(SignedDuration::from_mins(15))
}

/// A pod is deleted so that it ends before its node has to. By UID, so that pods of one name in two namespaces are two
/// (API-177).
pub fn disrupted(pod: &Subject, deadline: Timestamp, granted_seconds: i64, grace_seconds: i64) -> Event {
    let message = format!(
        "Deleting the pod to accommodate the terminationTime {} of the node. The pod was granted {granted_seconds} seconds of grace-period of its {grace_seconds} terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation.",
        time(deadline)
    );
    normal(pod, "Disrupted", message, &[&pod.uid])
}

pub fn evicted(pod: &Subject, reason: &str) -> Event {
    normal(pod, "Evicted", format!("Evicted pod: {reason}"), &[&pod.uid])
}

/// Why a node is not drained yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DrainObstacle<'a> {
    Waiting(usize),
    Budget(&'a PodId),
    SeveralBudgets(&'a PodId),
    /// It may not be moved, has been in the way since then, and nothing ends that by itself.
    Protected {
        pod: &'a PodId,
        since: Timestamp,
    },
}

pub fn failed_draining(node: &Subject, obstacle: &DrainObstacle<'_>) -> Event {
    let (cause, obstacle) = match obstacle {
        DrainObstacle::Waiting(pods) => ("waiting", format!("{pods} pods are waiting to be evicted")),
        DrainObstacle::Budget(pod) => ("budget", format!("evicting pod violates a PDB (Pod={pod})")),
        DrainObstacle::SeveralBudgets(pod) => {
            ("budgets", format!("eviction does not support multiple PDBs (Pod={pod})"))
        }
        DrainObstacle::Protected { pod, since } => (
            "protected",
            format!(
                "pod has held the node since {} with karpenter.sh/do-not-disrupt, and the NodeClaim has no \
                 terminationGracePeriod; remove the annotation or the pod (Pod={pod})",
                time(*since)
            ),
        ),
    };
    // One cause does not silence another, nor one node the next of its name (Y32).
    warning(node, "FailedDraining", format!("Failed to drain node, {obstacle}"), &[&node.uid, cause])
}

pub fn awaiting_volume_detachment(node: &Subject, attachments: &[String]) -> Event {
    let message = format!("Awaiting deletion of bound volumeattachments ({})", some_names(attachments));
    normal(node, "AwaitingVolumeDetachment", message, &[&node.name])
}

/// On the Node or the NodeClaim.
pub fn termination_grace_period_expiring(object: &Subject, deadline: Timestamp) -> Event {
    let message = format!("All pods will be deleted by {}", time(deadline));
    warning(object, "TerminationGracePeriodExpiring", message, &[&object.name])
}

/// A resource of which the node has less than its claim promised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shortfall<'a> {
    pub resource: &'a str,
    pub expected: karpenter_model::quantity::Quantity,
    pub found: karpenter_model::quantity::Quantity,
}

pub fn failed_consistency_check(claim: &Subject, shortfall: &Shortfall<'_>) -> Event {
    let Shortfall { resource, expected, found } = shortfall;
    let percent = if expected.is_zero() { 0.0 } else { 100.0 * found.as_f64() / expected.as_f64() };
    let message = format!("expected {expected} of resource {resource}, but found {found} ({percent:.1}% of expected)");
    warning(claim, "FailedConsistencyCheck", message.clone(), &[&claim.uid, &message])
}

/// On the NodeClaim that could not be launched.
pub fn insufficient_capacity(claim: &Subject, error: &str) -> Event {
    let message = shortened(&format!("NodeClaim {} event: {error}", claim.name));
    warning(claim, "InsufficientCapacityError", message, &[&claim.uid])
}

/// On a pod that was to run on it (V15-109).
pub fn pod_without_capacity(pod: &Subject, claim: &str, error: &str) -> Event {
    let message = shortened(&format!("NodeClaim {claim} nominated for this pod failed to launch: {error}"));
    warning(pod, "InsufficientCapacityError", message, &[&pod.uid]).within(Budget::PodsWithoutCapacity)
}

/// Something in the object says nothing that we understand; the rest of it counts.
pub fn invalid_field(object: &Subject, field: &str, problem: &str) -> Event {
    let message = shortened(&format!("Ignored {field}, correct it: {problem}"));
    warning(object, "InvalidField", message.clone(), &[&object.uid, &message]).every(SignedDuration::from_mins(15))
}

/// Nobody knows what the pool is offered.
pub fn instance_types_unavailable(pool: &Subject, why: &str) -> Event {
    let message = shortened(&format!(
        "Instance types cannot be listed, so no node is launched and none gives way to a cheaper one: {why}"
    ));
    warning(pool, "InstanceTypesUnavailable", message, &[&pool.uid]).every(SignedDuration::from_mins(15))
}

pub fn unregistered_taint_missing(claim: &Subject) -> Event {
    let message = "Missing karpenter.sh/unregistered taint which prevents registration related race conditions on Karpenter-managed nodes";
    warning(claim, "UnregisteredTaintMissing", message, &[&claim.uid])
}

pub fn invalid_do_not_disrupt(pod: &Subject, cause: &str) -> Event {
    let message = format!("Invalid karpenter.sh/do-not-disrupt annotation: {cause}, ignoring annotation");
    warning(pod, "InvalidDoNotDisruptAnnotation", message.clone(), &[&pod.uid, &message])
}

pub fn do_not_disrupt_until(pod: &Subject, end: Timestamp) -> Event {
    let message = format!("The karpenter.sh/do-not-disrupt grace period will elapse at {}", time(end));
    normal(pod, "DoNotDisruptUntil", message, &[&pod.uid, &end.to_string()])
}

pub fn do_not_disrupt_elapsed(pod: &Subject) -> Event {
    let message = "The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable";
    normal(pod, "DoNotDisruptGracePeriodElapsed", message, &[&pod.uid])
}

/// `since` is when the condition `Rebooting` came into its status: one reboot, one event (V15-22).
pub fn reboot_observed(claim: &Subject, since: Timestamp) -> Event {
    let message = "New boot observed (bootID changed); awaiting node readiness";
    normal(claim, "RebootObserved", message, &[&claim.uid, &since.to_string()]).every(SignedDuration::from_mins(30))
}

pub fn reboot_failed(claim: &Subject, since: Timestamp, message: &str) -> Event {
    warning(claim, "RebootFailed", message, &[&claim.uid, &since.to_string()]).every(SignedDuration::from_mins(30))
}

/// A condition that changed or a finalizer that went; never the same event twice (API-178, API-179).
pub fn condition_change(object: &Subject, change: &ConditionChange) -> Event {
    match change {
        ConditionChange::Transition { type_, from, to, reason, message } => {
            let message = if message.is_empty() { String::new() } else { format!(", Message: {message}") };
            let text = format!(
                "Status condition transitioned, Type: {type_}, Status: {from} -> {to}, Reason: {reason}{message}"
            );
            normal(object, type_, text, &[])
        }
        ConditionChange::Finalized(finalizer) => normal(object, "Finalized", format!("Finalized {finalizer}"), &[]),
    }
}
