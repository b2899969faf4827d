//! What is said about manifests.

use std::io::{self, Write};

use serde::Serialize;

use crate::manifests::InputError;

#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
    /// Input that could not be read.
    pub(super) errors: Vec<InputError>,
    /// Objects that were checked.
    pub(super) checked: usize,
    /// Objects of kinds that are not ours.
    pub(super) skipped: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    Error,
    Warning,
}

/// One thing that is wrong, or at least odd, about an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    pub(super) file: String,
    pub(super) line: u64,
    pub(super) kind: String,
    pub(super) name: String,
    /// Empty when it is about the object as a whole.
    pub(super) field: String,
    pub(super) message: String,
}

impl Finding {
    pub(super) fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    pub(super) fn harden(&mut self) {
        self.severity = Severity::Error;
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let warning = if self.is_error() { "" } else { "warning: " };
        let field = if self.field.is_empty() { String::new() } else { format!("{}: ", self.field) };
        let line = format!("{warning}{}:{} {}/{} {field}{}", self.file, self.line, self.kind, self.name, self.message);
        writeln!(out, "{}", one_line(&line))
    }
}

/// Names and values come from the input; control characters in them must not forge lines or reach a terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

impl Report {
    pub(super) fn write_text(&self, out: &mut dyn Write, err: &mut dyn Write) -> io::Result<()> {
        for finding in &self.findings {
            finding.write(out)?;
        }
        for error in &self.errors {
            writeln!(err, "error: {}", one_line(&error.to_string()))?;
        }
        writeln!(err, "{}", self.summary())
    }

    pub(super) fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    fn summary(&self) -> String {
        let errors = self.findings.iter().filter(|finding| finding.is_error()).count();
        let warnings = self.findings.len() - errors;
        let parts = [
            Some(format!("checked {}: {}", count(self.checked, "object"), count(errors, "error"))),
            (warnings > 0).then(|| count(warnings, "warning")),
            (!self.errors.is_empty()).then(|| format!("{} unreadable", count(self.errors.len(), "input"))),
            (self.skipped > 0).then(|| format!("skipped {} of other kinds", count(self.skipped, "object"))),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
