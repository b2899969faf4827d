//! NodeClaims from launch to their end.

use jiff::Timestamp;
use karpenter_lifecycle::Timeout;
use karpenter_model::claim::ClaimView;
use karpenter_model::duration::GoDuration;
use karpenter_model::labels;
use karpenter_model::pod::PodView;
use karpenter_platform::{CreateError, Instance};
use tracing::{error, info};

use super::{Report, chain};
use crate::events::catalogue::Shortfall;
use crate::events::{Subject, catalogue};

/// Who may stop a node's drain: API-191.
pub(super) fn termination_mode(grace: Option<GoDuration>) -> &'static str {
    match grace {
        None => "graceful",
        Some(grace) if grace <= GoDuration::from_secs(0) => "forceful",
        Some(_) => "eventual",
    }
}

fn label<'a>(claim: &'a ClaimView, key: &str) -> &'a str {
    claim.labels.get(key).map_or("", String::as_str)
}

fn subject(claim: &ClaimView) -> Subject {
    Subject::claim(&claim.name, &claim.uid)
}

impl Report {
    pub fn launched(&self, claim: &ClaimView, instance: &Instance) {
        let label = |key: &str| instance.labels.get(key).cloned().unwrap_or_default();
        info!(
            nodeclaim = claim.name,
            provider_id = %instance.provider_id,
            instance_type = %label(labels::INSTANCE_TYPE),
            zone = %label(labels::ZONE),
            capacity_type = %label(labels::CAPACITY_TYPE),
            allocatable = %instance.allocatable,
            "launched nodeclaim"
        );
    }

    /// The claim cannot be launched and is deleted. `pods` are those that were to run on it and still wait (V15-109).
    pub fn launch_gave_up(&self, claim: &ClaimView, error: &CreateError, pods: &[&PodView]) {
        let text = chain(error);
        error!(nodeclaim = claim.name, error = %text, "could not launch, deleting the nodeclaim");
        let reason = match error {
            CreateError::InsufficientCapacity(_) => {
                self.events.publish(catalogue::insufficient_capacity(&subject(claim), &text));
                for pod in pods {
                    let pod = Subject::pod(&pod.id, &pod.uid);
                    self.events.publish(catalogue::pod_without_capacity(&pod, &claim.name, &text));
                }
                "insufficient_capacity"
            }
            _ => "nodeclass_not_ready",
        };
        self.count_disrupted(claim, reason, "");
    }

    /// A delete or reboot that the controller itself decided on (API-191). `policy` is that of the pool, in snake case,
    /// for consolidations.
    pub fn count_disrupted(&self, claim: &ClaimView, reason: &str, policy: &str) {
        let mode = termination_mode(claim.termination_grace_period);
        let labels = [reason, label(claim, labels::NODEPOOL), label(claim, labels::CAPACITY_TYPE), policy, mode];
        self.metrics.all.nodeclaims_disrupted.increment(labels);
    }

    pub fn guard_taint_missing(&self, claim: &ClaimView, node: &str) {
        let taint = karpenter_model::taints::UNREGISTERED;
        error!(nodeclaim = claim.name, node, taint, "node joined without its guard taint");
        self.events.publish(catalogue::unregistered_taint_missing(&subject(claim)));
    }

    pub fn registered(&self, claim: &ClaimView, node: &str) {
        info!(nodeclaim = claim.name, node, "registered nodeclaim");
        self.metrics.all.nodes_created.increment([label(claim, labels::NODEPOOL), label(claim, labels::ZONE)]);
    }

    pub fn initialized(&self, claim: &ClaimView, node: &str) {
        info!(nodeclaim = claim.name, node, "initialized nodeclaim");
    }

    pub fn timed_out(&self, claim: &ClaimView, timeout: Timeout) {
        info!(nodeclaim = claim.name, ?timeout, "nodeclaim waited too long, deleting it");
        self.count_disrupted(claim, timeout.as_str(), "");
    }

    /// A claim was deleted although nobody asked for it, and its pods with it (LIF-34).
    pub fn disrupted(&self, claim: &ClaimView, reason: &str, pods: usize) {
        info!(nodeclaim = claim.name, reason, pods, "deleting nodeclaim");
        self.count_disrupted(claim, reason, "");
        let mode = termination_mode(claim.termination_grace_period);
        let labels = [reason, label(claim, labels::NODEPOOL), label(claim, labels::CAPACITY_TYPE), "", mode];
        self.metrics.all.pods_disruption_initiated.add(labels, u64::try_from(pods).unwrap_or(u64::MAX));
    }

    /// By then the claim's node has to be empty.
    pub fn claim_grace_period_expiring(&self, claim: &ClaimView, deadline: Timestamp) {
        self.events.publish(catalogue::termination_grace_period_expiring(&subject(claim), deadline));
    }

    pub fn failed_consistency_check(&self, claim: &ClaimView, shortfall: &Shortfall<'_>) {
        let Shortfall { resource, expected, found } = shortfall;
        error!(nodeclaim = claim.name, resource, %expected, %found, "node has less than its instance type promised");
        self.events.publish(catalogue::failed_consistency_check(&subject(claim), shortfall));
    }

    pub fn orphan_terminated(&self, provider_id: &str) {
        info!(provider_id, "terminated an instance that no nodeclaim asked for");
    }

    pub fn created_static_claim(&self, name: &str, pool: &str) {
        info!(nodepool = pool, nodeclaim = name, "created nodeclaim of a static nodepool");
        self.count_created("provisioned", pool, false);
    }

    /// The cloud says that the instance is gone; it was asked to terminate it at that time.
    pub fn instance_terminated(&self, claim: &ClaimView, asked_at: Timestamp) {
        let took = self.clock.now().duration_since(asked_at).as_secs_f64().max(0.0);
        let pool = label(claim, labels::NODEPOOL);
        self.metrics.all.nodeclaims_instance_termination_duration.observe([pool], took);
    }

    /// The finalizer was removed.
    pub fn deleted_claim(&self, claim: &ClaimView) {
        info!(nodeclaim = claim.name, "deleted nodeclaim");
        let pool = label(claim, labels::NODEPOOL);
        let values = [pool, label(claim, labels::CAPACITY_TYPE), label(claim, labels::ZONE)];
        self.metrics.all.nodeclaims_terminated.increment(values);
        if let Some(since) = claim.deleting_since {
            let took = self.clock.now().duration_since(since).as_secs_f64().max(0.0);
            self.metrics.all.nodeclaims_termination_duration.observe([pool], took);
        }
    }
}
