//! An instance as the controllers see it (AWS-148, AWS-293).

use std::collections::BTreeMap;

use karpenter_api::hash::EC2_NODE_CLASS_HASH_VERSION;
use karpenter_api::names::aws;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels;
use karpenter_model::requirements::Requirement;
use karpenter_model::resources::Resources;
use karpenter_platform::Instance;

use super::{capacity_type, is_terminating, reservation_kind, tenancy};
use crate::class::NodeClass;
use crate::cloud::InstanceInfo;
use crate::instance_types::offerings::RESERVATION_LABELS;
use crate::launch::tags;
use crate::provider_id::provider_id;

const EFA: &str = "vpc.amazonaws.com/efa";

/// The class and type of an instance, while both are known.
#[derive(Debug, Clone, Copy)]
pub struct KnownShape<'a> {
    pub class: &'a NodeClass,
    pub instance_type: &'a InstanceType,
    pub placement_group: Option<&'a str>,
}

/// Without a shape it has no labels of its type, no amounts and no zone id, but it can still be judged and deleted.
pub fn answer(info: &InstanceInfo, shape: Option<&KnownShape<'_>>, reserved_capacity: bool) -> Instance {
    let mut own: BTreeMap<String, String> = BTreeMap::new();
    let mut set = |key: &str, value: &str| drop(own.insert(key.to_owned(), value.to_owned()));
    let (mut capacity, mut allocatable) = (Resources::new(), Resources::new());
    if let Some(shape) = shape {
        let single = shape.instance_type.requirements.iter().filter_map(|one| Some((one.key(), one.single_value()?)));
        for (key, value) in single.filter(|(key, _)| !RESERVATION_LABELS.contains(key)) {
            set(key, value);
        }
        if let Some(id) = shape.class.zone_id(&info.zone) {
            set(aws::ZONE_ID, id);
        }
        if let Some(group) = shape.placement_group {
            set(aws::PLACEMENT_GROUP_ID, group);
            // Empty until EC2 has said which (AWS-149).
            let partitioned = shape.instance_type.requirements.get(aws::PLACEMENT_GROUP_PARTITION).is_some_and(is_some);
            if partitioned {
                set(aws::PLACEMENT_GROUP_PARTITION, &info.partition.map(|one| one.to_string()).unwrap_or_default());
            }
        }
        capacity = amounts(&shape.instance_type.capacity, info);
        allocatable = amounts(&shape.instance_type.allocatable(), info);
    }
    set(labels::INSTANCE_TYPE, &info.instance_type);
    set(labels::ZONE, &info.zone);
    let bought = capacity_type(info, reserved_capacity);
    set(labels::CAPACITY_TYPE, bought);
    set(aws::INSTANCE_TENANCY, tenancy(info));
    if let Some(pool) = info.tags.get(tags::NODE_POOL) {
        set(labels::NODEPOOL, pool);
    }
    if let (labels::CAPACITY_TYPE_RESERVED, Some(id)) = (bought, &info.reservation_id) {
        let (kind, interruptible) = reservation_kind(info);
        set(aws::CAPACITY_RESERVATION_ID, id);
        set(aws::CAPACITY_RESERVATION_TYPE, kind);
        set(aws::CAPACITY_RESERVATION_INTERRUPTIBLE, if interruptible { "true" } else { "false" });
    }
    Instance {
        provider_id: provider_id(&info.zone, &info.id),
        image_id: Some(info.image_id.clone()).filter(|id| !id.is_empty()),
        labels: own,
        annotations: BTreeMap::new(),
        capacity,
        allocatable,
        terminating: is_terminating(info),
    }
}

fn is_some(requirement: &Requirement) -> bool {
    !requirement.is_empty()
}

/// What there is any of; EFA only if the instance has it.
fn amounts(all: &Resources, info: &InstanceInfo) -> Resources {
    let there = all.iter().filter(|(name, amount)| !amount.is_zero() && (*name != EFA || info.has_efa));
    there.collect()
}

