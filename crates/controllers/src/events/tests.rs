use std::time::Duration;

use jiff::Timestamp;
use karpenter_platform::TokioClock;

use super::catalogue::{self as say, DrainObstacle, NoTypes, Score, Shortfall};
use super::*;
use crate::metrics::ConditionChange;

fn pod() -> Subject {
    Subject::new("v1", "Pod", "shop", "web", "pod-uid")
}

fn node() -> Subject {
    Subject::node("n1", "node-uid")
}

fn claim() -> Subject {
    Subject::claim("c1", "claim-uid")
}

fn pool() -> Subject {
    Subject::pool("blue", "pool-uid")
}

/// Every event as one line: type, reason, message, dedupe key, minutes of silence, budget.
fn line(event: &Event) -> String {
    let Event { subject, type_, reason, message, timeout, budget, .. } = event;
    let budget = budget.map(|budget| format!(" {budget:?}")).unwrap_or_default();
    let key = event.key().unwrap_or_else(|| "-".to_owned());
    format!("{type_} {}/{} {reason} | {message} | {key} {}m{budget}", subject.kind, subject.name, timeout.as_mins())
}

/// API-173, API-174, API-177, API-178, API-179, API-349, V15-22, V15-23, V15-110: types, reasons, texts, what makes them the same, and for
/// how long.
#[test]
fn the_catalogue() {
    let at: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
    let (pod, node, claim, pool) = (pod(), node(), claim(), pool());
    let web = karpenter_model::pod::PodId::new("shop", "web");
    let score = Score { score: 1.234, threshold: 0.5, k: 3, savings_percent: 12.34, disruption_percent: 5.0 };
    let shortfall = Shortfall { resource: "memory", expected: "4Gi".parse().unwrap(), found: "3Gi".parse().unwrap() };
    let six: Vec<String> = ["a", "b", "c", "d", "e", "f", "g"].map(str::to_owned).to_vec();
    let transition = |message: &str| ConditionChange::Transition {
        type_: "Ready".to_owned(),
        from: "False".to_owned(),
        to: "True".to_owned(),
        reason: "Ready".to_owned(),
        message: message.to_owned(),
    };
    for (event, want) in [
        (
            say::nominated(&pod, Some("c1"), None),
            "Normal Pod/web Nominated | Pod should schedule on: nodeclaim/c1 | nominated-pod-uid 2m Nominations",
        ),
        (
            say::nominated(&pod, Some("c1"), Some("n1")),
            "Normal Pod/web Nominated | Pod should schedule on: nodeclaim/c1, node/n1 | nominated-pod-uid 2m Nominations",
        ),
        (
            say::failed_scheduling(&pod, "no pools"),
            "Warning Pod/web FailedScheduling | Failed to schedule pod, no pools | failedscheduling-pod-uid 5m",
        ),
        (
            say::no_compatible_instance_types(&pool, NoTypes::Requirements),
            "Warning NodePool/blue NoCompatibleInstanceTypes | NodePool requirements filtered out all compatible available instance types | nocompatibleinstancetypes-pool-uid 1m",
        ),
        (
            say::no_compatible_instance_types(&pool, NoTypes::MinValues),
            "Warning NodePool/blue NoCompatibleInstanceTypes | NodePool requirements filtered out all compatible available instance types due to minValues incompatibility | nocompatibleinstancetypes-pool-uid 1m",
        ),
        (
            say::disruption_blocked(&node, "Node isn't initialized"),
            "Normal Node/n1 DisruptionBlocked | Node isn't initialized | disruptionblocked-node-uid-Node isn't initialized 2m",
        ),
        (
            say::disruption_blocked_by_budget(&pool, "Empty"),
            "Normal NodePool/blue DisruptionBlocked | No allowed disruptions for disruption reason Empty due to blocking budget | disruptionblocked-pool-uid-Empty 1m",
        ),
        (
            say::disruption_launching(&claim, "drifted"),
            "Normal NodeClaim/c1 DisruptionLaunching | Launching NodeClaim: Drifted | disruptionlaunching-claim-uid-drifted 2m",
        ),
        (
            say::disruption_waiting_readiness(&claim),
            "Normal NodeClaim/c1 DisruptionWaitingReadiness | Waiting on readiness to continue disruption | disruptionwaitingreadiness-claim-uid 2m",
        ),
        (
            say::disruption_terminating(&node, "Underutilized"),
            "Normal Node/n1 DisruptionTerminating | Disrupting Node: Underutilized | disruptionterminating-node-uid-Underutilized 2m",
        ),
        (
            say::disruption_terminating(&claim, "Empty"),
            "Normal NodeClaim/c1 DisruptionTerminating | Disrupting NodeClaim: Empty | disruptionterminating-claim-uid-Empty 2m",
        ),
        (
            say::unconsolidatable(&node, "Can't replace with a cheaper node"),
            "Normal Node/n1 Unconsolidatable | Can't replace with a cheaper node | unconsolidatable-node-uid 15m",
        ),
        (
            say::consolidation_candidate(&node, "delete n1", 0.126),
            "Normal Node/n1 ConsolidationCandidate | Consolidation candidate: delete n1 (savings: $0.13) | consolidationcandidate-node-uid-delete n1 2m",
        ),
        (
            say::consolidation_rejected(&claim, "delete n1", "churn", 1.0),
            "Normal NodeClaim/c1 ConsolidationRejected | Consolidation rejected: delete n1, reason: churn (savings: $1.00) | consolidationrejected-claim-uid-delete n1-churn 2m",
        ),
        (
            say::consolidation_approved(&pool, &score),
            "Normal NodePool/blue ConsolidationApproved | score 1.23 >= threshold 0.50 (k: 3, savings 12.3%, disruption 5.0%) | consolidationapproved-pool-uid 2m",
        ),
        (
            say::node_repair_blocked(&claim, "blue"),
            "Warning NodeClaim/c1 NodeRepairBlocked | more than 20% of nodes in nodepool \"blue\" are unhealthy | noderepairblocked-claim-uid 15m",
        ),
        (
            say::legacy_node_repair_blocked(&node, "pool-uid", false),
            "Warning Node/n1 NodeRepairBlocked | more than 20% nodes are unhealthy in the nodepool | noderepairblocked-pool-uid 15m",
        ),
        (
            say::legacy_node_repair_blocked(&node, "claim-uid", true),
            "Warning Node/n1 NodeRepairBlocked | more then 20% nodes are unhealthy in the cluster | noderepairblocked-claim-uid 15m",
        ),
        (
            say::disrupted(&pod, at, 10, 30),
            "Normal Pod/web Disrupted | Deleting the pod to accommodate the terminationTime 2026-01-02T03:04:05Z of the node. The pod was granted 10 seconds of grace-period of its 30 terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation. | disrupted-pod-uid 2m",
        ),
        (say::evicted(&pod, "Drifted"), "Normal Pod/web Evicted | Evicted pod: Drifted | evicted-pod-uid 2m"),
        (
            say::failed_draining(&node, &DrainObstacle::Waiting(3)),
            "Warning Node/n1 FailedDraining | Failed to drain node, 3 pods are waiting to be evicted | faileddraining-node-uid-waiting 2m",
        ),
        (
            say::failed_draining(&node, &DrainObstacle::Budget(&web)),
            "Warning Node/n1 FailedDraining | Failed to drain node, evicting pod violates a PDB (Pod=shop/web) | faileddraining-node-uid-budget 2m",
        ),
        (
            say::failed_draining(&node, &DrainObstacle::SeveralBudgets(&web)),
            "Warning Node/n1 FailedDraining | Failed to drain node, eviction does not support multiple PDBs (Pod=shop/web) | faileddraining-node-uid-budgets 2m",
        ),
        (
            say::awaiting_volume_detachment(&node, &six[..2]),
            "Normal Node/n1 AwaitingVolumeDetachment | Awaiting deletion of bound volumeattachments (a, b) | awaitingvolumedetachment-n1 2m",
        ),
        (
            say::awaiting_volume_detachment(&node, &six),
            "Normal Node/n1 AwaitingVolumeDetachment | Awaiting deletion of bound volumeattachments (a, b, c, d, e and 2 other(s)) | awaitingvolumedetachment-n1 2m",
        ),
        (
            say::termination_grace_period_expiring(&node, at),
            "Warning Node/n1 TerminationGracePeriodExpiring | All pods will be deleted by 2026-01-02T03:04:05Z | terminationgraceperiodexpiring-n1 2m",
        ),
        (
            say::termination_grace_period_expiring(&claim, at),
            "Warning NodeClaim/c1 TerminationGracePeriodExpiring | All pods will be deleted by 2026-01-02T03:04:05Z | terminationgraceperiodexpiring-c1 2m",
        ),
        (
            say::failed_consistency_check(&claim, &shortfall),
            "Warning NodeClaim/c1 FailedConsistencyCheck | expected 4Gi of resource memory, but found 3Gi (75.0% of expected) | failedconsistencycheck-claim-uid-expected 4Gi of resource memory, but found 3Gi (75.0% of expected) 2m",
        ),
        (
            say::insufficient_capacity(&claim, "insufficient capacity, none left"),
            "Warning NodeClaim/c1 InsufficientCapacityError | NodeClaim c1 event: insufficient capacity, none left | insufficientcapacityerror-claim-uid 2m",
        ),
        (
            say::pod_without_capacity(&pod, "c1", "none left"),
            "Warning Pod/web InsufficientCapacityError | NodeClaim c1 nominated for this pod failed to launch: none left | insufficientcapacityerror-pod-uid 2m PodsWithoutCapacity",
        ),
        (
            say::instance_types_unavailable(&pool, "down"),
            "Warning NodePool/blue InstanceTypesUnavailable | Instance types cannot be listed, so no node is launched and none gives way to a cheaper one: down | instancetypesunavailable-pool-uid 15m",
        ),
        (
            say::unregistered_taint_missing(&claim),
            "Warning NodeClaim/c1 UnregisteredTaintMissing | Missing karpenter.sh/unregistered taint which prevents registration related race conditions on Karpenter-managed nodes | unregisteredtaintmissing-claim-uid 2m",
        ),
        (
            say::invalid_do_not_disrupt(&pod, "not a duration"),
            "Warning Pod/web InvalidDoNotDisruptAnnotation | Invalid karpenter.sh/do-not-disrupt annotation: not a duration, ignoring annotation | invaliddonotdisruptannotation-pod-uid-Invalid karpenter.sh/do-not-disrupt annotation: not a duration, ignoring annotation 2m",
        ),
        (
            say::do_not_disrupt_elapsed(&pod),
            "Normal Pod/web DoNotDisruptGracePeriodElapsed | The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable | donotdisruptgraceperiodelapsed-pod-uid 2m",
        ),
        (
            say::reboot_failed(&claim, at, "no boot"),
            "Warning NodeClaim/c1 RebootFailed | no boot | rebootfailed-claim-uid-2026-01-02T03:04:05.678Z 30m",
        ),
        (
            say::reboot_observed(&claim, at),
            "Normal NodeClaim/c1 RebootObserved | New boot observed (bootID changed); awaiting node readiness | rebootobserved-claim-uid-2026-01-02T03:04:05.678Z 30m",
        ),
        (
            say::condition_change(&claim, &transition("")),
            "Normal NodeClaim/c1 Ready | Status condition transitioned, Type: Ready, Status: False -> True, Reason: Ready | - 2m",
        ),
        (
            say::condition_change(&claim, &transition("all well")),
            "Normal NodeClaim/c1 Ready | Status condition transitioned, Type: Ready, Status: False -> True, Reason: Ready, Message: all well | - 2m",
        ),
        (
            say::condition_change(&node, &ConditionChange::Finalized("karpenter.sh/termination".to_owned())),
            "Normal Node/n1 Finalized | Finalized karpenter.sh/termination | - 2m",
        ),
    ] {
        assert_eq!(line(&event), want);
    }
    let until = say::do_not_disrupt_until(&pod, at);
    assert_eq!(until.message, "The karpenter.sh/do-not-disrupt grace period will elapse at 2026-01-02T03:04:05Z");
    assert_eq!(until.dedupe, ["pod-uid", "2026-01-02T03:04:05.678Z"]);
}

