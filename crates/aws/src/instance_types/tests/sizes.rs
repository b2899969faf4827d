use super::*;

const GI: i64 = 1 << 30;

fn reserved_mib(known: &InstanceType) -> i64 {
    known.overhead.kube_reserved.amount(MEMORY).value() / MI
}

fn with_reserved_enis(name: &str, family: &str, reserved_enis: i64) -> InstanceType {
    resolved(&type_info(name), &class_of(family, &json!({})), &Sizing { reserved_enis, ..sizing() })
}

/// AC-113, AC-114, AWS-130: what the kubelet keeps.
#[test]
fn kube_reserved() {
    let known = of("m5.xlarge", &json!({}));
    let reserved = &known.overhead.kube_reserved;
    assert_eq!(reserved.amount(CPU).milli_value(), 80);
    assert_eq!((reserved_mib(&known), reserved.amount(EPHEMERAL_STORAGE).value()), (893, GI));
    assert_eq!(known.overhead.total().amount(MEMORY).value(), 993 * MI);
    let known = of_family("m5.xlarge", "Bottlerocket", &json!({"kubelet": {"maxPods": 110}}));
    assert_eq!(known.overhead.total().amount(MEMORY).value(), 1565 * MI);
    for (vcpus, want) in [(1, 60), (2, 70), (4, 80), (8, 90), (16, 110), (32, 150), (48, 190), (96, 310), (192, 550)] {
        let mut info = type_info("m5.large");
        info.vcpus = vcpus;
        let known = resolved(&info, &class(&json!({})), &sizing());
        assert_eq!(known.overhead.kube_reserved.amount(CPU).milli_value(), want, "{vcpus} CPUs");
    }
}

/// AC-115, AC-117, AWS-123, AWS-129: interfaces that are kept from pods.
#[test]
fn reserved_interfaces() {
    assert_eq!(amount(&of("t3.large", &json!({})), PODS), 35);
    for (family, memory) in [("AL2", 640), ("AL2023", 640), ("Custom", 640), ("Bottlerocket", 519)] {
        let known = with_reserved_enis("t3.large", family, 1);
        assert_eq!((amount(&known, PODS), reserved_mib(&known)), (24, memory), "{family}");
    }
    assert_eq!(amount(&with_reserved_enis("t3.large", "AL2023", 1_000_000), PODS), 0);
    assert_eq!(amount(&with_reserved_enis("t3.large", "AL2023", i64::MAX), PODS), 0);
}

