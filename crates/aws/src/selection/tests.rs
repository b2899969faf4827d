mod image_selection;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::*;
use crate::cloud::{ApiError, PlacementGroupInfo, ReservationInfo, SecurityGroupInfo, SubnetInfo};
use crate::fixtures::{class, sold};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn terms<T: serde::de::DeserializeOwned>(terms: Value) -> T {
    serde_json::from_value(terms).unwrap()
}

fn text(filters: &[Filter]) -> String {
    let all: Vec<String> = filters.iter().map(|one| format!("{}={}", one.name, one.values.join(","))).collect();
    all.join(" ")
}

fn subnet(id: &str, zone: &str, free_addresses: i64) -> SubnetInfo {
    SubnetInfo { id: id.to_owned(), zone: zone.to_owned(), zone_id: None, free_addresses }
}

/// AWS-8, AWS-13, AWS-60, AWS-61, AC-11, AC-59: terms are OR-ed, tags of a term AND-ed, an id beats tags.
#[test]
fn subnet_queries() {
    let queries = subnets::subnet_queries(&terms::<Vec<_>>(json!([
        {"id": "subnet-a"},
        {"tags": {"Name": "B"}},
        {"tags": {"Name": "X", "env": "*"}},
        {"id": "subnet-c", "tags": {"ignored": "x"}},
    ])));
    let queries: Vec<String> = queries.iter().map(|filters| text(filters)).collect();
    assert_eq!(queries, ["tag:Name=B", "tag:Name=X tag-key=env", "subnet-id=subnet-a,subnet-c"]);
}

/// AC-55, AC-59: each once, most free addresses first, equal ones by id.
#[test]
fn subnet_order() {
    let found = [
        subnet("s3", "a", 20),
        subnet("s1", "b", 100),
        subnet("s4", "c", 50),
        subnet("s2", "b", 50),
        subnet("s1", "b", 100),
    ];
    let selected = subnets::selected_subnets(found);
    let ids: Vec<String> = subnets::subnet_status(&selected).into_iter().map(|one| one.id).collect();
    assert_eq!(ids, ["s1", "s2", "s4", "s3"]);
}

/// AWS-67, AC-12, AC-63: by tags, ids and names; status by id.
#[test]
fn security_groups() {
    let queries = security_groups::security_group_queries(&terms::<Vec<_>>(json!([
        {"name": "n1"},
        {"tags": {"a": "b"}},
        {"id": "sg-1", "name": "ignored"},
        {"name": "n2", "tags": {"ignored": "x"}},
        {"id": "sg-2"},
    ])));
    let queries: Vec<String> = queries.iter().map(|filters| text(filters)).collect();
    assert_eq!(queries, ["tag:a=b", "group-id=sg-1,sg-2", "group-name=n1,n2"]);
    let group = |id: &str| SecurityGroupInfo { id: id.to_owned(), name: Some(format!("name-{id}")) };
    let status = security_groups::security_group_status([group("sg-2"), group("sg-1"), group("sg-2")]);
    let ids: Vec<&str> = status.iter().map(|one| one.id.as_str()).collect();
    assert_eq!((ids, status[0].name.as_deref()), (vec!["sg-1", "sg-2"], Some("name-sg-1")));
}

/// Free addresses of two subnets in one zone and one in another.
fn addresses(first: i64, second: i64) -> (subnets::FreeAddresses, Vec<karpenter_api::kinds::ec2nodeclass::Subnet>) {
    let infos = subnets::selected_subnets([
        subnet("s1", "test-zone-1a", first),
        subnet("s2", "test-zone-1a", second),
        subnet("s3", "test-zone-1b", 7),
    ]);
    let mut free = subnets::FreeAddresses::default();
    free.refreshed(&infos, SignedDuration::from_mins(1), at(0));
    (free, subnets::subnet_status(&infos))
}

fn in_a(taken: &BTreeMap<String, subnets::ZonalSubnet>) -> &str {
    &taken["test-zone-1a"].id
}

/// AWS-63, AWS-64, AC-56, AC-57, AWS-301: the roomiest of a zone, and what launches under way will take counts.
#[test]
fn zonal_subnets() {
    let types = sold(&["m5.large"], &class(&json!({"kubelet": {"maxPods": 1}})), &[]);
    let (mut free, status) = addresses(10, 100);
    assert_eq!(in_a(&free.take(&status, &types, "on-demand", at(1))), "s2");
    let (mut free, status) = addresses(10, 11);
    let uses: Vec<String> = (0..3).map(|_| in_a(&free.take(&status, &types, "on-demand", at(1))).to_owned()).collect();
    assert_eq!(uses, ["s2", "s2", "s1"], "11, then 10 against 10 in the order of the status, then 9 against 10");
    assert!(free.take(&status, &types, "on-demand", at(1)).contains_key("test-zone-1b"));
    let (mut free, status) = addresses(10, 11);
    for _ in 0..5 {
        assert_eq!(in_a(&free.take(&status, &types, "reserved", at(1))), "s2", "nothing is sold so, nothing is taken");
    }
}

