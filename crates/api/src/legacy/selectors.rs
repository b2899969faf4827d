//! Selector maps become lists of terms (API-336 … API-339).

use std::collections::BTreeMap;

use super::findings::Report;
use crate::kinds::ec2nodeclass::{AmiSelectorTerm, SecurityGroupSelectorTerm, SubnetSelectorTerm};

const IDS: [&str; 2] = ["aws-ids", "aws::ids"];
const NAMES: &str = "aws::name";
const OWNERS: &str = "aws::owners";

/// One combination of the alternatives in a selector map.
#[derive(Debug, Clone, Default, PartialEq)]
struct Combination {
    id: Option<String>,
    name: Option<String>,
    owner: Option<String>,
    tags: Option<BTreeMap<String, String>>,
}

/// Which keys of a selector map are not tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tags,
    Images,
}

pub(super) fn subnets(
    given: &BTreeMap<String, String>,
    field: &str,
    report: &mut Report<'_>,
) -> Vec<SubnetSelectorTerm> {
    check(given, "subnet-", field, report);
    let terms = combinations(given, Kind::Tags).into_iter();
    let terms = terms.map(|Combination { id, tags, .. }| SubnetSelectorTerm { tags, id }).collect();
    check_count(terms, field, report)
}

pub(super) fn security_groups(
    given: &BTreeMap<String, String>,
    field: &str,
    report: &mut Report<'_>,
) -> Vec<SecurityGroupSelectorTerm> {
    check(given, "sg-", field, report);
    let terms = combinations(given, Kind::Tags).into_iter();
    let terms = terms.map(|Combination { id, tags, .. }| SecurityGroupSelectorTerm { tags, id, name: None }).collect();
    check_count(terms, field, report)
}

pub(super) fn images(given: &BTreeMap<String, String>, field: &str, report: &mut Report<'_>) -> Vec<AmiSelectorTerm> {
    check(given, "ami-", field, report);
    if given.len() == 1 && given.contains_key(OWNERS) {
        report.error(field, "owners alone select no images in v1; add a name, an id or a tag");
    }
    let term =
        |Combination { id, name, owner, tags }| AmiSelectorTerm { tags, id, name, owner, ..AmiSelectorTerm::default() };
    check_count(combinations(given, Kind::Images).into_iter().map(term).collect(), field, report)
}

/// Empty keys and values, ids of the wrong form, and ids next to anything else.
fn check(given: &BTreeMap<String, String>, prefix: &str, field: &str, report: &mut Report<'_>) {
    let has_ids = given.keys().any(|key| IDS.contains(&key.as_str()));
    if has_ids && given.len() > 1 {
        report.error(field, "ids cannot be combined with other keys");
    }
    for (key, value) in given {
        let field = format!("{field}[{key}]");
        if key.is_empty() || alternatives(value).any(str::is_empty) {
            report.error(&field, "empty keys and values are not supported");
        }
        if !IDS.contains(&key.as_str()) {
            continue;
        }
        for id in alternatives(value).filter(|id| !is_id(id, prefix)) {
            report.error(&field, format!("{id:?} is not an id of the form {prefix}0123abcd"));
        }
    }
}

fn is_id(id: &str, prefix: &str) -> bool {
    let rest = id.strip_prefix(prefix).unwrap_or_default();
    !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn alternatives(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim)
}

/// The API server admits no more terms than that.
const TERM_LIMIT: usize = 30;

fn check_count<T>(terms: Vec<T>, field: &str, report: &mut Report<'_>) -> Vec<T> {
    if terms.len() > TERM_LIMIT {
        report.error(field, format!("makes {} terms, and v1 admits {TERM_LIMIT}", terms.len()));
    }
    terms
}

/// The cross product: owners, then ids, then names, then tags.
fn combinations(given: &BTreeMap<String, String>, kind: Kind) -> Vec<Combination> {
    if given.is_empty() {
        return Vec::new();
    }
    let mut all = vec![Combination::default()];
    if let (Kind::Images, Some(owners)) = (kind, given.get(OWNERS)) {
        all = product(&all, owners, |term, owner| term.owner = Some(owner));
    }
    for ids in IDS.iter().filter_map(|key| given.get(*key)) {
        all = product(&all, ids, |term, id| term.id = Some(id));
    }
    if let (Kind::Images, Some(names)) = (kind, given.get(NAMES)) {
        all = product(&all, names, |term, name| term.name = Some(name));
    }
    let special = |key: &str| IDS.contains(&key) || kind == Kind::Images && (key == NAMES || key == OWNERS);
    for (key, values) in given.iter().filter(|(key, _)| !special(key)) {
        all = product(&all, values, |term, value| {
            term.tags.get_or_insert_default().insert(key.clone(), value);
        });
    }
    all
}

fn product(terms: &[Combination], values: &str, set: impl Fn(&mut Combination, String)) -> Vec<Combination> {
    let with = |term: &Combination, value: &str| {
        let mut term = term.clone();
        set(&mut term, value.to_owned());
        term
    };
    terms
        .iter()
        .flat_map(|term| alternatives(values).map(move |value| (term, value)))
        .map(|(term, value)| with(term, value))
        .collect()
}
