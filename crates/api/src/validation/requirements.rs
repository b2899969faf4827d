//! One requirement (API-66, API-67, AWS-22, AWS-23).

use karpenter_model::requirements::Operator;

use super::{Issue, PoolKey, Validation, label_value, qualified_name};
use crate::kinds::Requirement;
use crate::names::{LabelPolicy, labels};

/// Checks a requirement of a pool, claim, overlay or pod. Its key is read in its canonical spelling.
pub fn requirement(found: &mut Validation, field: &str, given: &Requirement, policy: &LabelPolicy, pool_key: PoolKey) {
    let key = policy.rules().normalized(&given.key);
    check_key(found, &format!("{field}.key"), key, policy, pool_key);
    let values: Vec<&str> = given.values.iter().flatten().map(|value| policy.normalized_value(key, value)).collect();
    let values_field = format!("{field}.values");
    for value in &values {
        if let Err(error) = label_value(value) {
            found.error(&values_field, Issue::LabelValue { value: (*value).to_owned(), error });
        }
    }
    let Some(operator) = Operator::parse(&given.operator) else {
        found.error(format!("{field}.operator"), Issue::Operator(given.operator.clone()));
        return;
    };
    match operator {
        Operator::In => {
            check_in(found, field, given.min_values, &values);
            check_known(found, field, key, given.min_values, &values, policy);
        }
        Operator::Gt | Operator::Lt | Operator::Gte | Operator::Lte => {
            if !is_bound(&values) {
                let values = values.into_iter().map(str::to_owned).collect();
                found.error(values_field, Issue::Bound { operator: operator.as_str(), values });
            }
        }
        Operator::NotIn | Operator::Exists | Operator::DoesNotExist => {}
    }
}

fn check_key(found: &mut Validation, field: &str, key: &str, policy: &LabelPolicy, pool_key: PoolKey) {
    if let Err(error) = qualified_name(key) {
        found.error(field, Issue::Key { key: key.to_owned(), error });
    }
    if let Some(restriction) = policy.restriction(key) {
        found.error(field, Issue::Restricted(restriction));
    }
    if key == labels::NODEPOOL && pool_key == PoolKey::Forbidden {
        found.error(field, Issue::ReservedLabel(labels::NODEPOOL));
    }
}

fn check_in(found: &mut Validation, field: &str, min_values: Option<i64>, values: &[&str]) {
    if values.is_empty() {
        found.error(format!("{field}.values"), Issue::NoValues("In"));
    }
    if let Some(min_values) = min_values
        && i64::try_from(values.len()).is_ok_and(|count| count < min_values)
    {
        found.error(format!("{field}.minValues"), Issue::TooFewValues { min_values, values: values.len() });
    }
}

/// A closed set of values fails open: unknown ones among known ones are only ignored.
fn check_known(
    found: &mut Validation,
    field: &str,
    key: &str,
    min_values: Option<i64>,
    values: &[&str],
    policy: &LabelPolicy,
) {
    let Some(closed) = policy.closed_values(key) else { return };
    let (known, unknown): (Vec<&str>, Vec<&str>) = values.iter().partition(|value| closed.contains(value));
    let owned = |values: Vec<&str>| values.into_iter().map(str::to_owned).collect();
    let (key, known) = (key.to_owned(), known.len());
    if known == 0 {
        found.error(format!("{field}.values"), Issue::NoKnownValue { key, values: owned(unknown), known: closed });
        return;
    }
    if !unknown.is_empty() {
        let issue = Issue::UnknownValuesIgnored { key: key.clone(), values: owned(unknown) };
        found.warning(format!("{field}.values"), issue);
    }
    if let Some(min_values) = min_values
        && i64::try_from(known).is_ok_and(|count| count < min_values)
    {
        found.error(format!("{field}.minValues"), Issue::TooFewKnownValues { key, min_values, known });
    }
}

fn is_bound(values: &[&str]) -> bool {
    matches!(values, [value] if value.parse::<i64>().is_ok_and(|bound| bound >= 0))
}
