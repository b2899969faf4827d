use karpenter_api::names::{LabelPolicy, aws};
use karpenter_model::labels;
use karpenter_model::requirements::{Operator, Requirement};

use super::*;
use crate::fixtures::class_with;

fn label(known: &InstanceType, key: &str) -> String {
    let requirement = known.requirements.get(key).unwrap_or_else(|| panic!("{key} of {}", known.name));
    match requirement.operator() {
        Operator::DoesNotExist => "-".to_owned(),
        _ => requirement.values().collect::<Vec<_>>().join(","),
    }
}

/// §3.2: what each label says, and `-` where there is nothing to say.
#[test]
fn labels_of_types() {
    for (name, wanted) in [
        (
            "m5.large",
            &[
                (labels::INSTANCE_TYPE, "m5.large"),
                (labels::ARCH, "amd64"),
                (labels::OS, "linux"),
                (labels::WINDOWS_BUILD, "-"),
                (labels::REGION, "us-west-2"),
                (labels::ZONE, "test-zone-1a,test-zone-1b,test-zone-1c"),
                (aws::ZONE_ID, "tstz1-1a,tstz1-1b,tstz1-1c"),
                (labels::CAPACITY_TYPE, "on-demand,spot"),
                (aws::INSTANCE_CATEGORY, "m"),
                (aws::INSTANCE_GENERATION, "5"),
                (aws::INSTANCE_FAMILY, "m5"),
                (aws::INSTANCE_SIZE, "large"),
                (aws::INSTANCE_CPU, "2"),
                (aws::INSTANCE_CPU_MANUFACTURER, "intel"),
                (aws::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ, "3100"),
                (aws::INSTANCE_MEMORY, "8192"),
                (aws::INSTANCE_EBS_BANDWIDTH, "4750"),
                (aws::INSTANCE_NETWORK_BANDWIDTH, "750"),
                (aws::INSTANCE_LOCAL_NVME, "-"),
                (aws::INSTANCE_HYPERVISOR, "nitro"),
                (aws::INSTANCE_ENCRYPTION_IN_TRANSIT_SUPPORTED, "true"),
                (aws::INSTANCE_CAPABILITY_FLEX, "false"),
                (aws::INSTANCE_GPU_NAME, "-"),
                (aws::INSTANCE_ACCELERATOR_NAME, "-"),
                (aws::INSTANCE_TENANCY, "dedicated,default"),
                (aws::CAPACITY_RESERVATION_ID, "-"),
            ][..],
        ),
        (
            "g4ad.16xlarge",
            &[
                (aws::INSTANCE_GPU_NAME, "radeon-pro-v520"),
                (aws::INSTANCE_GPU_MANUFACTURER, "amd"),
                (aws::INSTANCE_GPU_COUNT, "4"),
                (aws::INSTANCE_GPU_MEMORY, "8192"),
                (aws::INSTANCE_LOCAL_NVME, "2400"),
            ],
        ),
        (
            "inf2.xlarge",
            &[
                (aws::INSTANCE_ACCELERATOR_NAME, "inferentia"),
                (aws::INSTANCE_ACCELERATOR_MANUFACTURER, "aws"),
                (aws::INSTANCE_ACCELERATOR_COUNT, "1"),
                (aws::INSTANCE_GPU_COUNT, "-"),
            ],
        ),
        ("m6g.large", &[(labels::ARCH, "arm64")]),
        ("i3.large", &[(aws::INSTANCE_HYPERVISOR, "xen")]),
        ("m5.metal", &[(aws::INSTANCE_HYPERVISOR, "")]),
        ("m7i-flex.large", &[(aws::INSTANCE_CAPABILITY_FLEX, "true")]),
        // AWS-117, AC-135: a part of a GPU counts as none.
        ("g6f.large", &[(aws::INSTANCE_GPU_COUNT, "0"), (aws::INSTANCE_GPU_NAME, "l4")]),
    ] {
        let known = of(name, &json!({}));
        for (key, want) in wanted {
            assert_eq!(label(&known, key), *want, "{key} of {name}");
        }
    }
}

