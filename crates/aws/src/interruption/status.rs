//! Instances that EC2 says are not well (§6.2).

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use super::messages::Kind;
use crate::cloud::Filter;

/// A failure counts once it has lasted this long.
const LASTS: SignedDuration = SignedDuration::from_secs(120);

/// The three queries whose answers are united (AWS-221).
pub fn status_queries() -> [Vec<Filter>; 3] {
    let codes = ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"];
    [
        vec![Filter::new("instance-status.status", ["impaired"])],
        vec![Filter::new("system-status.status", ["impaired"])],
        vec![Filter::new("event.code", codes)],
    ]
}

/// What DescribeInstanceStatus says of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstanceStatusInfo {
    pub instance_id: String,
    pub instance_failures: Vec<StatusFailure>,
    pub system_failures: Vec<StatusFailure>,
    /// Descriptions of scheduled events.
    pub events: Vec<String>,
}

/// A failed check, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusFailure {
    pub since: Option<Timestamp>,
}

/// Everything that counts against the instance, each once; disks are not among it (AWS-222, AWS-294).
pub fn unhealthy(info: &InstanceStatusInfo, now: Timestamp) -> BTreeSet<Kind> {
    let lasts = |failures: &[StatusFailure]| {
        let since = failures.iter().filter_map(|failure| failure.since);
        since.min().is_some_and(|since| now.duration_since(since) >= LASTS)
    };
    let over = |event: &&String| ["[Completed]", "[Canceled]"].iter().any(|mark| event.starts_with(mark));
    [
        (lasts(&info.instance_failures), Kind::InstanceStatus),
        (lasts(&info.system_failures), Kind::SystemStatus),
        (info.events.iter().any(|event| !over(&event)), Kind::EventStatus),
    ]
    .into_iter()
    .filter_map(|(counts, kind)| counts.then_some(kind))
    .collect()
}

/// The category in the metric of unhealthy instances.
pub const fn category(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::InstanceStatus => Some("InstanceStatus"),
        Kind::SystemStatus => Some("SystemStatus"),
        Kind::EventStatus => Some("EventStatus"),
        _ => None,
    }
}

/// Whom the metric has counted already; until they recover (AWS-223).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted(BTreeSet<(String, Kind)>);

impl Counted {
    /// What this poll adds to the count. It has to be told of all of our instances that are unhealthy now.
    pub fn poll(&mut self, unhealthy: impl IntoIterator<Item = (String, Kind)>) -> Vec<(String, Kind)> {
        let now: BTreeSet<(String, Kind)> = unhealthy.into_iter().collect();
        let new = now.difference(&self.0).cloned().collect();
        self.0 = now;
        new
    }
}
