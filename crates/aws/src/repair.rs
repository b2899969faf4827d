//! What is done about sick nodes on AWS (§3.10, AWS-304 … AWS-306).

use std::time::Duration;

use karpenter_model::claim::Status;
use karpenter_platform::{RepairAction, RepairPolicy};

const ANY_REASON: &str = ".*";

/// Condition, status, whether it is the fallback, toleration, drain bound, priority. Times in minutes: no drain where the
/// kubelet or the runtime could not evict any more; scarce accelerators first.
const POLICIES: [(&str, Status, bool, u64, u64, u8); 7] = [
    ("Ready", Status::False, true, 30, 0, 50),
    ("Ready", Status::Unknown, false, 30, 0, 50),
    ("AcceleratedHardwareReady", Status::False, false, 10, 10, 100),
    ("KernelReady", Status::False, false, 30, 0, 50),
    ("ContainerRuntimeReady", Status::False, false, 30, 0, 50),
    ("StorageReady", Status::False, false, 30, 10, 0),
    ("NetworkingReady", Status::False, false, 30, 10, 0),
];

/// A reason for which the operator wants nodes rebooted instead of replaced (AWS-305).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebootReason {
    pub condition_type: String,
    pub reason_expression: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebootReasonError {
    #[error("repair.rebootReasons: condition {0:?} is not one that nodes are repaired for")]
    UnknownCondition(String),
    #[error("repair.rebootReasons: condition Ready cannot be rebooted for, it decides for all others")]
    Fallback,
}

/// The built-in set, with reboots where the operator asks for them. A pair with reboots loses its own policy, because the
/// more disruptive of several that match would win; its other reasons fall to the fallback.
pub fn repair_policies(reboots: &[RebootReason]) -> Result<Vec<RepairPolicy>, RebootReasonError> {
    for RebootReason { condition_type, .. } in reboots {
        if condition_type == "Ready" {
            return Err(RebootReasonError::Fallback);
        }
        if !POLICIES.iter().any(|(condition, ..)| condition == condition_type) {
            return Err(RebootReasonError::UnknownCondition(condition_type.clone()));
        }
    }
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let policies = POLICIES.into_iter().flat_map(|(condition, status, fallback, toleration, drain, priority)| {
        let policy = |expression: &str, action| RepairPolicy {
            condition_type: condition.to_owned(),
            condition_status: status,
            reason_expression: expression.to_owned(),
            toleration: minutes(toleration),
            termination_grace_period: Some(minutes(drain)),
            priority,
            action,
        };
        let mut own: Vec<_> = reboots
            .iter()
            .filter(|reboot| reboot.condition_type == condition)
            .map(|reboot| policy(&reboot.reason_expression, RepairAction::RebootNode))
            .collect();
        if own.is_empty() {
            own.push(policy(if fallback { "" } else { ANY_REASON }, RepairAction::ReplaceNode));
        }
        own
    });
    Ok(policies.collect())
}

#[cfg(test)]
mod tests {
    use karpenter_platform::RepairPolicies;

    use super::*;

    fn reboot(condition_type: &str, reason_expression: &str) -> RebootReason {
        RebootReason { condition_type: condition_type.to_owned(), reason_expression: reason_expression.to_owned() }
    }

    /// AWS-304, AC-297, AC-298: the set is valid as it is; what each condition leads to.
    #[test]
    fn the_built_in_set_is_valid() {
        let policies = RepairPolicies::compile(&repair_policies(&[]).unwrap()).unwrap();
        for (condition, status, toleration, drain, priority) in [
            ("AcceleratedHardwareReady", Status::False, 10, 10, 100),
            ("Ready", Status::Unknown, 30, 0, 50),
            ("Ready", Status::False, 30, 0, 50),
            ("KernelReady", Status::False, 30, 0, 50),
            ("ContainerRuntimeReady", Status::False, 30, 0, 50),
            ("StorageReady", Status::False, 30, 10, 0),
            ("NetworkingReady", Status::False, 30, 10, 0),
        ] {
            let found = policies.matching(condition, status, "Whatever");
            let [policy] = found[..] else { panic!("{condition}: {found:?}") };
            assert_eq!(policy.toleration, Duration::from_secs(60 * toleration), "{condition}");
            assert_eq!(policy.termination_grace_period, Some(Duration::from_secs(60 * drain)), "{condition}");
            assert_eq!((policy.priority, policy.action), (priority, RepairAction::ReplaceNode), "{condition}");
        }
        assert!(policies.matching("DiskPressure", Status::True, "x").is_empty());
        assert!(policies.matching("KernelReady", Status::Unknown, "x").is_empty());
    }

    /// AWS-305, AC-297: reboots replace the pair's own policy; a bad expression is found by the check at start-up.
    #[test]
    fn reboots_that_an_operator_asks_for() {
        let wanted = [reboot("AcceleratedHardwareReady", "^XID(13|31)$")];
        let policies = RepairPolicies::compile(&repair_policies(&wanted).unwrap()).unwrap();
        let actions = |reason| {
            let matching = policies.matching("AcceleratedHardwareReady", Status::False, reason);
            matching.iter().map(|policy| (policy.action, policy.toleration.as_secs() / 60)).collect::<Vec<_>>()
        };
        assert_eq!(actions("XID13"), [(RepairAction::RebootNode, 10)]);
        assert_eq!(actions("XID99"), [(RepairAction::ReplaceNode, 30)]);

        let broken = repair_policies(&[reboot("KernelReady", "[")]).unwrap();
        assert!(RepairPolicies::compile(&broken).unwrap_err().to_string().contains("KernelReady"));
        assert_eq!(repair_policies(&[reboot("Ready", "x")]), Err(RebootReasonError::Fallback));
        let error = repair_policies(&[reboot("DiskPressure", "x")]).unwrap_err().to_string();
        assert!(error.contains("DiskPressure"), "{error}");
    }

    /// AWS-305: settings are checked against the conditions that there are.
    #[test]
    fn settings_know_the_conditions() {
        let own: Vec<&str> =
            POLICIES.iter().map(|(condition, ..)| *condition).filter(|name| *name != "Ready").collect();
        assert_eq!(own, karpenter_api::settings::REBOOT_CONDITIONS);
    }

    /// AWS-306: the legacy controller reads the same list; every pair decides for itself, bounds and priorities are not looked at.
    #[test]
    fn the_legacy_controller_reads_it_too() {
        use karpenter_model::node::NodeCondition;
        use karpenter_platform::LegacyPolicies;

        let policies = LegacyPolicies::compile(&repair_policies(&[]).unwrap()).unwrap();
        for (kind, status, minutes) in [
            ("Ready", Status::False, Some(30)),
            ("Ready", Status::Unknown, Some(30)),
            ("AcceleratedHardwareReady", Status::False, Some(10)),
            ("NetworkingReady", Status::False, Some(30)),
            ("AcceleratedHardwareReady", Status::Unknown, None),
            ("DiskPressure", Status::True, None),
        ] {
            let condition = NodeCondition {
                kind: kind.to_owned(),
                status,
                reason: "Whatever".to_owned(),
                since: Some(jiff::Timestamp::UNIX_EPOCH),
            };
            let due = policies.due(std::slice::from_ref(&condition)).map(|(at, _)| at.as_second() / 60);
            assert_eq!(due, minutes, "{kind} {status:?}");
        }
    }
}
