//! Launches that succeed, and those that EC2 is never asked for.

use karpenter_model::quantity::Quantity;
use karpenter_platform::Remedy;

use super::*;
use crate::cloud::{PlacementGroupInfo, ReservationInfo, Tags};
use crate::fake::Refusal;

/// A reservation in the account, and the provider told of it as the class's controller does.
pub(super) fn reserve(world: &World, id: &str, instance_type: &str, zone: &str, available: u32) {
    let info = ReservationInfo {
        id: id.to_owned(),
        instance_type: instance_type.to_owned(),
        zone: zone.to_owned(),
        available,
        ..ReservationInfo::default()
    };
    world.provider.reservations_described(std::slice::from_ref(&info));
    world.account.lock().reservations.push((info, Tags::new()));
}

/// AWS-145, AWS-148, AWS-171, AC-163, AC-164, AC-165, AC-196, AWS-241: a spot fleet over all zones, and the instance as it is told of.
#[tokio::test(start_paused = true)]
async fn a_launch() {
    let world = World::new().await;
    let (_, instance) = world.launched(&claim("a", &["m5.large"], &["spot", "on-demand"])).await;
    let request = world.account.lock().fleet_requests[0].clone();
    assert_eq!((request.default_capacity_type, request.spot_strategy), ("spot", Some("price-capacity-optimized")));
    let zones: Vec<&str> = request.configs[0].overrides.iter().map(|one| one.zone.as_str()).collect();
    assert_eq!((request.configs.len(), zones), (1, vec!["test-zone-1a", "test-zone-1b", "test-zone-1c"]));
    assert_eq!(request.target_capacity, 1);

    let running = world.account.running();
    assert_eq!(running.len(), 1);
    assert_eq!(instance.provider_id, format!("aws:///{}/{}", running[0].zone, running[0].id));
    assert_eq!(instance.image_id.as_deref(), Some("ami-amd"));
    for (key, want) in [
        (labels::CAPACITY_TYPE, "spot"),
        (labels::INSTANCE_TYPE, "m5.large"),
        (labels::ZONE, "test-zone-1a"),
        (aws::ZONE_ID, "tstz1-1a"),
        (labels::NODEPOOL, "default"),
        (aws::INSTANCE_TENANCY, "default"),
    ] {
        assert_eq!(label(&instance, key), want, "{key}");
    }
    assert_eq!(instance.annotations.len(), 3);
    assert!(instance.annotations[aws::HASH_ANNOTATION].parse::<u64>().is_ok());
    assert_eq!(instance.capacity.amount("cpu"), Quantity::units(2));
    let kinds: Vec<&str> = request.tags.iter().map(|tags| tags.resource_type).collect();
    assert_eq!(kinds, ["instance", "volume", "fleet"]);
    let templates = world.account.templates();
    let data: Vec<&str> = templates.values().flat_map(|one| &one.data.tags).map(|one| one.resource_type).collect();
    assert_eq!(data, ["network-interface", "spot-instances-request"]);
    // What EC2 shows later says the same.
    pass(30).await;
    world.provider.list().await.unwrap();
    let shown = world.provider.get(&instance.provider_id).await.unwrap();
    assert_eq!(shown.labels, instance.labels);
    assert_eq!(
        world.seen.take(),
        ["batch describe_instances 1", "user data of default", "batch create_fleet 1"],
        "AWS-171"
    );
}

