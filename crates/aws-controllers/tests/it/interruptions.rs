//! From the queue, and from EC2's own checks, to the claims.

use jiff::{SignedDuration, Timestamp};
use karpenter_api::kinds::NodeClaim;
use karpenter_apiserver::{Fault, Rule, Verb};
use karpenter_aws::cloud::{ApiError, QueueMessage};
use karpenter_aws::interruption::status::{InstanceStatusInfo, StatusFailure};
use karpenter_platform::Clock as _;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use crate::desk::Desk;

const DEADLINE: &str = "karpenter.sh/nodeclaim-termination-timestamp";

fn event(source: &str, detail_type: &str, detail: &Value) -> String {
    json!({ "version": "0", "id": "1", "source": source, "detail-type": detail_type, "time": "2026-01-01T00:00:00Z",
        "detail": detail })
    .to_string()
}

fn spot(instance: &str) -> String {
    event("aws.ec2", "EC2 Spot Instance Interruption Warning", &json!({ "instance-id": instance }))
}

fn state(instance: &str, state: &str) -> String {
    let detail = json!({ "instance-id": instance, "state": state });
    event("aws.ec2", "EC2 Instance State-change Notification", &detail)
}

fn send(desk: &Desk, body: String) {
    let mut account = desk.account.state();
    let receipt = format!("r{}", account.deleted.len() + account.messages.len() + account.hidden.len());
    account.messages.push_back(QueueMessage { body, receipt });
}

/// Until the queue has been asked again.
async fn settle(desk: &Desk) {
    desk.wait(25).await;
}

fn left(desk: &Desk) -> usize {
    let account = desk.account.state();
    account.messages.len() + account.hidden.len()
}

fn disrupted(desk: &Desk, reason: &str, capacity_type: &str, mode: &str) -> f64 {
    let metric = &desk.aws.ctx.report.metrics.all.nodeclaims_disrupted;
    metric.value([reason, "pool", capacity_type, "", mode]).unwrap_or_default()
}

/// AWS-215, AWS-216, AWS-219, AWS-220, AWS-294, AWS-297, AC-253: claim and message go, the offering is out for a while, and
/// everybody is told once.
#[tokio::test(start_paused = true)]
async fn a_spot_interruption() {
    let desk = Desk::start().await;
    desk.add_running("a", &[]).await;
    desk.events();
    send(&desk, spot("i-a"));
    settle(&desk).await;
    assert!(desk.is_going("a").await);
    assert_eq!(left(&desk), 0);
    assert_eq!(desk.provider.told.lock().unwrap().refused, ["spot m5.large in test-zone-1a"]);
    assert_eq!(
        desk.events(),
        [
            "Warning NodeClaim/a: SpotInterrupted: Spot interruption warning was triggered",
            "Warning Node/a: SpotInterrupted: Spot interruption warning was triggered",
            "Warning NodeClaim/a: TerminatingOnInterruption: Interruption triggered termination for the NodeClaim",
            "Warning Node/a: TerminatingOnInterruption: Interruption triggered termination for the Node",
        ]
    );
    assert!((disrupted(&desk, "spot_interrupted", "spot", "graceful") - 1.0).abs() < 1e-9);
    let metrics = &desk.aws.ctx.report.metrics.all;
    assert_eq!(metrics.interruption_received.value(["spot_interrupted"]), Some(1.0));
    assert_eq!(metrics.interruption_deleted.value([]), Some(1.0));
    assert_eq!(metrics.interruption_queue_duration.value([]), Some(1.0));
    assert!(!desk.claim("a").await.annotations().contains_key(DEADLINE), "drained as it deserves");
}

