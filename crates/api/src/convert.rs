//! From Kubernetes objects to the values that decisions use.
//!
//! Every conversion gives a view *and* the problems it met. A malformed field costs that field, never the object and
//! never the rest: the view holds the safe reading of it (a pool that cannot be understood is not used, a duration that
//! cannot be read never expires anything) and the problem names object and field for whoever reports it.

mod buffer;
mod claim;
mod devices;
mod node;
mod overlay;
mod pdb;
mod pod;
mod pool;
mod resources;
mod scheduling;
mod volumes;
mod workloads;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use karpenter_model::labels::LabelRules;
use karpenter_model::requirements::{Operator, Requirement, RequirementError, Requirements};
use karpenter_model::resources::Resources;
use karpenter_model::taints::{Effect, Taint};

use crate::kinds;
use crate::values::QuantityText;

pub use buffer::{buffer, buffer_shape};
pub use claim::claim;
pub use devices::{device_class, resource_claim, resource_slice};
pub use node::{node, node_taint};
pub use overlay::overlay;
pub use pdb::pdb;
pub use pod::{daemon_set_view as daemon_set, deletion_cost, pod, unreadable_deletion_cost};
pub use pool::pool;
pub use volumes::{attachment, csi_node, storage_class, volume, volume_claim};
pub use workloads::{default_spread, replica_set, replication_controller, service, stateful_set};

/// A field that does not say anything we understand.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Kind and name, `NodePool/default` or `Pod/default/web-0`.
    pub object: String,
    /// Path from the root of the object.
    pub field: String,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.object, self.field, self.message)
    }
}

/// A view with what could not be read on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted<T> {
    pub view: T,
    pub problems: Vec<Problem>,
}

/// Collects problems of one object.
#[derive(Debug)]
struct Problems {
    object: String,
    found: Vec<Problem>,
}

impl Problems {
    fn new(kind: &str, meta: &ObjectMeta) -> Self {
        let name = meta.name.as_deref().unwrap_or_default();
        let object = match &meta.namespace {
            Some(namespace) => format!("{kind}/{namespace}/{name}"),
            None => format!("{kind}/{name}"),
        };
        Self { object, found: Vec::new() }
    }

    fn add(&mut self, field: impl Into<String>, message: impl fmt::Display) {
        self.found.push(Problem { object: self.object.clone(), field: field.into(), message: message.to_string() });
    }

    /// The value, or a problem and nothing.
    fn check<T, E: fmt::Display>(&mut self, field: &str, value: Result<T, E>) -> Option<T> {
        value.map_err(|error| self.add(field, error)).ok()
    }

    fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

/// An object without a creation time was not read from a server; it counts as created at the epoch.
fn created_at(meta: &ObjectMeta) -> Timestamp {
    meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0)
}

fn deleting_since(meta: &ObjectMeta) -> Option<Timestamp> {
    meta.deletion_timestamp.as_ref().map(|time| time.0)
}

fn has_finalizer(meta: &ObjectMeta) -> bool {
    meta.finalizers.as_ref().is_some_and(|finalizers| finalizers.iter().any(|name| name == crate::names::FINALIZER))
}

/// An empty string says as little as an absent one.
fn non_empty(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

fn quantities(problems: &mut Problems, field: &str, amounts: Option<&BTreeMap<String, QuantityText>>) -> Resources {
    let amounts = amounts.into_iter().flatten();
    amounts
        .filter_map(|(name, text)| Some((name.clone(), problems.check(&format!("{field}[{name}]"), text.parse())?)))
        .collect()
}

fn taints(problems: &mut Problems, field: &str, taints: Option<&Vec<kinds::Taint>>) -> Vec<Taint> {
    let parsed = taints.into_iter().flatten().enumerate().filter_map(|(index, taint)| {
        let effect = Effect::parse(&taint.effect)
            .ok_or_else(|| format!("effect {:?} is none of NoSchedule, PreferNoSchedule, NoExecute", taint.effect));
        let effect = problems.check(&format!("{field}[{index}].effect"), effect)?;
        Some(Taint::new(&taint.key, taint.value.as_deref().unwrap_or_default(), effect))
    });
    parsed.collect()
}

/// One entry of a requirement list, wherever it comes from.
struct Entry<'a> {
    key: &'a str,
    operator: &'a str,
    values: &'a [String],
    min_values: Option<i64>,
}

impl Entry<'_> {
    fn parse(&self, rules: &LabelRules) -> Result<Requirement, RequirementError> {
        let operator =
            Operator::parse(self.operator).ok_or_else(|| RequirementError::Operator(self.operator.to_owned()))?;
        // The schema bounds minValues to 1..50; anything below means no minimum.
        let min_values = self.min_values.and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
        Requirement::new(rules, self.key, operator, self.values, min_values)
    }
}

fn requirements<'a>(
    problems: &mut Problems,
    field: &str,
    rules: &LabelRules,
    entries: impl IntoIterator<Item = Entry<'a>>,
) -> Requirements {
    let parsed = entries
        .into_iter()
        .enumerate()
        .filter_map(|(index, entry)| problems.check(&format!("{field}[{index}]"), entry.parse(rules)));
    parsed.collect()
}

fn claim_entries(entries: &[kinds::Requirement]) -> impl Iterator<Item = Entry<'_>> {
    entries.iter().map(|entry| Entry {
        key: &entry.key,
        operator: &entry.operator,
        values: entry.values.as_deref().unwrap_or_default(),
        min_values: entry.min_values,
    })
}

#[cfg(test)]
mod tests;
