use std::collections::BTreeMap;

use karpenter_model::claim::{ConditionView, Status};
use karpenter_model::example;
use karpenter_model::instance_type::{Overhead, Overrides, Price};
use karpenter_model::pool::TemplateHash;
use karpenter_model::requirements::Operator;
use karpenter_model::resources::Resources;
use karpenter_model::shared::Labels;

use super::*;

const CREATED: Timestamp = Timestamp::UNIX_EPOCH;

fn hours(hours: i64) -> Timestamp {
    CREATED.checked_add(SignedDuration::from_hours(hours)).unwrap()
}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn claim(more: &[(&str, &str)]) -> ClaimView {
    let mut labels = map(&[
        (labels::INSTANCE_TYPE, "small"),
        (labels::ZONE, "z1"),
        (labels::CAPACITY_TYPE, "on-demand"),
        (labels::OS, "linux"),
        ("size", "5"),
    ]);
    labels.extend(map(more));
    ClaimView {
        created_at: CREATED,
        labels: labels.into(),
        annotations: map(&[(NODEPOOL_HASH, "7"), (NODEPOOL_HASH_VERSION, "v3")]).into(),
        launched: ConditionView { status: Status::True, since: CREATED },
        ..example::claim("a")
    }
}

fn pool(requirements: &[(&str, Operator, &[&str])]) -> PoolView {
    let mut all = Requirements::new();
    for (key, operator, values) in requirements {
        let values: Vec<String> = values.iter().map(ToString::to_string).collect();
        all.add(Requirement::new(&LabelRules::core(), key, *operator, &values, None).unwrap());
    }
    let hash = Some(TemplateHash { value: 7, version: "v3".to_owned() });
    PoolView { requirements: all, labels: BTreeMap::new(), hash, ..example::pool("p") }
}

fn offering(zone: &str, capacity_type: &str) -> Offering {
    let rules = LabelRules::core();
    let labels = map(&[(labels::ZONE, zone), (labels::CAPACITY_TYPE, capacity_type)]);
    let mut requirements = Requirements::from_labels(&rules, &labels);
    if capacity_type == labels::CAPACITY_TYPE_RESERVED {
        requirements.add(Requirement::any_of("cloud/reservation", ["r-1"]));
    }
    Offering {
        requirements,
        price: Price::ZERO,
        available: false,
        reservation_capacity: None,
        overrides: Overrides::default(),
    }
}

fn types(offerings: Vec<Offering>) -> Vec<InstanceType> {
    vec![InstanceType {
        name: "small".to_owned(),
        requirements: Requirements::new(),
        offerings,
        capacity: Resources::default(),
        overhead: Overhead::default(),
        attachment_limits: BTreeMap::new(),
        devices: karpenter_model::devices::TypeDevices::default(),
    }]
}

fn judged(claim: &ClaimView, pool: &PoolView) -> Drift {
    drift(claim, Some(pool), KnownTypes::FoundLately, &LabelRules::core(), hours(2))
}

/// DIS-149, DIS-150, DC-147: no pool, not launched.
#[test]
fn whose_condition_it_is() {
    let fine = claim(&[]);
    let unlaunched = ClaimView { launched: ConditionView { status: Status::Unknown, since: CREATED }, ..fine.clone() };
    assert_eq!(judged(&fine, &pool(&[])), Drift::AskProvider);
    assert_eq!(judged(&unlaunched, &pool(&[])), Drift::Clear);
    assert_eq!(drift(&fine, None, KnownTypes::FoundLately, &LabelRules::core(), hours(2)), Drift::Untouched);
}

/// DIS-151, DIS-152, DC-148, DC-151, API-233, API-234: the hash first; without two of one version nothing is known.
#[test]
fn hashes() {
    let of = |annotations: &[(&str, &str)]| ClaimView { annotations: map(annotations).into(), ..claim(&[]) };
    let narrowed = pool(&[(labels::OS, Operator::In, &["windows"])]);
    let other = of(&[(NODEPOOL_HASH, "8"), (NODEPOOL_HASH_VERSION, "v3")]);
    assert_eq!(judged(&other, &narrowed), Drift::Drifted(DriftReason::NodePoolDrifted), "before requirements");
    for (case, claim, hash) in [
        ("no hash", of(&[(NODEPOOL_HASH_VERSION, "v3")]), pool(&[]).hash),
        ("no version", of(&[(NODEPOOL_HASH, "8")]), pool(&[]).hash),
        ("other version", of(&[(NODEPOOL_HASH, "8"), (NODEPOOL_HASH_VERSION, "v2")]), pool(&[]).hash),
        ("a template that cannot be read", other, None),
    ] {
        assert_eq!(judged(&claim, &PoolView { hash, ..pool(&[]) }), Drift::AskProvider, "{case}");
    }
}

