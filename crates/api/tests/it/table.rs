//! The table of objects with the answers that a kube-apiserver has to give. The files in `table/` are the data.
//!
//! A file names `targets` (a kind and, with `at`, a place in its objects) and `rows`. A row makes one object per target: the
//! kind's object of `bases.yaml`, then `patch` (a merge patch; null removes) and `set` (a value for the place `at`). With
//! `update` or `update-set` the object is created first and the row is about the change; with `status: true` that change
//! goes through the status subresource. `refused` lists the complaints as `FIELD: END OF THE MESSAGE` (or `FIELD: ~PART OF IT`), where
//! `@` stands for the target's place; without it the object must be accepted. `reads` is what the stored object must hold (maps are
//! compared by the members given, everything else exactly). `lenient: true` switches strict field validation off.
//!
//! Values may be built: `{$repeat: N, of: V}` is a list, `{$text: T, times: N}` a string, `{$entries: N, key: K, value: V}`
//! a map; `{i}` in their strings is the index.

use std::collections::BTreeMap;
use std::path::Path;

use karpenter_api::crd::{self, Crd};
use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    targets: Vec<Target>,
    rows: Vec<Row>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    kind: String,
    #[serde(default)]
    at: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Row {
    name: String,
    rules: Vec<String>,
    #[serde(default)]
    patch: Option<Value>,
    #[serde(default)]
    set: Option<Value>,
    #[serde(default)]
    update: Option<Value>,
    #[serde(default)]
    update_set: Option<Value>,
    #[serde(default)]
    status: bool,
    #[serde(default)]
    lenient: bool,
    #[serde(default)]
    refused: Vec<String>,
    #[serde(default)]
    reads: Option<Value>,
    /// Only for these kinds; empty = all targets.
    #[serde(default)]
    only: Vec<String>,
}

/// One object, or one change of an object, and the answer to it.
#[derive(Debug)]
pub(crate) struct Case {
    /// File, row and target.
    pub(crate) name: String,
    pub(crate) crd: &'static Crd,
    /// The object to create, or the one that is there before the change.
    pub(crate) object: Value,
    pub(crate) change: Option<Change>,
    /// Unknown members are an error (`fieldValidation=Strict`), otherwise they are dropped.
    pub(crate) strict: bool,
    /// Empty = accepted.
    pub(crate) refused: Vec<Complaint>,
    pub(crate) reads: Option<Value>,
}

#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) object: Value,
    pub(crate) through_status: bool,
}

impl Case {
    /// The object that the answer is about.
    pub(crate) fn judged(&self) -> &Value {
        self.change.as_ref().map_or(&self.object, |c| &c.object)
    }
}

/// What a validator says about one field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Complaint {
    pub(crate) field: String,
    pub(crate) message: String,
}

impl Complaint {
    /// Not about a field: the server says so when it could not go on, or sums up what it said about a field.
    pub(crate) fn is_remark(&self) -> bool {
        self.field == "<nil>"
    }

    /// Whether this, said by a validator, is what `expected` asks for: the API server puts the value before our words.
    fn is(&self, expected: &Self) -> bool {
        let fits = match expected.message.strip_prefix('~') {
            Some(part) => self.message.contains(part),
            None => self.message.ends_with(&expected.message),
        };
        self.field == expected.field && fits
    }
}

/// Compares what was said with what the table expects; every difference is a line.
pub(crate) fn differences(case: &Case, said: &[Complaint]) -> Vec<String> {
    let surplus = said.iter().filter(|s| !case.refused.iter().any(|e| s.is(e))).map(|s| ("not expected", s));
    let missing = case.refused.iter().filter(|e| !said.iter().any(|s| s.is(e))).map(|e| ("missing", e));
    surplus.chain(missing).map(|(what, c)| format!("{}: {what}: {}: {}", case.name, c.field, c.message)).collect()
}

