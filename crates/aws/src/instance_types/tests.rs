mod labels;
mod sizes;

use std::collections::BTreeSet;

use jiff::Timestamp;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{CATALOGUE, class, class_of, resolved, sizing, type_info};

const MI: i64 = 1 << 20;

fn of(name: &str, spec: &Value) -> InstanceType {
    resolved(&type_info(name), &class(spec), &sizing())
}

fn of_family(name: &str, family: &str, more: &Value) -> InstanceType {
    resolved(&type_info(name), &class_of(family, more), &sizing())
}

fn allocatable(known: &InstanceType) -> [i64; 4] {
    let all = known.allocatable();
    let mib = |name| all.amount(name).value() / MI;
    [all.amount(CPU).milli_value(), mib(MEMORY), all.amount(PODS).value(), mib(EPHEMERAL_STORAGE)]
}

fn amount(known: &InstanceType, name: &str) -> i64 {
    known.capacity.amount(name).value()
}

/// §3.11, AWS-118, AWS-119, AWS-123, AWS-130, AWS-133, AC-127: the reference numbers, and the same for every type that is known.
#[test]
fn what_is_left_for_pods_of_every_type() {
    let (class, sizing) = (class(&json!({})), sizing());
    assert!(CATALOGUE.len() > 1300);
    for row in CATALOGUE.iter() {
        let known = resolved(&row.info, &class, &sizing);
        assert_eq!(allocatable(&known), row.allocatable, "{}", known.name);
        let memory = known.allocatable().amount(MEMORY).value();
        assert_eq!(memory % MI, 0, "{}: whole mebibytes", known.name);
    }
}

/// §3.11: the reference numbers of the specification itself, to the byte.
#[test]
fn reference_numbers() {
    for (name, cpu, memory, pods) in [
        ("a1.medium", 940, 1392, 8),
        ("t3.medium", 1930, 3246, 17),
        ("t3.large", 1930, 6837, 35),
        ("t3.2xlarge", 7910, 29317, 58),
        ("t4g.small", 1930, 1359, 11),
        ("m5.large", 1930, 6903, 29),
        ("m5.xlarge", 3920, 14162, 58),
        ("m5.2xlarge", 7910, 29317, 58),
        ("m5.metal", 95690, 355_262, 737),
        ("m6g.large", 1930, 6844, 29),
        ("c5.large", 1930, 3114, 29),
        ("c7i-flex.large", 1930, 3114, 29),
        ("g4dn.xlarge", 3920, 14481, 29),
        ("g4dn.8xlarge", 31850, 120_248, 58),
        ("g5.12xlarge", 47810, 173_400, 737),
        ("p5.48xlarge", 191_450, 1_938_410, 100),
    ] {
        let known = of(name, &json!({}));
        assert_eq!(allocatable(&known), [cpu, memory, pods, 17 * 1024], "{name}");
    }
    assert_eq!(allocatable(&of("u7i-12tb.224xlarge", &json!({})))[0], 893_690, "AC-131");
}

/// §3.11, AWS-124, AWS-126, AWS-127, AWS-128, AC-138: devices beyond CPUs and memory.
#[test]
fn devices() {
    let neuron = "aws.amazon.com/neuron";
    let cores = "aws.amazon.com/neuroncore";
    for (name, resource, want) in [
        ("m5.large", "vpc.amazonaws.com/pod-eni", 9),
        ("m5.xlarge", "vpc.amazonaws.com/pod-eni", 18),
        ("t3.large", "vpc.amazonaws.com/pod-eni", 0),
        ("g4dn.xlarge", "nvidia.com/gpu", 1),
        ("g4dn.8xlarge", "nvidia.com/gpu", 1),
        ("g4dn.8xlarge", "vpc.amazonaws.com/efa", 1),
        ("g5.12xlarge", "nvidia.com/gpu", 4),
        ("g4ad.16xlarge", "amd.com/gpu", 4),
        ("g4ad.16xlarge", "nvidia.com/gpu", 0),
        ("p5.48xlarge", "nvidia.com/gpu", 8),
        ("p5.48xlarge", "vpc.amazonaws.com/efa", 32),
        ("dl1.24xlarge", "habana.ai/gaudi", 8),
        ("inf1.2xlarge", neuron, 1),
        ("inf1.2xlarge", cores, 4),
        ("inf2.xlarge", neuron, 1),
        ("inf2.xlarge", cores, 2),
        ("trn1.32xlarge", neuron, 16),
        ("trn1.32xlarge", cores, 32),
        ("trn1.32xlarge", "vpc.amazonaws.com/efa", 8),
        ("trn2.48xlarge", neuron, 16),
        ("trn2.48xlarge", cores, 128),
        ("g6f.large", "nvidia.com/gpu", 0),
    ] {
        assert_eq!(amount(&of(name, &json!({})), resource), want, "{name} {resource}");
    }
}

