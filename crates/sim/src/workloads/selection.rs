//! Which labels a selector means, and which nodes a pod may be put on by its owner.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, PodSpec, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

type Labels = BTreeMap<String, String>;

/// No selector selects nothing, an empty one everything.
pub(super) fn selects(selector: Option<&LabelSelector>, labels: Option<&Labels>) -> bool {
    let Some(selector) = selector else { return false };
    let empty = Labels::new();
    let labels = labels.unwrap_or(&empty);
    let expressions = selector.match_expressions.iter().flatten();
    selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        && expressions.into_iter().all(|e| holds(&e.operator, labels.get(&e.key), e.values.as_deref()))
}

fn holds(operator: &str, value: Option<&String>, values: Option<&[String]>) -> bool {
    let values = values.unwrap_or_default();
    let number = |text: &String| text.parse::<i64>().ok();
    let limit = values.first().and_then(number);
    match operator {
        "In" => value.is_some_and(|value| values.contains(value)),
        "NotIn" => value.is_none_or(|value| !values.contains(value)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => value.and_then(number).zip(limit).is_some_and(|(value, limit)| value > limit),
        "Lt" => value.and_then(number).zip(limit).is_some_and(|(value, limit)| value < limit),
        _ => false,
    }
}

/// The node selector and the required node affinity.
pub(super) fn may_be_on(spec: &PodSpec, node: &Node) -> bool {
    let empty = Labels::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let required = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = required.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let expression = |e: &NodeSelectorRequirement| holds(&e.operator, labels.get(&e.key), e.values.as_deref());
    let field = |f: &NodeSelectorRequirement| holds(&f.operator, node.metadata.name.as_ref(), f.values.as_deref());
    spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
        && required.is_none_or(|required| {
            required.node_selector_terms.iter().any(|term| {
                let (expressions, fields) =
                    (term.match_expressions.iter().flatten(), term.match_fields.iter().flatten());
                (term.match_expressions.is_some() || term.match_fields.is_some())
                    && expressions.into_iter().all(expression)
                    && fields.into_iter().all(field)
            })
        })
}

/// Whether one toleration covers a taint.
pub(super) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().unwrap_or_default();
    let key = toleration.key.as_deref().unwrap_or_default();
    let same_value = || toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
    let operator = toleration.operator.as_deref().unwrap_or("Equal");
    (effect.is_empty() || effect == taint.effect)
        && (key.is_empty() || key == taint.key)
        && match operator {
            "Exists" => true,
            _ => !key.is_empty() && same_value(),
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toleration(text: &str) -> Toleration {
        let mut parts = text.split(' ').map(|part| Some(part.to_owned()).filter(|part| part != "-"));
        let mut next = || parts.next().flatten();
        Toleration { key: next(), operator: next(), value: next(), effect: next(), toleration_seconds: None }
    }

    #[test]
    fn tolerations() {
        let taint = Taint { key: "k".into(), value: Some("v".into()), effect: "NoExecute".into(), time_added: None };
        for (text, covers) in [
            ("- Exists - -", true),
            ("k Exists - -", true),
            ("k Exists - NoExecute", true),
            ("k Exists - NoSchedule", false),
            ("k Equal v -", true),
            ("k - v -", true),
            ("k Equal w -", false),
            ("x Exists - -", false),
        ] {
            assert_eq!(tolerates(&toleration(text), &taint), covers, "{text}");
        }
    }

    #[test]
    fn selectors() {
        let labels = Labels::from([("app".to_owned(), "web".to_owned()), ("n".to_owned(), "5".to_owned())]);
        for (json, selected) in [
            ("{}", true),
            (r#"{"matchLabels": {"app": "web"}}"#, true),
            (r#"{"matchLabels": {"app": "db"}}"#, false),
            (r#"{"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]}"#, true),
            (r#"{"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}"#, false),
            (r#"{"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}"#, true),
            (r#"{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}"#, false),
        ] {
            let selector: LabelSelector = serde_json::from_str(json).unwrap();
            assert_eq!(selects(Some(&selector), Some(&labels)), selected, "{json}");
        }
        assert!(!selects(None, Some(&labels)));
    }
}
