//! What a provider wants done about sick nodes (V15-27 … V15-31).

use std::collections::BTreeSet;

use karpenter_model::claim::Status;
use karpenter_model::node::NodeCondition;
pub use karpenter_model::repair::{RepairAction, RepairMatch, RepairPolicy};
use regex::Regex;

/// One broken rule of V15-31.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepairViolation {
    #[error("policy {0}: the condition type is empty")]
    NoConditionType(RepairPolicy),
    #[error("policy {0}: the priority is above 100")]
    Priority(RepairPolicy),
    #[error("policy {policy}: the reason expression does not compile: {why}")]
    Expression { policy: RepairPolicy, why: String },
    #[error("{0} policies have an empty reason expression; exactly one must be the default fallback")]
    Fallbacks(usize),
    #[error("policy {0}: the default fallback must replace the node")]
    FallbackAction(RepairPolicy),
}

/// Everything that is wrong with a set of policies, in the order of the policies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid repair policies: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct RepairViolations(pub Vec<RepairViolation>);

/// A valid set of policies, compiled once for the process and shared by all who match conditions.
#[derive(Debug, Clone)]
pub struct RepairPolicies {
    specific: Vec<(RepairPolicy, Regex)>,
    fallback: RepairPolicy,
    pairs: BTreeSet<(String, StatusKey)>,
    /// All that occur, in ascending order.
    priorities: Vec<u8>,
}

type StatusKey = u8;

fn key(status: Status) -> StatusKey {
    match status {
        Status::True => 0,
        Status::False => 1,
        Status::Unknown => 2,
    }
}

impl RepairPolicies {
    /// Reports all violations together (V15-31).
    pub fn compile(policies: &[RepairPolicy]) -> Result<Self, RepairViolations> {
        let mut violations = Vec::new();
        let mut specific = Vec::new();
        let mut fallbacks = Vec::new();
        for policy in policies {
            if policy.condition_type.is_empty() {
                violations.push(RepairViolation::NoConditionType(policy.clone()));
            }
            if policy.priority > 100 {
                violations.push(RepairViolation::Priority(policy.clone()));
            }
            if policy.reason_expression.is_empty() {
                fallbacks.push(policy);
                continue;
            }
            match Regex::new(&policy.reason_expression) {
                Ok(expression) => specific.push((policy.clone(), expression)),
                Err(why) => {
                    violations.push(RepairViolation::Expression { policy: policy.clone(), why: why.to_string() });
                }
            }
        }
        let wrong_action = fallbacks.iter().filter(|policy| policy.action != RepairAction::ReplaceNode);
        violations.extend(wrong_action.map(|policy| RepairViolation::FallbackAction((*policy).clone())));
        match fallbacks[..] {
            [fallback] if violations.is_empty() => {
                let pairs = policies.iter().map(|p| (p.condition_type.clone(), key(p.condition_status))).collect();
                let priorities: BTreeSet<u8> = policies.iter().map(|policy| policy.priority).collect();
                let priorities = priorities.into_iter().collect();
                Ok(Self { specific, fallback: fallback.clone(), pairs, priorities })
            }
            [_] => Err(RepairViolations(violations)),
            _ => {
                violations.push(RepairViolation::Fallbacks(fallbacks.len()));
                Err(RepairViolations(violations))
            }
        }
    }

    /// Whether a condition of this type and status matters at all (V15-28).
    pub fn supports(&self, condition_type: &str, status: Status) -> bool {
        self.pairs.contains(&(condition_type.to_owned(), key(status)))
    }

    /// The policies that a condition calls for: every specific one of its pair whose expression matches, else the
    /// fallback, whatever pair that names itself (V15-29). None for a pair that is not supported.
    pub fn matching(&self, condition_type: &str, status: Status, reason: &str) -> Vec<&RepairPolicy> {
        if !self.supports(condition_type, status) {
            return Vec::new();
        }
        let of_pair =
            |policy: &RepairPolicy| policy.condition_type == condition_type && policy.condition_status == status;
        let matching =
            self.specific.iter().filter(|(policy, expression)| of_pair(policy) && expression.is_match(reason));
        let matching: Vec<_> = matching.map(|(policy, _)| policy).collect();
        if matching.is_empty() { vec![&self.fallback] } else { matching }
    }

    /// What the conditions of a node call for, whenever that will be (V15-28, V15-29).
    pub fn matches(&self, conditions: &[NodeCondition]) -> Vec<RepairMatch> {
        let mut found = Vec::new();
        for condition in conditions {
            let policies = self.matching(&condition.kind, condition.status, &condition.reason);
            found.extend(policies.into_iter().map(|policy| self.matched(condition, policy)));
        }
        found
    }

    fn matched(&self, condition: &NodeCondition, policy: &RepairPolicy) -> RepairMatch {
        let rank = self.priorities.iter().position(|known| *known == policy.priority).unwrap_or_default();
        RepairMatch {
            condition_type: condition.kind.clone(),
            status: condition.status,
            reason: condition.reason.clone(),
            since: condition.since,
            expression: policy.reason_expression.clone(),
            is_fallback: self.is_fallback(policy),
            toleration: policy.toleration,
            termination_grace_period: policy.termination_grace_period,
            priority: policy.priority,
            rank: u32::try_from(rank).unwrap_or(u32::MAX),
            action: policy.action,
        }
    }