/// DIS-154, DC-149, DC-194, API-234.
#[test]
fn requirements() {
    use Operator::{DoesNotExist, Exists, Gt, Gte, In, Lt, NotIn};
    for (key, operator, values, drifted) in [
        (labels::CAPACITY_TYPE, In, &["spot"][..], true),
        (labels::ARCH, In, &["amd64"], true),
        (labels::OS, In, &["windows"], true),
        (labels::OS, In, &["linux", "windows"], false),
        (labels::OS, Exists, &[], false),
        (labels::OS, DoesNotExist, &[], true),
        ("size", Gt, &["10"], true),
        ("size", Gte, &["5"], false),
        ("size", Lt, &["5"], true),
        ("team", NotIn, &["a"], false),
        ("team", DoesNotExist, &[], false),
        ("team", Exists, &[], true),
    ] {
        let want = if drifted { Drift::Drifted(DriftReason::RequirementsDrifted) } else { Drift::AskProvider };
        assert_eq!(judged(&claim(&[]), &pool(&[(key, operator, values)])), want, "{key} {operator:?} {values:?}");
    }
    let labelled = PoolView { labels: map(&[("team", "a")]), ..pool(&[("team", In, &["a"])]) };
    assert_eq!(judged(&claim(&[]), &labelled), Drift::AskProvider, "template labels are the hash's business");
    assert_eq!(judged(&claim(&[("team", "b")]), &labelled), Drift::Drifted(DriftReason::RequirementsDrifted));
}

/// DIS-155, DC-152, DC-153, API-235.
#[test]
fn instance_types() {
    let rules = LabelRules::core().reservation("cloud/reservation");
    let reserved = claim(&[(labels::CAPACITY_TYPE, "reserved"), ("cloud/reservation", "r-0")]);
    let unlabelled = ClaimView { labels: Labels::new(), ..claim(&[]) };
    let gone = claim(&[(labels::INSTANCE_TYPE, "large")]);
    for (case, claim, offerings, age, drifted) in [
        ("DC-152, sold out is still offered", claim(&[]), vec![offering("z1", "on-demand")], 2, false),
        ("DC-152, no label", unlabelled, vec![offering("z1", "on-demand")], 2, true),
        ("DC-152, not listed", gone.clone(), vec![offering("z1", "on-demand")], 2, true),
        ("DC-152, nothing offered", claim(&[]), vec![], 2, true),
        ("DC-152, other zone", claim(&[]), vec![offering("z2", "on-demand")], 2, true),
        ("DC-152, other capacity type", claim(&[]), vec![offering("z1", "spot")], 2, true),
        ("DIS-155, exactly an hour old", gone, vec![], 1, false),
        ("DC-153, both", reserved.clone(), vec![offering("z1", "reserved"), offering("z1", "on-demand")], 2, false),
        ("DC-153, another reservation", reserved.clone(), vec![offering("z1", "reserved")], 2, false),
        ("DC-153, on-demand only", reserved.clone(), vec![offering("z1", "on-demand")], 2, false),
        ("DC-153, spot only", reserved.clone(), vec![offering("z1", "spot")], 2, true),
        ("DC-153, nothing", reserved, vec![], 2, true),
    ] {
        let listed = types(offerings);
        let found = drift(&claim, Some(&pool(&[])), KnownTypes::Listed(&listed), &rules, hours(age));
        let want = if drifted { Drift::Drifted(DriftReason::InstanceTypeNotFound) } else { Drift::AskProvider };
        assert_eq!(found, want, "{case}");
    }
    let gone = claim(&[(labels::INSTANCE_TYPE, "large")]);
    let lately = drift(&gone, Some(&pool(&[])), KnownTypes::FoundLately, &rules, hours(2));
    assert_eq!(lately, Drift::AskProvider, "a success is remembered");
}