/// What a claim is told at its launch about the class it was launched from; exactly these three.
pub fn launch_annotations(class: &NodeClass, static_hash: u64) -> BTreeMap<String, String> {
    let profile = class.status.instance_profile.clone().unwrap_or_default();
    [
        (aws::HASH_ANNOTATION, static_hash.to_string()),
        (aws::HASH_VERSION_ANNOTATION, EC2_NODE_CLASS_HASH_VERSION.to_owned()),
        (aws::INSTANCE_PROFILE_ANNOTATION, profile),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

#[cfg(test)]
mod tests {
    use karpenter_model::resources::{CPU, MEMORY};
    use serde_json::json;

    use super::*;
    use crate::fixtures::{class, sold};

    fn info() -> InstanceInfo {
        InstanceInfo {
            id: "i-1".to_owned(),
            state: "running".to_owned(),
            image_id: "ami-1".to_owned(),
            instance_type: "m6idn.32xlarge".to_owned(),
            zone: "test-zone-1a".to_owned(),
            tags: [(tags::NODE_POOL.to_owned(), "default".to_owned())].into(),
            ..InstanceInfo::default()
        }
    }

    fn label<'a>(instance: &'a Instance, key: &str) -> Option<&'a str> {
        instance.labels.get(key).map(String::as_str)
    }

    /// AWS-148, AC-163, AC-189, AC-190: what a launch has resolved.
    #[test]
    fn a_launched_instance() {
        let class = class(&json!({}));
        let types = sold(&["m6idn.32xlarge"], &class, &[]);
        let shape = KnownShape { class: &class, instance_type: &types[0], placement_group: None };
        let instance = answer(&info(), Some(&shape), true);
        assert_eq!(
            (instance.provider_id.as_str(), instance.image_id.as_deref()),
            ("aws:///test-zone-1a/i-1", Some("ami-1"))
        );
        for (key, want) in [
            (labels::ZONE, Some("test-zone-1a")),
            (aws::ZONE_ID, Some("tstz1-1a")),
            (labels::CAPACITY_TYPE, Some("on-demand")),
            (labels::INSTANCE_TYPE, Some("m6idn.32xlarge")),
            (labels::ARCH, Some("amd64")),
            (labels::NODEPOOL, Some("default")),
            (aws::INSTANCE_TENANCY, Some("default")),
            (aws::INSTANCE_CPU, Some("128")),
            (aws::CAPACITY_RESERVATION_ID, None),
            (aws::PLACEMENT_GROUP_ID, None),
            (labels::WINDOWS_BUILD, None),
        ] {
            assert_eq!(label(&instance, key), want, "{key}");
        }
        assert!(!instance.capacity.amount(CPU).is_zero() && !instance.allocatable.amount(MEMORY).is_zero());
        assert_eq!((instance.capacity.get(EFA), instance.capacity.get("nvidia.com/gpu")), (None, None));
        let with_efa = answer(&InstanceInfo { has_efa: true, ..info() }, Some(&shape), true);
        assert_eq!(with_efa.capacity.amount(EFA).value(), 2);
        let annotations = launch_annotations(&class, 42);
        let text: Vec<String> = annotations.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            text,
            [
                "karpenter.k8s.aws/ec2nodeclass-hash=42",
                "karpenter.k8s.aws/ec2nodeclass-hash-version=v5",
                "karpenter.k8s.aws/instance-profile-name=test-profile",
            ]
        );
    }

    /// AWS-148, AWS-202, AWS-293, AC-290: reservations, the end, and instances of which class or pool is gone.
    #[test]
    fn what_is_known_of_others() {
        let reserved = InstanceInfo {
            reservation_id: Some("cr-1".to_owned()),
            reservation_preference: Some("capacity-reservations-only".to_owned()),
            lifecycle: Some("interruptible-capacity-reservation".to_owned()),
            ..info()
        };
        let instance = answer(&reserved, None, true);
        assert_eq!(label(&instance, labels::CAPACITY_TYPE), Some("reserved"));
        assert_eq!(label(&instance, aws::CAPACITY_RESERVATION_ID), Some("cr-1"));
        assert_eq!(label(&instance, aws::CAPACITY_RESERVATION_INTERRUPTIBLE), Some("true"));
        assert_eq!(label(&answer(&reserved, None, false), aws::CAPACITY_RESERVATION_ID), None);
        assert!(instance.capacity.is_empty() && label(&instance, aws::ZONE_ID).is_none() && !instance.terminating);
        let ending = InstanceInfo { state: "shutting-down".to_owned(), image_id: String::new(), ..info() };
        let instance = answer(&ending, None, true);
        assert!(instance.terminating && instance.image_id.is_none());
    }
}
