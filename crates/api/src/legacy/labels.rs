//! Label keys in requirements and template labels (API-316, API-323 … API-325).

use std::collections::BTreeMap;

use super::findings::Report;
use crate::kinds::Requirement;
use crate::names::legacy::{INSTANCE_PODS, PROVISIONER_NAME};
use crate::names::{GROUP, LabelPolicy, aws, domain, labels};
use crate::validation::{PoolKey, Validation, requirement};

/// Domains that v1alpha5 kept for Kubernetes and itself, and the parts of them that were free.
const RESTRICTED: [&str; 4] = ["kubernetes.io", "k8s.io", "karpenter.sh", "karpenter.k8s.aws"];
const FREE: [&str; 3] = ["kops.k8s.io", "node.kubernetes.io", "node-restriction.kubernetes.io"];

/// Keys of which one keeps the default for instance types away.
const INSTANCE_KEYS: [&str; 4] =
    [labels::INSTANCE_TYPE, aws::INSTANCE_FAMILY, aws::INSTANCE_CATEGORY, aws::INSTANCE_GENERATION];

/// Whether a pool of v1 may use the key; says why when it goes.
pub(super) fn is_kept(key: &str, field: &str, report: &mut Report<'_>) -> bool {
    match key {
        PROVISIONER_NAME => {
            report
                .warn(field, format!("{key} became {}, which a NodePool gives by itself; left out", labels::NODEPOOL));
            false
        }
        INSTANCE_PODS => {
            report.warn(field, format!("{key} has no successor in v1; left out"));
            false
        }
        _ => true,
    }
}

/// The label rules of v1alpha5.
pub(super) fn check_v1alpha5(key: &str, field: &str, report: &mut Report<'_>) {
    let policy = LabelPolicy::aws();
    let canonical = policy.rules().normalized(key);
    if policy.rules().is_well_known(canonical) {
        return;
    }
    let owner = domain(canonical);
    let within = |domains: &[&'static str]| domains.iter().copied().find(|parent| owner.ends_with(parent));
    if canonical == labels::HOSTNAME {
        report.error(field, format!("label {key:?} is restricted"));
    } else if let (Some(parent), None) = (within(&RESTRICTED), within(&FREE)) {
        report.error(field, format!("label domain {parent:?} is restricted"));
    }
}

/// The CRD of v1 looks at the end of the domain, or of the whole key, without minding dots.
fn check_v1(key: &str, field: &str, report: &mut Report<'_>) {
    let owner = key.split('/').next().unwrap_or_default();
    if let Some(group) = [GROUP, aws::GROUP].into_iter().find(|group| owner.ends_with(group))
        && !LabelPolicy::aws().rules().is_well_known(key)
    {
        report.error(field, format!("label domain {group:?} is restricted in v1"));
    }
}

/// Requirements without the keys that are gone, each checked as v1 does.
pub(super) fn kept_requirements(given: Vec<Requirement>, field: &str, report: &mut Report<'_>) -> Vec<Requirement> {
    let mut kept = Vec::new();
    for (at, one) in given.into_iter().enumerate() {
        let field = format!("{field}[{at}]");
        if !is_kept(&one.key, &format!("{field}.key"), report) {
            continue;
        }
        let mut found = Validation::default();
        // What the runtime refuses as well is reported once.
        if LabelPolicy::aws().restriction(&one.key).is_none() {
            check_v1(&one.key, &format!("{field}.key"), report);
        }
        requirement(&mut found, &field, &one, &LabelPolicy::aws(), PoolKey::Forbidden);
        for problem in found.errors {
            report.error(problem.field, problem.issue.to_string());
        }
        for problem in found.warnings {
            report.warn(problem.field, problem.issue.to_string());
        }
        kept.push(one);
    }
    kept
}

/// Template labels without the keys that are gone.
pub(super) fn kept_labels(
    given: BTreeMap<String, String>,
    field: &str,
    report: &mut Report<'_>,
) -> BTreeMap<String, String> {
    let kept: BTreeMap<_, _> =
        given.into_iter().filter(|(key, _)| is_kept(key, &format!("{field}[{key}]"), report)).collect();
    for key in kept.keys().filter(|key| LabelPolicy::aws().restriction(key).is_none()) {
        check_v1(key, &format!("{field}[{key}]"), report);
    }
    kept
}

/// Whether instance types are chosen for who did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Types {
    Usual,
    Free,
}

/// Adds what the webhook of v1alpha5 added by itself (API-323). A label counts like a requirement (API-324).
pub(super) fn add_defaults(
    requirements: &mut Vec<Requirement>,
    template_labels: Option<&BTreeMap<String, String>>,
    types: Types,
) {
    let policy = LabelPolicy::aws();
    let given =
        requirements.iter().map(|one| &one.key).chain(template_labels.into_iter().flatten().map(|(key, _)| key));
    let given: Vec<String> = given.map(|key| policy.rules().normalized(key).to_owned()).collect();
    let missing = |key: &&str| !given.iter().any(|other| other == key);
    let mut add = |key: &str, operator: &str, values: &[&str]| {
        let values = Some(values.iter().map(|value| (*value).to_owned()).collect());
        requirements.push(Requirement { key: key.to_owned(), operator: operator.to_owned(), values, min_values: None });
    };
    for (key, value) in
        [(labels::OS, "linux"), (labels::ARCH, "amd64"), (labels::CAPACITY_TYPE, labels::CAPACITY_TYPE_ON_DEMAND)]
    {
        if missing(&key) {
            add(key, "In", &[value]);
        }
    }
    if types == Types::Usual && INSTANCE_KEYS.iter().all(missing) {
        add(aws::INSTANCE_CATEGORY, "In", &["c", "m", "r"]);
        add(aws::INSTANCE_GENERATION, "Gt", &["2"]);
    }
}
