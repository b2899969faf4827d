//! What the provider has to say beside its answers: rows of metrics and notices for people (§8).

use std::fmt::Debug;

use jiff::SignedDuration;
use karpenter_model::claim::ClaimView;

use crate::batching::Observer;
use crate::launch::failures::LaunchFailure;

/// What an event is to say, and of whom (AWS-238).
#[derive(Debug, Clone, Copy)]
pub enum Notice<'a> {
    /// Warning on the claim: `Failed resolving NodeClass`.
    NoClassForClaim(&'a ClaimView),
    /// The same on the pool.
    NoClassForPool(&'a str),
    /// Warning on the claim: the account lacks the role that spot needs.
    SpotRoleMissing(&'a ClaimView),
}

impl Notice<'_> {
    pub const SPOT_ROLE_MISSING: &'static str = "Attempted to launch a spot instance but failed due to \
         \"AuthFailure.ServiceLinkedRoleCreationNotPermitted\"";

    pub const fn message(&self) -> &'static str {
        match self {
            Self::NoClassForClaim(_) | Self::NoClassForPool(_) => "Failed resolving NodeClass",
            Self::SpotRoleMissing(_) => Self::SPOT_ROLE_MISSING,
        }
    }
}

/// A type in the metrics of cores and memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypeRow {
    pub instance_type: String,
    pub cores: i64,
    pub memory_bytes: i64,
}

/// A way to buy a type in the metrics of availability and price (AWS-236).
#[derive(Debug, Clone, PartialEq)]
pub struct OfferingRow {
    pub instance_type: String,
    pub capacity_type: String,
    pub zone: String,
    pub available: bool,
    pub price_per_hour: f64,
}

/// Who makes metrics and events of it.
pub trait Reports: Observer {
    /// `karpenter_cloudprovider_instance_launch_failures_total`.
    fn launch_failed(&self, failure: &LaunchFailure);
    /// `karpenter_cloudprovider_instance_termination_failures_total`.
    fn termination_failed(&self, zone: &str, zone_id: &str);
    /// `karpenter_ec2nodeclasses_userdata_bytes`.
    fn user_data_rendered(&self, class: &str, bytes: usize);
    /// The class is gone, and with it its series (AC-279).
    fn class_gone(&self, class: &str);
    fn notice(&self, notice: Notice<'_>);
}

/// For whoever does not listen.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoReports;

impl Observer for NoReports {
    fn batch_sent(&self, _: &'static str, _: usize, _: SignedDuration) {}
}

impl Reports for NoReports {
    fn launch_failed(&self, _: &LaunchFailure) {}
    fn termination_failed(&self, _: &str, _: &str) {}
    fn user_data_rendered(&self, _: &str, _: usize) {}
    fn class_gone(&self, _: &str) {}
    fn notice(&self, _: Notice<'_>) {}
}