/// API-258 for AWS: every well-known label is defined on every type, but the pool's and those of placement groups.
#[test]
fn every_well_known_label_is_defined() {
    let policy = LabelPolicy::aws();
    let absent = [labels::NODEPOOL, aws::PLACEMENT_GROUP_ID, aws::PLACEMENT_GROUP_PARTITION];
    for name in ["m5.large", "g4dn.xlarge", "inf2.xlarge", "m5.metal"] {
        let known = of(name, &json!({}));
        for key in policy.rules().well_known_keys().filter(|key| !absent.contains(key)) {
            assert!(known.requirements.has_key(key), "{key} of {name}");
        }
    }
}

/// §3.2, AWS-44: Windows runs on amd64 only.
#[test]
fn windows() {
    let known = of_family("m5.large", "Windows2022", &json!({}));
    assert_eq!(
        (label(&known, labels::OS), label(&known, labels::WINDOWS_BUILD)),
        ("windows".into(), "10.0.20348".into())
    );
    assert_eq!(label(&of_family("m6g.large", "Windows2022", &json!({})), labels::OS), "-");
    for (family, build) in [("Windows2019", "10.0.17763"), ("Windows2025", "10.0.26100")] {
        assert_eq!(label(&of_family("m5.large", family, &json!({})), labels::WINDOWS_BUILD), build);
    }
}

/// AWS-250: a type with nothing but a name and unknown words is a type all the same.
#[test]
fn a_type_nobody_has_seen() {
    let info = InstanceTypeInfo {
        name: "zz99-ultra.7xlarge".to_owned(),
        architectures: vec!["riscv".to_owned()],
        usage_classes: vec!["lunar".to_owned()],
        ..InstanceTypeInfo::default()
    };
    let known = resolved(&info, &class(&json!({})), &sizing());
    assert_eq!((label(&known, labels::ARCH), label(&known, labels::CAPACITY_TYPE)), ("riscv".into(), "-".into()));
    assert_eq!((label(&known, aws::INSTANCE_GENERATION), amount(&known, PODS)), ("99".into(), 0));
    assert_eq!(label(&known, aws::INSTANCE_CPU_SUSTAINED_CLOCK_SPEED_MHZ), "-");
}

/// §3.2, AWS-140: reservations and placement groups add their labels.
#[test]
fn reservations_and_placement_groups() {
    let reservation = json!({
        "id": "cr-1", "availabilityZone": "test-zone-1a", "instanceMatchCriteria": "open", "instanceType": "m5.large",
        "ownerID": "123456789012", "reservationType": "capacity-block", "interruptible": false, "state": "active",
    });
    let class = class_with(&json!({}), &json!({"capacityReservations": [reservation]}));
    let known = resolved(&type_info("m5.large"), &class, &sizing());
    assert_eq!(label(&known, labels::CAPACITY_TYPE), "on-demand,reserved,spot");
    assert_eq!(label(&known, aws::CAPACITY_RESERVATION_ID), "cr-1");
    assert_eq!(label(&known, aws::CAPACITY_RESERVATION_TYPE), "capacity-block");
    assert_eq!(label(&known, aws::CAPACITY_RESERVATION_INTERRUPTIBLE), "false");
    assert_eq!(label(&resolved(&type_info("m5.xlarge"), &class, &sizing()), aws::CAPACITY_RESERVATION_ID), "-");

    let group = PlacementGroup {
        id: "pg-1".to_owned(),
        name: "group".to_owned(),
        strategy: "partition".to_owned(),
        partitions: 3,
    };
    let (sizing, zones) = (sizing(), BTreeSet::new());
    let facts = TypeFacts {
        class: &class,
        sizing: &sizing,
        placement_group: Some(&group),
        zones: &zones,
        observed_memory: None,
        observed_attachments: None,
        expressions: None,
    };
    let known = resolve(&type_info("m5.large"), &facts).unwrap();
    assert_eq!(label(&known, aws::PLACEMENT_GROUP_ID), "pg-1");
    assert_eq!(label(&known, aws::PLACEMENT_GROUP_PARTITION), "1,2,3");
    assert_eq!(known.requirements.get(labels::ZONE).map(Requirement::operator), Some(Operator::DoesNotExist));
}
