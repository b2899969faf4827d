use jiff::Timestamp;
use karpenter_model::claim::ClaimView;
use karpenter_model::example;
use serde_json::json;

use super::messages::{Kind, Message, parse};
use super::reactions::{Reaction, effects, notice, reaction, termination_mode};
use super::status::{Counted, InstanceStatusInfo, StatusFailure, category, status_queries, unhealthy};
use crate::launch::failures::Effect;

fn event(source: &str, detail_type: &str, detail: &serde_json::Value) -> String {
    json!({
        "version": "0", "id": "1", "detail-type": detail_type, "source": source, "account": "123456789012",
        "time": "2026-11-16T04:00:00Z", "region": "us-west-2", "resources": ["arn:…"], "detail": detail,
    })
    .to_string()
}

fn read(source: &str, detail_type: &str, detail: &serde_json::Value) -> (Kind, Vec<String>) {
    let Message { kind, instance_ids, .. } = parse(&event(source, detail_type, detail)).unwrap();
    (kind, instance_ids)
}

const STATE: &str = "EC2 Instance State-change Notification";

/// AWS-217, AC-255, AC-256, AC-259: every kind, and what is not for us.
#[test]
fn kinds_of_messages() {
    let one = json!({"instance-id": "i-1", "instance-action": "terminate"});
    for (detail_type, kind) in [
        ("EC2 Spot Instance Interruption Warning", Kind::SpotInterrupted),
        ("EC2 Instance Rebalance Recommendation", Kind::RebalanceRecommendation),
        ("EC2 Capacity Reservation Instance Interruption Warning", Kind::CapacityReservationInterrupted),
    ] {
        assert_eq!(read("aws.ec2", detail_type, &one), (kind, vec!["i-1".to_owned()]), "{detail_type}");
    }
    for (state, kind) in [
        ("stopping", Kind::InstanceStopped),
        ("stopped", Kind::InstanceStopped),
        ("shutting-down", Kind::InstanceTerminated),
        ("Terminated", Kind::InstanceTerminated),
        ("SHUTTING-DOWN", Kind::InstanceTerminated),
        ("Stopping", Kind::InstanceTerminated),
        ("running", Kind::NoOp),
        ("pending", Kind::NoOp),
        ("", Kind::NoOp),
    ] {
        assert_eq!(read("aws.ec2", STATE, &json!({"instance-id": "i-1", "state": state})).0, kind, "{state}");
    }
    let health = |service: &str, category: &str| {
        let entities = json!([{"entityValue": "i-1"}, {"entityValue": "i-2"}, {"other": 1}]);
        let detail = json!({"service": service, "eventTypeCategory": category, "affectedEntities": entities});
        read("aws.health", "AWS Health Event", &detail)
    };
    assert_eq!(health("EC2", "scheduledChange"), (Kind::ScheduledChange, vec!["i-1".to_owned(), "i-2".to_owned()]));
    assert_eq!(health("RDS", "scheduledChange"), (Kind::NoOp, vec![]));
    assert_eq!(health("EC2", "issue"), (Kind::NoOp, vec![]));
}

