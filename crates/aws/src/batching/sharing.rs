//! One answer for many who asked (AWS-195, AWS-196).

use std::collections::BTreeSet;

use crate::cloud::{FleetAnswer, FleetError, FleetInstance};

/// Code and message for those whom a fleet left without an instance and without a word.
pub const TOO_FEW: &str = "too few instances returned";

/// An instance each, as far as they go; the others get the fleet's errors. What is left over belongs to nobody and is
/// collected later.
pub fn hand_out(
    answer: FleetAnswer,
    callers: usize,
) -> (Vec<Result<FleetInstance, Vec<FleetError>>>, Vec<FleetInstance>) {
    let mut errors = answer.errors;
    if errors.is_empty() {
        let synthetic = FleetError { code: TOO_FEW.to_owned(), message: TOO_FEW.to_owned(), ..FleetError::default() };
        errors.push(synthetic);
    }
    let mut instances = answer.instances.into_iter();
    let shares = (0..callers).map(|_| instances.next().ok_or_else(|| errors.clone())).collect();
    (shares, instances.collect())
}

/// The ids that a common answer says nothing of: they are asked for one by one.
pub fn missing<'a>(asked: &'a [String], answered: &BTreeSet<String>) -> Vec<&'a str> {
    let mut seen = BTreeSet::new();
    let left = asked.iter().map(String::as_str).filter(|id| !answered.contains(*id));
    left.filter(|id| seen.insert(*id)).collect()
}
