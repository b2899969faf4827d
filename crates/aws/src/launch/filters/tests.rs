use karpenter_api::names::{LabelPolicy, aws};
use karpenter_model::example;
use karpenter_model::requirements::Operator;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{class, class_with, sold};
use crate::launch::choice::{capacity_type, lacks_flexibility, tenancy};

fn rules() -> LabelRules {
    LabelPolicy::aws().rules().clone()
}

fn claim(requirements: &[(&str, &str)], requests: &[(&str, &str)]) -> ClaimView {
    let requirements = requirements.iter().map(|(key, values)| Requirement::any_of(key, values.split(',')));
    let requests = requests.iter().map(|(name, amount)| (*name, amount.parse().unwrap()));
    ClaimView {
        requirements: requirements.collect::<Requirements>().into(),
        requests: requests.collect(),
        ..example::claim("claim")
    }
}

fn names(types: &[InstanceType]) -> Vec<&str> {
    let mut names: Vec<&str> = types.iter().map(|known| known.name.as_str()).collect();
    names.sort_unstable();
    names
}

fn left(types: Vec<InstanceType>, claim: &ClaimView) -> Result<Filtered, NothingLeft> {
    filtered(types, claim, &rules())
}

fn reservation(id: &str, instance_type: &str, kind: &str, interruptible: bool) -> Value {
    json!({
        "id": id, "availabilityZone": "test-zone-1a", "instanceMatchCriteria": "targeted", "instanceType": instance_type,
        "ownerID": "123456789012", "reservationType": kind, "interruptible": interruptible, "state": "active",
    })
}

fn with_reservations(reservations: &[Value]) -> crate::class::NodeClass {
    class_with(&json!({}), &json!({"capacityReservations": reservations}))
}

fn reservations_of(types: &[InstanceType]) -> Vec<(String, String)> {
    let offerings = types.iter().flat_map(|known| known.offerings.iter().map(|one| (known.name.clone(), one)));
    let id = |one: &Offering| {
        one.requirements.get(aws::CAPACITY_RESERVATION_ID).and_then(Requirement::single_value).map(str::to_owned)
    };
    offerings.filter_map(|(name, one)| Some((name, id(one)?))).collect()
}

/// AWS-151, AC-162: requirements, requests and an offering; nothing left is an error that gives the claim up.
#[test]
fn compatible_and_available() {
    let types = || sold(&["m5.large", "m5.xlarge", "m6g.large"], &class(&json!({})), &[]);
    let amd = [(labels::ARCH, "amd64")];
    assert_eq!(names(&left(types(), &claim(&amd, &[])).unwrap().types), ["m5.large", "m5.xlarge"]);
    let filtered = left(types(), &claim(&amd, &[("cpu", "3")])).unwrap();
    assert_eq!(names(&filtered.types), ["m5.xlarge"]);
    assert_eq!(filtered.rejected, [("compatible-available", vec!["m5.large".to_owned(), "m6g.large".to_owned()])]);
    for claim in [
        claim(&[(labels::ARCH, "riscv")], &[]),
        claim(&[], &[("cpu", "300")]),
        claim(&[(labels::ZONE, "elsewhere")], &[]),
        claim(&[(labels::CAPACITY_TYPE, "reserved")], &[]),
    ] {
        let error = left(types(), &claim).unwrap_err();
        assert_eq!(error, NothingLeft::Filter("compatible-available"));
        assert_eq!(error.to_string(), "all requested instance types were unavailable during launch");
    }
}

/// AWS-151, AC-168, AC-169: bare metal and accelerators only where nothing else is left or variety is asked for.
#[test]
fn exotic_types() {
    let types = |names: &[&str]| sold(names, &class(&json!({})), &[]);
    let free = claim(&[], &[]);
    let filtered =
        left(types(&["m5.large", "m5.metal", "g4dn.xlarge", "inf2.xlarge", "g4ad.16xlarge"]), &free).unwrap();
    assert_eq!(names(&filtered.types), ["m5.large"]);
    assert_eq!(filtered.rejected[0].0, "exotic");
    assert_eq!(names(&left(types(&["m5.metal", "g4dn.xlarge"]), &free).unwrap().types), ["g4dn.xlarge", "m5.metal"]);
    let mut varied = free;
    let mut kinds = Requirement::exists(labels::INSTANCE_TYPE);
    kinds.set_min_values(Some(2));
    varied.requirements.add(kinds);
    assert_eq!(names(&left(types(&["m5.large", "m5.metal"]), &varied).unwrap().types), ["m5.large", "m5.metal"]);
}