/// AWS-146, AWS-147, AC-160, AC-161, AC-162, AC-208, AWS-177: nothing is asked of EC2 when the class is not there or not ready.
#[tokio::test(start_paused = true)]
async fn classes_that_cannot_launch() {
    let world = World::new().await;
    world.account.forget_calls();
    let ask = |status: &'static str, observed: i64| {
        world.classes.put(ready_class(
            &json!({}),
            &json!({"conditions": [{"type": "Ready", "status": status, "reason": "x", "message": "SubnetsReady=False",
                "observedGeneration": observed, "lastTransitionTime": "2026-11-16T04:00:00Z"}]}),
        ));
        async { world.provider.create(&claim("a", &["m5.large"], &[])).await }
    };
    for (status, observed, want) in [
        ("False", 1, "NodeClassRef not ready, SubnetsReady=False"),
        ("True", 0, "NodeClassRef not ready, generation 1 of class default is not judged yet"),
        ("Unknown", 1, "creating nodeclaim, NodeClass is in Ready=Unknown"),
    ] {
        assert_eq!(ask(status, observed).await.unwrap_err().to_string(), want);
    }
    world.class(&json!({}));
    let mut going = ready_class(&json!({}), &json!({}));
    going.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
    world.classes.put(going);
    let error = world.create(&claim("a", &["m5.large"], &[])).await.unwrap_err();
    assert!(matches!(error, CreateError::InsufficientCapacity(_)), "{error}");
    world.classes.remove("default");
    let error = world.create(&claim("a", &["m5.large"], &[])).await.unwrap_err();
    assert_eq!(error.remedy(), Remedy::DeleteClaim);
    assert_eq!(world.seen.take(), ["event on a: Failed resolving NodeClass", "event on a: Failed resolving NodeClass"]);

    world.class(&json!({}));
    for (types, zone) in [(&["m5.large"][..], "nowhere"), (&["x9.huge"][..], "test-zone-1a")] {
        let mut claim = claim("a", types, &[]);
        claim.requirements.add(Requirement::any_of(labels::ZONE, [zone]));
        let error = world.create(&claim).await.unwrap_err().to_string();
        assert_eq!(error, "insufficient capacity, all requested instance types were unavailable during launch");
    }
    assert_eq!(world.account.calls("CreateFleet") + world.account.calls("CreateLaunchTemplate"), 0);

    // A cluster that does not say where its services are: AL2023 waits, a family that does not need it launches.
    let mut outside = World::new().await;
    outside.account.lock().cluster = None;
    outside.restart().await;
    let error = outside.create(&claim("a", &["m5.large"], &[])).await.unwrap_err();
    assert!(matches!(error, CreateError::NodeClassNotReady(_)), "{error}");
    outside.class(&json!({"amiFamily": "Bottlerocket", "amiSelectorTerms": [{"id": "ami-1"}]}));
    outside.create(&claim("b", &["m5.large"], &[])).await.unwrap();
}

/// AC-165, AC-170, AC-171, AC-218, AC-216, AWS-186: spot first; refused everywhere it is not tried for three minutes.
#[tokio::test(start_paused = true)]
async fn on_demand_stands_in_for_spot() {
    let world = World::new().await;
    let spot =
        Refusal { capacity_type: Some("spot".to_owned()), ..Refusal::all("InsufficientInstanceCapacity", "none") };
    world.account.lock().refusals = vec![spot];
    let both = ["spot", "on-demand"];
    let error = world.create(&claim("a", &["m5.large", "c5.large"], &both)).await.unwrap_err();
    assert_eq!(error.to_string(), "insufficient capacity, with fleet error(s), InsufficientInstanceCapacity: none");
    assert_eq!(world.seen.take().iter().filter(|text| text.starts_with("launch failed")).count(), 6);
    let (_, second) = world.launched(&claim("b", &["m5.large", "c5.large"], &both)).await;
    assert_eq!(label(&second, labels::CAPACITY_TYPE), "on-demand");
    let request = world.account.lock().fleet_requests.last().unwrap().clone();
    assert_eq!((request.default_capacity_type, request.on_demand_strategy), ("on-demand", Some("lowest-price")));
    world.account.lock().refusals.clear();
    pass(181).await;
    let (_, third) = world.launched(&claim("c", &["m5.large", "c5.large"], &both)).await;
    assert_eq!(label(&third, labels::CAPACITY_TYPE), "spot");
}

