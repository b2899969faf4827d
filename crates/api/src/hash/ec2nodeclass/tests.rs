use serde_json::{Value, json};

use super::*;

fn merged(mut base: Value, change: Value) -> Value {
    if let (Value::Object(base), Value::Object(change)) = (&mut base, change) {
        base.extend(change);
    }
    base
}

fn hash_with(spec: &Value, ca_bundle: &str) -> u64 {
    let selectors = json!({ "amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": [] });
    let spec: EC2NodeClassSpec = serde_json::from_value(merged(selectors, spec.clone())).unwrap();
    ec2_node_class_hash(&spec, ca_bundle).unwrap()
}

/// The base of AC-284 with members replaced.
fn full(change: Value) -> Value {
    let base = json!({
        "role": "role-1",
        "tags": { "keyTag-1": "valueTag-1", "keyTag-2": "valueTag-2" },
        "context": "fake-context",
        "detailedMonitoring": false,
        "associatePublicIPAddress": false,
        "metadataOptions": metadata("disabled", 1, "optional"),
        "blockDeviceMappings": devices("2G"),
        "userData": "userdata-test-1",
    });
    merged(base, change)
}

fn metadata(endpoint: &str, hops: i64, tokens: &str) -> Value {
    json!({ "httpEndpoint": endpoint, "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": hops, "httpTokens": tokens })
}

fn devices(size: &str) -> Value {
    let ebs = json!({ "deleteOnTermination": false, "encrypted": false, "iops": 0, "kmsKeyID": "fakeKMSKeyID",
        "snapshotID": "fakeSnapshot", "throughput": 0, "volumeSize": size, "volumeType": "standard" });
    json!([{ "deviceName": "map-device-1", "ebs": ebs }, { "deviceName": "map-device-2" }])
}

/// The base of AC-285 with members added.
fn small(change: Value) -> Value {
    let base = json!({ "role": "KarpenterNodeRole-eks-cluster", "amiFamily": "AL2023",
        "metadataOptions": metadata("enabled", 1, "required") });
    merged(base, change)
}

/// AC-284, AC-285, AWS-26, AWS-27, AWS-29, AWS-288: the published vectors.
#[test]
fn published_vectors() {
    let profile = merged(full(json!({ "instanceProfile": "test-instance-profile" })), json!({ "role": null }));
    for (spec, want) in [
        (full(json!({})), 2_608_468_723_537_941_485),
        (full(json!({ "userData": "userdata-test-2" })), 2_153_344_579_995_979_450),
        (full(json!({ "detailedMonitoring": true })), 11_845_605_438_531_206_428),
        (full(json!({ "instanceStorePolicy": "RAID0" })), 6_430_637_013_089_544_585),
        (full(json!({ "metadataOptions": metadata("disabled", 10, "optional") })), 8_968_306_366_664_488_826),
        (full(json!({ "connectionTracking": { "tcpEstablishedTimeout": 300 } })), 12_177_489_405_137_904_098),
        (full(json!({ "cpuOptions": { "nestedVirtualization": "enabled" } })), 17_001_101_224_536_964_682),
        (full(json!({ "blockDeviceMappings": devices("10G") })), 3_564_293_065_344_858_862),
        (profile, 3_585_768_058_063_247_698),
    ] {
        assert_eq!(hash_with(&spec, "test-ca-bundle"), want, "{spec}");
    }
    for (spec, want) in [
        (small(json!({})), 14_037_753_032_433_926_637),
        (small(json!({ "kubelet": { "maxPods": 110 } })), 11_538_468_228_813_959_319),
        (small(json!({ "tags": {} })), 1_109_620_639_782_624_674),
        (small(json!({ "detailedMonitoring": false })), 17_069_493_233_541_742_808),
    ] {
        assert_eq!(hash_with(&spec, "Y2E="), want, "{spec}");
    }
    assert_eq!(EC2_NODE_CLASS_HASH_VERSION, "v5");
}

/// AWS-288: the suffix hashes region before class name.
#[test]
fn profile_suffix_is_of_region_then_class() {
    assert_eq!(profile_suffix(&["us-west-2", "default"]), 4_067_990_795_380_418_201);
    assert_ne!(profile_suffix(&["us-west-2", "default", "0b3c"]), profile_suffix(&["us-west-2", "default"]));
}