/// AWS-217, AWS-218, AC-254, AC-255, AC-256, AC-257, AC-259, AC-260: what each kind of message leads to.
#[tokio::test(start_paused = true)]
async fn kinds_of_messages() {
    let health = |service: &str, category: &str| {
        let entities = json!([{ "entityValue": "i-a" }, { "entityValue": "i-b" }]);
        let detail = json!({ "service": service, "eventTypeCategory": category, "affectedEntities": entities });
        event("aws.health", "AWS Health Event", &detail)
    };
    let reservation = "EC2 Capacity Reservation Instance Interruption Warning";
    let rebalance = "EC2 Instance Rebalance Recommendation";
    for (name, body, going, reason) in [
        (
            "reservation",
            event("aws.ec2", reservation, &json!({ "instance-id": "i-a" })),
            [true, false],
            "CapacityReservationInstanceInterrupted",
        ),
        ("health", health("EC2", "scheduledChange"), [true, true], "InstanceUnhealthy"),
        ("other service", health("RDS", "scheduledChange"), [false, false], ""),
        ("other category", health("EC2", "issue"), [false, false], ""),
        ("stopping", state("i-a", "stopping"), [true, false], "InstanceStopping"),
        ("stopped", state("i-b", "stopped"), [false, true], "InstanceStopping"),
        ("shutting down", state("i-a", "SHUTTING-DOWN"), [true, false], "InstanceTerminating"),
        ("terminated", state("i-a", "terminated"), [true, false], "InstanceTerminating"),
        ("running", state("i-a", "running"), [false, false], ""),
        (
            "rebalance",
            event("aws.ec2", rebalance, &json!({ "instance-id": "i-a" })),
            [false, false],
            "SpotRebalanceRecommendation",
        ),
        ("unknown", event("aws.ec2", "Something New", &json!({ "instance-id": "i-a" })), [false, false], ""),
        ("version 1", spot("i-a").replace("\"version\":\"0\"", "\"version\":\"1\""), [false, false], ""),
        ("nobody's", spot("i-nobody"), [false, false], ""),
        ("empty", String::new(), [false, false], ""),
        ("no event", "{ not json".to_owned(), [false, false], ""),
    ] {
        let desk = Desk::start().await;
        desk.add_running("a", &[("karpenter.k8s.aws/capacity-reservation-id", "cr-1")]).await;
        desk.add_running("b", &[]).await;
        desk.events();
        send(&desk, body);
        settle(&desk).await;
        assert_eq!([desk.is_going("a").await, desk.is_going("b").await], going, "{name}");
        assert_eq!(left(&desk), 0, "{name}: the message is gone");
        let events = desk.events();
        assert_eq!(
            events.first().is_some_and(|event| event.contains(&format!(": {reason}: "))),
            !reason.is_empty(),
            "{name}: {events:?}"
        );
        let normal = name == "rebalance";
        assert!(events.iter().all(|event| event.starts_with("Normal") == normal), "{name}: {events:?}");
        let refused = desk.provider.told.lock().unwrap().refused.clone();
        assert_eq!(
            refused,
            if name == "reservation" { vec!["Reservation(\"cr-1\")".to_owned()] } else { vec![] },
            "{name}"
        );
    }
}

/// AC-258, AC-261: many at once; for those that are going or gone there is nothing left to do.
#[tokio::test(start_paused = true)]
async fn many_messages() {
    let desk = Desk::start().await;
    let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
    for name in &names {
        desk.add_running(name, &[]).await;
    }
    desk.delete::<NodeClaim>("n0").await;
    desk.delete::<NodeClaim>("n1").await;
    desk.change::<NodeClaim>("n1", json!({ "metadata": { "finalizers": null } })).await;
    for name in &names {
        send(&desk, spot(&format!("i-{name}")));
        send(&desk, spot(&format!("i-{name}")));
    }
    settle(&desk).await;
    assert_eq!(left(&desk), 0);
    for name in names.iter().filter(|name| *name != "n1") {
        assert!(desk.is_going(name).await, "{name}");
    }
    assert!((disrupted(&desk, "spot_interrupted", "spot", "graceful") - 98.0).abs() < 1e-9, "each once");
}

