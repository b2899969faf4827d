use std::collections::BTreeSet;

use jiff::Timestamp;
use karpenter_aws::cloud::{AttachmentLimit, Filter, ImageQuery, ReservationInfo, ReservationQuery, TypeOffering};
use karpenter_aws::interruption::status::StatusFailure;
use serde_json::json;

use crate::setup::{IMAGE, tags, template, world};

/// AWS-112, AWS-250: what types are, as EC2 describes them, and where they can be had.
#[tokio::test]
async fn instance_types_and_where_they_are() {
    let world = world().await;
    let types = world.clients.reads.instance_types().await.unwrap();
    assert!(types.len() > 1000, "{}", types.len());
    let of = |name: &str| types.iter().find(|info| info.name == name).unwrap_or_else(|| panic!("no {name}"));

    let m5 = of("m5.large");
    assert_eq!((m5.vcpus, m5.memory_mib, m5.bare_metal), (2, 8192, false));
    assert_eq!(m5.architectures, ["x86_64"]);
    assert_eq!(m5.hypervisor.as_deref(), Some("nitro"));
    assert!(m5.usage_classes.iter().any(|class| class == "spot") && m5.usage_classes.iter().any(|c| c == "on-demand"));
    assert_eq!(m5.default_ebs_mbps, Some(4750));
    assert_eq!((m5.network.ipv4_per_interface, m5.network.default_card), (10, 0));
    assert_eq!(m5.network.cards.iter().map(|card| card.maximum_interfaces).collect::<Vec<_>>(), [3]);
    assert_eq!(m5.network.ena.as_deref(), Some("required"));
    assert_eq!(m5.storage, None);
    assert_eq!(m5.processor.as_ref().unwrap().manufacturer.as_deref(), Some("Intel"));
    assert!(m5.placement_strategies.iter().any(|name| name == "cluster"));
    assert!(m5.ebs_attachments.is_none_or(|limit| limit == AttachmentLimit { maximum: 27, dedicated: false }));

    assert!(of("m6g.large").is_arm());
    assert!(of("m5.metal").bare_metal && of("m5.metal").hypervisor.is_none());
    let p5 = of("p5.48xlarge");
    let gpu = &p5.gpus[0];
    assert_eq!((gpu.name.as_str(), gpu.manufacturer.as_str(), gpu.count, gpu.memory_mib), ("H100", "NVIDIA", 8, 81920));
    assert_eq!((p5.network.maximum_efa, p5.network.cards.len()), (32, 32));
    assert_eq!(p5.network.cards[5].index, 5);
    let storage = p5.storage.as_ref().unwrap();
    assert_eq!((storage.total_gb, storage.disks), (30400, 8));
    let inf1 = of("inf1.xlarge");
    let accelerator = &inf1.inference_accelerators[0];
    assert_eq!((accelerator.manufacturer.as_str(), accelerator.count), ("AWS", 1));
    let neuron = of("trn1.2xlarge").neuron_devices.as_ref().unwrap();
    assert_eq!((neuron[0].count, neuron[0].cores), (1, 2));

    let offerings = world.clients.reads.type_offerings().await.unwrap();
    let wanted = TypeOffering { instance_type: "m5.large".to_owned(), zone: "us-west-2a".to_owned() };
    assert!(offerings.contains(&wanted), "{}", offerings.len());

    let calls = world.account.calls();
    let size = |operation: &str| calls.iter().find(|call| call["operation"] == operation).unwrap()["page_size"].clone();
    assert_eq!(size("DescribeInstanceTypes"), "100");
    assert_eq!(size("DescribeInstanceTypeOfferings"), "1000");
}