/// AWS-216, AWS-217, AC-259: unknown events are nothing, whatever their details look like; what is no event is an error.
#[test]
fn odd_messages() {
    for body in [
        String::new(),
        "  ".to_owned(),
        event("aws.s3", "Object Created", &json!({"instance-id": {"odd": true}})),
        event("aws.ec2", "EC2 Fleet Error", &json!("text")),
        event("aws.ec2", STATE, &json!({"instance-id": "i-1", "state": "stopped"}))
            .replace(r#""version":"0""#, r#""version":"1""#),
        "{}".to_owned(),
    ] {
        assert_eq!(parse(&body).map(|message| message.kind), Ok(Kind::NoOp), "{body}");
    }
    for body in ["no JSON", "[]", "3", &event("aws.ec2", STATE, &json!("text"))] {
        assert!(parse(body).is_err(), "{body}");
    }
    let message = parse(&event("aws.ec2", STATE, &json!({"instance-id": "i-1", "state": "stopped"}))).unwrap();
    assert_eq!(message.at, Some("2026-11-16T04:00:00Z".parse::<Timestamp>().unwrap()));
    let undated = event("aws.ec2", STATE, &json!({"state": "stopped"})).replace("2026-11-16T04:00:00Z", "soon");
    assert_eq!(parse(&undated), Ok(Message { kind: Kind::InstanceStopped, instance_ids: vec![], at: None }));
}

fn claim() -> ClaimView {
    let mut claim = example::claim("a");
    for (key, value) in [
        ("node.kubernetes.io/instance-type", "m5.large"),
        ("topology.kubernetes.io/zone", "zone-a"),
        ("karpenter.k8s.aws/capacity-reservation-id", "cr-1"),
    ] {
        claim.labels.insert(key.to_owned(), value.to_owned());
    }
    claim
}

/// AWS-218, AWS-220, AWS-294, AWS-297, AC-253, AC-254, AC-256, AC-257, AC-264, AC-266: what each kind leads to.
#[test]
fn reactions() {
    for (kind, name, does, says, warns) in [
        (Kind::SpotInterrupted, "spot_interrupted", Reaction::Delete, "SpotInterrupted", true),
        (
            Kind::CapacityReservationInterrupted,
            "capacity_reservation_interrupted",
            Reaction::Delete,
            "CapacityReservationInstanceInterrupted",
            true,
        ),
        (Kind::ScheduledChange, "scheduled_change", Reaction::Delete, "InstanceUnhealthy", true),
        (Kind::InstanceStopped, "instance_stopped", Reaction::Delete, "InstanceStopping", true),
        (Kind::InstanceTerminated, "instance_terminated", Reaction::Delete, "InstanceTerminating", true),
        (Kind::EventStatus, "event_status", Reaction::Delete, "InstanceUnhealthy", true),
        (Kind::InstanceStatus, "instance_status", Reaction::DeleteAtOnce, "InstanceUnhealthy", true),
        (Kind::SystemStatus, "system_status", Reaction::DeleteAtOnce, "InstanceUnhealthy", true),
        (
            Kind::RebalanceRecommendation,
            "rebalance_recommendation",
            Reaction::None,
            "SpotRebalanceRecommendation",
            false,
        ),
    ] {
        let notice = notice(kind).unwrap();
        assert_eq!((kind.as_str(), reaction(kind), notice.reason, notice.warning), (name, does, says, warns));
    }
    assert_eq!((reaction(Kind::NoOp), notice(Kind::NoOp)), (Reaction::None, None));
    let Some(Effect::Offering(key)) = effects(Kind::SpotInterrupted, &claim()) else { panic!() };
    assert_eq!(key.to_string(), "spot m5.large in zone-a");
    assert_eq!(effects(Kind::CapacityReservationInterrupted, &claim()), Some(Effect::Reservation("cr-1".to_owned())));
    assert_eq!(effects(Kind::InstanceStopped, &claim()), None);
    assert_eq!(effects(Kind::SpotInterrupted, &example::claim("bare")), None);
    for (kind, seconds, want) in [
        (Kind::SystemStatus, None, "forceful"),
        (Kind::SpotInterrupted, None, "graceful"),
        (Kind::SpotInterrupted, Some(0), "forceful"),
        (Kind::SpotInterrupted, Some(60), "eventual"),
        (Kind::InstanceStatus, Some(60), "forceful"),
    ] {
        let period = seconds.map(karpenter_model::duration::GoDuration::from_secs);
        let bounded = ClaimView { termination_grace_period: period, ..claim() };
        assert_eq!(termination_mode(kind, &bounded), want);
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn failing(instance: Option<i64>, system: Option<i64>, events: &[&str]) -> InstanceStatusInfo {
    let failure =
        |since: Option<i64>| since.map(|since| StatusFailure { since: Some(at(since)) }).into_iter().collect();
    InstanceStatusInfo {
        instance_id: "i-1".to_owned(),
        instance_failures: failure(instance),
        system_failures: failure(system),
        events: events.iter().map(|event| (*event).to_owned()).collect(),
    }
}

/// AWS-221, AWS-222, AWS-294, AC-264, AC-265, AC-266, AC-267, AC-270.
#[test]
fn instances_that_are_not_well() {
    let kinds = |info: &InstanceStatusInfo, now: i64| unhealthy(info, at(now)).into_iter().collect::<Vec<_>>();
    assert_eq!(kinds(&failing(Some(0), None, &[]), 60), []);
    assert_eq!(kinds(&failing(Some(0), None, &[]), 120), [Kind::InstanceStatus]);
    assert_eq!(kinds(&failing(None, Some(0), &[]), 180), [Kind::SystemStatus]);
    assert_eq!(kinds(&failing(None, None, &["reboot soon"]), 0), [Kind::EventStatus]);
    assert_eq!(kinds(&failing(None, Some(0), &["x"]), 500), [Kind::SystemStatus, Kind::EventStatus]);
    assert_eq!(kinds(&failing(None, None, &["[Completed] x", "[Canceled] y"]), 0), []);
    assert_eq!(kinds(&failing(None, None, &[]), 500), [], "only a disk, which is not asked about");
    let filters: Vec<String> =
        status_queries().iter().map(|one| format!("{}={}", one[0].name, one[0].values.join(","))).collect();
    assert_eq!(filters[..2], ["instance-status.status=impaired", "system-status.status=impaired"]);
    assert_eq!(filters[2].split(',').count(), 5);
    assert_eq!((category(Kind::SystemStatus), category(Kind::NoOp)), (Some("SystemStatus"), None));
}

/// AWS-223, AC-264, AC-268: once for each failure, again after a recovery.
#[test]
fn counted_once() {
    let mut counted = Counted::default();
    let sick = || [("i-1".to_owned(), Kind::SystemStatus)];
    assert_eq!(counted.poll(sick()).len(), 1);
    assert_eq!(counted.poll(sick()).len(), 0);
    assert_eq!(counted.poll([("i-1".to_owned(), Kind::SystemStatus), ("i-1".to_owned(), Kind::EventStatus)]).len(), 1);
    assert_eq!(counted.poll([]).len(), 0);
    assert_eq!(counted.poll(sick()).len(), 1);
}
