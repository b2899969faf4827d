use karpenter_model::requirements::Operator;

use super::*;

fn find<'a>(catalogue: &'a Catalogue, name: &str) -> &'a InstanceType {
    catalogue.types.iter().find(|t| t.name == name).unwrap()
}

/// AWS-118, AWS-119, AWS-122, AWS-123, AWS-126, AWS-127, AWS-130, AWS-132, AWS-133: the reference numbers of section 3.11.
#[test]
fn what_pods_can_have() {
    let catalogue = Catalogue::ec2().unwrap();
    for (name, cpu, memory, pods) in [
        ("a1.medium", "940m", 1392, 8),
        ("t3.medium", "1930m", 3246, 17),
        ("t3.large", "1930m", 6837, 35),
        ("t3.2xlarge", "7910m", 29317, 58),
        ("t4g.small", "1930m", 1359, 11),
        ("m5.large", "1930m", 6903, 29),
        ("m5.xlarge", "3920m", 14162, 58),
        ("m5.metal", "95690m", 355_262, 737),
        ("m6g.large", "1930m", 6844, 29),
        ("c5.large", "1930m", 3114, 29),
        ("c7i-flex.large", "1930m", 3114, 29),
        ("g4dn.xlarge", "3920m", 14481, 29),
        ("g5.12xlarge", "47810m", 173_400, 737),
        ("p5.48xlarge", "191450m", 1_938_410, 100),
    ] {
        let allocatable = find(&catalogue, name).allocatable();
        assert_eq!(allocatable.amount(CPU).to_string(), cpu, "{name}");
        assert_eq!(allocatable.amount(MEMORY), Quantity::bytes(memory * MI), "{name}");
        assert_eq!(allocatable.amount(PODS), Quantity::units(pods), "{name}");
        assert_eq!(allocatable.amount(EPHEMERAL_STORAGE), Quantity::bytes(17 * GI), "{name}");
    }
    for (name, resource, amount) in [
        ("g4dn.8xlarge", "nvidia.com/gpu", 1),
        ("g4ad.xlarge", "amd.com/gpu", 1),
        ("g6f.large", "nvidia.com/gpu", 0),
        ("p5.48xlarge", "nvidia.com/gpu", 8),
        ("inf1.2xlarge", "aws.amazon.com/neuroncore", 4),
        ("inf2.xlarge", "aws.amazon.com/neuroncore", 2),
        ("trn1.32xlarge", "aws.amazon.com/neuron", 16),
        ("trn1.32xlarge", "aws.amazon.com/neuroncore", 32),
        ("m5.large", "nvidia.com/gpu", 0),
    ] {
        assert_eq!(find(&catalogue, name).allocatable().amount(resource), Quantity::units(amount), "{name} {resource}");
    }
}

/// AWS-117, AC-252 and the labels of section 3.2.
#[test]
fn labels_and_offerings() {
    let catalogue = Catalogue::ec2().unwrap();
    assert_eq!(catalogue.types.len(), 1345);
    let m5 = find(&catalogue, "m5.large");
    assert_eq!(m5.offerings.len(), 6);
    let prices: Vec<String> = m5.offerings.iter().map(|offering| offering.price.to_string()).collect();
    assert_eq!(prices[..2], ["0.096000", "0.067200"]);
    let shown = |instance_type: &InstanceType, key: &str| -> String {
        let requirement = instance_type.requirements.get(key).unwrap();
        match requirement.operator() {
            Operator::DoesNotExist => "-".to_owned(),
            _ => requirement.values().collect::<Vec<_>>().join(" "),
        }
    };
    for (name, key, want) in [
        ("m5.large", labels::ZONE, "us-east-1a us-east-1b us-east-1c"),
        ("m5.large", aws::ZONE_ID, "use1-az1 use1-az2 use1-az3"),
        ("m5.large", labels::CAPACITY_TYPE, "on-demand spot"),
        ("m5.large", labels::REGION, "us-east-1"),
        ("m5.large", aws::INSTANCE_CATEGORY, "m"),
        ("m5.large", aws::INSTANCE_GENERATION, "5"),
        ("m5.large", aws::INSTANCE_CPU, "2"),
        ("m5.large", aws::INSTANCE_MEMORY, "8192"),
        ("m5.large", aws::INSTANCE_GPU_NAME, "-"),
        ("m5.large", aws::INSTANCE_LOCAL_NVME, "-"),
        ("m5.metal", aws::INSTANCE_HYPERVISOR, ""),
        ("c7i-flex.large", aws::INSTANCE_CAPABILITY_FLEX, "true"),
        ("c7i-flex.large", aws::INSTANCE_FAMILY, "c7i-flex"),
        ("u-6tb1.56xlarge", aws::INSTANCE_GENERATION, "1"),
        ("u-6tb1.56xlarge", labels::CAPACITY_TYPE, "on-demand"),
        ("g6f.large", aws::INSTANCE_GPU_COUNT, "0"),
        ("g6f.large", aws::INSTANCE_GPU_MANUFACTURER, "nvidia"),
        ("g4dn.xlarge", aws::INSTANCE_GPU_MEMORY, "16384"),
        ("inf2.xlarge", aws::INSTANCE_ACCELERATOR_NAME, "inferentia2"),
        ("inf2.xlarge", aws::INSTANCE_GPU_NAME, "-"),
        ("m6g.large", labels::ARCH, "arm64"),
        ("m5.large", aws::INSTANCE_TENANCY, "dedicated default"),
    ] {
        assert_eq!(shown(find(&catalogue, name), key), want, "{name} {key}");
    }
    // AWS-136: no image for them, so nothing of them is to be had.
    assert!(find(&catalogue, "a1.large").offerings.iter().all(|offering| !offering.available));
    // AWS-312.
    for (name, limit) in [("m5.large", 26), ("m5d.large", 25), ("c4.large", 38)] {
        assert_eq!(find(&catalogue, name).attachment_limits["ebs.csi.aws.com"], limit, "{name}");
    }
}

/// API-258, AWS-204: every well-known key is on every type, every region has its own prices.
#[test]
fn every_type_is_complete() {
    for (region, count) in [(0, 1345), (1, 750), (2, 545), (3, 304)] {
        let catalogue = Catalogue::ec2_of(region).unwrap();
        assert_eq!(catalogue.types.len(), count);
        for instance_type in &catalogue.types {
            let absent = |key: &&str| {
                // Pools and placement groups are not the type's to know.
                *key != labels::NODEPOOL && !key.contains("placement-group") && !instance_type.requirements.has_key(key)
            };
            let missing: Vec<&str> = catalogue.policy.rules().well_known_keys().filter(absent).collect();
            assert!(missing.is_empty(), "{}: {missing:?}", instance_type.name);
            let allocatable = instance_type.allocatable();
            assert!(allocatable.iter().all(|(_, amount)| !amount.is_negative()), "{}", instance_type.name);
            assert!(!instance_type.offerings.is_empty());
        }
    }
}