/// AWS-62, AWS-65, AC-58: what was not used comes back, unless EC2 has counted since.
#[test]
fn predictions_that_were_wrong() {
    let types = sold(&["m5.large"], &class(&json!({"kubelet": {"maxPods": 5}})), &[]);
    let next = |free: &mut subnets::FreeAddresses, status: &[_]| {
        in_a(&free.clone().take(status, &types, "spot", at(9))).to_owned()
    };
    let (mut free, status) = addresses(10, 11);
    let taken = free.take(&status, &types, "spot", at(1));
    assert_eq!(next(&mut free, &status), "s1", "s2 has six left");
    free.settle(&taken, &BTreeSet::new(), at(2));
    assert_eq!(next(&mut free, &status), "s2", "the launch failed");
    let taken = free.take(&status, &types, "spot", at(3));
    free.settle(&taken, &BTreeSet::from(["s2".to_owned()]), at(4));
    assert_eq!(next(&mut free, &status), "s1", "the launch used it");
    let taken = free.take(&status, &types, "spot", at(5));
    free.refreshed(&[subnet("s1", "test-zone-1a", 3), subnet("s2", "test-zone-1a", 2)], SignedDuration::ZERO, at(6));
    free.settle(&taken, &BTreeSet::new(), at(7));
    assert_eq!(next(&mut free, &status), "s1", "counted again: nothing to give back");
}

/// AWS-61, AWS-66, AC-224: an exhausted subnet is not used while another has addresses; counts grow old.
#[test]
fn exhausted_subnets() {
    let types = sold(&["m5.large"], &class(&json!({})), &[]);
    let (mut free, status) = addresses(50, 200);
    free.exhausted("s2", at(1));
    assert_eq!(in_a(&free.take(&status, &types, "spot", at(2))), "s1");
    let (mut free, status) = addresses(50, 200);
    assert_eq!(in_a(&free.take(&status, &[], "spot", at(299))), "s2");
    let (mut old, _) = addresses(50, 200);
    assert_eq!(
        in_a(&old.take(&status[..2], &types, "spot", at(301))),
        "s2",
        "nothing is known: the order of the status"
    );
}

fn reservation(id: &str, kind: &str, minutes: Option<i64>) -> ReservationInfo {
    ReservationInfo {
        id: id.to_owned(),
        zone: "a".to_owned(),
        instance_type: "m5.large".to_owned(),
        owner_id: "123456789012".to_owned(),
        match_criteria: "open".to_owned(),
        kind: kind.to_owned(),
        interruptible: None,
        ends: minutes.map(|minutes| at(minutes * 60)),
        available: 1,
    }
}

/// AWS-8, AWS-76, AC-79, AC-287: a term with an id and more asks twice.
#[test]
fn reservation_queries() {
    let queries = reservations::reservation_queries(&terms::<Vec<_>>(json!([
        {"id": "cr-1", "tags": {"a": "b"}},
        {"id": "cr-2"},
        {"tags": {"c": "*"}, "ownerID": "123456789012"},
        {"instanceMatchCriteria": "open"},
    ])));
    let queries: Vec<String> =
        queries.iter().map(|one| format!("{} {}", one.id.as_deref().unwrap_or("-"), text(&one.filters))).collect();
    assert_eq!(
        queries,
        [
            "cr-1 state=active",
            "- state=active tag:a=b",
            "cr-2 state=active",
            "- state=active owner-id=123456789012 tag-key=c",
            "- state=active instance-match-criteria=open",
        ]
    );
}

/// AWS-79, AWS-80, AWS-81, AC-79, AC-80, AC-81.
#[test]
fn reservation_status() {
    let odd = ReservationInfo { match_criteria: "whatever".to_owned(), ..reservation("cr-9", "default", None) };
    let found = [
        reservation("cr-5", "capacity-block", Some(39)),
        reservation("cr-4", "capacity-block", Some(41)),
        reservation("cr-3", "default", Some(10)),
        reservation("cr-2", "default", Some(0)),
        reservation("cr-1", "default", None),
        reservation("cr-1", "default", None),
        reservation("cr-8", "lunar", None),
        odd,
    ];
    let selected = reservations::selected_reservations(found, at(0));
    let states: Vec<(&str, &str)> = selected.status.iter().map(|one| (one.id.as_str(), one.state.as_str())).collect();
    assert_eq!(states, [("cr-1", "active"), ("cr-3", "active"), ("cr-4", "active"), ("cr-5", "expiring")]);
    assert!(selected.status.iter().all(|one| one.interruptible == Some(false)));
    let skipped: Vec<&str> = selected.skipped.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(skipped, ["cr-8", "cr-9"]);
    assert_eq!(selected.again_after, SignedDuration::from_mins(1));
    let soon = ReservationInfo { ends: Some(at(20)), ..reservation("cr-1", "default", None) };
    assert_eq!(reservations::selected_reservations([soon], at(0)).again_after, SignedDuration::from_secs(20));
}

/// AWS-84, AWS-85, AWS-290, AC-85.
#[test]
fn placement_group_lookup() {
    use placement_groups::{GroupLookup, placement_group, placement_group_query};
    let by = |selector: Value| text(&placement_group_query(&terms(selector)));
    assert_eq!(by(json!({"name": "g"})), "state=available group-name=g");
    assert_eq!(by(json!({"id": "pg-1"})), "state=available group-id=pg-1");
    let info =
        PlacementGroupInfo { id: "pg-1".into(), name: "g".into(), strategy: "partition".into(), partitions: Some(7) };
    let GroupLookup::Found(found) = placement_group(Ok(vec![info])) else { panic!() };
    assert_eq!((found.id.as_str(), found.partition_names().len()), ("pg-1", 7));
    assert_eq!(placement_group(Ok(Vec::new())), GroupLookup::NotFound);
    let unknown = ApiError::new("InvalidPlacementGroup.Unknown", "no such group");
    assert_eq!(placement_group(Err(unknown)), GroupLookup::NotFound);
    let slow = ApiError::new("RequestLimitExceeded", "");
    assert_eq!(placement_group(Err(slow.clone())), GroupLookup::Failed(slow));
}
