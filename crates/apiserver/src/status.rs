//! Refusals, worded as the real server words them.

use std::fmt::{self, Display};

use serde_json::{Map, Value, json};

use crate::resource::ResourceType;

/// Why a request failed: what becomes a `Status` object.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: u16,
    /// Empty where the server gives none.
    pub reason: &'static str,
    pub message: String,
    /// `None` where the server leaves `details` out.
    pub details: Option<Value>,
    /// Also sent as a header.
    pub retry_after_seconds: Option<u64>,
    /// Sent as plain text, as for paths that no API group serves.
    pub plain: bool,
}

/// One entry of a list of field errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    /// With the sort of error: `Invalid value: "x": must …`.
    pub(crate) message: String,
}

impl Cause {
    fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, field: field.into(), message: message.into() }
    }

    pub(crate) fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueRequired", field, with_detail("Required value", detail))
    }

    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::new("FieldValueInvalid", field, with_detail(&format!("Invalid value: {value}"), detail))
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::new("FieldValueForbidden", field, with_detail("Forbidden", detail))
    }

    pub(crate) fn unsupported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list = supported.iter().map(|s| format!("{s:?}")).collect::<Vec<_>>().join(", ");
        Self::new("FieldValueNotSupported", field, format!("Unsupported value: {value}: supported values: {list}"))
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {value}"))
    }

    pub(crate) fn too_long(field: impl Into<String>, max: usize) -> Self {
        Self::new("FieldValueTooLong", field, format!("Too long: may not be more than {max} bytes"))
    }

    /// From a violation of a schema.
    pub(crate) fn violation(violation: &karpenter_schema::Violation) -> Self {
        use karpenter_schema::ViolationKind as Kind;
        let reason = match violation.kind {
            Kind::Type => "FieldValueTypeInvalid",
            Kind::Required => "FieldValueRequired",
            Kind::Unsupported => "FieldValueNotSupported",
            Kind::TooLong => "FieldValueTooLong",
            Kind::TooMany => "FieldValueTooMany",
            Kind::Duplicate => "FieldValueDuplicate",
            Kind::Invalid | Kind::Rule | Kind::RuleError | Kind::RulesNotChecked => "FieldValueInvalid",
        };
        let field = if violation.path.is_root() { "<nil>".to_owned() } else { violation.field() };
        Self::new(reason, field, violation.message.clone())
    }

    pub(crate) fn json(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

fn with_detail(what: &str, detail: &str) -> String {
    if detail.is_empty() { what.to_owned() } else { format!("{what}: {detail}") }
}

/// `ConfigMap` or `Deployment.apps`.
fn qualified_kind(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") }
}

fn details(group: &str, kind: &str, name: &str) -> Map<String, Value> {
    let mut map = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            map.insert(key.to_owned(), json!(value));
        }
    }
    map
}

impl Failure {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, retry_after_seconds: None, plain: false }
    }

    #[must_use]
    pub(crate) fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// An error that the server does not classify.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn not_found(kind: &ResourceType, name: &str) -> Self {
        Self::missing(&kind.group, &kind.plural, name)
    }

    pub(crate) fn missing(group: &str, plural: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", qualified_kind(group, plural)))
            .with_details(details(group, plural, name).into())
    }

    pub(crate) fn already_exists(kind: &ResourceType, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", kind.qualified()))
            .with_details(details(&kind.group, &kind.plural, name).into())
    }

    pub(crate) fn conflict(kind: &ResourceType, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified());
        Self::new(409, "Conflict", message).with_details(details(&kind.group, &kind.plural, name).into())
    }

    /// A conflict that names something else than the kind's resource.
    pub(crate) fn conflict_on(kind: &ResourceType, resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::new(409, "Conflict", message).with_details(details(&kind.group, resource, name).into())
    }

    pub(crate) fn stale(kind: &ResourceType, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// A precondition of a deletion; these name the kind, not the resource.
    pub(crate) fn precondition(kind: &ResourceType, name: &str, why: &str) -> Self {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified_kind(&kind.group, &kind.kind));
        Self::new(409, "Conflict", message).with_details(details(&kind.group, &kind.kind, name).into())
    }

    pub(crate) fn forbidden(kind: &ResourceType, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", kind.qualified());
        Self::new(403, "Forbidden", message).with_details(details(&kind.group, &kind.plural, name).into())
    }

    pub(crate) fn invalid(kind: &ResourceType, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_kind(&kind.group, &kind.kind, name, causes)
    }

    pub(crate) fn invalid_kind(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        // The server names equal errors once in the text, but each in the causes.
        let mut texts: Vec<String> = Vec::new();
        for cause in causes {
            let text = cause.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut details = details(group, kind, name);
        details.insert("causes".to_owned(), causes.iter().map(Cause::json).collect());
        Self::new(422, "Invalid", format!("{} {name:?} is invalid: {list}", qualified_kind(group, kind)))
            .with_details(details.into())
    }

    /// A parameter of the request: `kind` is `CreateOptions` and the like.
    pub(crate) fn invalid_options(kind: &str, cause: Cause) -> Self {
        Self::invalid_kind("meta.k8s.io", kind, "", &[cause])
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
            .with_details(json!({}))
    }

    /// The group is served, the resource is not.
    pub(crate) fn unknown_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_details(json!({}))
    }

    /// Nothing is served at all there.
    pub(crate) fn unknown_path() -> Self {
        Self { plain: true, ..Self::new(404, "NotFound", "404 page not found\n") }
    }

    pub(crate) fn too_large_version(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        Self {
            retry_after_seconds: Some(1),
            ..Self::new(504, "Timeout", message).with_details(json!({"causes": [cause], "retryAfterSeconds": 1}))
        }
    }

    /// 429 with the time to wait.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u64) -> Self {
        let details = json!({"retryAfterSeconds": retry_after_seconds});
        Self {
            retry_after_seconds: Some(retry_after_seconds),
            ..Self::new(429, "TooManyRequests", message).with_details(details)
        }
    }

    /// The `Status` object.
    pub fn json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Registry;

    #[test]
    fn refusals_read_as_the_servers() {
        let registry = Registry::builtin();
        let deployment = registry.by_kind("apps", "v1", "Deployment").unwrap();
        let cause = Cause::invalid("spec.replicas", &json!(-1), "must be greater than or equal to 0");
        for (failure, want) in [
            (Failure::not_found(deployment, "d"), "deployments.apps \"d\" not found"),
            (
                Failure::invalid(deployment, "d", std::slice::from_ref(&cause)),
                "Deployment.apps \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                Failure::invalid_options(
                    "PatchOptions",
                    Cause::required("fieldManager", "is required for apply patch"),
                ),
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ),
        ] {
            assert_eq!(failure.json()["message"], want);
        }
        let twice = Failure::invalid(deployment, "d", &[cause.clone(), cause]);
        assert_eq!(twice.json()["details"]["causes"].as_array().map(Vec::len), Some(2));
        assert!(!twice.message.contains('['), "{}", twice.message);
    }
}
