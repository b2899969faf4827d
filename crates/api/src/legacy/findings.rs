//! What is said about an input object.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The object was converted, but read this.
    Warning,
    /// The object was not converted.
    Error,
}

/// Something to say about one field of one input object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Index of the input document.
    pub document: usize,
    /// Kind and name, `Provisioner/default`.
    pub object: String,
    /// Path in the input; empty when it is about the whole object.
    pub field: String,
    pub severity: Severity,
    pub message: String,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => write!(f, "{}: {}: {}", self.object, self.severity, self.message),
            field => write!(f, "{} {field}: {}: {}", self.object, self.severity, self.message),
        }
    }
}

/// Collects findings about one object.
pub(super) struct Report<'a> {
    document: usize,
    object: String,
    errors: usize,
    /// Fields of which the first word was the last.
    broken: BTreeSet<String>,
    findings: &'a mut Vec<Finding>,
}

impl<'a> Report<'a> {
    pub(super) fn new(document: usize, object: &Value, findings: &'a mut Vec<Finding>) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        let object = format!("{}/{}", text(&object["kind"]), text(&object["metadata"]["name"]));
        Self::about(document, object, findings)
    }

    pub(super) fn about(document: usize, object: String, findings: &'a mut Vec<Finding>) -> Self {
        Self { document, object, errors: 0, broken: BTreeSet::new(), findings }
    }

    pub(super) fn error(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.errors += 1;
        self.add(Severity::Error, field.into(), message.into());
    }

    /// The field is not what it should be at all, and whatever else could be said about it would be about something else.
    pub(super) fn broken(&mut self, field: &str, message: impl Into<String>) {
        self.error(field, message);
        self.is_broken(field);
    }

    pub(super) fn is_broken(&mut self, field: &str) {
        self.broken.insert(field.to_owned());
    }

    pub(super) fn warn(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.add(Severity::Warning, field.into(), message.into());
    }

    fn add(&mut self, severity: Severity, field: String, message: String) {
        if self.broken.contains(&field) {
            return;
        }
        let (document, object) = (self.document, self.object.clone());
        self.findings.push(Finding { document, object, field, severity, message });
    }

    /// The value, unless something was wrong with the object.
    pub(super) fn unless_failed<T>(&self, value: T) -> Option<T> {
        (self.errors == 0).then_some(value)
    }
}
