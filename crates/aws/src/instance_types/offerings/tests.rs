use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::*;
use crate::class::NodeClass;
use crate::fixtures::{ZONES, class, class_of, class_with, sizing, type_info};
use crate::unavailable::OfferingKey;

fn now() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

/// A market that sells everything everywhere, to be changed by a test.
struct Scene {
    class: NodeClass,
    group: Option<PlacementGroup>,
    zones: BTreeSet<String>,
    type_zones: BTreeSet<String>,
    prices: PriceBook,
    overlay_prices: Option<BTreeMap<String, Price>>,
    unavailable: Unavailable,
    shifted: BTreeSet<String>,
    counts: Option<ReservationCounts>,
}

fn scene(class: NodeClass) -> Scene {
    let zones: BTreeSet<String> = ZONES.iter().map(|(zone, _)| (*zone).to_owned()).collect();
    Scene {
        class,
        group: None,
        type_zones: zones.clone(),
        zones,
        prices: PriceBook::built_in("us-east-1"),
        overlay_prices: None,
        unavailable: Unavailable::default(),
        shifted: BTreeSet::new(),
        counts: None,
    }
}

impl Scene {
    fn offerings(&self, name: &str) -> Vec<Offering> {
        let sizing = sizing();
        let facts = TypeFacts {
            class: &self.class,
            sizing: &sizing,
            placement_group: self.group.as_ref(),
            zones: &self.type_zones,
            observed_memory: None,
            observed_attachments: None,
            expressions: None,
        };
        let market = Market {
            zones: &self.zones,
            prices: &self.prices,
            overlay_prices: self.overlay_prices.as_ref(),
            unavailable: &self.unavailable,
            shifted_zones: &self.shifted,
            reservations: self.counts.as_ref(),
            now: now(),
        };
        offerings_of(&type_info(name), &facts, &market)
    }

    fn available(&self, name: &str) -> usize {
        self.offerings(name).iter().filter(|offering| offering.available).count()
    }

    fn mark(&mut self, capacity_type: &str, instance_type: &str, zone: &str) {
        let [capacity_type, instance_type, zone] = [capacity_type, instance_type, zone].map(str::to_owned);
        self.unavailable.mark_offering(OfferingKey { capacity_type, instance_type, zone, group: None }, now());
    }
}

fn reservation(id: &str, kind: &str, state: &str) -> Value {
    json!({
        "id": id, "availabilityZone": "test-zone-1a", "instanceMatchCriteria": "targeted", "instanceType": "m5.large",
        "ownerID": "123456789012", "reservationType": kind, "state": state,
    })
}

/// AWS-134, AWS-137, AC-141, AC-143, AC-140: per zone and capacity type; refusals take away one each; the type stays.
#[test]
fn base_offerings() {
    let mut scene = scene(class(&json!({})));
    let all = scene.offerings("m5.large");
    assert_eq!((all.len(), scene.available("m5.large")), (8, 6), "the local zone has no subnet of the class");
    let in_a = all.iter().find(|offering| offering.zone() == Some("test-zone-1a")).unwrap();
    assert_eq!(in_a.requirements.get(aws::ZONE_ID).and_then(Requirement::single_value), Some("tstz1-1a"));
    assert_eq!(in_a.price, Price::new(0.096).unwrap());
    for key in RESERVATION_LABELS {
        assert!(in_a.requirements.get(key).is_some_and(Requirement::is_empty));
    }
    scene.mark("spot", "m5.large", "test-zone-1a");
    assert_eq!((scene.available("m5.large"), scene.available("m5.xlarge")), (5, 6));
    scene.unavailable.mark_capacity_type("spot", now());
    assert_eq!(scene.available("m5.large"), 3);
    scene.unavailable.mark_capacity_type("on-demand", now());
    assert_eq!((scene.available("m5.large"), scene.offerings("m5.large").len()), (0, 8));

    let subnets = json!([{"id": "subnet-local", "zone": "test-zone-1a-local", "zoneID": "tstz1-1alocal"}]);
    let local = self::scene(class_with(&json!({}), &json!({"subnets": subnets})));
    assert_eq!(local.available("m5.large"), 2, "a local zone is a zone");
}

/// AC-142, AC-223, AC-271: a shifted zone, a zone without addresses, a zone that does not sell the type.
#[test]
fn zones_that_are_out() {
    let mut scene = scene(class(&json!({})));
    scene.shifted.insert("tstz1-1b".to_owned());
    assert_eq!(scene.available("m5.large"), 4);
    scene.shifted.clear();
    scene.unavailable.mark_subnet("subnet-test1", now());
    assert_eq!((scene.available("m5.large"), scene.available("c5.large")), (4, 4));
    scene.type_zones.remove("test-zone-1c");
    assert_eq!(scene.available("m5.large"), 2);
}

