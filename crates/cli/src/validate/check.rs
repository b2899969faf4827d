//! One object against its schema.

use std::collections::HashMap;

use anyhow::{Context, Result};
use karpenter_api::crd::Crd;
use karpenter_schema::{FieldPath, Schema, ViolationKind};
use serde_json::Value;

use super::report::{Finding, Severity};
use super::schemas::{Kind, Kinds, Lookup};
use super::{metadata, runtime};
use crate::manifests::{Document, Tree};

/// The stored objects that updates are judged by.
#[derive(Debug)]
pub(super) struct Previous(HashMap<Identity, Vec<Value>>);

/// API version, kind and name.
type Identity = [String; 3];

impl Previous {
    pub(super) fn new(stored: &[Document]) -> Self {
        let mut objects: HashMap<Identity, Vec<Value>> = HashMap::new();
        for object in stored.iter().map(|document| document.tree.to_value()) {
            if let Some(identity) = identity(&object) {
                objects.entry(identity).or_default().push(object);
            }
        }
        Self(objects)
    }

    /// The stored form of `object`. Manifests often leave the namespace out where stored objects have it; then the name
    /// decides, if it is unique.
    fn of(&self, object: &Value) -> Option<&Value> {
        let candidates = self.0.get(&identity(object)?)?;
        let same = candidates.iter().find(|candidate| namespace(candidate) == namespace(object));
        let sole = candidates
            .first()
            .filter(|sole| candidates.len() == 1 && (namespace(sole).is_empty() || namespace(object).is_empty()));
        same.or(sole)
    }
}

/// `None` for objects that get their name from the API server: those are always new.
fn identity(object: &Value) -> Option<Identity> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    Some([text(&object["apiVersion"])?, text(&object["kind"])?, text(&object["metadata"]["name"])?])
}

fn namespace(object: &Value) -> &str {
    object["metadata"]["namespace"].as_str().unwrap_or_default()
}

#[derive(Debug)]
pub(super) struct Checker {
    kinds: Kinds,
    metadata: Schema,
}

impl Checker {
    pub(super) fn new() -> Result<Self> {
        let metadata = metadata::schema().context("the schema of metadata cannot be compiled")?;
        Ok(Self { kinds: Kinds::new(), metadata })
    }

    /// What is wrong about an object, or `None` if its kind is none of ours.
    pub(super) fn check(&self, document: &Document, previous: &Previous) -> Option<Vec<Finding>> {
        let object = document.tree.to_value();
        let mut findings = Findings::new(document, &object);
        if !object.is_object() {
            findings.error(&FieldPath::root(), "not a Kubernetes object".to_owned());
            return Some(findings.list);
        }
        let (Some(api_version), Some(kind)) = (object["apiVersion"].as_str(), object["kind"].as_str()) else {
            for name in ["apiVersion", "kind"] {
                if !object[name].is_string() {
                    findings.error(&FieldPath::root().field(name), "Required value".to_owned());
                }
            }
            return Some(findings.list);
        };
        match self.kinds.find(api_version, kind) {
            Lookup::Foreign => return None,
            Lookup::NoSuchKind => {
                let message = format!("no kind \"{kind}\" in version \"{api_version}\"");
                findings.error(&FieldPath::root().field("kind"), message);
            }
            Lookup::WrongVersion(crd) => {
                findings.error(&FieldPath::root().field("apiVersion"), wrong_version(crd, api_version));
            }
            Lookup::Known(known) => {
                if let Err(error) = self.check_known(known, &object, previous.of(&object), &mut findings) {
                    findings.error(&FieldPath::root(), format!("{error:#}"));
                }
            }
        }
        Some(findings.list)
    }

    fn check_known(&self, kind: &Kind, object: &Value, old: Option<&Value>, findings: &mut Findings<'_>) -> Result<()> {
        let schema = kind.schema()?;
        if kind.crd.legacy {
            let message = "this kind is legacy and served on AWS only; `karpenter convert` turns it into current kinds";
            findings.warning(&FieldPath::root().field("kind"), message.to_owned());
        }
        for problem in metadata::check(&self.metadata, kind.crd, object) {
            if problem.warning {
                findings.warning(&problem.path, problem.message);
            } else {
                findings.error(&problem.path, problem.message);
            }
        }
        let mut new = object.clone();
        for path in schema.prune(&mut new) {
            findings.error(&path, "unknown field".to_owned());
        }
        let old = old.map(|old| stored(schema, old));
        // The status subresource takes no part in creating or updating an object: what a manifest says about it is dropped.
        set_status(&mut new, old.as_ref().and_then(|old| old.get("status")).cloned());
        schema.default(&mut new);
        for violation in schema.validate(&new, old.as_ref()) {
            findings.push(Severity::Error, &violation.path, violation.field(), violation.message, violation.kind);
        }
        // Much of what the controller checks repeats the schema; on an object that is refused anyway it would be noise.
        if findings.list.iter().all(|finding| !finding.is_error()) {
            for (field, message) in runtime::problems(kind.crd, &new) {
                findings.warning(&document_path(findings.tree, &field), message);
            }
        }
        findings.list.sort_by_key(|finding| (finding.field.is_empty(), finding.line));
        Ok(())
    }
}

