use std::fmt::{self, Display};

use serde_json::Value;

use crate::path::FieldPath;

/// The sort of a [`Violation`], after the API server's error types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ViolationKind {
    /// Wrong JSON type, or a string that does not have its `format`.
    Type,
    Required,
    /// Not one of the enum's values.
    Unsupported,
    TooLong,
    TooMany,
    Duplicate,
    /// A value outside of its pattern, range or minimal size.
    Invalid,
    /// A CEL rule said no.
    Rule,
    /// A CEL rule could not be evaluated, which counts as no.
    RuleError,
    /// CEL rules were skipped because of other violations.
    RulesNotChecked,
}

impl ViolationKind {
    /// Whether CEL rules are skipped once this occurred: they would meet values of the wrong shape or size.
    pub(crate) fn blocks_rules(self) -> bool {
        matches!(self, Self::Type | Self::Required | Self::Unsupported | Self::TooLong | Self::TooMany)
    }
}

/// One reason why the API server would refuse an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub path: FieldPath,
    pub kind: ViolationKind,
    /// What the API server prints after the path.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(path: &FieldPath, kind: ViolationKind, message: impl Into<String>) -> Self {
        Self { path: path.clone(), kind, message: message.into() }
    }

    /// The path in the API server's spelling.
    pub fn field(&self) -> String {
        match self.kind {
            ViolationKind::Rule | ViolationKind::RuleError | ViolationKind::Duplicate => self.path.bracketed(),
            _ => self.path.to_string(),
        }
    }
}

impl Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_root() {
            write!(f, "<nil>: {}", self.message)
        } else {
            write!(f, "{}: {}", self.field(), self.message)
        }
    }
}

/// The name of a value's type in messages.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.as_i64().is_some() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
