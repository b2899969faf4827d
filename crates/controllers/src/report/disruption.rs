//! Commands that take nodes away: what was decided, what it is worth, and what became of it.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use karpenter_disruption::methods::validation::Checked;
use karpenter_disruption::methods::{Command, Decided, Going, Method, RepairOf};
use karpenter_disruption::reboot::Outcome;
use karpenter_disruption::repair;
use karpenter_model::annotations::REBOOT_ISSUED_AT;
use karpenter_model::claim::ClaimView;
use karpenter_model::labels;
use tracing::{debug, error, info, warn};

use super::claims::termination_mode;
use super::{Report, chain};
use crate::disruption::{Underway, reason_label};
use crate::events::{Subject, catalogue};

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// `BadNode` becomes `bad_node` (LC-90).
fn snake_case(text: &str) -> String {
    let mut snake = String::with_capacity(text.len() + 4);
    for (at, letter) in text.char_indices() {
        if letter.is_uppercase() && at > 0 {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// What is wrong with a node, and what is done about it (V15-52).
fn repairing(going: &Going, repair: &RepairOf) {
    info!(
        node = going.node,
        nodeclaim = going.claim,
        condition = repair.condition_type,
        condition_status = ?repair.status,
        condition_reason = repair.reason,
        reason_expression = repair.expression,
        fallback = repair.is_fallback,
        action = ?repair.action,
        due_since = %repair.due_since,
        drain_bound_seconds = repair.bound.map(|bound| bound.as_secs()),
        drain_bound_by = repair.bound_by.as_deref(),
        reboot_escalated = repair.escalated,
        "repairing a node"
    );
}

impl Report {
    /// One method has looked at everything.
    pub(crate) fn disruption_evaluated(&self, method: Method, took: Duration, decided: &Decided) {
        let metrics = &self.metrics.all;
        let (reason, kind) = (reason_label(method.reason()), method.consolidation_type());
        metrics.disruption_evaluation_duration.observe([&reason, kind], took.as_secs_f64());
        metrics.disruption_eligible_nodes.set([&reason], number(decided.eligible));
        if decided.timed_out {
            warn!(consolidation_type = kind, "the search for cheaper nodes ran out of time");
            metrics.disruption_consolidation_timeouts.increment([kind]);
        }
    }

    /// What would become of pods was asked of one look at the cluster (API-196).
    pub(crate) fn simulated(&self, took: Duration) {
        self.metrics.all.scheduling_duration.observe(["disruption"], took.as_secs_f64());
    }

    /// Methods before it have had something to do for long, or a pass takes long.
    pub fn disruption_starved(&self, method: Method, long: Duration) {
        let (reason, kind) = (reason_label(method.reason()), method.consolidation_type());
        warn!(reason, consolidation_type = kind, seconds = long.as_secs(), "disruption has not come to this for long");
    }

    pub fn budgets_unreadable(&self, pool: &str) {
        error!(nodepool = pool, "disruption budgets cannot be read, so no node of the nodepool is disrupted");
    }

    /// Pools that are gone are not told again.
    pub(crate) fn forget_budgets(&self) {
        self.metrics.all.nodepools_allowed_disruptions.family().clear();
        self.metrics.all.nodepools_nodes_consuming_budgets.family().clear();
    }

    pub(crate) fn budget(&self, pool: &str, reason: &str, allowed: u32, consuming: u32) {
        self.metrics.all.nodepools_allowed_disruptions.set([pool, reason], f64::from(allowed));
        self.metrics.all.nodepools_nodes_consuming_budgets.set([pool, reason], f64::from(consuming));
    }

    /// A move was judged; only pools with the policy `Balanced` have a score.
    pub(crate) fn consolidation_judged(&self, pool: &str, policy: &str, approved: bool, score: Option<f64>) {
        let decision = if approved { "approved" } else { "rejected" };
        self.metrics.all.consolidation_moves.increment([decision, pool, policy]);
        if let Some(score) = score {
            self.metrics.all.consolidation_score.observe([decision, pool, policy], score);
        }
    }

    /// A command was looked at for the second time.
    pub(crate) fn disruption_checked(&self, command: &Command, checked: &Checked) {
        if checked.failed > 0 {
            let failed = u64::try_from(checked.failed).unwrap_or(u64::MAX);
            self.metrics.all.disruption_failed_validations.add([command.method.consolidation_type()], failed);
        }
        if let Err(why) = checked.outcome {
            debug!(command = %command.text(), why = why.as_str(), "the command does not stand a second look");
        }
    }

    /// DIS-170, with what it is worth, what it asks of pods, and which budgets let it start now.
    pub fn disruption_starting(&self, command: &Command, id: &str, budgets: &str) {
        let nodes: Vec<String> = command
            .going
            .iter()
            .map(|going| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                format!("{} ({}, {})", going.node, text(&going.instance_type), text(&going.capacity_type))
            })
            .collect();
        let pods: usize = command.going.iter().map(|going| going.pods).sum();
        let (replacement_capacity_type, replacement_types) = match &command.replacements[..] {
            [one] => {
                let admits = |kind: &&str| {
                    one.requirements.get(labels::CAPACITY_TYPE).is_some_and(|requirement| requirement.has(kind))
                };
                let kinds =
                    [labels::CAPACITY_TYPE_RESERVED, labels::CAPACITY_TYPE_SPOT, labels::CAPACITY_TYPE_ON_DEMAND];
                let kind = kinds.iter().copied().find(|kind| admits(kind)).unwrap_or_default();
                (kind, one.instance_types.iter().take(5).cloned().collect::<Vec<_>>().join(", "))
            }
            _ => ("", String::new()),
        };
        info!(
            command = %command.text_with(id),
            command_id = id,
            decision = command.decision.as_str(),
            reason = command.method.reason().as_str(),
            node_count = command.going.len(),
            replacement_count = command.replacements.len(),
            pod_count = pods,
            nodes = %nodes.join(", "),
            replacement_capacity_type,
            replacement_instance_types = %replacement_types,
            price_usd_per_hour = command.going.iter().map(|going| going.price.per_hour()).sum::<f64>(),
            savings_usd_per_hour = command.savings,
            disruption_cost = command.going.iter().map(|going| going.reschedule_cost).sum::<f64>(),
            receiving_nodes = command.receiving.len(),
            budgets,
            "disrupting nodes"
        );
        for (going, repair) in command.going.iter().filter_map(|going| Some((going, going.repair.as_ref()?))) {
            repairing(going, repair);
        }
    }

    pub(crate) fn disruption_started(&self, command: &Command) {
        let metrics = &self.metrics.all;
        let (reason, kind) = (reason_label(command.method.reason()), command.method.consolidation_type());
        let decision = command.decision.as_str();
        metrics.disruption_decisions.increment([decision, &reason, kind]);
        let pools: BTreeSet<&str> = command.going.iter().map(|going| going.pool.as_str()).collect();
        for pool in pools {
            metrics.disruption_decisions_by_nodepool.increment([pool, decision, &reason, kind]);
            if let Some(why) = command.terminate_first {
                metrics.disruption_terminate_first_decisions.increment([pool, &reason, why.as_str()]);
            }
        }
    }

    /// A sick node goes, or restarts; counted by what was wrong with it (V15-48).
    pub(crate) fn repaired(
        &self,
        claim: &ClaimView,
        condition: &str,
        image: Option<&str>,
        bound: Option<SignedDuration>,
    ) {
        let label = |key: &str| claim.labels.get(key).map_or("", String::as_str);
        let own = || termination_mode(claim.termination_grace_period);
        let mode = bound.map_or_else(own, |bound| repair::termination_mode(Some(bound)));
        let condition = snake_case(condition);
        let labels = [
            condition.as_str(),
            label(labels::NODEPOOL),
            label(labels::CAPACITY_TYPE),
            image.unwrap_or_default(),
            mode,
        ];
        self.metrics.all.nodeclaims_unhealthy_disrupted.increment(labels);
    }

    /// A new boot was seen (V15-65).
    pub(crate) fn reboot_observed(&self, claim: &ClaimView) {
        info!(nodeclaim = claim.name, "node has rebooted, waiting until it is ready");
        let since = claim.reboot.as_ref().map_or(claim.created_at, |reboot| reboot.since);
        self.events.publish(catalogue::reboot_observed(&Subject::claim(&claim.name, &claim.uid), since));
    }

    /// V15-18, V15-66, V15-68.
    pub(crate) fn reboot_ended(&self, claim: &ClaimView, outcome: Outcome, now: Timestamp) {
        let since = claim.reboot.as_ref().map_or(claim.created_at, |reboot| reboot.since);
        let result = outcome.as_str();
        info!(nodeclaim = claim.name, result, "reboot ended");
        let seconds = |from: Timestamp| now.duration_since(from).as_secs_f64().max(0.0);
        self.metrics.all.nodes_reboots.increment([result]);
        self.metrics.all.nodes_reboot_duration.observe([result], seconds(since));
        if outcome == Outcome::Succeeded {
            let issued = claim.annotations.get(REBOOT_ISSUED_AT).and_then(|text| text.parse().ok());
            self.metrics.all.nodes_reboot_recovery_duration.observe([], seconds(issued.unwrap_or(since)));
        } else {
            let message = format!("Reboot did not succeed: {result}");
            let subject = Subject::claim(&claim.name, &claim.uid);
            self.events.publish(catalogue::reboot_failed(&subject, since, &message));
        }
    }

    pub fn disruption_mark_failed(&self, claim: &str, error: &kube::Error) {
        error!(nodeclaim = claim, error = %chain(error), "could not mark a node that is to go");
    }

    /// A replacement is there, ready or not.
    pub(crate) fn disruption_waiting(&self, claim: &ClaimView, method: Method, ready: bool) {
        let subject = Subject::claim(&claim.name, &claim.uid);
        self.events.publish(catalogue::disruption_launching(&subject, method.reason().as_str()));
        if !ready {
            self.events.publish(catalogue::disruption_waiting_readiness(&subject));
        }
    }

    pub(crate) fn disruption_terminating(&self, claim: &ClaimView, reason: &str, policy: &str, pods: usize) {
        info!(nodeclaim = claim.name, reason, pods, "deleting nodeclaim");
        self.count_disrupted(claim, reason, policy);
        let mode = termination_mode(claim.termination_grace_period);
        let label = |key: &str| claim.labels.get(key).map_or("", String::as_str);
        let labels = [reason, label(labels::NODEPOOL), label(labels::CAPACITY_TYPE), policy, mode];
        self.metrics.all.pods_disruption_initiated.add(labels, u64::try_from(pods).unwrap_or(u64::MAX));
    }

    pub fn disruption_delete_failed(&self, claim: &str, error: &kube::Error) {
        error!(nodeclaim = claim, error = %chain(error), "could not delete a nodeclaim whose replacement is ready");
    }

    pub fn disruption_replacement_lost(&self, command: &str, claim: &str) {
        warn!(command_id = command, nodeclaim = claim, "a replacement did not come up, taking the command back");
    }

    pub fn disruption_timed_out(&self, command: &str) {
        warn!(command_id = command, "replacements took too long, taking the command back");
    }

    /// Its nodes stay after all.
    pub(crate) fn disruption_failed(&self, command: &Underway) {
        let method = command.method();
        let labels = [command.record.decision().as_str(), &reason_label(method.reason()), method.consolidation_type()];
        let failed = u64::try_from(command.not_latched()).unwrap_or(u64::MAX);
        self.metrics.all.disruption_queue_failures.add(labels, failed);
    }

    pub fn disruption_release_failed(&self, claim: &str, error: &kube::Error) {
        error!(nodeclaim = claim, error = %chain(error), "could not undo what a command left behind, trying again");
    }

    pub fn disruption_record_unreadable(&self, claim: &str, error: &serde_json::Error) {
        error!(nodeclaim = claim, error = %chain(error), "the annotation of a disruption command is malformed");
    }

    /// Of whoever led before.
    pub fn disruption_found(&self, command: &str, goes_on: bool) {
        info!(command_id = command, goes_on, "found a disruption command of an earlier leader");
    }
}
