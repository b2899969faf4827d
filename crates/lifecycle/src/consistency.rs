//! Whether a node is as large as its instance type promised (LIF-81 … LIF-83).

use jiff::SignedDuration;
use karpenter_model::claim::ClaimView;
use karpenter_model::node::NodeView;
use karpenter_model::quantity::Quantity;

/// A completed check holds for so long.
pub const CHECK_EVERY: SignedDuration = SignedDuration::from_mins(10);

#[derive(Debug, Clone, PartialEq)]
pub enum Consistency {
    /// There is nothing to compare yet: the node has to be there and initialized (Y24).
    NotYet,
    Checked(Vec<ShapeIssue>),
}

/// A resource of which the node has much less than expected.
#[derive(Debug, Clone, PartialEq)]
pub struct ShapeIssue {
    pub resource: String,
    pub expected: Quantity,
    pub found: Quantity,
    pub percent: f64,
}

impl ShapeIssue {
    /// API-349.
    pub fn message(&self) -> String {
        let Self { resource, expected, found, percent } = self;
        format!("expected {expected} of resource {resource}, but found {found} ({percent:.1}% of expected)")
    }
}

pub fn consistency(claim: &ClaimView, nodes: &[&NodeView]) -> Consistency {
    let [node] = nodes else { return Consistency::NotYet };
    if !claim.initialized.is_true() || claim.deleting_since.is_some() {
        return Consistency::NotYet;
    }
    let issues =
        claim.capacity.iter().filter(|(name, expected)| !expected.is_zero() && !claim.requests.amount(name).is_zero());
    let issues = issues.filter_map(|(name, expected)| {
        let found = node.capacity.amount(name);
        let share = found.as_f64() / expected.as_f64();
        (share < 0.9).then(|| ShapeIssue { resource: name.to_owned(), expected, found, percent: share * 100.0 })
    });
    Consistency::Checked(issues.collect())
}
