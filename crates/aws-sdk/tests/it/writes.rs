use karpenter_aws::cloud::{
    BlockDeviceSpec, ConnectionTrackingSpec, EbsSpec, FleetRequest, InterfaceSpec, PlacementSpec, ReservationSpec, Run,
};
use serde_json::json;

use crate::setup::{USER_DATA, fleet, tagged, tags, template, world};

/// AWS-184, AWS-249: what is launched is what was asked for; a token is one launch, however often it is sent.
#[tokio::test]
async fn one_token_is_one_launch() {
    let world = world().await;
    let writes = &world.clients.writes;
    writes.create_launch_template(&template("karpenter.k8s.aws/1")).await.unwrap();
    let subnets = world.subnets().await;
    let request = fleet(&subnets);
    let first = writes.create_fleet(&request, "token-1", Run::Real).await.unwrap();
    assert_eq!((first.instances.len(), first.errors.len()), (1, 0));
    let one = &first.instances[0];
    assert_eq!((one.instance_type.as_str(), one.template_name.as_str()), ("m5.large", "karpenter.k8s.aws/1"));
    assert!(subnets.iter().any(|subnet| subnet.id == one.subnet_id && subnet.zone == one.zone), "{one:?}");
    assert_eq!(writes.create_fleet(&request, "token-1", Run::Real).await.unwrap(), first);
    let other = FleetRequest { target_capacity: 2, ..request };
    let mismatch = writes.create_fleet(&other, "token-1", Run::Real).await.unwrap_err();
    assert_eq!(mismatch.code, "IdempotentParameterMismatch");
    let second = writes.create_fleet(&other, "token-2", Run::Real).await.unwrap();
    assert_eq!(second.instances.len(), 2);
    assert_eq!(world.clients.reads.instances(&[]).await.unwrap().len(), 3);
}

/// AWS-184: spot, and what of it could not be had.
#[tokio::test]
async fn a_fleet_says_what_could_not_be_had() {
    let world = world().await;
    let writes = &world.clients.writes;
    writes.create_launch_template(&template("karpenter.k8s.aws/1")).await.unwrap();
    let subnets = world.subnets().await;
    world.account.change(json!({"no_capacity": [{"zone": "us-west-2a"}]}));
    let request = FleetRequest {
        default_capacity_type: "spot",
        on_demand_strategy: None,
        spot_strategy: Some("price-capacity-optimized"),
        context: Some("a context".to_owned()),
        ..fleet(&subnets)
    };
    let answer = writes.create_fleet(&request, "token-1", Run::Real).await.unwrap();
    assert_eq!(answer.instances.len(), 1);
    assert_eq!(answer.errors.len(), 1);
    let error = &answer.errors[0];
    assert_eq!((error.code.as_str(), error.instance_type.as_str()), ("InsufficientInstanceCapacity", "m5.large"));
    assert_eq!((error.zone.as_str(), &error.subnet_id), ("us-west-2a", &subnets[0].id));
    assert_eq!(error.template_name, "karpenter.k8s.aws/1");
    let one = world.clients.reads.instances_by_id(&[answer.instances[0].id.clone()]).await.unwrap().remove(0);
    assert!(one.spot_request_id.is_some());
    assert_eq!(one.lifecycle.as_deref(), Some("spot"));
}

/// AWS-106, AWS-252: a dry run says so and leaves nothing behind.
#[tokio::test]
async fn dry_runs_are_dry() {
    let world = world().await;
    let writes = &world.clients.writes;
    let template = template("karpenter.k8s.aws/1");
    writes.create_launch_template(&template).await.unwrap();
    let subnets = world.subnets().await;
    let said = writes.create_fleet(&fleet(&subnets), "unused", Run::Dry).await.unwrap_err();
    assert!(said.is_dry_run_success(), "{said:?}");
    let said = writes.run_instances(&template, "m5.large", &subnets[0].id).await.unwrap_err();
    assert!(said.is_dry_run_success(), "{said:?}");
    assert_eq!(world.clients.reads.instances(&[]).await.unwrap(), []);
    world.clients.check().await.unwrap();
    let dry = world.account.calls().iter().filter(|call| call["dry_run"] == true).count();
    assert_eq!(dry, 3);
}