/// AC-116, AC-118, AC-119, AC-120, AWS-122, AWS-129.
#[test]
fn pods() {
    for (name, family, kubelet, pods, memory) in [
        ("t3.large", "Windows2022", json!({}), 110, 1465),
        ("t3.large", "AL2", json!({"maxPods": 10}), 10, 640),
        ("t3.large", "AL2023", json!({"maxPods": 10}), 10, 640),
        ("t3.large", "Custom", json!({"maxPods": 10}), 10, 640),
        ("t3.large", "Bottlerocket", json!({"maxPods": 10}), 10, 365),
        ("t3.large", "Windows2019", json!({"maxPods": 10}), 10, 365),
        ("m5.xlarge", "AL2023", json!({"podsPerCore": 1}), 4, 893),
        ("m5.xlarge", "AL2023", json!({"podsPerCore": 4, "maxPods": 20}), 16, 893),
        ("m5.xlarge", "AL2023", json!({"podsPerCore": 0}), 58, 893),
        ("m5.xlarge", "Bottlerocket", json!({"podsPerCore": 1}), 58, 893),
        ("m5.xlarge", "Windows2025", json!({"podsPerCore": 1}), 4, 299),
    ] {
        let known = of_family(name, family, &json!({"kubelet": kubelet}));
        assert_eq!((amount(&known, PODS), reserved_mib(&known)), (pods, memory), "{name} {family} {kubelet}");
    }
    let with_efa = |card| {
        let interfaces = json!([
            {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"},
            {"networkCardIndex": card, "deviceIndex": 1, "interfaceType": "efa-only"},
        ]);
        amount(&of("m6idn.32xlarge", &json!({"networkInterfaces": interfaces})), PODS)
    };
    assert_eq!((amount(&of("m6idn.32xlarge", &json!({})), PODS), with_efa(0), with_efa(1)), (394, 345, 394));
}

/// AC-121, AC-122, AC-123, AWS-132: only hard evictions count.
#[test]
fn evictions() {
    // 8192 MiB less 615.
    let memory = 7577 * MI;
    for (kubelet, want) in [
        (json!({}), 100 * MI),
        (json!({"evictionHard": {"memory.available": "500Mi"}}), 500 * MI),
        (json!({"evictionHard": {"memory.available": "10%"}}), (memory + 9) / 10),
        (json!({"evictionHard": {"memory.available": "100%"}}), 0),
        (json!({"evictionHard": {"memory.available": ""}}), 100 * MI),
        (json!({"evictionSoft": {"memory.available": "10Gi"}}), 100 * MI),
        (
            json!({"evictionHard": {"memory.available": "5%"}, "evictionSoft": {"memory.available": "10%"}}),
            (memory + 19) / 20,
        ),
    ] {
        let known = of("m5.large", &json!({"kubelet": kubelet}));
        assert_eq!(known.overhead.eviction_threshold.amount(MEMORY).value(), want, "{kubelet}");
    }
    let known = of("m5.large", &json!({"kubelet": {"evictionHard": {"nodefs.available": "5Gi"}}}));
    assert_eq!(known.overhead.eviction_threshold.amount(EPHEMERAL_STORAGE).value(), 5 * GI);
}

/// AC-124, AC-125, AWS-131.
#[test]
fn reserved_by_the_class() {
    let amounts = |known: &InstanceType, system: bool| {
        let list = if system { &known.overhead.system_reserved } else { &known.overhead.kube_reserved };
        [CPU, MEMORY, EPHEMERAL_STORAGE].map(|name| list.amount(name).to_string())
    };
    let all =
        |cpu: &str, memory: &str, storage: &str| json!({"cpu": cpu, "memory": memory, "ephemeral-storage": storage});
    let known = of(
        "m5.xlarge",
        &json!({"kubelet": {"systemReserved": all("2", "20Gi", "10Gi"), "kubeReserved": all("2", "10Gi", "2Gi")}}),
    );
    assert_eq!(amounts(&known, true), ["2", "20Gi", "10Gi"]);
    assert_eq!(amounts(&known, false), ["2", "10Gi", "2Gi"]);
    let known = of("m5.xlarge", &json!({"kubelet": {"kubeReserved": {"cpu": "1500m"}}}));
    assert_eq!(amounts(&known, false), ["1500m", "893Mi", "1Gi"]);
    assert!(known.overhead.system_reserved.is_empty());
}

/// AC-126, AC-128, AC-129, AC-130, AWS-121.
#[test]
fn storage() {
    let device = |name: &str, size: &str| json!({"deviceName": name, "ebs": {"volumeSize": size}});
    let root = |name: &str, size: &str| json!({"deviceName": name, "ebs": {"volumeSize": size}, "rootVolume": true});
    let snapshot = |name: &str| json!({"deviceName": name, "ebs": {"snapshotID": "snap-1"}});
    let devices = |list: Value| json!({"blockDeviceMappings": list});
    let raid = json!({"instanceStorePolicy": "RAID0"});
    for (name, family, spec, want) in [
        ("m6idn.32xlarge", "AL2023", raid.clone(), "7600G"),
        ("m5.large", "AL2023", raid, "20Gi"),
        ("m6idn.32xlarge", "AL2023", json!({}), "20Gi"),
        ("m5.large", "AL2", devices(json!([snapshot("/dev/xvda")])), "20Gi"),
        ("m5.large", "AL2", devices(json!([device("/dev/xvda", "50Gi")])), "50Gi"),
        ("m5.large", "AL2", devices(json!([device("/dev/xvdb", "50Gi")])), "20Gi"),
        ("m5.large", "Bottlerocket", devices(json!([snapshot("/dev/xvdb")])), "20Gi"),
        ("m5.large", "Bottlerocket", json!({}), "20Gi"),
        ("m5.large", "Bottlerocket", devices(json!([root("/dev/xvda", "100Gi")])), "100Gi"),
        ("m5.large", "Custom", devices(json!([device("/dev/xvda", "20Gi"), device("/dev/xvdb", "40Gi")])), "40Gi"),
        ("m5.large", "Custom", devices(json!([root("/dev/xvda", "20Gi"), device("/dev/xvdb", "40Gi")])), "20Gi"),
        ("m5.large", "Custom", json!({}), "20Gi"),
        ("m5.large", "Windows2022", json!({}), "50Gi"),
    ] {
        let known = of_family(name, family, &spec);
        assert_eq!(known.capacity.amount(EPHEMERAL_STORAGE).to_string(), want, "{name} {family} {spec}");
    }
    let asks = |amount: &str| {
        [(EPHEMERAL_STORAGE, amount.parse().unwrap())].into_iter().collect::<karpenter_model::resources::Resources>()
    };
    let joined = of("m6idn.32xlarge", &json!({"instanceStorePolicy": "RAID0"})).allocatable();
    let plain = of("m6idn.32xlarge", &json!({})).allocatable();
    assert!(asks("5000Gi").fits(&joined) && !asks("5000Gi").fits(&plain));
    assert!(asks("17Gi").fits(&plain) && !asks("19Gi").fits(&plain));
}

/// AC-158, AWS-119, AC-159.
#[test]
fn memory_overhead_is_a_setting() {
    for (percent, want) in [(0.0, 4096), (0.075, 3788)] {
        let sizing = Sizing { vm_memory_overhead_percent: percent, ..sizing() };
        let known = resolved(&type_info("t3.medium"), &class(&json!({})), &sizing);
        assert_eq!(amount(&known, MEMORY), want * MI);
    }
}
