use super::*;

/// AWS-158, AWS-159, AC-183, AC-185, AC-186: the whole request.
#[test]
fn whole_request() {
    let launch = launch(&json!({"metadataOptions": default_metadata(), "tags": {"team": "a"}}));
    let template = launch.template();
    insta::assert_json_snapshot!("launch_template", template.request);
    assert!(template.request.name.starts_with("karpenter.k8s.aws/"));
    assert!(template.request.name.trim_start_matches("karpenter.k8s.aws/").parse::<u64>().is_ok());
    assert!(template.user_data_bytes > 100);
}

/// AWS-156, AWS-158: the whole request of a class that says all it can, for a type with several network cards.
#[test]
fn whole_request_of_a_full_class() {
    let ebs = json!({
        "deleteOnTermination": true, "encrypted": true, "iops": 4000, "kmsKeyID": "key-1", "snapshotID": "snap-1",
        "throughput": 250, "volumeInitializationRate": 100, "volumeSize": "100Gi", "volumeType": "gp3",
    });
    let launch = launch(&json!({
        "amiFamily": "AL2023", "associatePublicIPAddress": true, "ipPrefixCount": 2, "userData": "#!/bin/sh\necho hi",
        "tags": {"team": "a"}, "kubelet": {"maxPods": 10}, "instanceStorePolicy": "RAID0", "detailedMonitoring": true,
        "blockDeviceMappings": [{"deviceName": "/dev/xvda", "rootVolume": true, "ebs": ebs}],
        "metadataOptions": default_metadata(), "context": "ctx-1", "cpuOptions": {"nestedVirtualization": "enabled"},
        "connectionTracking": {"tcpEstablishedTimeout": 432_000, "udpStreamTimeout": 180, "udpTimeout": 30},
    }));
    let group = PlacementGroup { id: "pg-1".into(), name: "g".into(), strategy: "cluster".into(), partitions: 0 };
    let full = Launch { types: vec!["p5.48xlarge"], group: Some(group), tenancy: "dedicated", ..launch };
    insta::assert_json_snapshot!("launch_template_full", full.requesting("vpc.amazonaws.com/efa").template().request);
}

/// AWS-158, AC-178, AC-179: same name for the same launch, another for anything that shapes it, whatever the types are.
#[test]
fn names() {
    let name = |launch: &Launch| launch.template().request.name;
    let plain = launch(&json!({}));
    let base = name(&plain);
    assert_eq!(name(&launch(&json!({}))), base);
    let more_types = Launch { types: vec!["m5.large", "c5.large"], ..launch(&json!({})) };
    assert_eq!(name(&more_types), base, "both take 29 pods");
    let mut others = vec![
        launch(&json!({"kubelet": {"maxPods": 10}})),
        launch(&json!({"userData": "#!/bin/sh"})),
        launch(&json!({"tags": {"a": "b"}})),
        launch(&json!({"detailedMonitoring": true})),
        launch(&json!({"associatePublicIPAddress": true})),
        launch(&json!({"ipPrefixCount": 1})),
        launch(&json!({"instanceStorePolicy": "RAID0"})),
        launch(&json!({"connectionTracking": {"udpTimeout": 30}})),
        launch(&json!({"cpuOptions": {"nestedVirtualization": "disabled"}})),
        launch(&json!({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "30Gi"}}]})),
        launch_with(&json!({}), &json!({"securityGroups": [{"id": "sg-9"}]})),
        launch_with(&json!({}), &json!({"instanceProfile": "other"})),
        Launch { capacity_type: "spot", ..launch(&json!({})) },
        Launch { tenancy: "dedicated", ..launch(&json!({})) },
        Launch { gate: false, ..launch(&json!({})) },
        launch(&json!({})).requesting("eks.amazonaws.com/nip-slots"),
    ];
    let mut labelled = launch(&json!({}));
    labelled.claim.labels.insert("team".to_owned(), "a".to_owned());
    let mut tainted = launch(&json!({}));
    tainted.claim.taints.push(karpenter_model::taints::Taint::disrupted());
    let mut other_class = launch(&json!({}));
    other_class.class.name = "other".to_owned();
    let mut other_endpoint = launch(&json!({}));
    other_endpoint.cluster.endpoint = "https://other".to_owned();
    others.extend([labelled, tainted, other_class, other_endpoint]);
    let mut all: Vec<String> = others.iter().map(name).chain([base]).collect();
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count, "every one of them is another template");
}