/// AWS-150, AWS-301, AWS-302, AC-150, AC-174, AC-222, AC-293, AC-294, AC-296: reservations are used first, while there is anything left.
#[tokio::test(start_paused = true)]
async fn reservations_are_used_first() {
    let world = World::new().await;
    let zone = "test-zone-1a";
    let status =
        json!({"capacityReservations": [reservation("cr-1", "m5.large", zone), reservation("cr-2", "m5.large", zone)]});
    world.classes.put(ready_class(&json!({}), &status));
    reserve(&world, "cr-1", "m5.large", zone, 1);
    reserve(&world, "cr-2", "m5.large", zone, 2);
    let any = ["reserved", "on-demand"];
    let mut used = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let (claim, instance) = world.launched(&claim(name, &["m5.large"], &any)).await;
        used.push((label(&instance, aws::CAPACITY_RESERVATION_ID).to_owned(), claim));
    }
    let ids: Vec<&str> = used.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!((ids[0], ids[3]), ("cr-2", ""), "the roomier one first, on demand at last");
    assert_eq!([ids[1], ids[2]].iter().collect::<std::collections::BTreeSet<_>>().len(), 2, "{ids:?}");
    let fleets = world.account.calls("CreateFleet");
    let error = world.create(&claim("e", &["m5.large"], &["reserved"])).await.unwrap_err();
    assert!(matches!(error, CreateError::InsufficientCapacity(_)));
    assert_eq!(world.account.calls("CreateFleet"), fleets, "EC2 is not asked for what is full");
    let types = world.provider.instance_types(&pool()).await.unwrap();
    let large = types.iter().find(|one| one.name == "m5.large").unwrap();
    let reserved: Vec<_> = large.offerings.iter().filter(|one| one.capacity_type() == Some("reserved")).collect();
    assert!(reserved.iter().all(|one| one.available && one.reservation_capacity == Some(0)), "V15-82: full, not gone");

    // A confirmed end frees a place at once.
    let (_, first) = &used[0];
    world.provider.delete(first).await.unwrap();
    pass(30).await;
    assert!(world.provider.delete(first).await.is_err());
    world.account.lock().reservations.iter_mut().for_each(|(info, _)| info.available = 1);
    let (_, again) = world.launched(&claim("f", &["m5.large"], &["reserved"])).await;
    assert_eq!(label(&again, aws::CAPACITY_RESERVATION_ID), "cr-2");

    // EC2 says that it is full after all, then a query says otherwise.
    let infos: Vec<_> = world.account.lock().reservations.iter().map(|(info, _)| info.clone()).collect();
    world.provider.reservations_described(&infos);
    world.account.lock().refusals = vec![Refusal::all("ReservationCapacityExceeded", "full")];
    for name in ["g", "h"] {
        let error = world.create(&claim(name, &["m5.large"], &["reserved"])).await.unwrap_err();
        assert!(matches!(error, CreateError::InsufficientCapacity(_)), "{error}");
    }
    world.account.lock().refusals.clear();
    world.provider.reservations_described(&[ReservationInfo {
        id: "cr-1".to_owned(),
        available: 3,
        ..infos[0].clone()
    }]);
    world.account.lock().reservations[0].0.available = 3;
    world.launched(&claim("i", &["m5.large"], &["reserved"])).await;
}

