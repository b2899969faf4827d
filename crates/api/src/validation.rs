//! Runtime validation: what the CRD schema cannot check (API-64 … API-67, API-88).
//!
//! The result goes into the condition `ValidationSucceeded`. Nothing here stops at the first problem.

mod requirements;
mod syntax;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

pub use requirements::requirement;
pub use syntax::{LabelValueError, QualifiedNameError, label_value, qualified_name};

use crate::kinds::{NodeClaimSpec, NodeOverlaySpec, NodePoolSpec, Requirement, SelectorRequirement, Taint};
use crate::names::taints::EFFECTS;
use crate::names::{LabelPolicy, Restriction, WELL_KNOWN_RESOURCES, labels};

/// What was found in one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validation {
    /// The object must not be used.
    pub errors: Vec<Problem>,
    /// The object works, but perhaps not as meant.
    pub warnings: Vec<Problem>,
}

/// One finding and the path of the field it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub field: String,
    pub issue: Issue,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Issue {
    #[error("{0}")]
    Restricted(Restriction),
    #[error("label {0:?} is restricted")]
    ReservedLabel(&'static str),
    #[error("key {key:?} {error}")]
    Key { key: String, error: QualifiedNameError },
    #[error("value {value:?} {error}")]
    LabelValue { value: String, error: LabelValueError },
    #[error("value {value:?} {error}")]
    TaintValue { value: String, error: QualifiedNameError },
    #[error("key is missing")]
    MissingKey,
    #[error("effect {0:?} is not one of NoSchedule, PreferNoSchedule, NoExecute")]
    Effect(String),
    #[error("taint {key}:{effect} is given twice among taints and startupTaints")]
    DuplicateTaint { key: String, effect: String },
    #[error("operator {0:?} is not supported; use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte")]
    Operator(String),
    #[error("operator {0:?} needs a value")]
    NoValues(&'static str),
    #[error("minValues is {min_values}, but only {values} values are listed")]
    TooFewValues { min_values: i64, values: usize },
    #[error("operator {operator:?} needs exactly one integer value of 0 or more, got {values:?}")]
    Bound { operator: &'static str, values: Vec<String> },
    #[error("none of the values {values:?} of {key} is known; use {known:?}")]
    NoKnownValue { key: String, values: Vec<String>, known: &'static [&'static str] },
    #[error("minValues is {min_values}, but only {known} known values of {key} are listed")]
    TooFewKnownValues { key: String, min_values: i64, known: usize },
    #[error("values {values:?} of {key} are not known and ignored")]
    UnknownValuesIgnored { key: String, values: Vec<String> },
    #[error("resource {0:?} cannot be overlaid")]
    RestrictedResource(String),
    #[error(
        "an empty list of reasons is read as all of them, other readers may take it for none; leave it out to mean all"
    )]
    NoReasons,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.issue)
    }
}

impl Validation {
    pub fn is_ok(&self) -> bool {
        self.errors.is_empty()
    }

    /// All errors in one text, for the condition's message.
    pub fn message(&self) -> String {
        self.errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    fn error(&mut self, field: impl Into<String>, issue: Issue) {
        self.errors.push(Problem { field: field.into(), issue });
    }

    fn warning(&mut self, field: impl Into<String>, issue: Issue) {
        self.warnings.push(Problem { field: field.into(), issue });
    }
}

/// Whether the key that names the pool may be required. Pools give it themselves; overlays and claims may ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolKey {
    Allowed,
    Forbidden,
}

pub fn node_pool(spec: &NodePoolSpec, policy: &LabelPolicy) -> Validation {
    let mut found = Validation::default();
    let template = &spec.template;
    let template_labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    labels(&mut found, "spec.template.metadata.labels", template_labels, policy);
    let given = &template.spec;
    taints(&mut found, "spec.template.spec", [&given.taints, &given.startup_taints]);
    all_requirements(&mut found, "spec.template.spec.requirements", &given.requirements, policy, PoolKey::Forbidden);
    let budgets = spec.disruption.as_ref().and_then(|disruption| disruption.budgets.as_deref()).unwrap_or_default();
    for (at, budget) in budgets.iter().enumerate() {
        if budget.reasons.as_ref().is_some_and(Vec::is_empty) {
            found.warning(format!("spec.disruption.budgets[{at}].reasons"), Issue::NoReasons);
        }
    }
    found
}

