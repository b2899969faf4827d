//! Field selectors. Which fields there are depends on the kind.

use serde_json::Value;

use crate::resource::ResourceType;

/// All of its terms must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// `a=b,c!=d`, for a kind that has these fields. The error is the server's text.
    pub(crate) fn parse(text: &str, kind: &ResourceType, selectable: &[String]) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split_unescaped(text) {
            if part.is_empty() {
                continue;
            }
            let (field, rest, equal) = ["!=", "==", "="]
                .into_iter()
                .filter_map(|op| part.find(op).map(|at| (at, op)))
                .min_by_key(|(at, op)| (*at, usize::MAX - op.len()))
                .map(|(at, op)| (&part[..at], &part[at + op.len()..], op != "!="))
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{part}'"))?;
            let value =
                unescape(rest).ok_or_else(|| format!("invalid field selector: invalid escape sequence in {rest}"))?;
            if !supported_fields(kind).contains(&field) && !selectable.iter().any(|s| s == field) {
                return Err(unsupported(kind, field));
            }
            terms.push(Term { field: field.to_owned(), value, equal });
        }
        Ok(Self(terms))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|term| (field_text(object, &term.field) == term.value) == term.equal)
    }

    /// The value that the field must have, if the selector says so: for indexes.
    pub(crate) fn exact(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }
}

fn unsupported(kind: &ResourceType, field: &str) -> String {
    match (kind.group.as_str(), kind.kind.as_str()) {
        // Kinds with conversions of their own word it differently.
        ("", "Pod" | "Node" | "Namespace" | "Secret" | "Event" | "ReplicationController" | "Service")
        | ("apps", "StatefulSet")
        | ("batch", "Job")
        | ("apiextensions.k8s.io" | "events.k8s.io", _) => format!("field label not supported: {field}"),
        _ if kind.crd => format!("field label not supported: {field}"),
        _ => format!("{field:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
    }
}

/// The fields that objects of a kind can be selected by.
pub(crate) fn supported_fields(kind: &ResourceType) -> &'static [&'static str] {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => &[
            "metadata.name",
            "metadata.namespace",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        ("", "Node") => &["metadata.name", "spec.unschedulable"],
        ("", "Namespace") => &["metadata.name", "status.phase"],
        ("", "Secret") => &["metadata.name", "metadata.namespace", "type"],
        ("", "Service") => &["metadata.name", "metadata.namespace", "spec.clusterIP", "spec.type"],
        ("", "ReplicationController") => &["metadata.name", "metadata.namespace", "status.replicas"],
        ("apps", "StatefulSet") | ("batch", "Job") => &["metadata.name", "metadata.namespace", "status.successful"],
        ("resource.k8s.io", "ResourceSlice") => &["metadata.name", "spec.nodeName", "spec.driver"],
        ("", "Event") => &[
            "metadata.name",
            "metadata.namespace",
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "Event") => &[
            "metadata.name",
            "metadata.namespace",
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("apiextensions.k8s.io", _) => &["metadata.name"],
        _ if !kind.namespaced && !kind.crd => &["metadata.name", "metadata.namespace"],
        _ => &["metadata.name", "metadata.namespace"],
    }
}

/// A field as text; what is absent reads as the zero value of its type.
fn field_text(object: &Value, field: &str) -> String {
    let zero = match field {
        "spec.unschedulable" | "spec.hostNetwork" => "false",
        "status.replicas" | "status.successful" => "0",
        _ => "",
    };
    let at = |path: &str| path.split('.').try_fold(object, |value, key| value.get(key));
    let value = match field {
        "source" => at("source.component").or_else(|| at("reportingComponent")),
        "status.successful" => at("status.succeeded"),
        // Events are stored in the core form, whatever form they are asked for in.
        "reportingController" => at("reportingComponent"),
        _ => match field.strip_prefix("regarding.") {
            Some(rest) => at(&format!("involvedObject.{rest}")),
            None => at(field),
        },
    };
    match value {
        None | Some(Value::Null) => zero.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// `None` for a backslash before anything but itself, a comma or an equals sign.
fn unescape(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => out.push(chars.next().filter(|c| matches!(c, '\\' | ',' | '='))?),
            ',' | '=' => return None,
            _ => out.push(c),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::Registry;

    #[test]
    fn fields_are_selected() {
        let registry = Registry::builtin();
        let pod = registry.by_kind("", "v1", "Pod").unwrap();
        let node = registry.by_kind("", "v1", "Node").unwrap();
        let object = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        for (kind, selector, want) in [
            (pod, "", true),
            (pod, "spec.nodeName=n", true),
            (pod, "spec.nodeName==n,status.phase!=Failed", true),
            (pod, "spec.nodeName!=n", false),
            (pod, "spec.nodeName=", false),
            (node, "spec.unschedulable=false", true),
            (node, "spec.unschedulable=true", false),
        ] {
            assert_eq!(FieldSelector::parse(selector, kind, &[]).unwrap().matches(&object), want, "{selector}");
        }
        let selector = FieldSelector::parse("spec.nodeName=n", pod, &[]).unwrap();
        assert_eq!(selector.exact("spec.nodeName"), Some("n"));
    }

    #[test]
    fn unknown_fields_are_refused() {
        let registry = Registry::builtin();
        let parse = |kind: &str, text: &str| {
            FieldSelector::parse(text, registry.by_kind("", "v1", kind).unwrap(), &[]).unwrap_err()
        };
        assert_eq!(parse("Pod", "spec.foo=b"), "field label not supported: spec.foo");
        assert_eq!(
            parse("ConfigMap", "data.x=b"),
            "\"data.x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        assert_eq!(parse("ConfigMap", "foo"), "invalid selector: 'foo'; can't understand 'foo'");
    }
}
