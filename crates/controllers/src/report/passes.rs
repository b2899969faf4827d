//! Scheduling passes and what comes out of them.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_model::pod::PodView;
use karpenter_model::pool::PoolView;
use karpenter_solver::{EffectiveZone, PlannedClaim, Unplaced};
use karpenter_state::Unsynced;
use tracing::{debug, error, info, warn};

use super::{Report, chain};
use crate::events::catalogue::NoTypes;
use crate::events::{Subject, catalogue};
use crate::metrics::{RunningPass, Verdict};

pub(crate) const PROVISIONER: &str = "provisioner";

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Names of instance types for a log, and how many are not shown (SCH-226).
fn first_five(names: &[String]) -> (String, usize) {
    (names.iter().take(5).cloned().collect::<Vec<_>>().join(", "), names.len().saturating_sub(5))
}

impl Report {
    pub fn unsynced(&self, why: &Unsynced) {
        debug!(?why, "cluster state is not complete, waiting");
        if let Some(long) = self.running.unsynced() {
            warn!(?why, seconds = long.as_secs(), "cluster state has not been complete for long");
        }
        self.metrics.all.cluster_state_synced.set([], 0.0);
    }

    /// Counted, because costs that are not shown would look like none (LIF-120).
    pub fn prices_unavailable(&self, pool: &str, error: &(dyn std::error::Error + 'static)) {
        error!(nodepool = pool, error = %chain(error), "could not ask what a nodepool is offered");
        self.metrics.all.nodepools_cost_tracker_errors.increment([pool]);
    }

    /// Preferences that can keep nodes from being merged (SCH-18).
    pub fn hinders_consolidation(&self, kind: &'static str, pods: &[String]) {
        let shown = pods.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        info!(kind, pods = %shown, pod_count = pods.len(), "pods have preferences that can hinder consolidation");
    }

    /// Devices are to be looked at, and the cluster has none.
    pub fn devices_not_served(&self, group_version: &str) {
        warn!(group_version, "the cluster does not serve dynamic resources, so there are no devices");
    }

    pub fn devices_unknown(&self, error: &(dyn std::error::Error + 'static)) {
        warn!(error = %chain(error), "could not find out whether the cluster serves dynamic resources");
    }

    pub fn synced(&self) {
        self.metrics.all.cluster_state_synced.set([], 1.0);
        self.running.synced();
    }

    /// Told on the pool too: whoever wonders why it gets no nodes, and why none of its nodes gives way to a cheaper one, looks
    /// there.
    pub fn instance_types_unavailable(&self, pool: &PoolView, error: &(dyn std::error::Error + 'static)) {
        let why = chain(error);
        error!(nodepool = pool.name, error = %why, "skipped a nodepool whose instance types cannot be listed");
        self.events.publish(catalogue::instance_types_unavailable(&Subject::pool(&pool.name, &pool.uid), &why));
    }

    pub fn no_instance_types(&self, pool: &str) {
        error!(nodepool = pool, "skipped a nodepool that is offered no instance types");
    }

    /// A pass over so many pods begins; it is over when the answer is dropped.
    pub(crate) fn planning(&self, pods: usize) -> RunningPass {
        self.running.pass(PROVISIONER, pods)
    }

    /// How many pods wait but cannot be planned for, and how many are known to find no place.
    pub fn left_out(&self, ignored: usize, hopeless: usize) {
        self.metrics.all.scheduler_ignored_pods.set([], number(ignored));
        self.metrics.all.scheduler_unschedulable_pods.set([PROVISIONER], number(hopeless));
    }

    /// Where the pods of a pass could go at all (SCH-29).
    pub fn effective_zones<'a>(&self, zones: impl Iterator<Item = &'a EffectiveZone>) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for zone in zones {
            *counts.entry(zone.as_str()).or_default() += 1;
        }
        let gauge = &self.metrics.all.scheduler_pending_pods_by_zone;
        gauge.remove_where(&[("controller", PROVISIONER)]);
        for (zone, count) in counts {
            gauge.set([PROVISIONER, zone], number(count));
        }
    }

    /// A pass is over: how long it took and how many pods found no place.
    pub fn planned(&self, took: Duration, unplaced: usize) {
        let metrics = &self.metrics.all;
        metrics.scheduling_duration.observe([PROVISIONER], took.as_secs_f64());
        metrics.scheduler_unschedulable_pods.set([PROVISIONER], number(unplaced));
    }

    /// Nothing that the pool may launch is to be had.
    pub fn useless_pool(&self, pool: &PoolView) {
        debug!(nodepool = pool.name, "the requirements of the nodepool leave no instance type");
        let subject = Subject::pool(&pool.name, &pool.uid);
        self.events.publish(catalogue::no_compatible_instance_types(&subject, NoTypes::Requirements));
    }

    pub fn created_claim(&self, name: &str, planned: &PlannedClaim) {
        let pods: Vec<String> = planned.pods.iter().take(5).map(ToString::to_string).collect();
        let (shown, more) = first_five(&planned.instance_types);
        info!(
            nodepool = %planned.pool.name,
            nodeclaim = name,
            requests = %planned.requests,
            instance_types = %shown,
            more_instance_types = more,
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
        // A pod that only moves has been decided on long ago (SCH-25).
        if pod.node_name.is_none() {
            self.pods.decided(&pod.id, Verdict::Schedulable, self.clock.now());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// SCH-226.
    #[test]
    fn a_log_shows_five_types_and_counts_the_rest() {
        let names = |count: u32| (1..=count).map(|number| format!("t{number}")).collect::<Vec<_>>();
        for (count, shown, more) in
            [(0, "", 0), (2, "t1, t2", 0), (5, "t1, t2, t3, t4, t5", 0), (600, "t1, t2, t3, t4, t5", 595)]
        {
            assert_eq!(first_five(&names(count)), (shown.to_owned(), more));
        }
    }
}