/// AWS-138, AC-168, AC-169, AC-188, AC-189, AC-190: metal and GPUs only if asked for; tenancy; EFA only where the instance has it.
#[tokio::test(start_paused = true)]
async fn what_is_chosen() {
    let world = World::new().await;
    let (_, any) = world.launched(&claim("a", &[], &["on-demand"])).await;
    assert_eq!(label(&any, labels::INSTANCE_TYPE), "m6g.large", "the cheapest");
    let asked = world.account.lock().fleet_requests[0].clone();
    let names: Vec<&str> =
        asked.configs.iter().flat_map(|one| &one.overrides).map(|one| one.instance_type.as_str()).collect();
    assert!(!names.contains(&"m5.metal") && !names.contains(&"g4dn.8xlarge"), "{names:?}");
    let mut dedicated = claim("b", &["g4dn.8xlarge"], &["on-demand"]);
    dedicated.requirements.add(Requirement::any_of(aws::INSTANCE_TENANCY, ["dedicated"]));
    let (_, gpu) = world.launched(&dedicated).await;
    assert_eq!((label(&gpu, aws::INSTANCE_TENANCY), gpu.image_id.as_deref()), ("dedicated", Some("ami-gpu")));
    assert_eq!(gpu.capacity.get("vpc.amazonaws.com/efa"), None, "the type has it, this instance does not");
    let types = world.provider.instance_types(&pool()).await.unwrap();
    assert!(types.iter().all(|one| one.offerings.len() == 6), "AWS-138: tenancy makes no offerings");
    let mut efa = claim("c", &["g4dn.8xlarge"], &["on-demand"]);
    efa.requests.set("vpc.amazonaws.com/efa", Quantity::units(1));
    let (_, with) = world.launched(&efa).await;
    assert_eq!(with.capacity.amount("vpc.amazonaws.com/efa"), Quantity::units(1));
    world.class(&json!({"networkInterfaces": [
        {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
        {"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"},
    ]}));
    let (_, own) = world.launched(&claim("d", &["g4dn.8xlarge"], &["on-demand"])).await;
    assert_eq!(own.capacity.amount("vpc.amazonaws.com/efa"), Quantity::units(1), "the class asks for one");
}

#[derive(Debug, Default)]
struct Labels(Mutex<Vec<String>>);

#[async_trait]
impl ClaimLabels for Labels {
    async fn set_label(&self, claim: &str, key: &str, value: &str) -> Result<(), karpenter_platform::BoxError> {
        self.0.lock().unwrap().push(format!("{claim} {key}={value}"));
        Ok(())
    }
}

/// AWS-149, AC-237, AC-238: the partition that was asked for, or the one that EC2 chose, once it says so.
#[tokio::test(start_paused = true)]
async fn partitions() {
    let world = World::new().await;
    world.account.lock().placement_groups = vec![PlacementGroupInfo {
        id: "pg-1".to_owned(),
        name: "spread-out".to_owned(),
        strategy: "partition".to_owned(),
        partitions: Some(12),
    }];
    world.class(&json!({"placementGroupSelector": {"name": "spread-out"}}));
    let mut some = claim("a", &["m5.large"], &["on-demand"]);
    some.requirements.add(Requirement::any_of(aws::PLACEMENT_GROUP_PARTITION, ["2", "10"]));
    let (_, instance) = world.launched(&some).await;
    assert_eq!(label(&instance, aws::PLACEMENT_GROUP_PARTITION), "2");
    assert_eq!(label(&instance, aws::PLACEMENT_GROUP_ID), "pg-1");

    let (open, instance) = world.launched(&claim("b", &["m5.large"], &["on-demand"])).await;
    assert_eq!(instance.labels.get(aws::PLACEMENT_GROUP_PARTITION).map(String::as_str), Some(""));
    let written = Arc::new(Labels::default());
    let provider = AwsProvider::new(
        world.account.clients(),
        world.settings.clone(),
        world.clock.clone(),
        Arc::new(world.classes.clone()),
        world.seen.clone(),
    );
    let provider = provider.unwrap().with_claim_labels(written.clone());
    let hooks = provider.registration_hooks();
    let outcome = karpenter_platform::check_hooks(hooks, &open).await;
    assert!(!outcome.is_satisfied() && outcome.again_after.is_some(), "EC2 does not say yet");
    let id = crate::provider_id::instance_id(&instance.provider_id).unwrap().to_owned();
    world.account.lock().machines.get_mut(&id).unwrap().change(|info| info.partition = Some(7));
    assert!(karpenter_platform::check_hooks(hooks, &open).await.is_satisfied());
    assert_eq!(*written.0.lock().unwrap(), ["b karpenter.k8s.aws/placement-group-partition=7"]);
    let labelled = ClaimView { labels: [(aws::PLACEMENT_GROUP_PARTITION.to_owned(), "7".to_owned())].into(), ..open };
    assert!(karpenter_platform::check_hooks(hooks, &labelled).await.is_satisfied());

    // AWS-84, AWS-85, AWS-290: gone is gone; one that cannot be asked about stays in use.
    pass(61).await;
    world.account.fail("DescribePlacementGroups", &ApiError::new("RequestLimitExceeded", ""), 1);
    world.launched(&claim("c", &["m5.large"], &["on-demand"])).await;
    pass(61).await;
    world.account.lock().placement_groups.clear();
    let error = world.create(&claim("d", &["m5.large"], &["on-demand"])).await.unwrap_err();
    assert_eq!(error.to_string(), "NodeClassRef not ready, Placement group \"spread-out\" not found");
}

/// AWS-160, AWS-161, AWS-162, AC-178, AC-180, AC-181, AC-182: templates are shared, found again, made again, and deleted a minute
/// after their last use, also by the next leader.
#[tokio::test(start_paused = true)]
async fn launch_templates() {
    let mut world = World::new().await;
    for name in ["a", "b"] {
        world.launched(&claim(name, &["m5.large"], &["on-demand"])).await;
    }
    assert_eq!((world.account.calls("CreateLaunchTemplate"), world.account.templates().len()), (1, 1));
    // Somebody deletes it behind our back.
    let id = world.account.lock().template_ids().pop().unwrap();
    crate::cloud::Ec2Writes::delete_launch_template(&world.account, &id).await.unwrap();
    world.launched(&claim("c", &["m5.large"], &["on-demand"])).await;
    assert_eq!((world.account.calls("CreateLaunchTemplate"), world.account.calls("CreateFleet")), (2, 4));
    let gone = ApiError::new("InvalidLaunchTemplateName.NotFoundException", "gone");
    world.account.fail("CreateFleet", &gone, 2);
    let error = world.create(&claim("d", &["m5.large"], &["on-demand"])).await.unwrap_err();
    let text = "creating nodeclaim, Launch templates not found when creating fleet request: Instance launch failed";
    assert_eq!(error.to_string(), text);

    world.restart().await;
    world.launched(&claim("e", &["m5.large"], &["on-demand"])).await;
    assert_eq!(world.account.calls("CreateLaunchTemplate"), 2, "the next process adopts it");
    pass(59).await;
    world.provider.tidy().await;
    assert_eq!(world.account.templates().len(), 1);
    pass(2).await;
    world.provider.tidy().await;
    assert_eq!(world.account.templates().len(), 0);

    for (name, zone) in [("f", "a"), ("g", "b"), ("h", "c")] {
        let mut claim = claim(name, &["m5.large"], &["on-demand"]);
        claim.labels.insert("team".to_owned(), zone.to_owned());
        world.launched(&claim).await;
    }
    assert_eq!(world.account.templates().len(), 3, "labels shape user data");
    world.restart().await;
    pass(61).await;
    world.account.fail("DeleteLaunchTemplate", &ApiError::new("RequestLimitExceeded", ""), 1);
    world.provider.tidy().await;
    assert_eq!(world.account.templates().len(), 1, "one could not be deleted");
    pass(61).await;
    world.provider.tidy().await;
    assert_eq!(world.account.templates().len(), 0);

    // AWS-41, AC-279: those of a class that goes.
    world.launched(&claim("i", &["m5.large"], &["on-demand"])).await;
    world.seen.take();
    world.provider.delete_class_templates("other").await.unwrap();
    assert_eq!(world.account.templates().len(), 1);
    world.provider.delete_class_templates("default").await.unwrap();
    assert_eq!(world.account.templates().len(), 0);
    assert_eq!(world.seen.take(), ["class other gone", "class default gone"]);
}

/// AWS-63, AWS-64, AC-56, AC-57, AC-58, AC-224: addresses that launches will take are counted at once.
#[tokio::test(start_paused = true)]
async fn subnets_with_free_addresses() {
    let world = World::new().await;
    let twin = {
        let mut state = world.account.lock();
        let mut twin = state.subnets[0].clone();
        twin.0.id = "subnet-twin".to_owned();
        (state.subnets[0].0.free_addresses, twin.0.free_addresses) = (50, 60);
        state.subnets.push(twin.clone());
        twin.0.id
    };
    let subnets = json!([
        {"id": "subnet-test1", "zone": "test-zone-1a", "zoneID": "tstz1-1a"},
        {"id": twin, "zone": "test-zone-1a", "zoneID": "tstz1-1a"},
    ]);
    world.classes.put(ready_class(&json!({}), &json!({"subnets": subnets})));
    world.describe_subnets();
    let mut used = Vec::new();
    for name in ["a", "b", "c"] {
        world.launched(&claim(name, &["m5.large"], &["on-demand"])).await;
        used.push(world.account.lock().fleet_requests.last().unwrap().configs[0].overrides[0].subnet_id.clone());
    }
    assert_eq!(used, ["subnet-twin", "subnet-test1", "subnet-twin"], "29 pods each");
    world.account.fail("CreateFleet", &ApiError::new("InternalError", "x"), 1);
    world.describe_subnets();
    assert!(world.create(&claim("d", &["m5.large"], &["on-demand"])).await.is_err());
    world.launched(&claim("e", &["m5.large"], &["on-demand"])).await;
    let last = world.account.lock().fleet_requests.last().unwrap().configs[0].overrides[0].subnet_id.clone();
    assert_eq!(last, "subnet-twin", "what a failed launch would have taken is back");
}
