//! What legacy objects say of themselves: one verdict with its reason, and what to know besides.

use jiff::Timestamp;
use karpenter_api::legacy::{Finding, Severity};
use serde_json::{Value, json};

/// The object is served through objects of today.
pub(crate) const TRANSLATED: &str = "Translated";
/// Nodes can be made.
pub(crate) const READY: &str = "Ready";
/// True while there is something to know.
pub(crate) const WARNINGS: &str = "Warnings";

/// One condition as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) type_: &'static str,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Said {
    pub(crate) fn new(type_: &'static str, status: &str, reason: &str, message: &str) -> Self {
        let [status, reason, message] = [status, reason, message].map(str::to_owned);
        Self { type_, status, reason, message }
    }
}

/// What stands in the way, if anything does; each with its field, those of a template with its name.
pub(crate) fn refusal(findings: &[Finding], about: usize) -> Option<String> {
    let errors: Vec<String> = lines(findings, Severity::Error, about);
    (!errors.is_empty()).then(|| errors.join("; "))
}

pub(crate) fn warnings(findings: &[Finding], about: usize) -> Option<Said> {
    let warnings = lines(findings, Severity::Warning, about);
    (!warnings.is_empty()).then(|| Said::new(WARNINGS, "True", "ReadThis", &warnings.join("; ")))
}

fn lines(findings: &[Finding], severity: Severity, about: usize) -> Vec<String> {
    let wanted = findings.iter().filter(|finding| finding.severity == severity);
    let line = |finding: &Finding| {
        let whose = if finding.document == about { String::new() } else { format!("{} ", finding.object) };
        let field = if finding.field.is_empty() { "the object" } else { &finding.field };
        format!("{whose}{field}: {}", finding.message)
    };
    wanted.map(line).collect()
}

/// The whole list, in order. Times are kept where the status is; a condition that nobody says any more goes.
pub(crate) fn conditions(before: &Value, said: &[Said], now: Timestamp) -> Value {
    let known = before["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let written = said.iter().map(|one| {
        let old = known.iter().find(|old| old["type"] == one.type_ && old["status"] == one.status.as_str());
        let since = old.map(|old| old["lastTransitionTime"].clone()).filter(Value::is_string);
        let mut condition = json!({
            "type": one.type_, "status": one.status, "reason": one.reason,
            "lastTransitionTime": since.unwrap_or_else(|| json!(whole_seconds(now))),
        });
        if !one.message.is_empty() {
            condition["message"] = json!(one.message);
        }
        if one.type_ == WARNINGS {
            condition["severity"] = json!("Warning");
        }
        condition
    });
    Value::Array(written.collect())
}

/// As the API writes times.
pub(crate) fn whole_seconds(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
