//! Label and node selectors, in the form that is quick to ask.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

pub(super) type Labels = BTreeMap<String, String>;

static NO_LABELS: Labels = Labels::new();

pub(super) fn labels_of(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> &Labels {
    meta.labels.as_ref().unwrap_or(&NO_LABELS)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

impl Requirement {
    /// `None` for what the API server refuses, or would have: nothing matches it.
    fn new(key: &str, operator: &str, values: &[String]) -> Option<Self> {
        let number = || values.first().filter(|_| values.len() == 1).and_then(|v| v.parse().ok());
        let test = match operator {
            "In" if !values.is_empty() => Test::In(values.to_vec()),
            "NotIn" if !values.is_empty() => Test::NotIn(values.to_vec()),
            "Exists" if values.is_empty() => Test::Exists,
            "DoesNotExist" if values.is_empty() => Test::Absent,
            "Gt" => Test::Above(number()?),
            "Lt" => Test::Below(number()?),
            _ => return None,
        };
        Some(Self { key: key.to_owned(), test })
    }

    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.key);
        let number = || value.and_then(|v| v.parse::<i64>().ok());
        match &self.test {
            Test::In(values) => value.is_some_and(|v| values.contains(v)),
            Test::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::Above(limit) => number().is_some_and(|n| n > *limit),
            Test::Below(limit) => number().is_some_and(|n| n < *limit),
        }
    }
}

/// A label selector: a conjunction, or nothing at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Selector {
    Nothing,
    All(Requirements),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Requirements(Vec<Requirement>);

impl Selector {
    /// No selector selects nothing, an empty one everything.
    pub(super) fn new(selector: Option<&LabelSelector>) -> Self {
        let Some(selector) = selector else { return Self::Nothing };
        let labels = selector.match_labels.iter().flatten();
        let equal = labels.map(|(k, v)| Some(Requirement { key: k.clone(), test: Test::In(vec![v.clone()]) }));
        let expressions = selector.match_expressions.iter().flatten();
        let tests = expressions.map(|e| Requirement::new(&e.key, &e.operator, e.values.as_deref().unwrap_or_default()));
        equal.chain(tests).collect::<Option<Vec<_>>>().map_or(Self::Nothing, |all| Self::All(Requirements(all)))
    }

    /// Adds `key in (value of the pod)`, or `not in`, for each key that the pod has. The API server writes the same into
    /// the selector of a new pod; doing it twice changes nothing.
    #[must_use]
    pub(super) fn with_label_keys(mut self, keys: Option<&[String]>, pod: &Labels, wanted: Wanted) -> Self {
        if let Self::All(Requirements(all)) = &mut self {
            for (key, value) in keys.unwrap_or_default().iter().filter_map(|k| pod.get_key_value(k)) {
                let values = vec![value.clone()];
                let test = if wanted == Wanted::Same { Test::In(values) } else { Test::NotIn(values) };
                all.push(Requirement { key: key.clone(), test });
            }
        }
        self
    }

    pub(super) fn matches(&self, labels: &Labels) -> bool {
        match self {
            Self::Nothing => false,
            Self::All(Requirements(all)) => all.iter().all(|r| r.matches(labels)),
        }
    }

    pub(super) fn is_everything(&self) -> bool {
        matches!(self, Self::All(Requirements(all)) if all.is_empty())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Same,
    Different,
}

/// `spec.nodeSelector` and the required node affinity of a pod.
pub(super) fn pod_selects_node(pod: &Pod, node: &Node) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let labels = labels_of(&node.metadata);
    let selected = spec.node_selector.iter().flatten().all(|(k, v)| labels.get(k) == Some(v));
    selected && required_terms(pod).is_none_or(|selector| node_selector_matches(selector, node))
}

pub(super) fn required_terms(pod: &Pod) -> Option<&NodeSelector> {
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?.node_affinity.as_ref()?;
    affinity.required_during_scheduling_ignored_during_execution.as_ref()
}

pub(super) fn node_selector_matches(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|t| term_matches(t, node))
}

/// An empty term matches nothing. Without a name (as when a volume's affinity is asked) fields are not looked at.
pub(super) fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let labels = labels_of(&node.metadata);
    let requirement =
        |e: &NodeSelectorRequirement| Requirement::new(&e.key, &e.operator, e.values.as_deref().unwrap_or_default());
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|e| requirement(e).is_some_and(|r| r.matches(labels)))
        && fields.iter().all(|f| field_matches(f, node.metadata.name.as_deref()))
}

fn field_matches(field: &NodeSelectorRequirement, name: Option<&str>) -> bool {
    let [value] = field.values.as_deref().unwrap_or_default() else { return false };
    let Some(name) = name else { return matches!(field.operator.as_str(), "In" | "NotIn") };
    let equal = field.key == "metadata.name" && name == value;
    match field.operator.as_str() {
        "In" => equal,
        "NotIn" => !equal,
        _ => false,
    }
}