/// AWS-249, AWS-84: filters by id, tag and tag key; what is described comes out as it is.
#[tokio::test]
async fn what_classes_select() {
    let world = world().await;
    let reads = &world.clients.reads;
    let subnets = world.subnets().await;
    assert_eq!(subnets.len(), 4);
    assert_eq!((subnets[0].zone.as_str(), subnets[0].zone_id.is_some()), ("us-west-2a", true));
    assert!(subnets[0].free_addresses > 4000, "{}", subnets[0].free_addresses);
    world.clients.writes.create_tags(&subnets[1].id, &tags(&[("karpenter.sh/discovery", "shop")])).await.unwrap();
    for filter in [
        Filter::new("tag:karpenter.sh/discovery", ["shop"]),
        Filter::new("tag-key", ["karpenter.sh/discovery"]),
        Filter::new("subnet-id", [subnets[1].id.clone()]),
    ] {
        let found = reads.subnets(std::slice::from_ref(&filter)).await.unwrap();
        assert_eq!(found.iter().map(|subnet| &subnet.id).collect::<Vec<_>>(), [&subnets[1].id], "{filter:?}");
    }

    let groups = reads.security_groups(&[Filter::new("group-name", ["default"])]).await.unwrap();
    assert_eq!(groups[0].name.as_deref(), Some("default"));
    assert!(groups[0].id.starts_with("sg-"));

    let query =
        |filters, owners: &[&str]| ImageQuery { filters, owners: owners.iter().map(|&o| o.to_owned()).collect() };
    let images = reads.images(&query(vec![Filter::new("image-id", [IMAGE])], &[])).await.unwrap();
    assert_eq!((images[0].id.as_str(), images[0].architecture.as_str()), (IMAGE, "x86_64"));
    assert!(images[0].created.is_some());
    let ours = reads.images(&query(vec![Filter::new("image-id", [IMAGE])], &["self"])).await.unwrap();
    assert!(ours.is_empty(), "{ours:?}");

    let reservation = json!({
        "CapacityReservationId": "cr-1", "InstanceType": "m5.large", "AvailabilityZone": "us-west-2a", "OwnerId": "1",
        "InstanceMatchCriteria": "targeted", "ReservationType": "capacity-block", "AvailableInstanceCount": 3,
        "State": "active", "EndDate": "2027-01-01T00:00:00Z", "Tags": [{"Key": "team", "Value": "shop"}]});
    let group = json!({"GroupId": "pg-1", "GroupName": "racks", "State": "available", "Strategy": "partition", "PartitionCount": 7});
    world.account.change(json!({"reservations": [reservation], "placement_groups": [group]}));
    let by_id = ReservationQuery { id: Some("cr-1".to_owned()), filters: Vec::new() };
    let by_tag = ReservationQuery { id: None, filters: vec![Filter::new("tag:team", ["shop"])] };
    for query in [by_id, by_tag] {
        let found = reads.capacity_reservations(&query).await.unwrap();
        let wanted = ReservationInfo {
            id: "cr-1".to_owned(),
            zone: "us-west-2a".to_owned(),
            instance_type: "m5.large".to_owned(),
            owner_id: "1".to_owned(),
            match_criteria: "targeted".to_owned(),
            kind: "capacity-block".to_owned(),
            interruptible: None,
            ends: Some("2027-01-01T00:00:00Z".parse().unwrap()),
            available: 3,
        };
        assert_eq!(found, [wanted], "{query:?}");
    }
    let missing = ReservationQuery { id: Some("cr-2".to_owned()), filters: Vec::new() };
    assert!(reads.capacity_reservations(&missing).await.unwrap_err().is_not_found());
    let groups = reads.placement_groups(&[Filter::new("group-name", ["racks"])]).await.unwrap();
    assert_eq!(
        (groups[0].id.as_str(), groups[0].strategy.as_str(), groups[0].partitions),
        ("pg-1", "partition", Some(7))
    );
    assert_eq!(groups.len(), 1);
}

/// AWS-197, AWS-198, AWS-210, AWS-221.
#[tokio::test]
async fn what_runs() {
    let world = world().await;
    let reads = &world.clients.reads;
    let id = world.launch(&[("karpenter.sh/nodepool", "default"), ("Name", "one")]).await;
    let found = reads.instances(&[Filter::new("tag-key", ["karpenter.sh/nodepool"])]).await.unwrap();
    assert_eq!(found.len(), 1);
    let one = &found[0];
    assert_eq!((one.id.as_str(), one.state.as_str(), one.instance_type.as_str()), (id.as_str(), "running", "m5.large"));
    assert_eq!((one.image_id.as_str(), one.tags["Name"].as_str()), (IMAGE, "one"));
    assert!(one.zone.starts_with("us-west-2") && one.subnet_id.starts_with("subnet-"));
    assert!(one.launched.is_some() && one.spot_request_id.is_none() && one.lifecycle.is_none());
    assert_eq!(one.tenancy.as_deref(), Some("default"));
    assert_eq!(reads.instances_by_id(std::slice::from_ref(&id)).await.unwrap(), found);
    assert_eq!(reads.instances_by_id(&[]).await.unwrap(), []);
    let gone = reads.instances_by_id(&["i-0123456789abcdef0".to_owned()]).await.unwrap_err();
    assert_eq!(gone.code, "InvalidInstanceID.NotFound");
    assert!(gone.is_not_found() && !gone.server_fault);

    let status = json!({id.clone(): {
        "InstanceStatus": {"Status": "impaired", "Details": [
            {"Name": "reachability", "Status": "failed", "ImpairedSince": "2026-11-16T00:00:00Z"},
            {"Name": "reachability", "Status": "passed"}]},
        "SystemStatus": {"Status": "ok", "Details": [{"Name": "reachability", "Status": "passed"}]},
        "Events": [{"Code": "system-reboot", "Description": "scheduled reboot"}]}});
    world.account.change(json!({"statuses": status}));
    let statuses = reads.instance_status(&[]).await.unwrap();
    let since: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
    assert_eq!(statuses[0].instance_id, id);
    assert_eq!(statuses[0].instance_failures, [StatusFailure { since: Some(since) }]);
    assert_eq!(statuses[0].system_failures, []);
    assert_eq!(statuses[0].events, ["scheduled reboot"]);

    world.account.change(json!({"spot_prices": [
        {"InstanceType": "m5.large", "AvailabilityZone": "us-west-2a", "SpotPrice": "0.0351"}]}));
    let prices = reads.spot_prices(Timestamp::now()).await.unwrap();
    assert_eq!((prices[0].price.as_str(), prices[0].zone.as_str()), ("0.0351", "us-west-2a"));
    assert!(prices[0].timestamp.is_some());
}