/// AWS-151, AC-170, AC-171: spot that costs more than the cheapest on-demand instance goes.
#[test]
fn dear_spot() {
    let types = || sold(&["m5.large", "m5.2xlarge"], &class(&json!({})), &[]);
    let both = claim(&[(labels::CAPACITY_TYPE, "spot,on-demand")], &[]);
    let kept = left(types(), &both).unwrap().types;
    let prices: Vec<f64> = kept
        .iter()
        .flat_map(|known| &known.offerings)
        .filter(|one| one.capacity_type() == Some("spot"))
        .map(|one| one.price.per_hour())
        .collect();
    assert!(!prices.is_empty() && prices.iter().all(|price| *price <= 0.096), "{prices:?}");
    assert_eq!(names(&kept), ["m5.2xlarge", "m5.large"], "on-demand offerings stay");
    let spot = claim(&[(labels::CAPACITY_TYPE, "spot")], &[]);
    let kept = left(types(), &spot).unwrap().types;
    assert!(kept.iter().all(|known| known.offerings.iter().any(|one| one.capacity_type() == Some("spot"))));
    let mut no_on_demand = types();
    for known in &mut no_on_demand {
        known.offerings.retain(|one| one.capacity_type() == Some("spot"));
    }
    assert_eq!(left(no_on_demand.clone(), &both).unwrap().types.len(), 2, "nothing to compare with");
}

/// AWS-152, SCH-227, AC-167: sixty at most, the cheapest, with the variety that is asked for.
#[test]
fn sixty_types() {
    let catalogue = &crate::fixtures::CATALOGUE;
    let plain = |name: &&str| {
        !name.contains("metal") && (name.starts_with("m5") || name.starts_with("c5") || name.starts_with("r5"))
    };
    let all: Vec<&str> = catalogue.iter().map(|row| row.info.name.as_str()).filter(plain).collect();
    assert!(all.len() > 100);
    let types = || sold(&all, &class(&json!({})), &[]);
    let free = claim(&[(labels::CAPACITY_TYPE, "on-demand")], &[]);
    let kept = left(types(), &free).unwrap().types;
    assert_eq!(kept.len(), 60);
    let price = |known: &InstanceType| known.cheapest_price(&free.requirements, &rules());
    let dearest = kept.iter().map(price).max().unwrap();
    let cheaper = types().iter().filter(|known| price(known) < dearest).count();
    assert!(cheaper <= 60, "{cheaper}");
    let varied = |key: &str, least: u32| {
        let mut claim = free.clone();
        let mut requirement = Requirement::exists(key);
        requirement.set_min_values(Some(least));
        claim.requirements.add(requirement);
        left(types(), &claim).map(|left| left.types.len())
    };
    assert_eq!(varied(labels::INSTANCE_TYPE, 2), Ok(60));
    assert_eq!(varied(labels::INSTANCE_TYPE, 61), Err(NothingLeft::MinValues(labels::INSTANCE_TYPE.to_owned())));
    assert_eq!(varied(aws::INSTANCE_CATEGORY, 4), Err(NothingLeft::MinValues(aws::INSTANCE_CATEGORY.to_owned())));
}

