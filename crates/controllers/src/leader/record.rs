//! What stands in the Lease.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};

use super::LeaseName;

/// Our claim to it.
pub(super) struct Claimed<'a> {
    pub(super) identity: &'a str,
    pub(super) lease: Duration,
    pub(super) now: Timestamp,
}

/// Empty when nobody holds it.
pub(super) fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

pub(super) fn duration(lease: &Lease) -> Option<Duration> {
    let seconds = lease.spec.as_ref()?.lease_duration_seconds?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

fn seconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)
}

impl Claimed<'_> {
    fn spec(&self, acquired: MicroTime, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.to_owned()),
            lease_duration_seconds: Some(seconds(self.lease)),
            acquire_time: Some(acquired),
            renew_time: Some(MicroTime(self.now)),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    /// Where there is none yet.
    pub(super) fn first(&self, name: &LeaseName) -> Lease {
        let metadata = ObjectMeta {
            name: Some(name.name.clone()),
            namespace: Some(name.namespace.clone()),
            ..ObjectMeta::default()
        };
        Lease { metadata, spec: Some(self.spec(MicroTime(self.now), 0)) }
    }

    /// In place of what stands there: a renewal keeps when it was acquired, a take-over counts.
    pub(super) fn over(&self, current: &Lease) -> Lease {
        let spec = current.spec.as_ref();
        let transitions = spec.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        let spec = if holder(current) == self.identity {
            let acquired = spec.and_then(|spec| spec.acquire_time.clone()).unwrap_or(MicroTime(self.now));
            self.spec(acquired, transitions)
        } else {
            self.spec(MicroTime(self.now), transitions.saturating_add(1))
        };
        Lease { metadata: current.metadata.clone(), spec: Some(spec) }
    }
}

/// Held by nobody, for a second: even a replica that respects a lease without holder waits no longer.
pub(super) fn released(mine: &Lease, now: Timestamp) -> Lease {
    let transitions = mine.spec.as_ref().and_then(|spec| spec.lease_transitions);
    let spec = LeaseSpec {
        holder_identity: Some(String::new()),
        lease_duration_seconds: Some(1),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: transitions,
        ..LeaseSpec::default()
    };
    Lease { metadata: mine.metadata.clone(), spec: Some(spec) }
}
