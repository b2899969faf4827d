//! Shapes of built-in kinds, from the recorded schemas.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

use super::{Field, ListKind, Node, NodeKind, Shape, read_keywords};
use crate::openapi::recorded::recorded;

const REFERENCE: &str = "#/components/schemas/";

struct Arena {
    nodes: Vec<Node>,
    /// By name of the schema.
    named: BTreeMap<&'static str, usize>,
}

static ARENA: LazyLock<Arena> = LazyLock::new(|| {
    let schemas = &recorded().schemas;
    let named = schemas.keys().enumerate().map(|(i, name)| (name.as_str(), i)).collect();
    let mut arena = Arena { nodes: vec![Node::new(NodeKind::Any); schemas.len()], named };
    for (i, (name, schema)) in schemas.iter().enumerate() {
        arena.nodes[i] = arena.build(name, schema);
    }
    arena
});

pub(super) fn node(index: usize) -> &'static Node {
    &ARENA.nodes[index]
}

/// The shape of a built-in kind.
pub(crate) fn of_kind(group: &str, version: &str, kind: &str) -> Option<Shape> {
    let name = recorded().names.get(&(group.to_owned(), version.to_owned(), kind.to_owned()))?;
    ARENA.named.get(name.as_str()).copied().map(Shape::Builtin)
}

/// The shape of `metadata`.
pub(crate) fn metadata() -> Shape {
    let found = ARENA.named.get("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").copied();
    found.map_or_else(super::any, Shape::Builtin)
}

fn referred(schema: &'static Value) -> Option<&'static str> {
    let direct = schema.get("$ref").or_else(|| schema.get("allOf")?.get(0)?.get("$ref"));
    direct.and_then(Value::as_str)?.strip_prefix(REFERENCE)
}

impl Arena {
    fn build(&mut self, name: &str, schema: &'static Value) -> Node {
        let kind = match name {
            _ if name.ends_with(".Quantity") => NodeKind::Quantity,
            _ if name.ends_with("meta.v1.Time") => NodeKind::Time,
            _ if name.ends_with(".MicroTime") => NodeKind::MicroTime,
            _ if name.ends_with(".IntOrString") => NodeKind::IntOrString,
            _ => kind_of(schema),
        };
        let mut node = Node::new(kind);
        node.go = if name.is_empty() { go_type(schema) } else { go_name(name) };
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let text = |key: &str| property.get(key).and_then(Value::as_str);
            let strategies: Vec<&str> =
                text("x-kubernetes-patch-strategy").map(|s| s.split(',').collect()).unwrap_or_default();
            let field = Field {
                shape: self.shape(property),
                default: property.get("default").cloned(),
                required: required.contains(&name.as_str()),
                merge_key: text("x-kubernetes-patch-merge-key").map(str::to_owned),
                merge: strategies.contains(&"merge"),
            };
            node.fields.insert(name.clone(), field);
        }
        let element = schema.get("items").or_else(|| schema.get("additionalProperties"));
        node.element = element.map(|element| self.shape(element));
        read_keywords(&mut node, schema);
        default_list_kind(&mut node, schema);
        node
    }

    fn shape(&mut self, schema: &'static Value) -> Shape {
        if let Some(name) = referred(schema)
            && let Some(index) = self.named.get(name).copied()
        {
            if schema.get("x-kubernetes-map-type").and_then(Value::as_str) != Some("atomic") {
                return Shape::Builtin(index);
            }
            // The field is atomic although its type is not.
            let mut node = self.build(name, &recorded().schemas[name]);
            node.atomic = true;
            return self.push(node);
        }
        let node = self.build("", schema);
        self.push(node)
    }

    fn push(&mut self, node: Node) -> Shape {
        self.nodes.push(node);
        Shape::Builtin(self.nodes.len() - 1)
    }
}

/// Lists without a list type that are merged by patches have keys for server-side apply as well.
fn default_list_kind(node: &mut Node, schema: &Value) {
    if node.kind == NodeKind::List
        && schema.get("x-kubernetes-list-type").is_none()
        && schema.get("x-kubernetes-patch-strategy").and_then(Value::as_str).is_some_and(|s| s.contains("merge"))
    {
        node.list = match schema.get("x-kubernetes-patch-merge-key").and_then(Value::as_str) {
            Some(key) => ListKind::Keys(vec![key.to_owned()]),
            None => ListKind::Set,
        };
    }
}

/// `v1.PodSpec`
fn go_name(schema: &str) -> String {
    let mut parts = schema.rsplit('.');
    let (name, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("{package}.{name}")
}

/// `[]v1.Container`
fn go_type(schema: &'static Value) -> String {
    if let Some(name) = referred(schema) {
        return go_name(name);
    }
    let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "integer" if text("format").is_empty() => "int".to_owned(),
        "integer" => text("format").to_owned(),
        "boolean" => "bool".to_owned(),
        "number" => "float64".to_owned(),
        "array" => format!("[]{}", schema.get("items").map(go_type).unwrap_or_default()),
        "object" => format!("map[string]{}", schema.get("additionalProperties").map(go_type).unwrap_or_default()),
        other => other.to_owned(),
    }
}

fn kind_of(schema: &Value) -> NodeKind {
    match schema.get("type").and_then(Value::as_str) {
        Some("string") if schema.get("format").and_then(Value::as_str) == Some("int-or-string") => {
            NodeKind::IntOrString
        }
        Some("string") => NodeKind::String,
        Some("integer") => NodeKind::Integer,
        Some("number") => NodeKind::Number,
        Some("boolean") => NodeKind::Boolean,
        Some("array") => NodeKind::List,
        Some("object") if schema.get("properties").is_some() => NodeKind::Struct,
        Some("object") if schema.get("additionalProperties").is_some() => NodeKind::Map,
        _ => NodeKind::Any,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_pods_have_their_keys() {
        let containers = of_kind("", "v1", "Pod").unwrap().child("spec").child("containers");
        assert_eq!(containers.node().list, ListKind::Keys(vec!["name".to_owned()]));
        let resources = containers.element().child("resources");
        assert_eq!(resources.child("requests").element().node().kind, NodeKind::Quantity);
        let selector = of_kind("apps", "v1", "Deployment").unwrap().child("spec").child("selector");
        assert!(selector.node().atomic);
        assert_eq!(metadata().child("finalizers").node().list, ListKind::Set);
    }

    #[test]
    fn recursive_schemas_end() {
        let versions =
            of_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").unwrap().child("spec").child("versions");
        let schema = versions.element().child("schema").child("openAPIV3Schema");
        assert_eq!(schema.child("properties").element().child("properties").node().kind, NodeKind::Map);
    }
}
