//! For which reasons nodes are rebooted instead of replaced (AWS-305).

use regex::Regex;
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RebootReason {
    pub condition_type: String,
    /// A regular expression for the condition's reason.
    pub reason_expression: String,
}

/// Conditions that nodes are repaired for on AWS, but `Ready`, which decides for all others.
pub const REBOOT_CONDITIONS: [&str; 5] =
    ["AcceleratedHardwareReady", "KernelReady", "ContainerRuntimeReady", "StorageReady", "NetworkingReady"];

/// Reads YAML or JSON; an empty text is an empty list.
pub(super) fn parse(text: &str) -> Result<Vec<RebootReason>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let said = |error: serde_saphyr::Error| first_line(&error.to_string());
    serde_saphyr::from_str(text)
        .map_err(|error| format!("not a list of conditionType and reasonExpression: {}", said(error)))
}

/// All that is wrong with the list, in one line.
pub(super) fn check(reasons: &[RebootReason]) -> Result<(), String> {
    let wrong: Vec<String> = reasons.iter().enumerate().flat_map(|(at, reason)| problems(at, reason)).collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn problems(at: usize, reason: &RebootReason) -> Vec<String> {
    let RebootReason { condition_type, reason_expression } = reason;
    let condition = match condition_type.as_str() {
        "" => Some(format!("[{at}].conditionType is empty")),
        "Ready" => Some(format!("[{at}].conditionType: nodes cannot be rebooted for Ready, it decides for all others")),
        known if REBOOT_CONDITIONS.contains(&known) => None,
        other => Some(format!("[{at}].conditionType {other:?} is none of {}", REBOOT_CONDITIONS.join(", "))),
    };
    let expression = match Regex::new(reason_expression) {
        _ if reason_expression.is_empty() => Some(format!("[{at}].reasonExpression is empty")),
        Ok(_) => None,
        Err(error) => {
            let why = last_line(&error.to_string());
            Some(format!("[{at}].reasonExpression {reason_expression:?} is not a regular expression: {why}"))
        }
    };
    [condition, expression].into_iter().flatten().collect()
}

/// The reader shows the place with the lines around it, which is too much for a list of problems.
fn first_line(error: &str) -> String {
    error.lines().next().unwrap_or_default().trim().to_owned()
}

/// Regular expressions are shown with a mark below the place, and what is wrong with it comes last.
fn last_line(error: &str) -> String {
    let last = error.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS-305, AC-297: what is understood, and what is said of the rest, in one line.
    #[test]
    fn lists_of_reasons() {
        assert_eq!(parse(" "), Ok(Vec::new()));
        let want = RebootReason {
            condition_type: "AcceleratedHardwareReady".to_owned(),
            reason_expression: "Xid.*".to_owned(),
        };
        for text in [
            r#"[{"conditionType": "AcceleratedHardwareReady", "reasonExpression": "Xid.*"}]"#,
            "- conditionType: AcceleratedHardwareReady\n  reasonExpression: Xid.*\n",
        ] {
            assert_eq!(parse(text), Ok(vec![want.clone()]));
        }
        for (text, why) in [
            ("Xid", "not a list"),
            ("- conditionType: [\n  x: {\n", "not a list"),
            (r#"[{"conditionType": "KernelReady"}]"#, "reasonExpression"),
            (r#"[{"conditionType": "KernelReady", "reasonExpression": ""}]"#, "[0].reasonExpression is empty"),
            (r#"[{"conditionType": "KernelReady", "reason": "x"}]"#, "reason"),
            (
                r#"[{"conditionType": "KernelReady", "reasonExpression": "["}]"#,
                "[0].reasonExpression \"[\" is not a regular expression: unclosed character class",
            ),
            (r#"[{"conditionType": "Ready", "reasonExpression": "x"}]"#, "cannot be rebooted for Ready"),
            (
                r#"[{"conditionType": "KernelReady", "reasonExpression": "("}, {"conditionType": "Disk", "reasonExpression": "x"}]"#,
                "unclosed group; [1].conditionType \"Disk\" is none of AcceleratedHardwareReady,",
            ),
        ] {
            let said = parse(text).and_then(|reasons| check(&reasons)).unwrap_err();
            assert!(said.contains(why) && !said.contains('\n'), "{text}: {said}");
        }
    }
}
