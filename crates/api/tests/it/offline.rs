//! The same table against the offline validation, which has to give the same answers.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use karpenter_api::crd;
use karpenter_schema::{Schema, Violation};
use serde_json::Value;

use crate::table::{Case, Complaint, cases, differences, not_held};

static SCHEMAS: LazyLock<BTreeMap<&str, Schema>> =
    LazyLock::new(|| crd::definitions().iter().map(|c| (c.kind, Schema::compile(c.schema()).unwrap())).collect());

#[test]
fn every_row_of_the_table_gets_the_same_answer_offline() {
    let wrong: Vec<String> = cases().into_iter().flat_map(check).collect();
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
}

fn check(mut case: Case) -> Vec<String> {
    // The scale subresource writes its paths with a dot before them; offline there is no such thing.
    case.refused.retain(|c| !c.field.starts_with('.'));
    let (said, stored) = answer(&case);
    let mut wrong = differences(&case, &said);
    if let Some(wanted) = &case.reads {
        wrong.extend(not_held(wanted, &stored, "").into_iter().map(|w| format!("{}: {w}", case.name)));
    }
    wrong
}

/// What is said about the case, and the object as it would be stored.
pub(crate) fn answer(case: &Case) -> (Vec<Complaint>, Value) {
    let schema = &SCHEMAS[case.crd.kind];
    let mut created = case.object.clone();
    // A new object has no status of its own; the server drops it before it stores the object.
    created.as_object_mut().unwrap().remove("status");
    let Some(change) = &case.change else { return judge(schema, case.strict, created, None) };
    let (said, old) = judge(schema, case.strict, created, None);
    assert_eq!(said, [], "{}: the object to change is not valid", case.name);
    judge(schema, case.strict, change.object.clone(), Some(&old))
}

fn judge(schema: &Schema, strict: bool, mut object: Value, old: Option<&Value>) -> (Vec<Complaint>, Value) {
    let unknown = schema.prune(&mut object);
    if strict && !unknown.is_empty() {
        let list: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
        return (vec![Complaint { field: String::new(), message: list.join(", ") }], object);
    }
    schema.default(&mut object);
    let violations = schema.validate(&object, old);
    let field = |v: &Violation| if v.path.is_root() { "<nil>".into() } else { v.field() };
    let said = violations.iter().map(|v| Complaint { field: field(v), message: v.message.clone() });
    (said.filter(|c| !c.is_remark()).collect(), object)
}