/// AWS-310, AC-304: a reboot keeps nobody from being interrupted.
#[tokio::test(start_paused = true)]
async fn while_rebooting() {
    let desk = Desk::start().await;
    desk.add_running("a", &[]).await;
    let condition = |type_: &str| {
        json!({ "type": type_, "status": "True", "reason": type_, "message": "",
            "lastTransitionTime": desk.clock.now(), "observedGeneration": 1 })
    };
    let conditions = ["Launched", "Registered", "Rebooting"].map(condition);
    desk.set_status::<NodeClaim>("a", json!({ "conditions": conditions })).await;
    send(&desk, spot("i-a"));
    settle(&desk).await;
    assert!(desk.is_going("a").await);
    assert!((disrupted(&desk, "spot_interrupted", "spot", "graceful") - 1.0).abs() < 1e-9);
    assert!(desk.account.take("RebootInstances").is_empty());
}

/// AC-262: a claim that cannot be deleted keeps its message; the others are not held up.
#[tokio::test(start_paused = true)]
async fn the_api_refuses() {
    let desk = Desk::start().await;
    desk.add_running("a", &[]).await;
    desk.api.add_fault(Rule::new(Fault::RequestLost).kind("NodeClaim").verb(Verb::Delete).times(2));
    send(&desk, spot("i-a"));
    send(&desk, "{ not json".to_owned());
    settle(&desk).await;
    assert_eq!(left(&desk), 1, "only the one that asks for something");
    assert!(!desk.is_going("a").await);
    desk.wait(120).await;
    assert_eq!(left(&desk), 0, "it came again");
    assert!(desk.is_going("a").await);
}

/// A controller that dies between the deletion of the claim and that of the message: the next one finds nothing left to do.
#[tokio::test(start_paused = true)]
async fn death_between_effect_and_delete() {
    let mut desk = Desk::start().await;
    desk.add_running("a", &[]).await;
    desk.account.break_call("DeleteMessage", ApiError::new("InternalError", ""));
    send(&desk, spot("i-a"));
    settle(&desk).await;
    assert!(desk.is_going("a").await);
    assert_eq!(left(&desk), 1);
    desk.kill();
    desk.account.mend("DeleteMessage");
    desk.restart().await;
    desk.wait(60).await;
    assert_eq!(left(&desk), 0);
    assert!(disrupted(&desk, "spot_interrupted", "spot", "graceful").abs() < 1e-9, "not counted by the second");
}

/// AWS-214, AC-263: a queue that is not there, or may not be read, is asked again, with pauses.
#[tokio::test(start_paused = true)]
async fn a_queue_that_is_not_there() {
    let desk = Desk::start().await;
    desk.add_running("a", &[]).await;
    for error in ["QueueDoesNotExist", "AccessDenied"] {
        desk.account.break_call("ReceiveMessage", ApiError::new(error, "no"));
        settle(&desk).await;
        desk.account.take("ReceiveMessage");
        desk.wait(600).await;
        let asked = desk.account.take("ReceiveMessage").len();
        assert!((9..=14).contains(&asked), "{error}: once a minute: {asked}");
    }
    let errors = desk.aws.ctx.report.metrics.all.reconcile_errors.value(["interruption"]).unwrap();
    assert!(errors > 15.0, "{errors}");
    desk.account.mend("ReceiveMessage");
    send(&desk, spot("i-a"));
    desk.wait(90).await;
    assert!(desk.is_going("a").await);
}

fn impaired(desk: &Desk, seconds: i64) -> Vec<StatusFailure> {
    vec![StatusFailure { since: Some(desk.clock.now() - SignedDuration::from_secs(seconds)) }]
}

fn unhealthy(desk: &Desk, category: &str) -> f64 {
    desk.aws.ctx.report.metrics.all.interruption_unhealthy.value([category]).unwrap_or_default()
}

