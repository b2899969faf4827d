//! The page about events: each of them said once, with words for what differs.

use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use karpenter_model::pod::PodId;
use karpenter_model::quantity::Quantity;

use super::catalogue as of;
use super::{Event, Subject};
use crate::metrics::ConditionChange;

fn subject(kind: &str) -> Subject {
    let api_version = if ["Pod", "Node"].contains(&kind) { "v1" } else { "karpenter.sh/v1" };
    Subject::new(api_version, kind, "", "NAME", "UID")
}

/// On which kinds, and the event.
fn all() -> Vec<(&'static str, Event)> {
    let [pod, node, claim, pool] = ["Pod", "Node", "NodeClaim", "NodePool"].map(subject);
    let at = Timestamp::UNIX_EPOCH;
    let id = PodId::new("NAMESPACE", "POD");
    let score = of::Score { score: 1.5, threshold: 0.5, k: 2, savings_percent: 10.0, disruption_percent: 5.0 };
    let shortfall = of::Shortfall { resource: "cpu", expected: Quantity::units(4), found: Quantity::units(3) };
    let changed = ConditionChange::Transition {
        type_: "TYPE".to_owned(),
        from: "OLD".to_owned(),
        to: "NEW".to_owned(),
        reason: "REASON".to_owned(),
        message: "MESSAGE".to_owned(),
    };
    let attachments = ["ATTACHMENT".to_owned()];
    vec![
        ("Pod", of::nominated(&pod, Some("NODECLAIM"), Some("NODE"))),
        ("Pod", of::failed_scheduling(&pod, "WHY")),
        ("Pod", of::pod_without_capacity(&pod, "NODECLAIM", "WHY")),
        ("Pod", of::evicted(&pod, "REASON")),
        ("Pod", of::disrupted(&pod, at, 10, 30)),
        ("Pod", of::invalid_do_not_disrupt(&pod, "WHY")),
        ("Pod", of::do_not_disrupt_until(&pod, at)),
        ("Pod", of::do_not_disrupt_elapsed(&pod)),
        ("NodePool", of::no_compatible_instance_types(&pool, of::NoTypes::Requirements)),
        ("NodePool", of::no_compatible_instance_types(&pool, of::NoTypes::MinValues)),
        ("NodePool", of::instance_types_unavailable(&pool, "WHY")),
        ("NodePool", of::disruption_blocked_by_budget(&pool, "REASON")),
        ("Node, NodeClaim", of::disruption_blocked(&node, "WHY")),
        ("NodeClaim", of::disruption_launching(&claim, "REASON")),
        ("NodeClaim", of::disruption_waiting_readiness(&claim)),
        ("Node, NodeClaim", of::disruption_terminating(&node, "REASON")),
        ("Node, NodeClaim", of::unconsolidatable(&node, "WHY")),
        ("Node, NodeClaim", of::consolidation_candidate(&node, "COMMAND", 0.1)),
        ("Node, NodeClaim", of::consolidation_rejected(&node, "COMMAND", "REASON", 0.1)),
        ("Node, NodeClaim, NodePool", of::consolidation_approved(&node, &score)),
        ("Node, NodeClaim, NodePool", of::node_repair_blocked(&node, "NODEPOOL")),
        ("Node", of::legacy_node_repair_blocked(&node, "UID", false)),
        ("Node", of::legacy_node_repair_blocked(&node, "UID", true)),
        ("Node", of::failed_draining(&node, &of::DrainObstacle::Waiting(3))),
        ("Node", of::failed_draining(&node, &of::DrainObstacle::Budget(&id))),
        ("Node", of::failed_draining(&node, &of::DrainObstacle::SeveralBudgets(&id))),
        ("Node", of::failed_draining(&node, &of::DrainObstacle::Protected { pod: &id, since: at })),
        ("Node", of::awaiting_volume_detachment(&node, &attachments)),
        ("Node, NodeClaim", of::termination_grace_period_expiring(&node, at)),
        ("NodeClaim", of::failed_consistency_check(&claim, &shortfall)),
        ("NodeClaim", of::insufficient_capacity(&claim, "WHY")),
        ("NodeClaim", of::unregistered_taint_missing(&claim)),
        ("NodeClaim", of::reboot_observed(&claim, at)),
        ("NodeClaim", of::reboot_failed(&claim, at, "WHY")),
        ("any", of::invalid_field(&pool, "FIELD", "WHY")),
        ("any", of::condition_change(&pool, &changed)),
        ("any", of::condition_change(&pool, &ConditionChange::Finalized("FINALIZER".to_owned()))),
    ]
}

/// Rows of a table in Markdown: object, type, reason, message, and how long it is not repeated.
pub fn reference() -> String {
    let mut out = String::new();
    for (kinds, event) in all() {
        let message = event.message.replace(&Timestamp::UNIX_EPOCH.to_string(), "TIME").replace('|', "\\|");
        let pause = if event.dedupe.is_empty() { "always".to_owned() } else { minutes(event.timeout) };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {kinds} | {} | `{}` | {message} | {pause} |", event.type_, event.reason);
    }
    out
}

fn minutes(pause: SignedDuration) -> String {
    format!("{} min", pause.as_mins())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-174: who adds an event adds it here.
    #[test]
    fn every_event_is_on_the_page() {
        let (catalogue, page) = (include_str!("catalogue.rs"), include_str!("reference.rs"));
        let functions = catalogue.split("\npub fn ").skip(1);
        let makers: Vec<&str> = functions
            .filter(|text| text.split_once('{').is_some_and(|(head, _)| head.trim_end().ends_with("-> Event")))
            .filter_map(|text| text.split('(').next())
            .collect();
        assert!(makers.len() > 25, "{makers:?}");
        for maker in makers {
            assert!(page.contains(&format!("of::{maker}(")), "{maker}");
        }
        assert!(reference().lines().all(|line| line.matches(" | ").count() == 4), "{}", reference());
    }
}