/// V15-110, VC-131: 1024 bytes with the dots, never half a character.
#[test]
fn long_errors_are_cut() {
    let message = say::insufficient_capacity(&claim(), &"x".repeat(2000)).message;
    assert_eq!((message.len(), &message[1021..]), (1024, "..."));
    let message = say::pod_without_capacity(&pod(), "c1", &"ü".repeat(2000)).message;
    assert!(message.len() <= 1024 && message.ends_with("ü..."), "{}", message.len());
    assert_eq!(say::shortened(&"y".repeat(1024)).len(), 1024);
}

fn recorder() -> Recorder {
    Recorder::new(Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH)))
}

fn reasons(recorder: &Recorder) -> Vec<String> {
    recorder.take().into_iter().map(|(_, event)| format!("{} {}", event.reason, event.subject.name)).collect()
}

/// API-170: within its time a thing is said once; the time begins anew only when it is said.
#[tokio::test(start_paused = true)]
async fn the_same_thing_is_said_once_in_a_while() {
    let recorder = recorder();
    let evicted = say::evicted(&pod(), "Empty");
    for (wait, said) in [(0, 1), (60, 0), (59, 0), (1, 1), (119, 0), (1, 1)] {
        tokio::time::advance(Duration::from_secs(wait)).await;
        recorder.publish(evicted.clone());
        assert_eq!(recorder.take().len(), said, "after {wait} more seconds");
    }
    // Another reason, another object: another thing. Without anything to compare it is always new.
    recorder.publish(say::failed_scheduling(&pod(), "x"));
    let other = Subject { uid: "other".to_owned(), namespace: "elsewhere".to_owned(), ..pod() };
    recorder.publish(say::evicted(&other, "Empty"));
    let finalized = say::condition_change(&node(), &ConditionChange::Finalized("a/b".to_owned()));
    recorder.publish(finalized.clone());
    recorder.publish(finalized);
    assert_eq!(reasons(&recorder), ["FailedScheduling web", "Evicted web", "Finalized n1", "Finalized n1"]);
}

