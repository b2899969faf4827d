//! The fake Node of a claim.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_api::convert::node_taint;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::{InstanceType, Offering};
use karpenter_model::labels;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::resources::Resources;
use karpenter_model::taints::Taint;

pub(crate) const PROVIDER_PREFIX: &str = "kwok://";
const FAKE: &str = "kwok.x-k8s.io/node";

/// The node's name, made from the claim's identity instead of from chance: asked again for the same claim, after a
/// crash between launch and bookkeeping, the provider finds the node that is there instead of making a second one.
pub(crate) fn node_name(claim: &ClaimView) -> String {
    const WORDS: [&str; 16] = [
        "amber", "brisk", "calm", "dusty", "eager", "fleet", "grand", "hazel", "ivory", "jolly", "keen", "lunar",
        "misty", "noble", "olive", "proud",
    ];
    let digest = fnv1a(claim.uid.as_bytes());
    let word = |shift: u32| WORDS[usize::try_from(digest >> shift & 0xf).unwrap_or_default()];
    // The object's name may have 253 characters; what we add has at most 29.
    let claim_part: String = claim.name.chars().take(220).collect();
    format!("kwok-{claim_part}-{}-{}-{}", word(32), word(36), digest & 0xffff_ffff)
}

/// One of so many, as if by chance, but the same one for the same claim: a repeated launch ends in the same zone.
pub(crate) fn draw(claim: &ClaimView, of: usize) -> usize {
    // The last bits of this digest follow from the last bits of what it is made of.
    let digest = fnv1a(claim.uid.as_bytes()) >> 40;
    usize::try_from(digest).unwrap_or_default().checked_rem(of).unwrap_or_default()
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What the launch resolved: every requirement of claim, type and offering that has just one value (API-284).
pub(crate) fn resolved_labels(
    claim: &ClaimView,
    instance_type: &InstanceType,
    offering: &Offering,
) -> BTreeMap<String, String> {
    let single = |requirements: &Requirements| -> BTreeMap<String, String> {
        let values =
            requirements.iter().filter_map(|r: &Requirement| Some((r.key().to_owned(), r.single_value()?.to_owned())));
        values.collect()
    };
    let mut labels = single(&claim.requirements);
    labels.extend(single(&instance_type.requirements));
    labels.extend(single(&offering.requirements));
    labels.insert(labels::INSTANCE_TYPE.to_owned(), instance_type.name.clone());
    labels
}

/// Requests overlaid by what the type can allocate (API-283).
fn allocatable(claim: &ClaimView, instance_type: &InstanceType) -> Resources {
    let mut amounts = claim.requests.clone();
    for (name, amount) in instance_type.allocatable().iter() {
        amounts.set(name, amount);
    }
    amounts
}

fn quantities(amounts: &Resources) -> BTreeMap<String, ApiQuantity> {
    amounts.iter().map(|(name, amount)| (name.to_owned(), ApiQuantity(amount.to_string()))).collect()
}

pub(crate) fn fake_node(claim: &ClaimView, instance_type: &InstanceType, offering: &Offering) -> Node {
    let name = node_name(claim);
    let mut labels = resolved_labels(claim, instance_type, offering);
    labels.extend(claim.labels.to_map());
    labels.extend(
        [
            (labels::HOSTNAME, claim.name.as_str()),
            (FAKE, "fake"),
            ("kwok-partition", "a"),
            ("eks-node-viewer/instance-price", &offering.price.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    let mut annotations = claim.annotations.to_map();
    annotations.insert(FAKE.to_owned(), "fake".to_owned());
    // A type's capacity is more than its allocatable; the kwok controller reports what it finds here.
    let mut capacity = claim.requests.clone();
    for (name, amount) in instance_type.capacity.iter() {
        capacity.set(name, amount);
    }
    Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            provider_id: Some(format!("{PROVIDER_PREFIX}{name}")),
            taints: Some(vec![node_taint(&Taint::unregistered())]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: Some(quantities(&capacity)),
            allocatable: Some(quantities(&allocatable(claim, instance_type))),
            phase: Some("Pending".to_owned()),
            ..NodeStatus::default()
        }),
    }
}
