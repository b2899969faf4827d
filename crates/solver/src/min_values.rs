//! How many distinct values a pool wants to keep possible.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::instance_type::InstanceType;
use karpenter_model::requirements::{Operator, Requirement, Requirements};

/// The keys whose minimum the types do not reach, with the count they do reach (SCH-47, SCH-48).
pub(crate) fn unmet<'a>(
    requirements: &Requirements,
    types: &(impl Iterator<Item = &'a InstanceType> + Clone),
) -> BTreeMap<String, u32> {
    let wanted = requirements.iter().filter_map(|asked| Some((asked, asked.min_values()?)));
    wanted
        .filter_map(|(asked, minimum)| {
            let reached = distinct_values(asked, types.clone());
            (reached < minimum).then(|| (asked.key().to_owned(), reached))
        })
        .collect()
}

/// The keys whose minimum the types do not reach.
pub fn unmet_min_values<'a>(
    requirements: &Requirements,
    types: &(impl Iterator<Item = &'a InstanceType> + Clone),
) -> Vec<String> {
    unmet(requirements, types).into_keys().collect()
}

/// Only values that are still allowed count: a type in three zones has one when the claim is pinned (V15-105).
fn distinct_values<'a>(asked: &Requirement, types: impl Iterator<Item = &'a InstanceType>) -> u32 {
    let values: BTreeSet<&str> = types
        .filter_map(|known| known.requirements.get(asked.key()))
        .filter(|offered| offered.operator() == Operator::In)
        .flat_map(Requirement::values)
        .filter(|value| asked.has(value))
        .collect();
    u32::try_from(values.len()).unwrap_or(u32::MAX)
}

/// Lowers each failing minimum to what can be reached (SCH-49).
pub(crate) fn lower(requirements: &mut Requirements, unmet: &BTreeMap<String, u32>) {
    for (key, reached) in unmet {
        if let Some(mut asked) = requirements.get(key).cloned() {
            asked.set_min_values(Some(*reached).filter(|count| *count > 0));
            requirements.replace(asked);
        }
    }
}