/// AWS-253 and the table of AWS-158: every field of a template arrives.
#[tokio::test]
async fn templates_arrive_whole() {
    let world = world().await;
    let mut request = template("karpenter.k8s.aws/1");
    let data = &mut request.data;
    data.detailed_monitoring = true;
    data.enclave = true;
    data.nested_virtualization = Some("enabled".to_owned());
    data.market = Some("capacity-block");
    data.reservation =
        Some(ReservationSpec { preference: "capacity-reservations-only", target: Some("cr-1".to_owned()) });
    data.placement =
        PlacementSpec { tenancy: "dedicated".to_owned(), group_id: Some("pg-1".to_owned()), partition: Some(3) };
    data.block_devices = vec![BlockDeviceSpec {
        device_name: Some("/dev/xvdb".to_owned()),
        ebs: Some(EbsSpec {
            delete_on_termination: Some(true),
            encrypted: Some(true),
            volume_type: Some("io2".to_owned()),
            iops: Some(4000),
            throughput: Some(250),
            kms_key_id: Some("key".to_owned()),
            snapshot_id: Some("snap-1".to_owned()),
            initialization_rate: Some(100),
            size_gib: Some(50),
        }),
    }];
    data.interfaces = vec![InterfaceSpec {
        network_card: Some(1),
        device: 2,
        kind: Some("efa-only".to_owned()),
        security_groups: vec!["sg-1".to_owned(), "sg-2".to_owned()],
        public_ip: Some(false),
        ipv4_prefixes: Some(2),
        ipv6_prefixes: Some(4),
        primary_ipv6: Some(true),
        ipv6_addresses: Some(1),
        connection_tracking: Some(ConnectionTrackingSpec {
            tcp_established: Some(300),
            udp_stream: Some(120),
            udp: Some(30),
        }),
    }];
    data.tags = tagged(&["network-interface", "spot-instances-request"], &[("team", "shop")]);
    world.clients.writes.create_launch_template(&request).await.unwrap();

    // Looked at with the SDK's own types, as the service has it.
    let ec2 = aws_sdk_ec2::Client::new(&world.sdk);
    let versions = ec2.describe_launch_template_versions().launch_template_name(&request.name).send().await.unwrap();
    let got = versions.launch_template_versions()[0].launch_template_data().unwrap();
    assert_eq!(got.image_id(), Some(request.data.image_id.as_str()));
    assert_eq!(got.iam_instance_profile().unwrap().name(), Some("nodes"));
    assert_eq!(got.user_data(), Some(USER_DATA));
    assert_eq!(got.monitoring().unwrap().enabled(), Some(true));
    assert_eq!(got.enclave_options().unwrap().enabled(), Some(true));
    assert_eq!(got.cpu_options().unwrap().nested_virtualization().unwrap().as_str(), "enabled");
    assert_eq!(got.instance_market_options().unwrap().market_type().unwrap().as_str(), "capacity-block");
    let reservation = got.capacity_reservation_specification().unwrap();
    assert_eq!(reservation.capacity_reservation_preference().unwrap().as_str(), "capacity-reservations-only");
    assert_eq!(reservation.capacity_reservation_target().unwrap().capacity_reservation_id(), Some("cr-1"));
    let placement = got.placement().unwrap();
    assert_eq!(placement.tenancy().unwrap().as_str(), "dedicated");
    assert_eq!((placement.group_id(), placement.partition_number()), (Some("pg-1"), Some(3)));
    let metadata = got.metadata_options().unwrap();
    assert_eq!(metadata.http_tokens().unwrap().as_str(), "required");
    assert_eq!(metadata.http_endpoint().unwrap().as_str(), "enabled");
    assert_eq!(metadata.http_protocol_ipv6().unwrap().as_str(), "disabled");
    assert_eq!(metadata.instance_metadata_tags().unwrap().as_str(), "disabled");
    assert_eq!(metadata.http_put_response_hop_limit(), Some(1));
    let device = &got.block_device_mappings()[0];
    let ebs = device.ebs().unwrap();
    assert_eq!((device.device_name(), ebs.volume_type().unwrap().as_str()), (Some("/dev/xvdb"), "io2"));
    assert_eq!((ebs.delete_on_termination(), ebs.encrypted()), (Some(true), Some(true)));
    assert_eq!((ebs.iops(), ebs.throughput(), ebs.volume_size()), (Some(4000), Some(250), Some(50)));
    assert_eq!((ebs.kms_key_id(), ebs.snapshot_id()), (Some("key"), Some("snap-1")));
    assert_eq!(ebs.volume_initialization_rate(), Some(100));
    let interface = &got.network_interfaces()[0];
    assert_eq!((interface.network_card_index(), interface.device_index()), (Some(1), Some(2)));
    assert_eq!((interface.interface_type(), interface.groups().len()), (Some("efa-only"), 2));
    assert_eq!(interface.associate_public_ip_address(), Some(false));
    assert_eq!((interface.ipv4_prefix_count(), interface.ipv6_prefix_count()), (Some(2), Some(4)));
    assert_eq!((interface.primary_ipv6(), interface.ipv6_address_count()), (Some(true), Some(1)));
    let tracking = interface.connection_tracking_specification().unwrap();
    assert_eq!(tracking.tcp_established_timeout(), Some(300));
    assert_eq!((tracking.udp_stream_timeout(), tracking.udp_timeout()), (Some(120), Some(30)));
    let kinds: Vec<_> = got.tag_specifications().iter().map(|one| one.resource_type().unwrap().as_str()).collect();
    // The emulator adds the template's own.
    assert_eq!(kinds[..2], ["network-interface", "spot-instances-request"]);
}

/// AWS-196, AWS-200: the end of templates and instances, and of those that are gone.
#[tokio::test]
async fn what_goes() {
    let world = world().await;
    let (reads, writes) = (&world.clients.reads, &world.clients.writes);
    let id = world.launch(&[("karpenter.sh/nodepool", "default")]).await;
    writes.create_tags(&id, &tags(&[("Name", "node-1"), ("karpenter.sh/nodeclaim", "one")])).await.unwrap();
    let one = reads.instances_by_id(std::slice::from_ref(&id)).await.unwrap().remove(0);
    assert_eq!((one.tags["Name"].as_str(), one.tags["karpenter.sh/nodeclaim"].as_str()), ("node-1", "one"));
    writes.reboot_instance(&id).await.unwrap();
    assert_eq!(writes.terminate_instances(std::slice::from_ref(&id)).await.unwrap(), std::slice::from_ref(&id));
    let one = reads.instances_by_id(&[id]).await.unwrap().remove(0);
    assert_eq!(one.state, "terminated");
    let gone = writes.terminate_instances(&["i-0123456789abcdef0".to_owned()]).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone:?}");

    let template = reads.launch_template("karpenter.k8s.aws/1").await.unwrap().remove(0);
    writes.delete_launch_template(&template.id).await.unwrap();
    let gone = writes.delete_launch_template(&template.id).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone:?}");
}
