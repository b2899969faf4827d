//! What a look at the cluster found worth telling: events and counters, in the order found.

use karpenter_model::budget::DisruptionReason;
use karpenter_model::pool::ConsolidationPolicy;
use karpenter_model::snapshot::ExistingNode;

use crate::balanced::Score;

/// A node with the claim behind it, by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    pub node: Option<String>,
    pub claim: Option<String>,
}

impl Subject {
    pub fn of(node: &ExistingNode) -> Self {
        Self {
            node: node.node.as_ref().map(|node| node.name.clone()),
            claim: node.claim.as_ref().map(|claim| claim.name.clone()),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// `DisruptionBlocked` on the node and its claim.
    Blocked { subject: Subject, why: String },
    /// `NodeRepairBlocked` on the node, its claim and its pool: too many of the pool are sick (V15-23).
    RepairBlocked { subject: Subject, pool: String },
    /// `DisruptionBlocked` on the pool (DIS-61).
    PoolClosed { pool: String, reason: DisruptionReason },
    /// `Unconsolidatable` on the node and its claim.
    Unconsolidatable { subject: Subject, why: String },
    /// `ConsolidationCandidate`: a replacement was found for the node, alone or with others (DIS-111).
    Considered { subject: Subject, text: String, savings: f64 },
    /// `ConsolidationRejected`: the command did not stand a second look (DIS-146).
    Rejected { subject: Subject, text: String, cause: &'static str, savings: f64 },
    /// A move was judged: counted for each pool it takes from, with the score of those that vote (DIS-139).
    Judged { pool: String, policy: ConsolidationPolicy, approved: bool, score: Option<Score> },
    /// `ConsolidationApproved` on the node and its claim, or on the pool of a move of several nodes.
    Approved { subject: Option<Subject>, pool: String, score: Score },
}

impl Note {
    pub fn blocked(node: &ExistingNode, why: String) -> Self {
        Self::Blocked { subject: Subject::of(node), why }
    }

    pub fn unconsolidatable(node: &ExistingNode, why: impl Into<String>) -> Self {
        Self::Unconsolidatable { subject: Subject::of(node), why: why.into() }
    }
}
