//! Resources as series.

use karpenter_model::quantity::Quantity;
use karpenter_model::resources::CPU;

/// `cpu` in cores with fractions, everything else in whole units (API-185).
pub(super) fn value(name: &str, amount: Quantity) -> f64 {
    if name == CPU { float(amount.milli_value()) / 1000.0 } else { float(amount.value()) }
}

/// The value of the label `resource_type` (API-185).
pub(super) fn resource_type(name: &str) -> String {
    name.to_lowercase().replace('-', "_")
}

/// Amounts above 2^53 lose their last digits, which nobody reads off a graph.
#[expect(clippy::cast_precision_loss, reason = "see above")]
fn float(amount: i64) -> f64 {
    amount as f64
}
