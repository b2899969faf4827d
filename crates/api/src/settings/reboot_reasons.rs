//! For which reasons nodes are rebooted instead of replaced (AWS-305). Which conditions there are is the provider's business.

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RebootReason {
    pub condition_type: String,
    /// A regular expression for the condition's reason.
    pub reason_expression: String,
}

/// Reads YAML or JSON; an empty text is an empty list.
pub(super) fn parse(text: &str) -> Result<Vec<RebootReason>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let reasons: Vec<RebootReason> = serde_saphyr::from_str(text)
        .map_err(|error| format!("not a list of conditionType and reasonExpression: {error}"))?;
    for (at, reason) in reasons.iter().enumerate() {
        for (field, value) in
            [("conditionType", &reason.condition_type), ("reasonExpression", &reason.reason_expression)]
        {
            if value.is_empty() {
                return Err(format!("[{at}].{field} is empty"));
            }
        }
    }
    Ok(reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS-305.
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
            (r#"[{"conditionType": "KernelReady"}]"#, "reasonExpression"),
            (r#"[{"conditionType": "KernelReady", "reasonExpression": ""}]"#, "[0].reasonExpression is empty"),
            (r#"[{"conditionType": "KernelReady", "reason": "x"}]"#, "reason"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
