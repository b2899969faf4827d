use karpenter_api::names::LabelPolicy;
use karpenter_model::example;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{class_with, sold};

fn annotated(annotations: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    let key = |short: &str| match short {
        "hash" => aws::HASH_ANNOTATION.to_owned(),
        _ => aws::HASH_VERSION_ANNOTATION.to_owned(),
    };
    annotations.iter().map(|(short, value)| (key(short), (*value).to_owned())).collect()
}

fn images(ids: &[&str]) -> Value {
    let image = |id: &&str| json!({"id": id, "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]});
    Value::Array(ids.iter().map(image).collect())
}

fn of_claim(
    class: &NodeClass,
    claim: &ClaimView,
    image: Option<&str>,
    known: bool,
) -> Result<Option<&'static str>, DriftError> {
    let types = sold(&["m5.large"], class, &[]);
    let known = types.first().filter(|_| known);
    let rules = LabelPolicy::aws();
    drift_of_claim(class, claim, image, known, rules.rules()).map(|found| found.map(Drift::reason))
}

/// AWS-32, AC-30: hashes of one version, all four annotations there.
#[test]
fn static_drift() {
    let full: &[(&str, &str)] = &[("hash", "1"), ("version", "v5")];
    for (of_class, of_claim_, drifted) in [
        (full, &[("hash", "2"), ("version", "v5")][..], true),
        (full, full, false),
        (full, &[("hash", "2"), ("version", "v4")], false),
        (full, &[("hash", "2")], false),
        (full, &[("version", "v5")], false),
        (&[("hash", "1")], &[("hash", "2"), ("version", "v5")], false),
    ] {
        let mut class = class_with(&json!({}), &json!({"amis": images(&["ami-1"])}));
        class.annotations = annotated(of_class);
        let claim = ClaimView { annotations: annotated(of_claim_).into(), ..example::claim("a") };
        let found = of_claim(&class, &claim, Some("ami-1"), true).unwrap();
        assert_eq!(found, drifted.then_some("NodeClassDrift"), "{of_class:?} {of_claim_:?}");
    }
}

/// AWS-32, AC-31, AC-35, AC-36: the image that the type would get today; what cannot be judged is an error.
#[test]
fn image_drift() {
    let claim = example::claim("a");
    let class = |ids: &[&str]| class_with(&json!({}), &json!({"amis": images(ids)}));
    assert_eq!(of_claim(&class(&["ami-1"]), &claim, Some("ami-1"), true), Ok(None));
    assert_eq!(of_claim(&class(&["ami-2", "ami-1"]), &claim, Some("ami-1"), true), Ok(Some("AMIDrift")));
    assert_eq!(of_claim(&class(&["ami-1"]), &claim, Some("ami-1"), false), Err(DriftError::UnknownType));
    assert_eq!(of_claim(&class(&[]), &claim, Some("ami-1"), true), Err(DriftError::NoImages));
    for none in [None, Some("")] {
        assert_eq!(of_claim(&class(&["ami-1"]), &claim, none, true), Err(DriftError::NoImageId));
    }
    let mut changed = class(&["ami-2"]);
    changed.annotations = annotated(&[("hash", "1"), ("version", "v5")]);
    let claim = ClaimView { annotations: annotated(&[("hash", "2"), ("version", "v5")]).into(), ..claim };
    assert_eq!(of_claim(&changed, &claim, Some("ami-1"), true), Ok(Some("NodeClassDrift")), "the class comes first");
}

fn facts(subnet: &str, groups: &[&str], reservation: Option<&str>) -> InstanceFacts {
    InstanceFacts {
        subnet_id: subnet.to_owned(),
        security_groups: groups.iter().map(|id| (*id).to_owned()).collect(),
        reservation_id: reservation.map(ToOwned::to_owned),
    }
}

const BOTH: &[&str] = &["sg-test1", "sg-test2"];

fn drifted(drift: Drift) -> DriftOfInstance {
    DriftOfInstance::Drifted(drift)
}

/// AWS-32, AC-32, AC-33, AC-286: groups as sets, subnets, and errors before hits.
#[test]
fn groups_and_subnets() {
    let plain = class_with(&json!({}), &json!({}));
    let claim = example::claim("a");
    let of = |class: &NodeClass, facts: &InstanceFacts| drift_of_instance(class, &claim, facts, None, None);
    assert_eq!(of(&plain, &facts("subnet-test1", BOTH, None)), Ok(DriftOfInstance::None));
    assert_eq!(of(&plain, &facts("subnet-test1", &["sg-test1"], None)), Ok(drifted(Drift::SecurityGroups)));
    assert_eq!(
        of(&plain, &facts("subnet-test1", &["sg-test1", "sg-test2", "sg-3"], None)),
        Ok(drifted(Drift::SecurityGroups))
    );
    assert_eq!(of(&plain, &facts("subnet-x", BOTH, None)), Ok(drifted(Drift::Subnet)));
    let no_subnets = class_with(&json!({}), &json!({"subnets": []}));
    assert_eq!(of(&no_subnets, &facts("subnet-test1", &["sg-x"], None)), Err(DriftError::NoSubnets));
    let no_groups = class_with(&json!({}), &json!({"securityGroups": []}));
    assert_eq!(of(&no_groups, &facts("subnet-x", BOTH, None)), Err(DriftError::NoSecurityGroups));
}

/// AWS-32, AWS-33, AC-34: a reservation that the class does not have counts only if EC2 still says so.
#[test]
fn reservations() {
    let (plain, claim) = (class_with(&json!({}), &json!({})), example::claim("a"));
    let cached = facts("subnet-test1", BOTH, Some("cr-1"));
    let judged = |fresh: Option<&InstanceFacts>| drift_of_instance(&plain, &claim, &cached, fresh, None);
    assert_eq!(judged(None), Ok(DriftOfInstance::AskAgain));
    assert_eq!(judged(Some(&facts("subnet-test1", BOTH, None))), Ok(DriftOfInstance::None));
    assert_eq!(judged(Some(&cached)), Ok(drifted(Drift::CapacityReservation)));
    let own = json!({"capacityReservations": [{
        "id": "cr-1", "availabilityZone": "a", "instanceMatchCriteria": "open", "instanceType": "m5.large",
        "ownerID": "123456789012", "reservationType": "default", "state": "active",
    }]});
    let reserved = class_with(&json!({}), &own);
    assert_eq!(drift_of_instance(&reserved, &claim, &cached, None, None), Ok(DriftOfInstance::None));
}

/// AWS-32, AC-35: the group on the claim and the group of the class.
#[test]
fn placement_groups() {
    let plain = class_with(&json!({}), &json!({}));
    for (label, current, hit) in [
        (None, None, false),
        (None, Some("pg-1"), true),
        (Some("pg-1"), Some("pg-1"), false),
        (Some("pg-1"), None, true),
    ] {
        let mut claim = example::claim("a");
        claim.labels.extend(label.map(|id: &str| (aws::PLACEMENT_GROUP_ID.to_owned(), id.to_owned())));
        let found = drift_of_instance(&plain, &claim, &facts("subnet-test1", BOTH, None), None, current).unwrap();
        assert_eq!(found == DriftOfInstance::Drifted(Drift::PlacementGroup), hit, "{label:?} {current:?}");
    }
}
