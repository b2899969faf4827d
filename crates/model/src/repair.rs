//! What is to be done about a sick node, as its provider says.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use crate::claim::Status;

/// The more disruptive one is the greater (V15-33).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RepairAction {
    RebootNode,
    ReplaceNode,
}

/// A node condition that calls for repair (V15-27). There is no default action: whoever writes a policy says which.
/// Times cannot be negative and actions and statuses are never unknown ones, by their types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairPolicy {
    pub condition_type: String,
    pub condition_status: Status,
    /// Searched for in the condition's reason, unanchored; empty makes the policy the default fallback.
    pub reason_expression: String,
    /// How long the condition may last before anything is done.
    pub toleration: Duration,
    pub termination_grace_period: Option<Duration>,
    /// 0 to 100; higher goes first.
    pub priority: u8,
    pub action: RepairAction,
}

impl fmt::Display for RepairPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { condition_type, condition_status, reason_expression, priority, action, .. } = self;
        write!(f, "{condition_type}={condition_status:?} reason /{reason_expression}/ priority {priority} {action:?}")
    }
}

/// A condition of a node together with a policy that asks for something to be done about it. No clock is in it, so that it
/// is found once per change of the node and weighed at every look (V15-34).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairMatch {
    pub condition_type: String,
    pub status: Status,
    pub reason: String,
    /// `None` counts as since the node was made.
    pub since: Option<Timestamp>,
    pub expression: String,
    pub is_fallback: bool,
    pub toleration: Duration,
    pub termination_grace_period: Option<Duration>,
    pub priority: u8,
    /// Place of the priority among all those of the policies, from 0.
    pub rank: u32,
    pub action: RepairAction,
}
