//! What an existing instance is, and which ones belong to nobody (§4.14).

mod answer;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::labels;

use crate::cloud::{Filter, InstanceInfo};
use crate::launch::tags;

pub use answer::{KnownShape, answer, launch_annotations};

/// States of instances that exist (AWS-197).
pub const EXISTING: [&str; 5] = ["pending", "running", "stopping", "stopped", "shutting-down"];

/// Younger ones may have a claim that is about to be written.
const ORPHANED_AFTER: SignedDuration = SignedDuration::from_secs(30);

/// Passes at the fast pace after a start, and both paces (AWS-203).
const FAST_PASSES: u32 = 20;
const FAST: SignedDuration = SignedDuration::from_secs(10);
const SLOW: SignedDuration = SignedDuration::from_mins(2);

/// Our instances and nobody else's (AWS-198).
pub fn list_filters(cluster: &str) -> Vec<Filter> {
    vec![
        Filter::new("tag-key", [tags::NODE_POOL]),
        Filter::new("tag-key", [tags::NODE_CLASS]),
        Filter::new(format!("tag:{}", tags::CLUSTER), [cluster]),
        Filter::new("instance-state-name", EXISTING),
    ]
}

/// How it was bought; reservations count only while they are on (AWS-201).
pub fn capacity_type(instance: &InstanceInfo, reserved_capacity: bool) -> &'static str {
    let only = instance.reservation_preference.as_deref() == Some("capacity-reservations-only");
    if instance.spot_request_id.is_some() {
        labels::CAPACITY_TYPE_SPOT
    } else if reserved_capacity && instance.reservation_id.is_some() && only {
        labels::CAPACITY_TYPE_RESERVED
    } else {
        labels::CAPACITY_TYPE_ON_DEMAND
    }
}

/// Type of its reservation and whether it can be taken back.
pub fn reservation_kind(instance: &InstanceInfo) -> (&'static str, bool) {
    match instance.lifecycle.as_deref() {
        Some("capacity-block") => ("capacity-block", false),
        Some("interruptible-capacity-reservation") => ("default", true),
        _ => ("default", false),
    }
}

pub fn tenancy(instance: &InstanceInfo) -> &str {
    instance.tenancy.as_deref().filter(|tenancy| !tenancy.is_empty()).unwrap_or("default")
}

/// Its claim has a deletion timestamp (AWS-202).
pub fn is_terminating(instance: &InstanceInfo) -> bool {
    matches!(instance.state.as_str(), "shutting-down" | "terminated")
}

/// What deletion of an instance takes (AWS-200).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    Terminate,
    /// It is under way.
    Nothing,
    /// Its zone is shifted away from: an error, without a call.
    Refused,
}

pub fn deletion(instance: &InstanceInfo, zone_is_shifted: bool) -> Deletion {
    if zone_is_shifted {
        Deletion::Refused
    } else if is_terminating(instance) {
        Deletion::Nothing
    } else {
        Deletion::Terminate
    }
}

/// Instances without a claim, old enough to be sure of it.
pub fn orphans<'a>(instances: &'a [InstanceInfo], claimed: &BTreeSet<String>, now: Timestamp) -> Vec<&'a InstanceInfo> {
    let old = |one: &InstanceInfo| one.launched.is_some_and(|at| now.duration_since(at) > ORPHANED_AFTER);
    instances.iter().filter(|one| !is_terminating(one) && !claimed.contains(&one.id) && old(one)).collect()
}

/// How long to wait after so many successful passes.
pub fn collection_pause(passes: u32) -> SignedDuration {
    if passes < FAST_PASSES { FAST } else { SLOW }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn instance(id: &str, state: &str) -> InstanceInfo {
        InstanceInfo { id: id.to_owned(), state: state.to_owned(), launched: Some(at(0)), ..InstanceInfo::default() }
    }

    /// AWS-197, AWS-198: only those with the cluster's and the provider's tags.
    #[test]
    fn filters_of_a_listing() {
        let filters = list_filters("my.cluster");
        let text: Vec<String> = filters.iter().map(|one| format!("{}={}", one.name, one.values.join(","))).collect();
        assert_eq!(
            text,
            [
                "tag-key=karpenter.sh/nodepool",
                "tag-key=karpenter.k8s.aws/ec2nodeclass",
                "tag:eks:eks-cluster-name=my.cluster",
                "instance-state-name=pending,running,stopping,stopped,shutting-down",
            ]
        );
    }

    /// AWS-201, AC-176: spot by its request, reserved only behind the gate and if it insists on it.
    #[test]
    fn how_it_was_bought() {
        let some = |text: &str| Some(text.to_owned());
        let reserved = InstanceInfo {
            reservation_id: some("cr-1"),
            reservation_preference: some("capacity-reservations-only"),
            ..InstanceInfo::default()
        };
        let open = InstanceInfo { reservation_preference: some("open"), ..reserved.clone() };
        let spot = InstanceInfo { spot_request_id: some("sir-1"), ..InstanceInfo::default() };
        for (instance, gate, want) in [
            (&reserved, true, "reserved"),
            (&reserved, false, "on-demand"),
            (&open, true, "on-demand"),
            (&spot, true, "spot"),
            (&InstanceInfo::default(), true, "on-demand"),
        ] {
            assert_eq!(capacity_type(instance, gate), want);
        }
        let with = |lifecycle: &str| InstanceInfo { lifecycle: some(lifecycle), ..reserved.clone() };
        assert_eq!(reservation_kind(&with("capacity-block")), ("capacity-block", false));
        assert_eq!(reservation_kind(&with("interruptible-capacity-reservation")), ("default", true));
        assert_eq!(reservation_kind(&reserved), ("default", false));
        let dedicated = InstanceInfo { tenancy: some("dedicated"), ..InstanceInfo::default() };
        assert_eq!((tenancy(&dedicated), tenancy(&reserved)), ("dedicated", "default"));
        assert_eq!(tenancy(&InstanceInfo { tenancy: some(""), ..reserved }), "default");
    }

    /// AWS-200, AWS-202, AC-230, AC-231.
    #[test]
    fn deletions() {
        for (state, shifted, want) in [
            ("running", false, Deletion::Terminate),
            ("pending", false, Deletion::Terminate),
            ("shutting-down", false, Deletion::Nothing),
            ("running", true, Deletion::Refused),
            ("shutting-down", true, Deletion::Refused),
        ] {
            assert_eq!(deletion(&instance("i-1", state), shifted), want, "{state}");
        }
        assert!(is_terminating(&instance("i-1", "terminated")) && !is_terminating(&instance("i-1", "stopping")));
    }

    /// AWS-203, AC-233, AC-234, AC-235.
    #[test]
    fn orphaned_instances() {
        let many: Vec<InstanceInfo> = (0..500).map(|n| instance(&format!("i-{n}"), "running")).collect();
        assert_eq!(orphans(&many, &BTreeSet::new(), at(31)).len(), 500);
        assert_eq!(orphans(&many, &BTreeSet::new(), at(29)).len(), 0);
        let claimed = BTreeSet::from(["i-7".to_owned()]);
        assert_eq!(orphans(&many, &claimed, at(31)).len(), 499);
        assert_eq!(orphans(&[instance("i-1", "shutting-down")], &BTreeSet::new(), at(99)).len(), 0);
        let undated = InstanceInfo { launched: None, ..instance("i-1", "running") };
        assert_eq!(orphans(&[undated], &BTreeSet::new(), at(99)).len(), 0);
        let pauses = [0, 19, 20, 99].map(|passes| collection_pause(passes).as_secs());
        assert_eq!(pauses, [10, 10, 120, 120]);
    }
}