/// AWS-151, AC-172, AC-173: one kind of reservation per launch, that of the cheapest offering.
#[test]
fn one_kind_of_reservation() {
    let class = with_reservations(&[
        reservation("cr-d", "m5.xlarge", "default", false),
        reservation("cr-b", "m5.large", "capacity-block", false),
        reservation("cr-b2", "m5.large", "capacity-block", false),
    ]);
    let count = [("cr-d", 5), ("cr-b", 5), ("cr-b2", 9)];
    let open = claim(&[(labels::CAPACITY_TYPE, "reserved,on-demand")], &[]);
    let kept = left(sold(&["m5.large", "m5.xlarge"], &class, &count), &open).unwrap().types;
    assert_eq!(
        reservations_of(&kept),
        [("m5.large".to_owned(), "cr-b".to_owned())],
        "the block is cheapest, one of them"
    );
    assert_eq!(kept[0].offerings.len(), 1);

    let class = with_reservations(&[
        reservation("cr-i", "m5.large", "default", true),
        reservation("cr-d", "m5.large", "default", false),
    ]);
    let kept = left(sold(&["m5.large"], &class, &[("cr-i", 5), ("cr-d", 1)]), &open).unwrap().types;
    assert_eq!(
        reservations_of(&kept),
        [("m5.large".to_owned(), "cr-d".to_owned())],
        "equal prices: not the interruptible"
    );
}

/// AWS-151, AWS-301, AC-174, AC-293, AC-294: the one with the most room; full ones do not count.
#[test]
fn roomiest_reservation() {
    let class = with_reservations(&[
        reservation("cr-1", "m5.large", "default", false),
        reservation("cr-2", "m5.large", "default", false),
    ]);
    let open = claim(&[(labels::CAPACITY_TYPE, "reserved,on-demand")], &[]);
    let chosen = |left: &[(&str, u32)]| {
        let kept = filtered(sold(&["m5.large", "m5.xlarge"], &class, left), &open, &rules()).unwrap().types;
        let capacity_type = capacity_type(&kept, &open.requirements, &rules());
        (reservations_of(&kept).into_iter().map(|(_, id)| id).collect::<Vec<_>>(), capacity_type, kept.len())
    };
    assert_eq!(chosen(&[("cr-1", 3), ("cr-2", 10)]), (vec!["cr-2".to_owned()], "reserved", 1));
    assert_eq!(chosen(&[("cr-1", 3), ("cr-2", 3)]), (vec!["cr-1".to_owned()], "reserved", 1));
    assert_eq!(chosen(&[("cr-1", 0), ("cr-2", 2)]), (vec!["cr-2".to_owned()], "reserved", 1));
    let (_, fallback, types) = chosen(&[("cr-1", 0), ("cr-2", 0)]);
    assert_eq!((fallback, types), ("on-demand", 2));
    let only = claim(&[(labels::CAPACITY_TYPE, "reserved")], &[]);
    let full = sold(&["m5.large"], &class, &[("cr-1", 0), ("cr-2", 0)]);
    assert_eq!(left(full, &only), Err(NothingLeft::Filter("compatible-available")));
}

/// AWS-153, AWS-154, AWS-268, AC-165, AC-188.
#[test]
fn capacity_type_and_tenancy() {
    let types = sold(&["m5.large"], &class(&json!({})), &[]);
    let chosen =
        |requirements: &[(&str, &str)]| capacity_type(&types, &claim(requirements, &[]).requirements, &rules());
    assert_eq!(chosen(&[]), "spot");
    assert_eq!(chosen(&[(labels::CAPACITY_TYPE, "on-demand,spot")]), "spot");
    assert_eq!(chosen(&[(labels::CAPACITY_TYPE, "on-demand")]), "on-demand");
    assert_eq!(chosen(&[(labels::CAPACITY_TYPE, "reserved,on-demand")]), "on-demand");
    for (values, want) in [("default,dedicated", "default"), ("dedicated", "dedicated"), ("default", "default")] {
        assert_eq!(tenancy(&claim(&[(aws::INSTANCE_TENANCY, values)], &[]).requirements), want, "{values}");
    }
    assert_eq!(tenancy(&Requirements::new()), "default");
    let not_default = Requirement::new(&rules(), aws::INSTANCE_TENANCY, Operator::NotIn, &["default".to_owned()], None);
    assert_eq!(tenancy(&[not_default.unwrap()].into_iter().collect()), "dedicated");
    let both = claim(&[(labels::CAPACITY_TYPE, "on-demand,spot")], &[]).requirements;
    assert!(lacks_flexibility(4, "on-demand", &both) && !lacks_flexibility(5, "on-demand", &both));
    assert!(!lacks_flexibility(1, "spot", &both));
    assert!(!lacks_flexibility(1, "on-demand", &claim(&[(labels::CAPACITY_TYPE, "on-demand")], &[]).requirements));
}
