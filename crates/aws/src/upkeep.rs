//! What the provider does to claims after their launch: tags, hashes, labels of reservations that have ended.

use std::collections::BTreeMap;

use jiff::Timestamp;
use karpenter_api::hash::EC2_NODE_CLASS_HASH_VERSION;
use karpenter_api::names::aws;
use karpenter_model::claim::ClaimView;
use karpenter_model::labels;

use crate::cloud::{InstanceInfo, ReservationInfo, Tags};
use crate::instances::capacity_type;
use crate::launch::tags;
use crate::selection::reservations::is_expiring;

/// Whether the claim's instance still has to be looked at for tags: it has a node, and nobody has done it (AWS-157).
pub fn awaits_tags(claim: &ClaimView) -> bool {
    let done = |key: &str| claim.annotations.get(key).is_some_and(|value| value == "true");
    let both = done(aws::TAGGED_ANNOTATION) && done(aws::CLUSTER_NAME_TAGGED_ANNOTATION);
    claim.deleting_since.is_none() && claim.node_name.is_some() && !both
}

/// The tags that the instance lacks; what is there is never overwritten. These three are all that rights allow (AWS-241).
pub fn missing_tags(claim: &ClaimView, instance: &InstanceInfo, cluster: &str) -> Tags {
    let node = claim.node_name.as_deref().unwrap_or_default();
    let wanted = [("Name", node), (tags::NODE_CLAIM, claim.name.as_str()), (tags::CLUSTER, cluster)];
    let lacks = wanted.into_iter().filter(|(key, _)| !instance.tags.contains_key(*key));
    lacks.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Annotations that a claim gets when the class is stamped with another version of the hash; `None` when it has them. A
/// claim that has drifted keeps its hash, or it would not be drifted any more (AWS-30).
pub fn restamped(claim: &ClaimView, class_hash: u64) -> Option<BTreeMap<String, String>> {
    let version = claim.annotations.get(aws::HASH_VERSION_ANNOTATION).map(String::as_str);
    if version == Some(EC2_NODE_CLASS_HASH_VERSION) {
        return None;
    }
    let mut stamps =
        BTreeMap::from([(aws::HASH_VERSION_ANNOTATION.to_owned(), EC2_NODE_CLASS_HASH_VERSION.to_owned())]);
    if claim.drifted.is_none() {
        stamps.insert(aws::HASH_ANNOTATION.to_owned(), class_hash.to_string());
    }
    Some(stamps)
}

/// Labels of a claim or node whose reservation has ended while its instance runs on: on-demand from now on (AWS-82).
/// `None` when there is nothing to change.
pub fn relabelled(now: &BTreeMap<String, String>, instance: &InstanceInfo) -> Option<BTreeMap<String, String>> {
    let labelled = now.get(labels::CAPACITY_TYPE).map(String::as_str);
    let reserved = labelled == Some(labels::CAPACITY_TYPE_RESERVED);
    if !reserved || capacity_type(instance, true) != labels::CAPACITY_TYPE_ON_DEMAND {
        return None;
    }
    let mut labels = now.clone();
    labels.insert(labels::CAPACITY_TYPE.to_owned(), labels::CAPACITY_TYPE_ON_DEMAND.to_owned());
    for key in crate::instance_types::offerings::RESERVATION_LABELS {
        labels.remove(key);
    }
    Some(labels)
}

/// Whether the claim's capacity block is about to end, so that its node is drained in time (AWS-83).
pub fn is_in_expiring_block(claim: &ClaimView, reservations: &[ReservationInfo], now: Timestamp) -> bool {
    let Some(id) = claim.labels.get(aws::CAPACITY_RESERVATION_ID) else { return false };
    reservations.iter().any(|one| one.id == *id && is_expiring(&one.kind, one.ends, now))
}

#[cfg(test)]
mod tests {
    use karpenter_model::claim::{ConditionView, Status};
    use karpenter_model::example;

    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    /// AWS-157, AWS-241, AC-195, AC-197: once, with a node, without overwriting anything.
    #[test]
    fn tagging() {
        let plain = example::claim("claim-1");
        let named = ClaimView { node_name: Some("ip-1".to_owned()), ..plain.clone() };
        let half = ClaimView { annotations: map(&[(aws::TAGGED_ANNOTATION, "true")]).into(), ..named.clone() };
        let both = [(aws::TAGGED_ANNOTATION, "true"), (aws::CLUSTER_NAME_TAGGED_ANNOTATION, "true")];
        let done = ClaimView { annotations: map(&both).into(), ..named.clone() };
        let deleting = ClaimView { deleting_since: Some(Timestamp::UNIX_EPOCH), ..named.clone() };
        let waiting = [&plain, &named, &half, &done, &deleting].map(awaits_tags);
        assert_eq!(waiting, [false, true, true, false, false]);
        let instance = |tags: &[(&str, &str)]| InstanceInfo { tags: map(tags), ..InstanceInfo::default() };
        let want = map(&[("Name", "ip-1"), ("eks:eks-cluster-name", "c"), ("karpenter.sh/nodeclaim", "claim-1")]);
        assert_eq!(missing_tags(&named, &instance(&[]), "c"), want);
        let own = instance(&[("Name", "mine"), ("eks:eks-cluster-name", "c")]);
        assert_eq!(missing_tags(&named, &own, "c"), map(&[("karpenter.sh/nodeclaim", "claim-1")]));
        assert!(missing_tags(&named, &InstanceInfo { tags: want, ..InstanceInfo::default() }, "c").is_empty());
    }

    /// AWS-30, AC-28: the new version for all, the new hash only for those that have not drifted.
    #[test]
    fn restamping() {
        let old = map(&[(aws::HASH_ANNOTATION, "1"), (aws::HASH_VERSION_ANNOTATION, "v4")]);
        let plain = ClaimView { annotations: old.into(), ..example::claim("a") };
        let stamps = map(&[(aws::HASH_ANNOTATION, "7"), (aws::HASH_VERSION_ANNOTATION, "v5")]);
        assert_eq!(restamped(&plain, 7), Some(stamps.clone()));
        let condition = ConditionView { status: Status::True, since: Timestamp::UNIX_EPOCH };
        let drifted = ClaimView { drifted: Some(condition), ..plain.clone() };
        assert_eq!(restamped(&drifted, 7), Some(map(&[(aws::HASH_VERSION_ANNOTATION, "v5")])));
        assert_eq!(restamped(&ClaimView { annotations: stamps.into(), ..plain }, 9), None);
    }

    /// AWS-82, AWS-83, AC-83, AC-84: reservations that have ended, and blocks that will.
    #[test]
    fn reservations_that_end() {
        let labels = map(&[
            (labels::CAPACITY_TYPE, "reserved"),
            (aws::CAPACITY_RESERVATION_ID, "cr-1"),
            (aws::CAPACITY_RESERVATION_TYPE, "default"),
            (aws::CAPACITY_RESERVATION_INTERRUPTIBLE, "false"),
            ("team", "a"),
        ]);
        let want = map(&[(labels::CAPACITY_TYPE, "on-demand"), ("team", "a")]);
        assert_eq!(relabelled(&labels, &InstanceInfo::default()), Some(want.clone()));
        assert_eq!(relabelled(&want, &InstanceInfo::default()), None);
        let still = InstanceInfo {
            reservation_id: Some("cr-1".to_owned()),
            reservation_preference: Some("capacity-reservations-only".to_owned()),
            ..InstanceInfo::default()
        };
        assert_eq!(relabelled(&labels, &still), None);

        let ends = Some(Timestamp::from_second(30 * 60).unwrap());
        let one = |id: &str, kind: &str| ReservationInfo {
            id: id.into(),
            kind: kind.into(),
            ends,
            ..ReservationInfo::default()
        };
        let all = [one("cr-1", "capacity-block"), one("cr-2", "default")];
        let of =
            |id: &str| ClaimView { labels: map(&[(aws::CAPACITY_RESERVATION_ID, id)]).into(), ..example::claim("a") };
        let expiring = [of("cr-1"), of("cr-2"), of("cr-3"), example::claim("b")]
            .map(|claim| is_in_expiring_block(&claim, &all, Timestamp::UNIX_EPOCH));
        assert_eq!(expiring, [true, false, false, false]);
    }
}