/// API-171, API-172, V15-22: nominations share one budget, pods without capacity another; what is dropped is also silent.
#[tokio::test(start_paused = true)]
async fn budgets_drop_what_is_too_much() {
    let recorder = recorder();
    let pods: Vec<Subject> = (0..30).map(|n| Subject { uid: n.to_string(), ..pod() }).collect();
    for pod in &pods {
        recorder.publish(say::nominated(pod, Some("c1"), None));
        recorder.publish(say::pod_without_capacity(pod, "c1", "none"));
    }
    let said = reasons(&recorder);
    for reason in ["Nominated", "InsufficientCapacityError"] {
        assert_eq!(said.iter().filter(|line| line.starts_with(reason)).count(), 10, "the burst");
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    recorder.publish(say::nominated(&pods[29], Some("c1"), None));
    assert_eq!(recorder.take(), [], "it was dropped, and is silent all the same");
    for n in 100..120 {
        recorder.publish(say::nominated(&Subject { uid: n.to_string(), ..pod() }, Some("c1"), None));
    }
    assert_eq!(recorder.take().len(), 5, "five per second");
    recorder.publish(say::evicted(&pod(), "x"));
    assert_eq!(recorder.take().len(), 1, "others have no budget");
}

/// What waits to be written is bounded, and so is what is remembered.
#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let recorder = recorder();
    for n in 0..LONGEST_QUEUE + 50 {
        recorder.publish(say::evicted(&Subject { uid: n.to_string(), ..pod() }, "x"));
    }
    assert_eq!(recorder.lock().dropped, 50);
    assert_eq!(recorder.take().len(), LONGEST_QUEUE);
    tokio::time::advance(Duration::from_mins(3)).await;
    for n in 0..LONGEST_QUEUE * 2 {
        recorder.publish(say::failed_scheduling(&Subject { uid: n.to_string(), ..pod() }, "x"));
    }
    let remembered = recorder.lock().silent.len();
    assert!(remembered <= LONGEST_QUEUE * 2 + LONGEST_QUEUE / 2, "{remembered}: the first ones are over");
}