/// AWS-159, AWS-58: one per image and pods; types without an image are left out; none at all is an error.
#[test]
fn one_per_image_and_pods() {
    let types = vec!["m5.large", "c5.large", "m5.xlarge", "m6g.large", "g4dn.xlarge", "inf2.xlarge"];
    let all = Launch { types, ..launch(&json!({})) }.templates();
    let shape: Vec<(String, Vec<String>)> = all
        .iter()
        .map(|one| (one.request.data.image_id.clone(), one.types.iter().map(|known| known.name.clone()).collect()))
        .collect();
    let row = |image: &str, types: &[&str]| (image.to_owned(), types.iter().map(|one| (*one).to_owned()).collect());
    assert_eq!(
        shape,
        [
            row("ami-amd", &["m5.large", "c5.large"]),
            row("ami-amd", &["m5.xlarge"]),
            row("ami-arm", &["m6g.large"]),
            row("ami-gpu", &["g4dn.xlarge"]),
        ]
    );
    let launch = Launch { types: vec!["inf2.xlarge"], ..launch(&json!({})) };
    assert_eq!(templates(&launch.types(), &launch.facts()), Err(TemplateError::NoImages));
    let launch = launch_with(&json!({}), &json!({"securityGroups": []}));
    assert_eq!(templates(&launch.types(), &launch.facts()), Err(TemplateError::NoSecurityGroups), "AWS-160");
}

/// AC-183, AC-184: disks by family, sizes in whole GiB.
#[test]
fn disks() {
    let disks = |launch: &Launch| {
        let devices = launch.template().request.data.block_devices;
        let text = devices.iter().map(|device| {
            let ebs = device.ebs.clone().unwrap_or_default();
            let kind = ebs.volume_type.unwrap_or_default();
            format!(
                "{} {} {kind} {:?}",
                device.device_name.clone().unwrap_or_default(),
                ebs.size_gib.unwrap_or(0),
                ebs.encrypted
            )
        });
        text.collect::<Vec<_>>()
    };
    let family = |family: &str| launch(&json!({"amiFamily": family, "amiSelectorTerms": [{"id": "ami-1"}]}));
    for (name, want) in [
        ("AL2", &["/dev/xvda 20 gp3 Some(true)"][..]),
        ("AL2023", &["/dev/xvda 20 gp3 Some(true)"]),
        ("Bottlerocket", &["/dev/xvda 4 gp3 Some(true)", "/dev/xvdb 20 gp3 Some(true)"]),
        ("Custom", &[]),
    ] {
        assert_eq!(disks(&family(name)), want, "{name}");
    }
    for (size, want) in [("200G", 187), ("4G", 4), ("187Gi", 187), ("1Ti", 1024)] {
        let spec = json!({"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {
            "volumeSize": size, "iops": 0, "throughput": 0, "kmsKeyID": "key", "snapshotID": "snap-1",
            "volumeInitializationRate": 200, "deleteOnTermination": false,
        }}]});
        let ebs = launch(&spec).template().request.data.block_devices[0].ebs.clone().unwrap();
        assert_eq!((ebs.size_gib, ebs.iops, ebs.throughput), (Some(want), None, None), "{size}");
        assert_eq!((ebs.kms_key_id.as_deref(), ebs.snapshot_id.as_deref()), (Some("key"), Some("snap-1")));
        assert_eq!((ebs.initialization_rate, ebs.delete_on_termination), (Some(200), Some(false)));
    }
}