/// AC-23, AC-25, AC-26, AWS-27, AWS-28: what leaves the hash alone.
#[test]
fn equal_meaning_gives_equal_hash() {
    let reversed = json!([devices("2G")[1], devices("2G")[0]]);
    let interfaces = |order: [usize; 2]| {
        let all = [(0, 0, "interface"), (1, 1, "efa-only")].map(
            |(card, device, kind)| json!({ "networkCardIndex": card, "deviceIndex": device, "interfaceType": kind }),
        );
        json!({ "networkInterfaces": order.map(|at| all[at].clone()) })
    };
    let alias = json!([{ "alias": "al2023@latest" }]);
    for (name, one, two) in [
        ("tag order", json!({}), json!({ "tags": { "keyTag-2": "valueTag-2", "keyTag-1": "valueTag-1" } })),
        ("device order", json!({}), json!({ "blockDeviceMappings": reversed })),
        ("interface order", interfaces([0, 1]), interfaces([1, 0])),
        ("subnet terms", json!({}), json!({ "subnetSelectorTerms": [{ "id": "subnet-1" }] })),
        ("group terms", json!({}), json!({ "securityGroupSelectorTerms": [{ "id": "sg-1" }] })),
        ("reservation terms", json!({}), json!({ "capacityReservationSelectorTerms": [{ "id": "cr-1" }] })),
        ("ami terms", json!({}), json!({ "amiSelectorTerms": [{ "id": "ami-1" }] })),
        ("ip prefixes", json!({}), json!({ "ipPrefixCount": 4 })),
        (
            "family of the alias",
            json!({ "amiSelectorTerms": alias }),
            json!({ "amiSelectorTerms": alias, "amiFamily": "AL2023" }),
        ),
        (
            "size text",
            json!({ "blockDeviceMappings": devices("1024Gi") }),
            json!({ "blockDeviceMappings": devices("1Ti") }),
        ),
        ("empty role", json!({ "role": null }), json!({ "role": "" })),
        (
            "rootVolume false",
            json!({ "blockDeviceMappings": [{ "deviceName": "a" }] }),
            json!({ "blockDeviceMappings": [{ "deviceName": "a", "rootVolume": false }] }),
        ),
        (
            "equal devices cancel out",
            json!({ "blockDeviceMappings": [] }),
            json!({ "blockDeviceMappings": [{ "deviceName": "a" }, { "deviceName": "a" }] }),
        ),
    ] {
        assert_eq!(hash_with(&full(one), "ca"), hash_with(&full(two), "ca"), "{name}");
    }
}

