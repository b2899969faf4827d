//! Every CEL rule of every kind is hit by the table, each way.

use karpenter_api::crd;
use serde_json::Value;

use crate::table::{Case, cases};

struct Rule {
    kind: &'static str,
    /// The place in the schema: members, and `[*]` for the items of a list.
    path: Vec<String>,
    message: String,
    compares_with_old: bool,
}

impl Rule {
    fn name(&self) -> String {
        format!("{} {}: {}", self.kind, self.field(), self.message)
    }

    fn field(&self) -> String {
        self.path.join(".").replace(".[*]", "[*]")
    }
}

/// API-348, AWS-286: each message of a rule is given for at least one object, and at least one object passes it.
#[test]
fn every_cel_rule_is_hit_each_way() {
    let cases = cases();
    let mut wrong = Vec::new();
    let rules: Vec<Rule> = crd::definitions()
        .iter()
        .flat_map(|c| {
            let mut rules = Vec::new();
            collect(c.kind, c.schema(), &mut Vec::new(), &mut rules);
            rules
        })
        .collect();
    assert!(rules.len() >= 80, "only {} rules were found", rules.len());
    for rule in &rules {
        let of_kind = || cases.iter().filter(|c| c.crd.kind == rule.kind);
        if !of_kind().any(|case| refuses(case, rule)) {
            wrong.push(format!("no row is refused by {}", rule.name()));
        }
        if !of_kind().any(|case| passes(case, rule)) {
            wrong.push(format!("no accepted row reaches {}", rule.name()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn collect(kind: &'static str, schema: &Value, path: &mut Vec<String>, rules: &mut Vec<Rule>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let message = rule["message"].as_str().expect("our rules have messages").to_owned();
        let compares_with_old = rule["rule"].as_str().unwrap().contains("oldSelf");
        rules.push(Rule { kind, path: path.clone(), message, compares_with_old });
    }
    let members = schema["properties"].as_object().into_iter().flatten();
    let parts = members.map(|(name, part)| (name.as_str(), part));
    let items = schema.get("items").map(|part| ("[*]", part));
    for (name, part) in parts.chain(items) {
        path.push(name.to_owned());
        collect(kind, part, path, rules);
        path.pop();
    }
    let values = &schema["additionalProperties"];
    assert!(values.get("x-kubernetes-validations").is_none(), "a rule inside a map: teach this test to follow it");
}

fn refuses(case: &Case, rule: &Rule) -> bool {
    let field = rule.field();
    case.refused.iter().any(|c| c.message == rule.message && without_indices(&c.field) == field)
}

fn without_indices(field: &str) -> String {
    let mut parts = field.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| format!("{text}[*{}", part.trim_start_matches(|c: char| c.is_ascii_digit())))
}

/// The object holds what the rule is about, and nothing is wrong with it. A rule about changes needs a change.
fn passes(case: &Case, rule: &Rule) -> bool {
    let before = !rule.compares_with_old || (case.change.is_some() && holds(&case.object, &rule.path));
    case.refused.is_empty() && before && holds(case.judged(), &rule.path)
}

fn holds(value: &Value, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return !value.is_null() };
    if first == "[*]" {
        return value.as_array().is_some_and(|items| items.iter().any(|item| holds(item, rest)));
    }
    value.get(first).is_some_and(|member| holds(member, rest))
}