    /// Some condition is of a supported pair, whatever its age and reason: the node counts as unhealthy (V15-41).
    pub fn is_unhealthy(&self, conditions: &[NodeCondition]) -> bool {
        conditions.iter().any(|condition| self.supports(&condition.kind, condition.status))
    }

    pub fn is_fallback(&self, policy: &RepairPolicy) -> bool {
        *policy == self.fallback
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn policy(condition_type: &str, status: Status, expression: &str) -> RepairPolicy {
        RepairPolicy {
            condition_type: condition_type.to_owned(),
            condition_status: status,
            reason_expression: expression.to_owned(),
            toleration: Duration::from_mins(10),
            termination_grace_period: None,
            priority: 0,
            action: RepairAction::ReplaceNode,
        }
    }

    /// V15-28, V15-29, V15-30: pairs, unanchored search, and the fallback only where nothing specific matches.
    #[test]
    fn matching() {
        let set = RepairPolicies::compile(&[
            policy("Ready", Status::False, ""),
            policy("Disk", Status::True, "Full"),
            policy("Disk", Status::True, "^Fu"),
            policy("Ready", Status::Unknown, ".*"),
        ])
        .unwrap();
        for (condition, status, reason, want) in [
            ("Ready", Status::False, "KubeletNotReady", vec![""]),
            ("Disk", Status::True, "VeryFull", vec!["Full"]),
            ("Disk", Status::True, "Full", vec!["Full", "^Fu"]),
            ("Disk", Status::True, "Slow", vec![""]),
            ("Ready", Status::Unknown, "", vec![".*"]),
            ("Disk", Status::False, "Full", vec![]),
            ("Ready", Status::True, "", vec![]),
        ] {
            let found: Vec<_> =
                set.matching(condition, status, reason).iter().map(|p| &p.reason_expression[..]).collect();
            assert_eq!(found, want, "{condition} {status:?} {reason}");
        }
        assert!(set.is_fallback(&policy("Ready", Status::False, "")));
    }

    /// V15-27, V15-31, V15-30, VC-8: every violation is named, all at once; what the types already forbid cannot be said.
    #[test]
    fn violations_are_reported_together() {
        let good = policy("Ready", Status::False, "");
        let said = |policies: &[RepairPolicy]| {
            RepairPolicies::compile(policies)
                .map_or_else(|all| all.0.iter().map(ToString::to_string).collect(), |_| vec![])
        };
        assert_eq!(said(std::slice::from_ref(&good)), Vec::<String>::new());
        for (policies, want) in [
            (vec![], vec!["0 policies have an empty"]),
            (vec![good.clone(), good.clone()], vec!["2 policies have an empty"]),
            (vec![policy("Ready", Status::False, ".*")], vec!["0 policies have an empty"]),
            (
                vec![RepairPolicy { action: RepairAction::RebootNode, ..good.clone() }],
                vec!["the default fallback must"],
            ),
            (
                vec![
                    RepairPolicy { priority: 101, ..policy("", Status::True, "(") },
                    RepairPolicy { action: RepairAction::RebootNode, ..good.clone() },
                    good.clone(),
                ],
                vec!["condition type is empty", "priority is above", "does not compile", "fallback must", "2 policies"],
            ),
        ] {
            let said = said(&policies);
            assert_eq!(said.len(), want.len(), "{said:#?}");
            assert!(said.iter().zip(want).all(|(said, want)| said.contains(want)), "{said:#?}");
        }
    }

    /// VC-12, VC-17, V15-29, V15-33: what a node's conditions call for, with dense ranks and the fallback's own priority.
    #[test]
    fn vc_12_vc_17_matches_of_a_node() {
        let set = RepairPolicies::compile(&[
            RepairPolicy { priority: 10, ..policy("Ready", Status::False, "") },
            RepairPolicy { priority: 90, ..policy("Disk", Status::True, "Full") },
        ])
        .unwrap();
        let condition = |kind: &str, status, reason: &str| NodeCondition {
            kind: kind.to_owned(),
            status,
            reason: reason.to_owned(),
            since: None,
        };
        let seen = |conditions: &[NodeCondition]| -> Vec<(String, u32, u8, bool)> {
            let matches = set.matches(conditions);
            matches.into_iter().map(|m| (m.condition_type, m.rank, m.priority, m.is_fallback)).collect()
        };
        let disk = condition("Disk", Status::True, "Full");
        let ready = condition("Ready", Status::False, "x");
        assert_eq!(seen(&[ready, disk.clone()]), [("Ready".into(), 0, 10, true), ("Disk".into(), 1, 90, false)]);
        let strange = condition("Disk", Status::True, "Slow");
        assert_eq!(
            seen(std::slice::from_ref(&strange)),
            [("Disk".into(), 0, 10, true)],
            "unknown reason: the fallback"
        );
        assert!(seen(&[condition("Disk", Status::False, "Full"), condition("Net", Status::True, "Full")]).is_empty());
        assert!(set.is_unhealthy(&[strange]));
        assert!(!set.is_unhealthy(&[condition("Ready", Status::True, "")]));
    }
}