/// AC-24, AC-27, AWS-28, AWS-288: every hashed member changes the hash, an explicit empty value included.
#[test]
fn every_hashed_member_matters() {
    let ebs = |member: Value| json!({ "blockDeviceMappings": [{ "deviceName": "a", "ebs": member }] });
    let kubelet = |member: Value| json!({ "kubelet": member });
    let option = |member: Value| json!({ "metadataOptions": member });
    let changes = [
        json!({}),
        json!({ "userData": "x" }),
        json!({ "userData": "" }),
        json!({ "role": "other" }),
        json!({ "instanceProfile": "" }),
        json!({ "tags": { "keyTag-1": "other" } }),
        json!({ "tags": {} }),
        json!({ "context": "other" }),
        json!({ "context": "" }),
        json!({ "detailedMonitoring": true }),
        json!({ "detailedMonitoring": null }),
        json!({ "instanceStorePolicy": "RAID0" }),
        json!({ "associatePublicIPAddress": true }),
        json!({ "associatePublicIPAddress": null }),
        json!({ "placementGroupSelector": {} }),
        json!({ "placementGroupSelector": { "name": "a" } }),
        json!({ "placementGroupSelector": { "id": "a" } }),
        json!({ "amiFamily": "AL2" }),
        json!({ "cpuOptions": {} }),
        json!({ "cpuOptions": { "nestedVirtualization": "enabled" } }),
        json!({ "cpuOptions": { "nestedVirtualization": "disabled" } }),
        json!({ "connectionTracking": { "tcpEstablishedTimeout": 60 } }),
        json!({ "connectionTracking": { "udpStreamTimeout": 60 } }),
        json!({ "connectionTracking": { "udpTimeout": 60 } }),
        json!({ "networkInterfaces": [{ "networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface" }] }),
        json!({ "networkInterfaces": [{ "networkCardIndex": 1, "deviceIndex": 0, "interfaceType": "interface" }] }),
        json!({ "networkInterfaces": [{ "networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "interface" }] }),
        json!({ "networkInterfaces": [] }),
        json!({ "blockDeviceMappings": null }),
        json!({ "blockDeviceMappings": [] }),
        json!({ "blockDeviceMappings": [{ "deviceName": "a" }] }),
        json!({ "blockDeviceMappings": [{ "deviceName": "a", "rootVolume": true }] }),
        ebs(json!({})),
        ebs(json!({ "deleteOnTermination": true })),
        ebs(json!({ "encrypted": true })),
        ebs(json!({ "iops": 3000 })),
        ebs(json!({ "kmsKeyID": "a" })),
        ebs(json!({ "snapshotID": "a" })),
        ebs(json!({ "throughput": 125 })),
        ebs(json!({ "volumeInitializationRate": 100 })),
        ebs(json!({ "volumeSize": "1Gi" })),
        ebs(json!({ "volumeType": "gp3" })),
        option(json!({})),
        option(json!({ "httpEndpoint": "enabled" })),
        option(json!({ "httpProtocolIPv6": "enabled" })),
        option(json!({ "httpPutResponseHopLimit": 2 })),
        option(json!({ "httpTokens": "required" })),
        kubelet(json!({})),
        kubelet(json!({ "clusterDNS": [] })),
        kubelet(json!({ "clusterDNS": ["10.0.0.10"] })),
        kubelet(json!({ "maxPods": 12 })),
        kubelet(json!({ "maxPods": 21 })),
        kubelet(json!({ "podsPerCore": 12 })),
        kubelet(json!({ "systemReserved": { "cpu": "1" } })),
        kubelet(json!({ "kubeReserved": { "cpu": "1" } })),
        kubelet(json!({ "evictionHard": { "memory.available": "5%" } })),
        kubelet(json!({ "evictionSoft": { "memory.available": "5%" } })),
        kubelet(json!({ "evictionSoftGracePeriod": { "memory.available": "1m" } })),
        kubelet(json!({ "evictionSoftGracePeriod": { "memory.available": "0s" } })),
        kubelet(json!({ "evictionMaxPodGracePeriod": 60 })),
        kubelet(json!({ "imageGCHighThresholdPercent": 60 })),
        kubelet(json!({ "imageGCLowThresholdPercent": 60 })),
        kubelet(json!({ "cpuCFSQuota": false })),
        kubelet(json!({ "maxPods": "vcpus * 12" })),
        kubelet(json!({ "maxPods": "vcpus * 21" })),
        kubelet(json!({ "topologyManagerPolicy": "best-effort" })),
        kubelet(json!({ "topologyManagerPolicy": "restricted" })),
    ];
    let mut hashes: Vec<_> = changes.iter().map(|change| hash_with(&full(change.clone()), "ca")).collect();
    hashes.push(hash_with(&full(json!({})), "other-ca"));
    hashes.push(hash_with(&full(json!({})), ""));
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
}

/// AC-5, AWS-27: the family that enters the hash.
#[test]
fn family_is_set_or_from_the_alias_or_custom() {
    for (family, alias, want) in [
        (None, Some("al2@latest"), "AL2"),
        (None, Some("al2@v20240625"), "AL2"),
        (None, Some("al2023@v20240625"), "AL2023"),
        (None, Some("bottlerocket@1.10.0"), "Bottlerocket"),
        (None, Some("windows2019@latest"), "Windows2019"),
        (None, Some("windows2022@latest"), "Windows2022"),
        (None, Some("windows2025@latest"), "Windows2025"),
        (Some("Custom"), Some("bottlerocket@latest"), "Custom"),
        (Some("AL2"), None, "AL2"),
        (None, None, "Custom"),
        (None, Some("al2023"), "Custom"),
        (None, Some("ubuntu@latest"), "Custom"),
    ] {
        let spec = json!({ "amiFamily": family, "amiSelectorTerms": [{ "alias": alias }], "subnetSelectorTerms": [],
            "securityGroupSelectorTerms": [] });
        assert_eq!(ami_family(&serde_json::from_value(spec).unwrap()), want, "{family:?} {alias:?}");
    }
}

/// AWS-28, AWS-10: text without meaning is an error that names its field.
#[test]
fn malformed_text_is_named() {
    let spec = |change: Value| {
        let selectors = json!({ "amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": [] });
        serde_json::from_value::<EC2NodeClassSpec>(merged(selectors, change)).unwrap()
    };
    for (change, field) in [
        (
            json!({ "blockDeviceMappings": [{}, { "ebs": { "volumeSize": "Gi" } }] }),
            "spec.blockDeviceMappings[1].ebs.volumeSize: ",
        ),
        (
            json!({ "kubelet": { "evictionSoftGracePeriod": { "pid.available": "x" } } }),
            "spec.kubelet.evictionSoftGracePeriod[pid.available]: ",
        ),
    ] {
        let error = ec2_node_class_hash(&spec(change), "").unwrap_err().to_string();
        assert!(error.starts_with(field), "{error}");
    }
}
