//! What a provider wants done about sick nodes, as the legacy controller reads it (LIF-84 … LIF-87, V15-51).

use jiff::{SignedDuration, Timestamp};
use karpenter_model::node::NodeCondition;
use karpenter_model::repair::{RepairAction, RepairPolicy};
use regex::Regex;

/// Only policies that replace nodes. One without an expression matches every reason of its own pair; there is no fallback.
#[derive(Debug, Clone)]
pub struct LegacyPolicies(Vec<(RepairPolicy, Option<Regex>)>);

impl LegacyPolicies {
    pub fn compile(policies: &[RepairPolicy]) -> Result<Self, regex::Error> {
        let replacing = policies.iter().filter(|policy| policy.action == RepairAction::ReplaceNode);
        let compiled = replacing.map(|policy| {
            let text = policy.reason_expression.as_str();
            let expression = if text.is_empty() { None } else { Some(Regex::new(text)?) };
            Ok((policy.clone(), expression))
        });
        compiled.collect::<Result<_, _>>().map(Self)
    }

    fn matching<'a>(&'a self, condition: &'a NodeCondition) -> impl Iterator<Item = &'a RepairPolicy> {
        let matches = move |(policy, expression): &&(RepairPolicy, Option<Regex>)| {
            policy.condition_type == condition.kind
                && policy.condition_status == condition.status
                && expression.as_ref().is_none_or(|expression| expression.is_match(&condition.reason))
        };
        self.0.iter().filter(matches).map(|(policy, _)| policy)
    }

    /// Whatever its age (LIF-87).
    pub fn is_unhealthy(&self, conditions: &[NodeCondition]) -> bool {
        conditions.iter().any(|condition| self.matching(condition).next().is_some())
    }

    /// The condition whose toleration ends first, and when (LIF-86). One that does not say since when is never out of time.
    pub fn due<'a>(&'a self, conditions: &'a [NodeCondition]) -> Option<(Timestamp, &'a NodeCondition)> {
        let due = conditions.iter().flat_map(|condition| {
            self.matching(condition).filter_map(move |policy| {
                let toleration = SignedDuration::try_from(policy.toleration).unwrap_or(SignedDuration::MAX);
                Some((condition.since?.saturating_add(toleration).unwrap_or(Timestamp::MAX), condition))
            })
        });
        due.min_by_key(|(at, condition)| (*at, condition.kind.as_str()))
    }
}

/// Policies that mean less to the legacy controller than to repair, one sentence each: whoever switches between the two should know
/// before a node is sick (Z24).
pub fn legacy_differences(policies: &[RepairPolicy]) -> Vec<String> {
    let differs = policies.iter().filter_map(|policy| {
        let RepairPolicy { condition_type, condition_status, reason_expression, action, .. } = policy;
        let pair = format!("{condition_type}={condition_status:?}");
        match action {
            RepairAction::RebootNode => Some(format!("{pair}: its nodes are not rebooted")),
            RepairAction::ReplaceNode if reason_expression.is_empty() => {
                Some(format!("{pair}: without an expression it matches this condition only, and is nobody's fallback"))
            }
            RepairAction::ReplaceNode => None,
        }
    });
    differs.collect()
}

/// Whether too many of the nodes in scope are sick for the sickness to be theirs (LIF-87, LC-88): more than a fifth, rounded up.
pub fn too_many(sick: usize, nodes: usize) -> bool {
    sick > (nodes * 20).div_ceil(100)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use karpenter_model::claim::Status;

    use super::*;

    fn policy(kind: &str, expression: &str, minutes: u64, action: RepairAction) -> RepairPolicy {
        RepairPolicy {
            condition_type: kind.to_owned(),
            condition_status: Status::False,
            reason_expression: expression.to_owned(),
            toleration: Duration::from_mins(minutes),
            termination_grace_period: None,
            priority: 0,
            action,
        }
    }

    fn condition(kind: &str, status: Status, reason: &str, minute: i64) -> NodeCondition {
        let since = Timestamp::from_second(60 * minute).ok();
        NodeCondition { kind: kind.to_owned(), status, reason: reason.to_owned(), since }
    }

    /// LC-84, LC-85, LIF-86, V15-51: the first toleration to end counts; other pairs, reasons and actions do not.
    #[test]
    fn when_a_node_is_due() {
        let policies = LegacyPolicies::compile(&[
            policy("BadNode", "", 30, RepairAction::ReplaceNode),
            policy("Disk", "Full", 60, RepairAction::ReplaceNode),
            policy("Kernel", "", 1, RepairAction::RebootNode),
        ])
        .unwrap();
        let due = |conditions: &[NodeCondition]| policies.due(conditions).map(|(at, _)| at.as_second() / 60);
        let bad = condition("BadNode", Status::False, "x", 0);
        let disk = condition("Disk", Status::False, "DiskFull", 0);
        assert_eq!(due(&[disk.clone(), bad.clone()]), Some(30), "LC-85");
        assert_eq!(due(std::slice::from_ref(&disk)), Some(60));
        assert_eq!(due(&[condition("Disk", Status::False, "Slow", 0)]), None, "V15-51: another reason");
        assert_eq!(due(&[condition("BadNode", Status::True, "x", 0)]), None, "LC-84");
        assert_eq!(due(&[condition("Kernel", Status::False, "x", 0)]), None, "V15-51: only replacements");
        assert_eq!(due(&[NodeCondition { since: None, ..bad.clone() }]), None);
        assert!(policies.is_unhealthy(&[bad]) && !policies.is_unhealthy(&[]));
        assert!(LegacyPolicies::compile(&[policy("A", "(", 1, RepairAction::ReplaceNode)]).is_err());
    }

    /// Z24: an empty expression means its own pair here, any supported one there; reboots are unknown.
    #[test]
    fn differences_are_named() {
        let said = legacy_differences(&[
            policy("BadNode", "", 30, RepairAction::ReplaceNode),
            policy("Disk", "Full", 60, RepairAction::ReplaceNode),
            policy("Kernel", ".*", 1, RepairAction::RebootNode),
        ]);
        assert_eq!(said.len(), 2, "{said:#?}");
        assert!(said[0].starts_with("BadNode=False") && said[0].contains("this condition only"), "{said:#?}");
        assert!(said[1].starts_with("Kernel=False") && said[1].contains("not rebooted"), "{said:#?}");
    }

    /// LC-88.
    #[test]
    fn a_fifth_may_be_sick() {
        for (sick, nodes, want) in [(3, 10, true), (2, 10, false), (1, 3, false), (2, 3, true), (0, 0, false)] {
            assert_eq!(too_many(sick, nodes), want, "{sick} of {nodes}");
        }
    }
}