/// AC-185, AC-186, AC-187, AC-188: metadata service, monitoring, enclaves, tenancy.
#[test]
fn options() {
    let data = |launch: Launch| launch.template().request.data;
    let own = data(launch(&json!({"metadataOptions": default_metadata()}))).metadata;
    assert_eq!((own.endpoint.as_str(), own.ipv6.as_deref(), own.hop_limit), ("enabled", Some("disabled"), 1));
    assert_eq!((own.tokens.as_str(), own.instance_tags), ("required", "disabled"));
    let absent = data(launch(&json!({}))).metadata;
    assert_eq!((absent.endpoint.as_str(), absent.hop_limit, absent.ipv6.as_deref()), ("disabled", 2, Some("disabled")));
    let isolated = Launch { region: "us-iso-east-1", ..launch(&json!({"metadataOptions": default_metadata()})) };
    assert_eq!(data(isolated).metadata.ipv6, None);
    assert!(!data(launch(&json!({}))).detailed_monitoring);
    assert!(data(launch(&json!({"detailedMonitoring": true}))).detailed_monitoring);
    assert!(data(launch(&json!({})).requesting("eks.amazonaws.com/nip-slots")).enclave);
    assert!(!data(launch(&json!({}))).enclave);
    assert_eq!(data(Launch { tenancy: "dedicated", ..launch(&json!({})) }).placement.tenancy, "dedicated");
}

/// AC-237, AWS-149: the lowest partition that the claim allows, as a number.
#[test]
fn placement() {
    let group =
        || Some(PlacementGroup { id: "pg-1".into(), name: "g".into(), strategy: "partition".into(), partitions: 12 });
    let placed = |launch: Launch| launch.template().request.data.placement;
    let in_group = |values: &[&str]| {
        Launch { group: group(), ..launch(&json!({})) }.requiring(aws::PLACEMENT_GROUP_PARTITION, values)
    };
    assert_eq!(placed(in_group(&["1", "3"])).partition, Some(1));
    assert_eq!(placed(in_group(&["10", "2"])).partition, Some(2));
    let open = placed(Launch { group: group(), ..launch(&json!({})) });
    assert_eq!((open.group_id.as_deref(), open.partition), (Some("pg-1"), None));
    assert_eq!(placed(launch(&json!({}))).group_id, None);
}

/// AC-174, AC-175, AC-176, AC-177, AWS-159, AWS-269: reservations are said only behind the gate, one template each.
#[test]
fn reservations() {
    let reservation = |id: &str, kind: &str, interruptible: bool| {
        json!({
            "id": id, "availabilityZone": "test-zone-1a", "instanceMatchCriteria": "targeted", "instanceType": "m5.large",
            "ownerID": "123456789012", "reservationType": kind, "interruptible": interruptible, "state": "active",
        })
    };
    let reserved = |one: Value| Launch {
        capacity_type: labels::CAPACITY_TYPE_RESERVED,
        left: vec![("cr-1", 3)],
        ..launch_with(&json!({}), &json!({"capacityReservations": [one]}))
    };
    let said = |launch: &Launch| {
        let data = launch.template().request.data;
        (data.reservation.map(|one| (one.preference, one.target)), data.market)
    };
    let target = || Some(("capacity-reservations-only", Some("cr-1".to_owned())));
    assert_eq!(said(&reserved(reservation("cr-1", "default", false))), (target(), None));
    assert_eq!(said(&reserved(reservation("cr-1", "capacity-block", false))), (target(), Some("capacity-block")));
    let interruptible = said(&reserved(reservation("cr-1", "default", true)));
    assert_eq!(interruptible, (target(), Some("interruptible-capacity-reservation")));
    assert_eq!(said(&launch(&json!({}))), (Some(("none", None)), None));
    assert_eq!(said(&Launch { gate: false, ..launch(&json!({})) }), (None, None));

    let both =
        json!({"capacityReservations": [reservation("cr-1", "default", false), reservation("cr-2", "default", false)]});
    let launch = Launch {
        capacity_type: labels::CAPACITY_TYPE_RESERVED,
        left: vec![("cr-1", 3), ("cr-2", 3)],
        ..launch_with(&json!({}), &both)
    };
    assert_eq!(launch.templates().len(), 2);
}
