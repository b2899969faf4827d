//! Scheduling passes and what comes out of them.

use std::time::Duration;

use karpenter_model::pod::PodView;
use karpenter_solver::{PlannedClaim, Unplaced};
use karpenter_state::Unsynced;
use tracing::{debug, error, info, warn};

use super::{Report, chain};
use crate::events::{Subject, catalogue};
use crate::metrics::{RunningPass, Verdict};

pub(crate) const PROVISIONER: &str = "provisioner";

impl Report {
    pub fn unsynced(&self, why: &Unsynced) {
        debug!(?why, "cluster state is not complete, waiting");
        if let Some(long) = self.running.unsynced() {
            warn!(?why, seconds = long.as_secs(), "cluster state has not been complete for long");
        }
        self.metrics.all.cluster_state_synced.set([], 0.0);
    }

    pub fn synced(&self) {
        self.metrics.all.cluster_state_synced.set([], 1.0);
        self.running.synced();
    }

    pub fn instance_types_unavailable(&self, pool: &str, error: &(dyn std::error::Error + 'static)) {
        error!(nodepool = pool, error = %chain(error), "skipped a nodepool whose instance types cannot be listed");
    }

    /// A pass over so many pods begins; it is over when the answer is dropped.
    pub(crate) fn planning(&self, pods: usize) -> RunningPass {
        self.running.pass(PROVISIONER, pods)
    }

    /// A pass is over: how long it took, how many pods it could not consider, how many found no place.
    pub fn planned(&self, took: Duration, ignored: usize, unplaced: usize) {
        let number = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let metrics = &self.metrics.all;
        metrics.scheduling_duration.observe([PROVISIONER], took.as_secs_f64());
        metrics.scheduler_ignored_pods.set([], number(ignored));
        metrics.scheduler_unschedulable_pods.set([PROVISIONER], number(unplaced));
    }

    pub fn created_claim(&self, name: &str, planned: &PlannedClaim) {
        let pods: Vec<String> = planned.pods.iter().take(5).map(ToString::to_string).collect();
        let shown = planned.instance_types.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        info!(
            nodepool = %planned.pool.name,
            nodeclaim = name,
            requests = %planned.requests,
            instance_types = %shown,
            more_instance_types = planned.instance_types.len().saturating_sub(5),
            price_usd_per_hour = planned.price.per_hour(),
            pods = %pods.join(", "),
            pod_count = planned.pods.len(),
            "created nodeclaim"
        );
        self.count_created("provisioned", &planned.pool.name, planned.min_values_relaxed);
    }

    /// `reason` is `provisioned` or the reason of a disruption in lower case (API-188).
    pub fn count_created(&self, reason: &str, pool: &str, min_values_relaxed: bool) {
        let relaxed = if min_values_relaxed { "true" } else { "false" };
        self.metrics.all.nodeclaims_created.increment([reason, pool, relaxed]);
    }

    pub fn create_failed(&self, pool: &str, error: &(dyn std::error::Error + 'static)) {
        error!(nodepool = pool, error = %chain(error), "could not create a nodeclaim");
    }

    /// The pod has a place: on a node that exists, on a claim, or both.
    pub fn nominated(&self, pod: &PodView, claim: Option<&str>, node: Option<&str>) {
        self.pods.decided(&pod.id, Verdict::Schedulable, self.clock.now());
        self.events.publish(catalogue::nominated(&Subject::pod(&pod.id, &pod.uid), claim, node));
    }

    pub fn unplaced(&self, pod: &PodView, unplaced: &Unplaced) {
        let reasons: Vec<String> =
            unplaced.reasons.iter().map(|refused| format!("nodepool {}: {}", refused.pool, refused.why)).collect();
        self.not_schedulable(pod, &reasons.join("; "));
    }

    pub fn unplannable(&self, pod: &PodView, why: &str) {
        self.not_schedulable(pod, why);
    }

    /// The pod does not want a node of ours: decided, and nobody has to hear of it (SCH-19).
    pub fn avoids_our_nodes(&self, pod: &PodView) {
        self.pods.decided(&pod.id, Verdict::Unschedulable, self.clock.now());
    }

    /// Reserved capacity is there, but not for this pass (SCH-26).
    pub fn waits_for_reservation(&self, pod: &PodView) {
        debug!(pod = %pod.id, "pod waits for reserved capacity");
        self.pods.decided(&pod.id, Verdict::Unschedulable, self.clock.now());
    }

    fn not_schedulable(&self, pod: &PodView, why: &str) {
        debug!(pod = %pod.id, why, "could not plan a node for the pod");
        self.pods.decided(&pod.id, Verdict::Unschedulable, self.clock.now());
        self.events.publish(catalogue::failed_scheduling(&Subject::pod(&pod.id, &pod.uid), why));
    }
}
