//! The table of objects that a real API server judges (in the tests of the `api` crate), judged by `karpenter validate`.

#[path = "../../../api/tests/it/table.rs"]
#[allow(dead_code, clippy::panic)] // the other tests use more of it
mod rows;

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use crate::{folder, karpenter};
use rows::{Case, Complaint};

#[test]
fn validate_gives_the_same_verdicts_as_the_api_server() {
    // Changes of the status and requests without strict field validation have no counterpart on the command line.
    let mut cases = rows::cases();
    cases.retain(|case| case.strict && !case.change.as_ref().is_some_and(|change| change.through_status));
    assert!(cases.len() >= 250, "{} cases", cases.len());
    let (mut new, mut old) = (String::new(), String::new());
    for (i, case) in cases.iter().enumerate() {
        write!(new, "---\n{}\n", named(case.judged(), i)).unwrap();
        if case.change.is_some() {
            write!(old, "---\n{}\n", named(&case.object, i)).unwrap();
        }
    }
    let here = folder(&[("new.yaml", &new), ("old.yaml", &old)]);
    let run = karpenter(here.path(), &["validate", "-f", "new.yaml", "--previous", "old.yaml", "-o", "json"], b"");
    assert_eq!((run.code, run.err.as_str()), (1, ""));
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["checked"], cases.len());
    let said = complaints(&report);
    let wrong: Vec<String> =
        cases.iter_mut().enumerate().flat_map(|(i, case)| compare(case, said.get(&name(i)))).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

fn name(i: usize) -> String {
    format!("case-{i}")
}

fn named(object: &Value, i: usize) -> Value {
    let mut object = object.clone();
    object["metadata"]["name"] = name(i).into();
    object
}

fn compare(case: &mut Case, said: Option<&Vec<Complaint>>) -> Vec<String> {
    // Complaints of the scale subresource begin with a dot.
    case.refused.retain(|complaint| !complaint.field.starts_with('.'));
    rows::differences(case, said.map(Vec::as_slice).unwrap_or_default())
}

/// Errors by object name, in the API server's form.
fn complaints(report: &Value) -> BTreeMap<String, Vec<Complaint>> {
    let mut said: BTreeMap<String, Vec<Complaint>> = BTreeMap::new();
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    for finding in report["findings"].as_array().unwrap() {
        let complaint = Complaint { field: text(finding, "field"), message: text(finding, "message") };
        // Without a field: the remark that rules were not checked.
        if finding["severity"] == "error" && !complaint.field.is_empty() {
            said.entry(text(finding, "name")).or_default().push(complaint);
        }
    }
    for complaints in said.values_mut() {
        // The API server reports unknown fields by themselves and then looks no further.
        let mut unknown: Vec<String> = complaints
            .iter()
            .filter(|c| c.message == "unknown field")
            .map(|c| format!("unknown field \"{}\"", c.field))
            .collect();
        unknown.sort();
        if !unknown.is_empty() {
            *complaints = vec![Complaint { field: String::new(), message: unknown.join(", ") }];
        }
    }
    said
}
