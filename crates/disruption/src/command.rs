//! A set of nodes that go together, and what takes their place.

use std::fmt;

use jiff::SignedDuration;
use karpenter_model::budget::DisruptionReason;

/// DIS-9, V15-54, V15-73.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Decision {
    NoOp,
    Delete,
    Replace,
    /// The node goes before its replacement comes: the capacity that it holds is the only one there is.
    TerminateFirst,
    Reboot,
}

impl Decision {
    pub fn of(candidates: usize, replacements: usize) -> Self {
        match (candidates, replacements) {
            (0, _) => Self::NoOp,
            (_, 0) => Self::Delete,
            _ => Self::Replace,
        }
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoOp => "no-op",
            Self::Delete => "delete",
            Self::Replace => "replace",
            Self::TerminateFirst => "terminate-first",
            Self::Reboot => "reboot",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a command says of itself in logs and events (DIS-186).
#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    pub decision: Decision,
    /// Names of the nodes that go.
    pub nodes: &'a [&'a str],
    pub replacements: usize,
    /// Given when the command starts.
    pub identity: Option<Identity<'a>>,
}

#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    pub reason: DisruptionReason,
    pub id: &'a str,
    pub pools: &'a [&'a str],
    /// Per hour.
    pub savings: f64,
}

impl Text<'_> {
    /// What a node's own event says: only its own name, and that others go with it.
    pub fn of_node(&self, node: &str) -> String {
        match self.nodes.len() {
            0 | 1 => self.to_string(),
            all => format!("{}: [{node}] (part of {all}-node consolidation)", self.decision),
        }
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(identity) = &self.identity {
            write!(f, "{}/{}: ", identity.reason, identity.id)?;
        }
        write!(f, "{}: ", self.decision)?;
        if let Some(identity) = &self.identity {
            write!(f, "nodepools=[{}]: ", identity.pools.join(","))?;
        }
        write!(f, "[{}]", self.nodes.join(", "))?;
        match self.replacements {
            0 => {}
            1 => f.write_str(" -> [1 replacement]")?,
            many => write!(f, " -> [{many} replacements]")?,
        }
        if let Some(identity) = &self.identity {
            write!(f, " (savings: ${:.2})", identity.savings)?;
        }
        Ok(())
    }
}

const TIMEOUT_PER_ENTRY: SignedDuration = SignedDuration::from_millis(80);
const SHORTEST_TIMEOUT: SignedDuration = SignedDuration::from_mins(10);
const LONGEST_TIMEOUT: SignedDuration = SignedDuration::from_hours(1);

/// How long a command may take; it grows with the number of candidates in the queue, which wait for each other's
/// instances (DIS-184).
pub fn timeout(queued_candidates: u32) -> SignedDuration {
    let wanted = i32::try_from(queued_candidates).map_or(LONGEST_TIMEOUT, |entries| TIMEOUT_PER_ENTRY * entries);
    wanted.clamp(SHORTEST_TIMEOUT, LONGEST_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DIS-9.
    #[test]
    fn decisions() {
        for (candidates, replacements, want) in
            [(0, 0, "no-op"), (0, 1, "no-op"), (2, 0, "delete"), (1, 1, "replace"), (3, 2, "replace")]
        {
            assert_eq!(Decision::of(candidates, replacements).as_str(), want);
        }
    }

    /// DIS-186, DC-179.
    #[test]
    fn texts() {
        let text = |decision, nodes, replacements| Text { decision, nodes, replacements, identity: None };
        assert_eq!(text(Decision::Delete, &["a", "b"], 0).to_string(), "delete: [a, b]");
        assert_eq!(text(Decision::Replace, &["a"], 1).to_string(), "replace: [a] -> [1 replacement]");
        assert_eq!(text(Decision::Replace, &["a"], 2).to_string(), "replace: [a] -> [2 replacements]");
        assert_eq!(text(Decision::NoOp, &[], 0).to_string(), "no-op: []");
        assert_eq!(text(Decision::Delete, &["a", "b"], 0).of_node("b"), "delete: [b] (part of 2-node consolidation)");
        assert_eq!(text(Decision::Replace, &["a"], 1).of_node("a"), "replace: [a] -> [1 replacement]");
        let identity = Identity { reason: DisruptionReason::Empty, id: "u-1", pools: &["p1", "p2"], savings: 1.005 };
        let long = Text { identity: Some(identity), ..text(Decision::Delete, &["a", "b"], 0) };
        assert_eq!(long.to_string(), "Empty/u-1: delete: nodepools=[p1,p2]: [a, b] (savings: $1.00)");
    }

    /// DIS-184, DC-175.
    #[test]
    fn timeouts() {
        for (entries, seconds) in
            [(100, 600), (4000, 600), (10_000, 800), (40_000, 3200), (80_000, 3600), (100_000, 3600), (u32::MAX, 3600)]
        {
            assert_eq!(timeout(entries).as_secs(), seconds, "{entries}");
        }
    }
}