pub(crate) fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/table");
    let bases: BTreeMap<String, Value> = read(&folder.join("bases.yaml"));
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| !f.ends_with("bases.yaml"));
    files.sort();
    let mut cases = Vec::new();
    for path in files {
        let file: File = read(&path);
        let stem = path.file_stem().unwrap().to_str().unwrap();
        for row in &file.rows {
            assert!(!row.rules.is_empty(), "{stem}: `{}` cites no rule", row.name);
            let wanted = |t: &&Target| row.only.is_empty() || row.only.contains(&t.kind);
            cases.extend(file.targets.iter().filter(wanted).map(|target| case(stem, row, target, &bases)));
        }
    }
    cases
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read_to_string(path).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn case(file: &str, row: &Row, target: &Target, bases: &BTreeMap<String, Value>) -> Case {
    let place = if target.at.is_empty() { target.kind.clone() } else { format!("{} {}", target.kind, target.at) };
    let name = format!("{file}: {} ({place})", row.name);
    let crd =
        crd::definitions().iter().find(|c| c.kind == target.kind).unwrap_or_else(|| panic!("{name}: no such kind"));
    let apply = |object: &mut Value, patch: Option<&Value>, set: Option<&Value>| {
        if let Some(patch) = patch {
            merge(object, &build(patch, None));
        }
        if let Some(set) = set {
            assert!(!target.at.is_empty(), "{name}: `set` needs a target with `at`");
            *at(object, &target.at) = build(set, None);
        }
    };
    let mut object = bases[&target.kind].clone();
    object["apiVersion"] = crd.api_version().into();
    object["kind"] = crd.kind.into();
    apply(&mut object, row.patch.as_ref(), row.set.as_ref());
    let change = (row.update.is_some() || row.update_set.is_some()).then(|| {
        let mut changed = object.clone();
        apply(&mut changed, row.update.as_ref(), row.update_set.as_ref());
        Change { object: changed, through_status: row.status }
    });
    let refused = row.refused.iter().map(|text| {
        let (field, message) = text.split_once(": ").unwrap_or_else(|| panic!("{name}: `{text}` has no field"));
        Complaint { field: field.replacen('@', &target.at, 1), message: message.to_owned() }
    });
    let (refused, reads) = (refused.collect(), row.reads.clone());
    Case { name, crd, object, change, strict: !row.lenient, refused, reads }
}

/// The value at a dotted path, made on the way.
fn at<'a>(object: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.').fold(object, |value, part| &mut value[part])
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let members = target.as_object_mut().unwrap();
    for (key, value) in patch {
        if value.is_null() {
            members.remove(key);
        } else {
            merge(members.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Writes out `$repeat`, `$text` and `$entries`; `index` is the position inside the nearest one.
fn build(value: &Value, index: Option<u64>) -> Value {
    let number = |map: &Map<String, Value>, key: &str| map.get(key).and_then(Value::as_u64);
    match value {
        Value::String(text) => index.map_or_else(|| value.clone(), |i| text.replace("{i}", &i.to_string()).into()),
        Value::Array(items) => items.iter().map(|item| build(item, index)).collect(),
        Value::Object(map) => {
            if let Some(n) = number(map, "$repeat") {
                return (0..n).map(|i| build(&map["of"], Some(i))).collect();
            }
            if let Some(n) = number(map, "times") {
                return map["$text"].as_str().unwrap().repeat(usize::try_from(n).unwrap()).into();
            }
            if let Some(n) = number(map, "$entries") {
                let key = |i| build(&map["key"], Some(i)).as_str().unwrap().to_owned();
                return Value::Object((0..n).map(|i| (key(i), build(&map["value"], Some(i)))).collect());
            }
            Value::Object(map.iter().map(|(k, v)| (k.clone(), build(v, index))).collect())
        }
        _ => value.clone(),
    }
}

/// Where `stored` does not hold what `wanted` asks for.
pub(crate) fn not_held(wanted: &Value, stored: &Value, path: &str) -> Vec<String> {
    match wanted {
        Value::Object(members) => {
            members.iter().flat_map(|(k, v)| not_held(v, &stored[k], &format!("{path}.{k}"))).collect()
        }
        _ if wanted == stored => Vec::new(),
        _ => vec![format!("{path} reads back as {stored}, expected {wanted}")],
    }
}

#[test]
fn the_table_is_large_enough_and_every_row_has_its_own_name() {
    let cases = cases();
    let refused = cases.iter().filter(|c| !c.refused.is_empty()).count();
    let changes = cases.iter().filter(|c| c.change.is_some()).count();
    assert!(cases.len() >= 250, "{} objects", cases.len());
    assert!(refused >= 100 && cases.len() - refused >= 100, "{refused} of {} are refused", cases.len());
    assert!(changes >= 20, "{changes} changes");
    let mut names: Vec<_> = cases.iter().map(|c| c.name.as_str()).collect();
    names.sort_unstable();
    let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "names that two rows have: {twice:?}");
}