/// AWS-136, AC-134, AC-147, AC-148: what the class cannot use is listed and not available.
#[test]
fn incompatible_classes() {
    let interface =
        |card, device, kind| json!({"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind});
    let efa = json!({"networkInterfaces": [interface(0, 0, "interface"), interface(1, 1, "efa-only")]});
    let many = json!({"networkInterfaces": [interface(0, 0, "interface"), interface(0, 99, "interface")]});
    let tracking = json!({"connectionTracking": {"tcpEstablishedTimeout": 300}});
    let nested = json!({"cpuOptions": {"nestedVirtualization": "enabled"}});
    for (name, class, want) in [
        ("a1.medium", class(&json!({})), 0),
        ("a1.medium", class_of("Bottlerocket", &json!({})), 6),
        ("m5.large", class(&efa), 0),
        ("m6idn.32xlarge", class(&efa), 6),
        ("m5.large", class(&many), 0),
        ("i3.large", class(&json!({})), 6),
        ("i3.large", class(&tracking), 0),
        ("m5.large", class(&tracking), 6),
        ("m5.metal", class(&tracking), 0),
        ("m5.large", class(&nested), 0),
        ("m5.large", class(&json!({"cpuOptions": {"nestedVirtualization": "disabled"}})), 6),
    ] {
        let scene = scene(class);
        assert_eq!((scene.available(name), scene.offerings(name).len()), (want, 8), "{name}");
    }
    let mut two_cards = type_info("m6idn.32xlarge");
    two_cards.network.maximum_efa = 0;
    assert!(unusable(&two_cards, &class(&efa), None).is_some_and(|why| why.to_string().contains("EFA")));
    two_cards.network.ena = Some("unsupported".to_owned());
    assert!(unusable(&two_cards, &class(&efa), None).is_some_and(|why| why.to_string().contains("ENA")));
    let group = PlacementGroup { id: "pg-1".into(), name: "g".into(), strategy: "cluster".into(), partitions: 0 };
    let mut alone = type_info("t3.large");
    alone.placement_strategies = vec!["spread".to_owned()];
    assert!(unusable(&alone, &class(&json!({})), Some(&group)).is_some());
}

/// AWS-135, AC-149: a type without a price takes one that an overlay gives, while overlays are on.
#[test]
fn prices_from_overlays() {
    let mut scene = scene(class(&json!({})));
    scene.prices = PriceBook::default();
    assert_eq!(scene.available("m5.large"), 0);
    scene.overlay_prices = Some(BTreeMap::from([("m5.large".to_owned(), Price::new(4.2).unwrap())]));
    assert_eq!((scene.available("m5.large"), scene.available("m5.xlarge")), (6, 0));
    assert!(scene.offerings("m5.large").iter().all(|offering| offering.price == Price::new(4.2).unwrap()));
}

/// AWS-139, AWS-300, AC-150, AC-151, AC-293, AC-295: what is left and whether it may be used are two things.
#[test]
fn reserved_offerings() {
    let with =
        |state| class_with(&json!({}), &json!({"capacityReservations": [reservation("cr-1", "default", state)]}));
    let mut scene = scene(with("active"));
    assert_eq!(scene.offerings("m5.large").len(), 8, "no reserved ones while the gate is off");
    let mut counts = ReservationCounts::default();
    counts.synced("cr-1", 2, now());
    scene.counts = Some(counts.clone());
    let reserved = |scene: &Scene| {
        let all = scene.offerings("m5.large");
        let mut reserved = all.into_iter().filter(|offering| offering.capacity_type() == Some("reserved"));
        let one = reserved.next().unwrap();
        assert!(reserved.next().is_none());
        one
    };
    let one = reserved(&scene);
    assert_eq!((one.price, one.available, one.reservation_capacity), (Price::new(0.096 / 1e7).unwrap(), true, Some(2)));
    assert!(scene.offerings("m5.xlarge").iter().all(|offering| offering.reservation_capacity.is_none()));
    counts.launched("cr-1", now());
    counts.launched("cr-1", now());
    scene.counts = Some(counts.clone());
    let one = reserved(&scene);
    assert_eq!((one.available, one.reservation_capacity, one.is_launchable()), (true, Some(0), false));
    counts.terminated("cr-1");
    scene.counts = Some(counts);
    assert!(reserved(&scene).is_launchable());
    scene.shifted.insert("tstz1-1a".to_owned());
    let one = reserved(&scene);
    assert_eq!((one.available, one.reservation_capacity), (false, Some(1)));
    scene.shifted.clear();
    scene.class = with("expiring");
    let one = reserved(&scene);
    assert_eq!((one.available, one.reservation_capacity), (false, Some(1)));
    // AWS-135: unknown prices make a reservation free, not unusable.
    (scene.class, scene.prices) = (with("active"), PriceBook::default());
    assert_eq!((reserved(&scene).price, reserved(&scene).available), (Price::ZERO, true));
}

/// AWS-140, AWS-143, AC-152, AC-153: partitions multiply offerings, and are refused one by one.
#[test]
fn partitions() {
    let group = |strategy: &str| PlacementGroup {
        id: "pg-1".to_owned(),
        name: "group".to_owned(),
        strategy: strategy.to_owned(),
        partitions: 3,
    };
    let mut scene = scene(class(&json!({})));
    scene.zones.remove("test-zone-1a-local");
    scene.group = Some(group("spread"));
    assert_eq!(scene.offerings("m5.large").len(), 6);
    scene.group = Some(group("partition"));
    assert_eq!((scene.offerings("m5.large").len(), scene.available("m5.large")), (18, 18));
    let scope = crate::unavailable::GroupScope { group_id: "pg-1".to_owned(), partition: Some("2".to_owned()) };
    let [capacity_type, instance_type, zone] = ["spot", "m5.large", "test-zone-1a"].map(str::to_owned);
    let key = OfferingKey { capacity_type, instance_type, zone, group: Some(scope) };
    scene.unavailable.mark_offering(key, now());
    assert_eq!(scene.available("m5.large"), 17);
    scene.group = None;
    assert_eq!(scene.available("m5.large"), 6, "others are not concerned");
}