/// AWS-254, AWS-52, AC-60: pages without anything in them are no end; deprecated images are asked for, too.
#[tokio::test]
async fn empty_pages_are_no_end() {
    let world = world().await;
    let reads = &world.clients.reads;
    world.launch(&[("karpenter.sh/nodepool", "default")]).await;
    world.account.change(json!({
        "spot_prices": [{"InstanceType": "m5.large", "AvailabilityZone": "us-west-2a", "SpotPrice": "1"}],
        "reservations": [{"CapacityReservationId": "cr-1", "State": "active"}],
        "empty_pages": {
            "DescribeInstanceTypeOfferings": 1, "DescribeSpotPriceHistory": 2, "DescribeImages": 1, "DescribeSubnets": 3,
            "DescribeSecurityGroups": 1, "DescribeCapacityReservations": 1, "DescribeInstances": 2,
            "DescribeInstanceStatus": 1, "DescribeLaunchTemplates": 1}}));
    let image = ImageQuery { filters: vec![Filter::new("image-id", [IMAGE])], owners: Vec::new() };
    let all = ReservationQuery { id: None, filters: Vec::new() };
    let found = [
        ("offerings", reads.type_offerings().await.unwrap().len()),
        ("spot prices", reads.spot_prices(Timestamp::now()).await.unwrap().len()),
        ("images", reads.images(&image).await.unwrap().len()),
        ("subnets", reads.subnets(&[]).await.unwrap().len()),
        ("groups", reads.security_groups(&[]).await.unwrap().len()),
        ("reservations", reads.capacity_reservations(&all).await.unwrap().len()),
        ("instances", reads.instances(&[]).await.unwrap().len()),
        ("statuses", reads.instance_status(&[]).await.unwrap().len()),
        ("templates", reads.launch_templates(&[]).await.unwrap().len()),
    ];
    for (what, count) in found {
        assert!(count > 0, "no {what}");
    }
    let sizes: BTreeSet<(String, String)> = world.account.calls().iter().filter_map(sized).collect();
    for (operation, size) in [
        ("DescribeSpotPriceHistory", "2000"),
        ("DescribeImages", "1000"),
        ("DescribeSubnets", "500"),
        ("DescribeSecurityGroups", "500"),
        ("DescribeCapacityReservations", "1000"),
        ("DescribeInstances", "1000"),
        ("DescribeLaunchTemplates", "200"),
    ] {
        assert!(sizes.contains(&(operation.to_owned(), size.to_owned())), "{operation}: {sizes:?}");
    }
    let calls = world.account.calls();
    let asked = calls.iter().find(|call| call["operation"] == "DescribeImages").unwrap();
    assert_eq!(asked["include_deprecated"], "true", "{asked}");
}

fn sized(call: &serde_json::Value) -> Option<(String, String)> {
    Some((call["operation"].as_str()?.to_owned(), call["page_size"].as_str()?.to_owned()))
}

/// AWS-160, AWS-161: by name, and by tag.
#[tokio::test]
async fn templates_are_found() {
    let world = world().await;
    let made = world.clients.writes.create_launch_template(&template("karpenter.k8s.aws/2")).await.unwrap();
    let reads = &world.clients.reads;
    assert_eq!(reads.launch_template("karpenter.k8s.aws/2").await.unwrap(), std::slice::from_ref(&made));
    let tag = Filter::new("tag:eks:eks-cluster-name", ["shop"]);
    assert_eq!(reads.launch_templates(&[tag]).await.unwrap(), [made]);
    let missing = reads.launch_template("karpenter.k8s.aws/3").await.unwrap_err();
    assert!(missing.is_template_not_found(), "{missing:?}");
}