pub fn node_claim(spec: &NodeClaimSpec, policy: &LabelPolicy) -> Validation {
    let mut found = Validation::default();
    taints(&mut found, "spec", [&spec.taints, &spec.startup_taints]);
    all_requirements(&mut found, "spec.requirements", &spec.requirements, policy, PoolKey::Allowed);
    found
}

pub fn node_overlay(spec: &NodeOverlaySpec, policy: &LabelPolicy) -> Validation {
    let mut found = Validation::default();
    let requirements: Vec<Requirement> = spec.requirements.iter().cloned().map(Into::into).collect();
    all_requirements(&mut found, "spec.requirements", &requirements, policy, PoolKey::Allowed);
    for (at, SelectorRequirement { operator, values, .. }) in spec.requirements.iter().enumerate() {
        if operator == "NotIn" && values.as_ref().is_none_or(Vec::is_empty) {
            found.error(format!("spec.requirements[{at}].values"), Issue::NoValues("NotIn"));
        }
    }
    for resource in spec.capacity.iter().flatten().map(|(name, _)| name) {
        if WELL_KNOWN_RESOURCES.contains(&resource.as_str()) {
            found.error(format!("spec.capacity[{resource}]"), Issue::RestrictedResource(resource.clone()));
        }
    }
    found
}

/// Problems of two lists of taints below `field`, for conversion.
pub(crate) fn taint_problems(field: &str, given: [&Option<Vec<Taint>>; 2]) -> Vec<Problem> {
    let mut found = Validation::default();
    taints(&mut found, field, given);
    found.errors
}

fn all_requirements(
    found: &mut Validation,
    field: &str,
    given: &[Requirement],
    policy: &LabelPolicy,
    pool_key: PoolKey,
) {
    for (at, one) in given.iter().enumerate() {
        requirement(found, &format!("{field}[{at}]"), one, policy, pool_key);
    }
}

fn labels(found: &mut Validation, field: &str, given: Option<&BTreeMap<String, String>>, policy: &LabelPolicy) {
    for (key, value) in given.into_iter().flatten() {
        let field = format!("{field}[{key}]");
        if let Err(error) = qualified_name(key) {
            found.error(&field, Issue::Key { key: key.clone(), error });
        }
        if let Err(error) = label_value(value) {
            found.error(&field, Issue::LabelValue { value: value.clone(), error });
        }
        if key == labels::NODEPOOL {
            found.error(&field, Issue::ReservedLabel(labels::NODEPOOL));
        } else if let Some(restriction) = policy.restriction(key) {
            found.error(&field, Issue::Restricted(restriction));
        }
    }
}

fn taints(found: &mut Validation, field: &str, given: [&Option<Vec<Taint>>; 2]) {
    let mut seen = BTreeSet::new();
    for (name, list) in ["taints", "startupTaints"].into_iter().zip(given) {
        for (at, Taint { key, value, effect, .. }) in list.iter().flatten().enumerate() {
            let field = format!("{field}.{name}[{at}]");
            if key.is_empty() {
                found.error(format!("{field}.key"), Issue::MissingKey);
            } else if let Err(error) = qualified_name(key) {
                found.error(format!("{field}.key"), Issue::Key { key: key.clone(), error });
            }
            if let Some(value) = value.as_ref().filter(|value| !value.is_empty())
                && let Err(error) = qualified_name(value)
            {
                found.error(format!("{field}.value"), Issue::TaintValue { value: value.clone(), error });
            }
            if !effect.is_empty() && !EFFECTS.contains(&effect.as_str()) {
                found.error(format!("{field}.effect"), Issue::Effect(effect.clone()));
            }
            if !seen.insert((key, effect)) {
                found.error(field, Issue::DuplicateTaint { key: key.clone(), effect: effect.clone() });
            }
        }
    }
}

#[cfg(test)]
mod tests;
