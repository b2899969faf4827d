//! `karpenter validate` on the whole table: the same verdict and the same words as the API server.

use std::collections::BTreeMap;

use clap::Parser as _;
use karpenter_cli::{Cli, EXIT_FINDINGS};
use serde_json::Value;

use crate::table::{Case, Complaint, cases, differences};

/// A folder with the objects to check and one with the objects that are there before.
fn manifests(cases: &[Case]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["new", "old"] {
        std::fs::create_dir(dir.path().join(folder)).unwrap();
    }
    for (number, case) in cases.iter().enumerate() {
        let write = |folder: &str, object: &Value| {
            let mut object = object.clone();
            object["metadata"]["name"] = name(number).into();
            if case.crd.namespaced {
                object["metadata"]["namespace"] = "default".into();
            }
            let path = dir.path().join(folder).join(format!("{}.json", name(number)));
            std::fs::write(path, object.to_string()).unwrap();
        };
        write("new", case.judged());
        if case.change.is_some() {
            write("old", &case.object);
        }
    }
    dir
}

fn name(number: usize) -> String {
    format!("row-{number}")
}

#[test]
fn karpenter_validate_gives_the_same_answer_to_every_row() {
    // Unknown members are an error for the command, as they are for kubectl, and a status in a manifest counts for nothing.
    let through_status = |c: &Case| c.change.as_ref().is_some_and(|change| change.through_status);
    let mut cases: Vec<Case> = cases().into_iter().filter(|c| c.strict && !through_status(c)).collect();
    for case in &mut cases {
        // Only the API server has a scale subresource, whose paths start with a dot.
        case.refused.retain(|c| !c.field.starts_with('.'));
    }
    let dir = manifests(&cases);
    let path = |folder: &str| dir.path().join(folder).display().to_string();
    let args = ["karpenter", "validate", "-o", "json", "-f", &path("new"), "--previous", &path("old")];
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = Cli::try_parse_from(args).unwrap().run(&mut std::io::empty(), &mut out, &mut err).unwrap();
    assert_eq!(code, EXIT_FINDINGS, "{}", String::from_utf8_lossy(&err));

    let report: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(report["errors"], Value::Array(Vec::new()));
    assert_eq!(report["checked"], cases.len());
    let mut said: BTreeMap<String, Vec<Complaint>> = BTreeMap::new();
    for finding in report["findings"].as_array().unwrap().iter().filter(|f| f["severity"] == "error") {
        let text = |key: &str| finding[key].as_str().unwrap().to_owned();
        let complaint = complaint(text("field"), text("message"));
        if !complaint.is_remark() {
            said.entry(text("name")).or_default().push(complaint);
        }
    }
    let mut wrong = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        wrong.extend(differences(case, said.get(&name(number)).map_or(&[], Vec::as_slice)));
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

/// The command shows an unknown member at its place and gives remarks no place; the server does neither.
fn complaint(field: String, message: String) -> Complaint {
    if field.is_empty() {
        return Complaint { field: "<nil>".into(), message };
    }
    if message.starts_with("unknown field") {
        return Complaint { field: String::new(), message: format!("unknown field \"{field}\"") };
    }
    Complaint { field, message }
}