/// AWS-221, AWS-222, AWS-223, AC-264, AC-268: the time is up at once, counted once until it recovers.
#[tokio::test(start_paused = true)]
async fn system_failures() {
    let desk = Desk::start().await;
    desk.add_running("a", &[]).await;
    let sick = |id: &str, seconds: i64| InstanceStatusInfo {
        instance_id: id.to_owned(),
        system_failures: impaired(&desk, seconds),
        ..InstanceStatusInfo::default()
    };
    desk.account.state().statuses = vec![sick("i-a", 180), sick("i-foreign", 180)];
    desk.wait(61).await;
    let claim = desk.claim("a").await;
    assert!(claim.metadata.deletion_timestamp.is_some());
    let deadline: Timestamp = claim.annotations()[DEADLINE].parse().unwrap();
    assert!(deadline <= desk.clock.now());
    assert!((disrupted(&desk, "system_status", "spot", "forceful") - 1.0).abs() < 1e-9);
    assert!((unhealthy(&desk, "SystemStatus") - 1.0).abs() < 1e-9, "only ours");
    desk.wait(180).await;
    assert!((unhealthy(&desk, "SystemStatus") - 1.0).abs() < 1e-9, "still the same failure");
    assert_eq!(desk.claim("a").await.annotations()[DEADLINE], claim.annotations()[DEADLINE]);
    desk.account.state().statuses.clear();
    desk.wait(60).await;
    desk.account.state().statuses = vec![sick("i-a", 180)];
    desk.wait(60).await;
    assert!((unhealthy(&desk, "SystemStatus") - 2.0).abs() < 1e-9, "another one");
}

/// AC-265, AC-266, AC-267, AC-270: what counts, from when, and how hard.
#[tokio::test(start_paused = true)]
async fn what_counts() {
    let desk = Desk::start().await;
    for name in ["young", "old", "event", "both", "disk", "done"] {
        desk.add_running(name, &[]).await;
    }
    let info = |name: &str| InstanceStatusInfo { instance_id: format!("i-{name}"), ..InstanceStatusInfo::default() };
    let maintenance = || vec!["The instance is scheduled for maintenance".to_owned()];
    let wait = 61;
    desk.account.state().statuses = vec![
        InstanceStatusInfo { instance_failures: impaired(&desk, 10), ..info("young") },
        InstanceStatusInfo { instance_failures: impaired(&desk, 121), ..info("old") },
        InstanceStatusInfo { events: maintenance(), ..info("event") },
        InstanceStatusInfo { events: maintenance(), system_failures: impaired(&desk, 200), ..info("both") },
        info("disk"),
        InstanceStatusInfo { events: vec!["[Completed] Maintenance".to_owned()], ..info("done") },
    ];
    desk.wait(wait).await;
    let mut found = Vec::new();
    for name in ["young", "old", "event", "both", "disk", "done"] {
        let claim = desk.claim(name).await;
        let going = claim.metadata.deletion_timestamp.is_some();
        found.push((name, going, claim.annotations().contains_key(DEADLINE)));
    }
    assert_eq!(
        found,
        [
            ("young", false, false),
            ("old", true, true),
            ("event", true, false),
            ("both", true, true),
            ("disk", false, false),
            ("done", false, false)
        ]
    );
    desk.wait(120).await;
    assert!(desk.is_going("young").await, "impaired for two minutes by now");
}

/// AWS-224, AC-269: without the permission it is not asked again; the rest goes on.
#[tokio::test(start_paused = true)]
async fn status_may_not_be_asked() {
    let desk = Desk::start().await;
    desk.account.break_call("DescribeInstanceStatus", ApiError::new("RequestLimitExceeded", "slow down"));
    desk.wait(120).await;
    assert!(desk.account.take("DescribeInstanceStatus").len() > 2, "asked again");
    desk.account.break_call("DescribeInstanceStatus", ApiError::new("UnauthorizedOperation", "no"));
    desk.wait(120).await;
    desk.account.take("DescribeInstanceStatus");
    desk.wait(600).await;
    assert!(desk.account.take("DescribeInstanceStatus").is_empty());
    desk.add_running("a", &[]).await;
    send(&desk, spot("i-a"));
    settle(&desk).await;
    assert!(desk.is_going("a").await);
}
