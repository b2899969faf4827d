//! What can be bought, and when it is looked at anew.

use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::quantity::Quantity;

use super::*;
use crate::class::NodeClass;
use crate::cloud::TypeOffering;
use crate::launch::failures::Effect;
use crate::unavailable::OfferingKey;

async fn listed(world: &World) -> Arc<Vec<InstanceType>> {
    world.provider.instance_types(&pool()).await.unwrap()
}

fn of<'a>(types: &'a [InstanceType], name: &str) -> &'a InstanceType {
    types.iter().find(|one| one.name == name).unwrap()
}

fn available(types: &[InstanceType], name: &str) -> usize {
    of(types, name).offerings.iter().filter(|one| one.available).count()
}

/// AWS-114, AWS-144, AWS-261, AC-141, AC-143, AC-155: the same list until something changes, and only what changed is made anew.
#[tokio::test(start_paused = true)]
async fn lists_are_kept() {
    let world = World::new().await;
    let first = listed(&world).await;
    assert_eq!((first.len(), available(&first, "m5.large")), (TYPES.len(), 6));
    assert!(Arc::ptr_eq(&first, &listed(&world).await));
    let mark = |zone: &str, capacity_type: &str| {
        Effect::Offering(OfferingKey {
            capacity_type: capacity_type.to_owned(),
            instance_type: "m5.large".to_owned(),
            zone: zone.to_owned(),
            group: None,
        })
    };
    world.provider.refused(&mark("test-zone-1a", "spot"));
    let second = listed(&world).await;
    assert_eq!((available(&second, "m5.large"), available(&second, "m5.xlarge")), (5, 6));
    assert!(Arc::ptr_eq(&second, &listed(&world).await));
    for capacity_type in ["spot", "on-demand"] {
        for zone in ["test-zone-1a", "test-zone-1b", "test-zone-1c"] {
            world.provider.refused(&mark(zone, capacity_type));
        }
    }
    assert_eq!(available(&listed(&world).await, "m5.large"), 0, "listed all the same");
    pass(180).await;
    assert_eq!(available(&listed(&world).await, "m5.large"), 6);

    // Only what lists depend on makes them old.
    let before = listed(&world).await;
    world.class(&json!({"userData": "#!/bin/sh"}));
    assert!(Arc::ptr_eq(&before, &listed(&world).await));
    for spec in [
        json!({"kubelet": {"maxPods": 7}}),
        json!({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}]}),
        json!({"instanceStorePolicy": "RAID0"}),
        json!({"amiFamily": "Bottlerocket", "amiSelectorTerms": [{"id": "ami-1"}]}),
    ] {
        world.class(&json!({}));
        let plain = listed(&world).await;
        world.class(&spec);
        let changed = listed(&world).await;
        assert!(!Arc::ptr_eq(&plain, &changed), "{spec}");
        assert_ne!(plain, changed, "{spec}");
    }
    let status = json!({"capacityReservations": [reservation("cr-1", "m5.large", "test-zone-1a")]});
    world.classes.put(ready_class(&json!({}), &status));
    assert_eq!(of(&listed(&world).await, "m5.large").offerings.len(), 7);

    let before = listed(&world).await;
    world.provider.discover().await.unwrap();
    assert!(Arc::ptr_eq(&before, &listed(&world).await), "EC2 says the same");
    world.account.lock().sell(&["t3.medium"]);
    world.provider.discover().await.unwrap();
    assert_eq!(listed(&world).await.len(), TYPES.len() + 1);
    // Nothing at all cannot be right.
    world.account.lock().types.clear();
    assert!(world.provider.discover().await.is_err());
    assert_eq!(listed(&world).await.len(), TYPES.len() + 1);
}

/// AWS-115: no list rather than an empty one.
#[tokio::test(start_paused = true)]
async fn no_list() {
    let world = World::new().await;
    world.classes.put(ready_class(&json!({}), &json!({"subnets": []})));
    assert!(world.provider.instance_types(&pool()).await.is_err());
    world.classes.remove("default");
    assert!(world.provider.instance_types(&pool()).await.is_err());
    assert_eq!(world.seen.take(), ["event on default: Failed resolving NodeClass"]);
}

/// AWS-135, AC-149: a type without a price is on offer only at the price of an overlay.
#[tokio::test(start_paused = true)]
async fn prices_of_overlays() {
    let world = World::new().await;
    {
        let mut state = world.account.lock();
        let mut new = state.types[0].clone();
        new.name = "m99.large".to_owned();
        state.types.push(new);
        let (instance_type, zone) = ("m99.large".to_owned(), "test-zone-1a".to_owned());
        state.offerings.push(TypeOffering { instance_type, zone });
    }
    world.provider.discover().await.unwrap();
    assert_eq!(available(&listed(&world).await, "m99.large"), 0);
    world.provider.overlay_prices_read([("m99.large".to_owned(), Price::new(4.2).unwrap())].into());
    let types = listed(&world).await;
    let new = of(&types, "m99.large").offerings.iter().filter(|one| one.available);
    let prices: Vec<f64> = new.map(|one| one.price.per_hour()).collect();
    assert_eq!(prices, [4.2, 4.2]);
    world.provider.overlay_prices_read([].into());
    assert_eq!(available(&listed(&world).await, "m99.large"), 0);
}

