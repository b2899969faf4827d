//! Sets of fields, and their form in `managedFields`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

use serde_json::{Map, Value, json};

use crate::shape::{NodeKind, Shape};

/// One step of a path. Keys and values are kept as JSON, so that they compare and print without ado.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    Field(String),
    /// An item of a list by its key fields.
    Key(String),
    /// An item of a set.
    Value(String),
}

impl Element {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("f", name) => Some(Self::Field(name.to_owned())),
            ("k", json) => Some(Self::Key(canonical(json)?)),
            ("v", json) => Some(Self::Value(canonical(json)?)),
            _ => None,
        }
    }
}

fn canonical(json: &str) -> Option<String> {
    Some(serde_json::from_str::<Value>(json).ok()?.to_string())
}

impl Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, "f:{name}"),
            Self::Key(json) => write!(f, "k:{json}"),
            Self::Value(json) => write!(f, "v:{json}"),
        }
    }
}

/// A path as messages print it: `.spec.containers[name="a"].image`.
pub(crate) fn path_text(path: &[Element]) -> String {
    let mut text = String::new();
    for element in path {
        match element {
            Element::Field(name) => text.extend([".", name]),
            Element::Value(json) => text.extend(["[=", json, "]"]),
            Element::Key(json) => {
                let keys: Map<String, Value> = serde_json::from_str(json).unwrap_or_default();
                let keys: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
                text.extend(["[", &keys.join(","), "]"]);
            }
        }
    }
    text
}

/// Paths of an object. A path can be a member, have members below it, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Set {
    members: BTreeSet<Element>,
    children: BTreeMap<Element, Set>,
}

impl Set {
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    pub(crate) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// From paths like `metadata.name`.
    pub(crate) fn of_fields(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let elements: Vec<Element> = path.split('.').map(|name| Element::Field(name.to_owned())).collect();
            set.insert(&elements);
        }
        set
    }

    pub(crate) fn has(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    pub(crate) fn below(&self, element: &Element) -> Option<&Set> {
        self.children.get(element)
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.extend(other);
        all
    }

    fn extend(&mut self, other: &Self) {
        self.members.extend(other.members.iter().cloned());
        for (element, set) in &other.children {
            self.children.entry(element.clone()).or_default().extend(set);
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let pairs = self.children.iter().filter_map(|(e, set)| Some((e, set, other.children.get(e)?)));
        Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: kept(pairs.map(|(e, a, b)| (e.clone(), a.intersection(b)))),
        }
    }

    pub(crate) fn difference(&self, other: &Self) -> Self {
        let left = |(e, set): (&Element, &Set)| {
            (e.clone(), other.children.get(e).map_or_else(|| set.clone(), |o| set.difference(o)))
        };
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: kept(self.children.iter().map(left)),
        }
    }

    /// Takes away the other's members with all that is below them.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let left = |(e, set): (&Element, &Set)| {
            (e.clone(), other.children.get(e).map_or_else(|| set.clone(), |o| set.without(o)))
        };
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: kept(self.children.iter().filter(|(e, _)| !other.members.contains(e)).map(left)),
        }
    }

    /// Named fields that have members below them become members: they exist, whoever made them.
    pub(crate) fn with_named_fields(&self, shape: &Shape) -> Self {
        let mut members = self.members.clone();
        let mut children = BTreeMap::new();
        for (element, set) in &self.children {
            let child = match element {
                Element::Field(name) => {
                    if shape.node().kind == NodeKind::Struct && shape.has_field(name) {
                        members.insert(element.clone());
                    }
                    shape.child(name)
                }
                Element::Key(_) | Element::Value(_) => shape.element(),
            };
            children.insert(element.clone(), set.with_named_fields(&child));
        }
        Self { members, children }
    }

    /// All member paths in order.
    pub(crate) fn paths(&self) -> Vec<Vec<Element>> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    fn collect(&self, prefix: &mut Vec<Element>, found: &mut Vec<Vec<Element>>) {
        let elements: BTreeSet<&Element> = self.members.iter().chain(self.children.keys()).collect();
        for element in elements {
            prefix.push(element.clone());
            if self.members.contains(element) {
                found.push(prefix.clone());
            }
            if let Some(set) = self.children.get(element) {
                set.collect(prefix, found);
            }
            prefix.pop();
        }
    }

    /// `fieldsV1`
    pub(crate) fn encode(&self) -> Value {
        let mut map = Map::new();
        for element in &self.members {
            map.insert(element.to_string(), json!({}));
        }
        for (element, set) in &self.children {
            let mut value = set.encode();
            if self.members.contains(element)
                && let Value::Object(inner) = &mut value
            {
                inner.insert(".".to_owned(), json!({}));
            }
            map.insert(element.to_string(), value);
        }
        Value::Object(map)
    }

    /// From `fieldsV1`. `None` for what is not understood.
    pub(crate) fn decode(value: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (key, inner) in value.as_object()? {
            if key == "." {
                continue;
            }
            let element = Element::parse(key)?;
            let map = inner.as_object()?;
            if map.is_empty() || map.contains_key(".") {
                set.members.insert(element.clone());
            }
            if map.keys().any(|k| k != ".") {
                set.children.insert(element, Self::decode(inner)?);
            }
        }
        Some(set)
    }
}

fn kept(children: impl Iterator<Item = (Element, Set)>) -> BTreeMap<Element, Set> {
    children.filter(|(_, set)| !set.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_survive_their_text_form() {
        let text = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:finalizers": {"v:\"x/y\"": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}},
        });
        let set = Set::decode(&text).unwrap();
        assert_eq!(set.encode(), text);
        let paths: Vec<String> = set.paths().iter().map(|p| path_text(p)).collect();
        assert_eq!(
            paths,
            [
                ".metadata.finalizers[=\"x/y\"]",
                ".metadata.labels",
                ".metadata.labels.a",
                ".spec.ports[port=80,protocol=\"TCP\"]",
                ".spec.ports[port=80,protocol=\"TCP\"].port"
            ]
        );
        assert!(Set::decode(&json!({"x:a": {}})).is_none());
    }

    #[test]
    fn sets_are_added_and_taken_away() {
        let a = Set::of_fields(&["spec.a", "spec.b", "meta"]);
        let b = Set::of_fields(&["spec.b", "spec.c"]);
        assert_eq!(a.intersection(&b), Set::of_fields(&["spec.b"]));
        assert_eq!(a.difference(&b), Set::of_fields(&["spec.a", "meta"]));
        assert_eq!(a.union(&b), Set::of_fields(&["spec.a", "spec.b", "spec.c", "meta"]));
        assert_eq!(a.without(&Set::of_fields(&["spec"])), Set::of_fields(&["meta"]));
        assert_eq!(a.difference(&Set::of_fields(&["spec"])), a);
    }
}