/// The old object as the API server would read it.
fn stored(schema: &Schema, old: &Value) -> Value {
    let mut old = old.clone();
    schema.prune(&mut old);
    schema.default(&mut old);
    old
}

fn set_status(object: &mut Value, status: Option<Value>) {
    let Value::Object(map) = object else { return };
    match status {
        Some(status) => map.insert("status".to_owned(), status),
        None => map.remove("status"),
    };
}

fn wrong_version(crd: &Crd, api_version: &str) -> String {
    let convert = if crd.legacy { "" } else { "; `karpenter convert` can bring old manifests up to date" };
    format!("no kind \"{}\" in version \"{api_version}\", but in \"{}\"{convert}", crd.kind, crd.api_version())
}

/// The path that `text`, such as `spec.labels[a/b][0].key`, means in a document.
fn document_path(tree: &Tree, text: &str) -> FieldPath {
    let (mut path, mut here, mut rest) = (FieldPath::root(), Some(tree), text);
    while !rest.is_empty() {
        let name_end = rest.find(['.', '[']).unwrap_or(rest.len());
        (path, here, rest) = if let Some((inside, after)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
            match (inside.parse::<usize>(), here.and_then(Tree::as_list)) {
                (Ok(index), Some(items)) => (path.index(index), items.get(index), after),
                _ => (path.key(inside), here.and_then(|here| here.get(inside)), after),
            }
        } else {
            // At least one character goes, so that an odd text ends too.
            let (name, after) = rest.split_at(name_end.max(usize::from(rest.starts_with('['))));
            (path.field(name), here.and_then(|here| here.get(name)), after)
        };
        rest = rest.strip_prefix('.').unwrap_or(rest);
    }
    path
}

/// Findings about one object.
struct Findings<'a> {
    file: &'a str,
    tree: &'a Tree,
    kind: String,
    name: String,
    list: Vec<Finding>,
}

impl<'a> Findings<'a> {
    fn new(document: &'a Document, object: &Value) -> Self {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let metadata = &object["metadata"];
        let generated = text(&metadata["generateName"]).map(|prefix| format!("{prefix}*"));
        Self {
            file: &document.file,
            tree: &document.tree,
            kind: text(&object["kind"]).unwrap_or_else(|| "?".to_owned()),
            name: text(&metadata["name"]).or(generated).unwrap_or_else(|| "?".to_owned()),
            list: Vec::new(),
        }
    }

    fn error(&mut self, path: &FieldPath, message: String) {
        self.push(Severity::Error, path, path.to_string(), message, ViolationKind::Invalid);
    }

    fn warning(&mut self, path: &FieldPath, message: String) {
        self.push(Severity::Warning, path, path.bracketed(), message, ViolationKind::Invalid);
    }

    fn push(&mut self, severity: Severity, path: &FieldPath, field: String, message: String, kind: ViolationKind) {
        // The server's text begins with a null value that means nothing to a reader.
        let message = match (kind, message.strip_prefix("Invalid value: null: ")) {
            (ViolationKind::RulesNotChecked, Some(rest)) => rest.to_owned(),
            _ => message,
        };
        self.list.push(Finding {
            severity,
            file: self.file.to_owned(),
            line: self.tree.line_of(path),
            kind: self.kind.clone(),
            name: self.name.clone(),
            field,
            message,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::{Source, parse};

    /// Documents of a YAML text.
    fn documents(text: &str) -> Vec<Document> {
        parse(&Source { name: "f".into(), text: text.into() }).0
    }

    #[test]
    fn stored_objects_are_found_by_name_and_namespace() {
        let object = |metadata: &str| format!("---\napiVersion: v1\nkind: K\nmetadata: {metadata}\n");
        let stored = |metadata: &[&str]| documents(&metadata.iter().map(|m| object(m)).collect::<String>());
        for (name, old, new, found) in [
            ("same name", &["{name: a}"][..], "{name: a}", true),
            ("other name", &["{name: a}"], "{name: b}", false),
            ("namespace left out", &["{name: a, namespace: here}"], "{name: a}", true),
            (
                "namespace left out, two candidates",
                &["{name: a, namespace: here}", "{name: a, namespace: there}"],
                "{name: a}",
                false,
            ),
            (
                "exact namespace",
                &["{name: a, namespace: here}", "{name: a, namespace: there}"],
                "{name: a, namespace: there}",
                true,
            ),
            ("other namespace", &["{name: a, namespace: here}"], "{name: a, namespace: there}", false),
            ("generated names", &["{generateName: a-}"], "{generateName: a-}", false),
        ] {
            let new = documents(&object(new))[0].tree.to_value();
            assert_eq!(Previous::new(&stored(old)).of(&new).is_some(), found, "{name}");
        }
    }

    #[test]
    fn texts_of_paths_find_their_line() {
        let documents = documents("spec:\n  labels:\n    a/b.c: x\n  list:\n  - key: a\n  - key: b\n");
        let tree = &documents[0].tree;
        for (text, line) in [
            ("", 1),
            ("spec.labels[a/b.c]", 3),
            ("spec.list[1].key", 6),
            ("spec.list[7].key", 4),
            ("spec.list[x]", 4),
            ("spec.nothing[0].else", 1),
            ("[", 1),
            ("[[..]", 1),
            ("...", 1),
        ] {
            assert_eq!(tree.line_of(&document_path(tree, text)), line, "{text:?}");
        }
    }
}