/// AWS-120, AWS-313, AWS-314, AC-154, AC-302: what nodes were seen to have, for as long as images and disks stay the same.
#[tokio::test(start_paused = true)]
async fn observations() {
    let world = World::new().await;
    let read = |object| NodeClass::read(&object).unwrap();
    let class = read(ready_class(&json!({}), &json!({})));
    let memory = async || of(&listed(&world).await, "m5.large").capacity.amount("memory");
    let estimate = memory().await;
    let observed: Quantity = "7600000Ki".parse().unwrap();
    world.provider.observed(&class, "m5.large", Observation::Memory(observed));
    assert_eq!(memory().await, observed);
    world.provider.observed(&class, "m5.large", Observation::Memory("7700000Ki".parse().unwrap()));
    assert_eq!(memory().await, observed, "never raised");
    world.classes.put(ready_class(&json!({}), &json!({"amis": [{"id": "ami-new", "requirements": []}]})));
    assert_eq!(memory().await, estimate);

    world.class(&json!({}));
    let volumes = async || of(&listed(&world).await, "m5.large").attachment_limits["ebs.csi.aws.com"];
    assert_eq!(volumes().await, 26);
    world.provider.observed(&class, "m5.large", Observation::Attachments(24));
    assert_eq!(volumes().await, 24);
    world.class(
        &json!({"blockDeviceMappings": [{"deviceName": "/dev/a"}, {"deviceName": "/dev/b"}, {"deviceName": "/dev/c"}]}),
    );
    assert_eq!(volumes().await, 24, "28 - 3 - 1, computed");
}

/// AWS-137, AC-140: a local zone is a zone like any other.
#[tokio::test(start_paused = true)]
async fn local_zones() {
    let world = World::new().await;
    let zone = "test-zone-1a-local";
    {
        let mut state = world.account.lock();
        state.offerings.push(TypeOffering { instance_type: "m5.large".to_owned(), zone: zone.to_owned() });
        let mut subnet = state.subnets[0].clone();
        (subnet.0.id, subnet.0.zone) = ("subnet-local".to_owned(), zone.to_owned());
        state.subnets.push(subnet);
    }
    world.provider.discover().await.unwrap();
    let subnets = json!([{"id": "subnet-local", "zone": zone, "zoneID": "tstz1-1alocal"}]);
    world.classes.put(ready_class(&json!({}), &json!({"subnets": subnets})));
    let mut claim = claim("a", &["m5.large"], &["on-demand"]);
    claim.requirements.add(Requirement::any_of(labels::ZONE, [zone]));
    let (_, instance) = world.launched(&claim).await;
    assert_eq!((label(&instance, labels::ZONE), label(&instance, aws::ZONE_ID)), (zone, "tstz1-1alocal"));
}

/// AWS-213, AWS-236, AWS-303, AC-159, AC-278: rows of the metrics.
#[tokio::test(start_paused = true)]
async fn rows_of_metrics() {
    let world = World::with(settings(), &["m5.xlarge"]).await;
    let rows = world.provider.type_rows();
    assert_eq!((rows[0].cores, rows[0].memory_bytes), (4, 17_179_869_184));
    // A class that cannot use the type, beside one that can, and a pool of no class.
    let mut other = ready_class(&json!({"connectionTracking": {"tcpEstablishedTimeout": 60}}), &json!({}));
    other.metadata.name = Some("other".to_owned());
    other.status.as_mut().unwrap().subnets.as_mut().unwrap().truncate(1);
    world.classes.put(other);
    let of_class = |name: &str| {
        let node_class = NodeClassRef { name: name.to_owned(), ..class_ref() };
        PoolView { node_class, ..example::pool(name) }
    };
    let rows = world.provider.offering_rows(&[of_class("default"), of_class("nothing"), of_class("other")]).await;
    let row = |kind: &str, zone: &str| {
        let found = rows.iter().find(|row| row.capacity_type == kind && row.zone == zone).unwrap();
        (found.available, found.price_per_hour)
    };
    assert_eq!(rows.len(), 9, "three zones, three ways");
    assert_eq!(row("on-demand", "test-zone-1b"), (true, 0.192), "one of the two could have it");
    assert_eq!(row("spot", "test-zone-1a"), (true, 0.096));
    assert_eq!(row("reserved", "test-zone-1a"), (false, 0.0));
}
