use super::*;
use crate::cloud::{FleetAnswer, FleetError};
use crate::launch::fleet::{NoOverrides, completed};

/// AWS-184, AC-164: the whole request: every zone with its subnet, the price as priority.
#[test]
fn whole_request() {
    insta::assert_json_snapshot!("fleet", named(&launch(&json!({"context": "ctx-1", "tags": {"team": "a"}}))));
}

/// AWS-184, AWS-185, AC-165, AC-172: the whole request for spot, of several types and images, and for what is reserved.
#[test]
fn whole_requests_on_other_terms() {
    let types = vec!["m5.large", "c5.large", "m6g.large"];
    insta::assert_json_snapshot!("fleet_spot", named(&Launch { types, ..spot() }));
    insta::assert_json_snapshot!("fleet_reserved", named(&reserved("default", false)));
    insta::assert_json_snapshot!("fleet_interruptible", named(&reserved("default", true)));
    insta::assert_json_snapshot!("fleet_block", named(&reserved("capacity-block", false)));
}

/// Names of templates are told apart by their order alone: what is in them is in other tests.
fn named(launch: &Launch) -> FleetRequest {
    let mut fleet = launch.fleet();
    for (number, config) in fleet.configs.iter_mut().enumerate() {
        config.template_name = format!("karpenter.k8s.aws/{}", "…".repeat(number + 1));
    }
    fleet
}

fn spot() -> Launch {
    Launch { capacity_type: labels::CAPACITY_TYPE_SPOT, ..launch(&json!({})) }
}

fn reserved(kind: &str, interruptible: bool) -> Launch {
    let one = json!({
        "id": "cr-1", "availabilityZone": "test-zone-1a", "instanceMatchCriteria": "open", "instanceType": "m5.large",
        "ownerID": "123456789012", "reservationType": kind, "interruptible": interruptible, "state": "active",
    });
    let launch = launch_with(&json!({}), &json!({"capacityReservations": [one]}));
    Launch { capacity_type: labels::CAPACITY_TYPE_RESERVED, left: vec![("cr-1", 3)], ..launch }
}

/// AWS-184, AWS-185, AC-165, AC-166, AC-172, AC-175: how each capacity type is bought.
#[test]
fn terms() {
    let overlaid = |mut launch: Launch| {
        launch.claim.annotations.insert("karpenter.sh/price-overlay-applied".to_owned(), String::new());
        launch
    };
    let check = |launch: &Launch, want: (&str, Option<&str>, Option<&str>, Option<&str>, usize)| {
        let fleet = launch.fleet();
        let overrides: usize = fleet.configs.iter().map(|config| config.overrides.len()).sum();
        let strategies = (fleet.on_demand_strategy, fleet.spot_strategy);
        assert_eq!((fleet.default_capacity_type, strategies.0, strategies.1, fleet.reservation_types, overrides), want);
    };
    let interruptible = Some("interruptible-capacity-reservation");
    check(&launch(&json!({})), ("on-demand", Some("lowest-price"), None, None, 3));
    check(&overlaid(launch(&json!({}))), ("on-demand", Some("prioritized"), None, None, 3));
    check(&spot(), ("spot", None, Some("price-capacity-optimized"), None, 3));
    check(&overlaid(spot()), ("spot", None, Some("capacity-optimized-prioritized"), None, 3));
    check(&reserved("default", false), ("on-demand", Some("lowest-price"), None, None, 1));
    check(&reserved("default", true), ("reserved-capacity", None, None, interruptible, 1));
    check(&reserved("capacity-block", false), ("capacity-block", None, None, None, 1));
    let with_context = |relaxed: bool| {
        let mut launch = launch(&json!({"context": "ctx-1"}));
        launch.claim.annotations.insert("karpenter.sh/nodeclaim-min-values-relaxed".to_owned(), relaxed.to_string());
        launch.fleet().context
    };
    assert_eq!((with_context(false).as_deref(), with_context(true)), (Some("ctx-1"), None));
}

/// AWS-184: zones without a subnet are left out, templates without overrides, too; nothing at all is an error.
#[test]
fn nothing_to_ask_for() {
    let launch = launch(&json!({})).requiring(labels::ZONE, &["test-zone-1b"]);
    let subnet = |zone: &str| BTreeMap::from([(zone.to_owned(), "subnet-x".to_owned())]);
    let request = |subnets: &BTreeMap<String, String>| fleet_request(&launch.templates(), subnets, &launch.facts());
    assert_eq!(request(&subnet("test-zone-1a")), Err(NoOverrides));
    let fleet = request(&subnet("test-zone-1b")).unwrap();
    assert_eq!((fleet.configs.len(), fleet.configs[0].overrides.len()), (1, 1));
    assert_eq!((fleet.configs[0].version, fleet.target_capacity), ("$Latest", 1));
}

/// The token of one claim is its UID; of several, the same for the same claims in any order.
#[test]
fn client_tokens() {
    let uid = "0b7ae2a5-7ab3-4b5b-9f5a-6f4f1d0f9f11";
    assert_eq!(client_token(&[uid]), uid);
    let both = client_token(&["a", "b"]);
    assert_eq!(client_token(&["b", "a"]), both);
    assert_ne!(client_token(&["a", "c"]), both);
    assert!(both.len() <= 64 && client_token(&["x".repeat(99).as_str()]).len() <= 64);
}

/// AWS-292: what EC2 leaves out of its answer follows from the request, if it says enough; else nothing is made up.
#[test]
fn answers_are_completed() {
    let launch = launch(&json!({}));
    let request = launch.fleet();
    let template = request.configs[0].template_name.clone();
    let one = |instance_type: &str, zone: &str, subnet: &str| FleetError {
        instance_type: instance_type.to_owned(),
        zone: zone.to_owned(),
        subnet_id: subnet.to_owned(),
        ..FleetError::default()
    };
    let known =
        |zone: &str, subnet: &str| FleetError { template_name: template.clone(), ..one("m5.large", zone, subnet) };
    let (zone, subnet) =
        (request.configs[0].overrides[1].zone.clone(), request.configs[0].overrides[1].subnet_id.clone());
    for (said, want) in [
        (one("m5.large", &zone, ""), known(&zone, &subnet)),
        (one("m5.large", "", &subnet), known(&zone, &subnet)),
        (one("m5.large", "", ""), one("m5.large", "", "")),
        (one("", &zone, ""), one("", &zone, "")),
        (one("m5.large", "elsewhere", ""), one("m5.large", "elsewhere", "")),
    ] {
        let answer = FleetAnswer { errors: vec![said], ..FleetAnswer::default() };
        assert_eq!(completed(answer, &request).errors, [want]);
    }
}