/// AWS-125, AC-139: Windows nodes hand out addresses, as far as the table knows the type.
#[test]
fn addresses_of_windows_nodes() {
    let address = "vpc.amazonaws.com/PrivateIPv4Address";
    assert_eq!(amount(&of_family("m5.large", "Windows2022", &json!({})), address), 9);
    assert_eq!(amount(&of_family("hpc6a.48xlarge", "Windows2022", &json!({})), address), 0, "not in the table");
    assert_eq!(of("m5.large", &json!({})).capacity.get(address), None);
}

/// AWS-128, AC-190: what the class attaches counts, not what could be attached.
#[test]
fn efa_interfaces_of_the_class() {
    let interface =
        |card, device, kind| json!({"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind});
    let efa = "vpc.amazonaws.com/efa";
    let only = json!({"networkInterfaces": [interface(0, 0, "interface")]});
    assert_eq!(amount(&of("p5.48xlarge", &only), efa), 0);
    let one = json!({"networkInterfaces": [interface(0, 0, "interface"), interface(1, 1, "efa-only")]});
    assert_eq!(amount(&of("p5.48xlarge", &one), efa), 1);
}

/// AWS-120, AWS-282, AC-154: the least that was seen of a type with the same images, for sixty days.
#[test]
fn discovered_memory() {
    let at = |day: i64| Timestamp::from_second(day * 86_400).unwrap();
    let kib = |kib: i64| karpenter_model::quantity::Quantity::bytes(kib << 10);
    let mut seen = DiscoveredMemory::default();
    assert!(seen.observe("m5.large", 1, kib(7_600_000), at(0)));
    assert!(!seen.observe("m5.large", 1, kib(7_700_000), at(1)), "more than known");
    assert!(!seen.observe("m5.large", 1, kib(7_600_000), at(30)), "refreshed");
    assert_eq!(seen.get("m5.large", 1, at(89)), Some(kib(7_600_000)));
    assert_eq!(seen.get("m5.large", 1, at(90)), None, "sixty days after the last time");
    assert!(seen.observe("m5.large", 1, kib(7_500_000), at(80)), "lowered");
    assert_eq!((seen.get("m5.large", 2, at(80)), seen.get("m5.xlarge", 1, at(80))), (None, None));

    let zones = BTreeSet::new();
    let (class, sizing) = (class(&json!({"kubelet": {"evictionHard": {"memory.available": "10%"}}})), sizing());
    let facts = |observed_memory| TypeFacts {
        class: &class,
        sizing: &sizing,
        placement_group: None,
        zones: &zones,
        observed_memory,
        observed_attachments: None,
        expressions: None,
    };
    let info = type_info("m5.large");
    let (estimated, observed) = (resolve(&info, &facts(None)), resolve(&info, &facts(Some(kib(7_600_000)))));
    let (estimated, observed) = (estimated.unwrap(), observed.unwrap());
    assert_eq!(amount(&observed, MEMORY), 7_600_000 << 10);
    assert_eq!(observed.overhead, estimated.overhead, "percentages keep to the estimate");
}

/// AWS-312, AWS-313, AC-301, AC-302.
#[test]
fn attachment_limits() {
    let limit = |known: &InstanceType| known.attachment_limits["ebs.csi.aws.com"];
    assert_eq!(limit(&of("m5.large", &json!({}))), 26);
    assert_eq!(limit(&of_family("m5.large", "Bottlerocket", &json!({}))), 25);
    assert_eq!(limit(&of_family("m5.large", "Custom", &json!({}))), 26, "the image has one");
    assert_eq!(limit(&of("m6idn.32xlarge", &json!({}))), 22);
    assert_eq!(limit(&of("i3.large", &json!({}))), 38);
    let mut dedicated = type_info("m5.large");
    dedicated.ebs_attachments = Some(crate::cloud::AttachmentLimit { maximum: 64, dedicated: true });
    assert_eq!(limit(&resolved(&dedicated, &class(&json!({})), &sizing())), 63);
    dedicated.ebs_attachments = Some(crate::cloud::AttachmentLimit { maximum: 1, dedicated: false });
    assert_eq!(limit(&resolved(&dedicated, &class(&json!({})), &sizing())), 1, "never none");
    let three: Vec<Value> = ["/dev/xvda", "/dev/xvdb", "/dev/xvdc"].iter().map(|n| json!({"deviceName": n})).collect();
    assert_eq!(limit(&of("m5.large", &json!({"blockDeviceMappings": three}))), 24);

    let now = Timestamp::UNIX_EPOCH;
    let mut seen = DiscoveredAttachments::default();
    assert!(seen.observe("m5.large", 1, 24, now));
    assert!(!seen.observe("m5.large", 1, 24, now));
    assert_eq!((seen.get("m5.large", 1, now), seen.get("m5.large", 2, now)), (Some(24), None));
    assert!(seen.observe("m5.large", 1, 25, now), "raised, too");
    let (class, sizing, zones) = (class(&json!({})), sizing(), BTreeSet::new());
    let facts = TypeFacts {
        class: &class,
        sizing: &sizing,
        placement_group: None,
        zones: &zones,
        observed_memory: None,
        observed_attachments: seen.get("m5.large", 1, now),
        expressions: None,
    };
    assert_eq!(limit(&resolve(&type_info("m5.large"), &facts).unwrap()), 25);
}
