//! The scheduler configuration document (API-161, API-162, V15-15).

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;

use crate::validation::{QualifiedNameError, qualified_name};

/// What the controller's own scheduling takes over from the cluster's scheduler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Spread constraints of pods that declare none.
    pub default_constraints: Vec<DefaultConstraint>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultConstraint {
    /// Positive.
    pub max_skew: i32,
    pub topology_key: String,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: String,
    pub min_domains: Option<i32>,
    pub node_affinity_policy: Option<String>,
    pub node_taints_policy: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchedulerConfigError {
    #[error("not a scheduler configuration: {0}")]
    Malformed(String),
    #[error("podTopologySpread.defaultConstraints[{0}].maxSkew must be greater than 0")]
    MaxSkew(usize),
    #[error("podTopologySpread.defaultConstraints[{0}].topologyKey is missing")]
    NoTopologyKey(usize),
    #[error("podTopologySpread.defaultConstraints[{at}].topologyKey {key:?} {error}")]
    TopologyKey { at: usize, key: String, error: QualifiedNameError },
    #[error(
        "podTopologySpread.defaultConstraints[{at}].whenUnsatisfiable must be DoNotSchedule or ScheduleAnyway, is {given:?}"
    )]
    WhenUnsatisfiable { at: usize, given: String },
    #[error("podTopologySpread.defaultConstraints[{0}].labelSelector must not be set; it is deduced for each pod")]
    LabelSelector(usize),
    #[error("podTopologySpread.defaultConstraints[{0}].matchLabelKeys must not be set")]
    MatchLabelKeys(usize),
    #[error("podTopologySpread.defaultConstraints[{at}] repeats {key} with {mode}")]
    Duplicate { at: usize, key: String, mode: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    pod_topology_spread: Option<PodTopologySpread>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PodTopologySpread {
    default_constraints: Option<Vec<Constraint>>,
}

/// A pod's topology spread constraint, as Kubernetes writes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Constraint {
    #[serde(default)]
    max_skew: i32,
    #[serde(default)]
    topology_key: String,
    #[serde(default)]
    when_unsatisfiable: String,
    label_selector: Option<Value>,
    match_label_keys: Option<Vec<String>>,
    min_domains: Option<i32>,
    node_affinity_policy: Option<String>,
    node_taints_policy: Option<String>,
}

impl SchedulerConfig {
    /// Reads YAML or JSON; fields that we do not know are an error, an empty text is none at all.
    pub fn parse(text: &str) -> Result<Self, SchedulerConfigError> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let document: Option<Document> =
            serde_saphyr::from_str(text).map_err(|error| SchedulerConfigError::Malformed(error.to_string()))?;
        let spread = document.and_then(|document| document.pod_topology_spread);
        let given = spread.and_then(|spread| spread.default_constraints).unwrap_or_default();
        let mut seen = BTreeSet::new();
        let mut default_constraints = Vec::new();
        for (at, constraint) in given.into_iter().enumerate() {
            let constraint = checked(at, constraint)?;
            let (key, mode) = (constraint.topology_key.clone(), constraint.when_unsatisfiable.clone());
            if !seen.insert((key.clone(), mode.clone())) {
                return Err(SchedulerConfigError::Duplicate { at, key, mode });
            }
            default_constraints.push(constraint);
        }
        Ok(Self { default_constraints })
    }
}

fn checked(at: usize, given: Constraint) -> Result<DefaultConstraint, SchedulerConfigError> {
    if given.max_skew <= 0 {
        return Err(SchedulerConfigError::MaxSkew(at));
    }
    if given.topology_key.is_empty() {
        return Err(SchedulerConfigError::NoTopologyKey(at));
    }
    if let Err(error) = qualified_name(&given.topology_key) {
        return Err(SchedulerConfigError::TopologyKey { at, key: given.topology_key, error });
    }
    if !matches!(given.when_unsatisfiable.as_str(), "DoNotSchedule" | "ScheduleAnyway") {
        return Err(SchedulerConfigError::WhenUnsatisfiable { at, given: given.when_unsatisfiable });
    }
    if given.label_selector.is_some_and(|selector| !selector.is_null()) {
        return Err(SchedulerConfigError::LabelSelector(at));
    }
    if given.match_label_keys.is_some_and(|keys| !keys.is_empty()) {
        return Err(SchedulerConfigError::MatchLabelKeys(at));
    }
    Ok(DefaultConstraint {
        max_skew: given.max_skew,
        topology_key: given.topology_key,
        when_unsatisfiable: given.when_unsatisfiable,
        min_domains: given.min_domains,
        node_affinity_policy: given.node_affinity_policy,
        node_taints_policy: given.node_taints_policy,
    })
}
