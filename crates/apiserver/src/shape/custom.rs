//! Shapes of custom resources, from the structural schema of their CRD.

use std::sync::Arc;

use serde_json::Value;

use super::{Field, ListKind, Node, NodeKind, Shape, any, metadata, read_keywords};

/// The shape of objects with this `openAPIV3Schema`.
pub(crate) fn of_schema(schema: &Value) -> Shape {
    let mut root = build(schema);
    add_type_and_metadata(&mut root);
    Shape::Custom(Arc::new(root))
}

fn add_type_and_metadata(node: &mut Node) {
    if node.kind == NodeKind::Any {
        node.kind = NodeKind::Struct;
        node.element = Some(any());
    }
    for name in ["apiVersion", "kind"] {
        node.fields
            .entry(name.to_owned())
            .or_insert_with(|| field(Shape::Custom(Arc::new(Node::new(NodeKind::String)))));
    }
    node.fields.insert("metadata".to_owned(), field(metadata()));
}

fn field(shape: Shape) -> Field {
    Field { shape, default: None, required: false, merge_key: None, merge: false }
}

fn build(schema: &Value) -> Node {
    let flag = |key: &str| schema.get(key).and_then(Value::as_bool) == Some(true);
    let has = |key: &str| schema.get(key).is_some_and(Value::is_object);
    let kind = match schema.get("type").and_then(Value::as_str) {
        _ if flag("x-kubernetes-int-or-string") => NodeKind::IntOrString,
        Some("string") => NodeKind::String,
        Some("integer") => NodeKind::Integer,
        Some("number") => NodeKind::Number,
        Some("boolean") => NodeKind::Boolean,
        Some("array") => NodeKind::List,
        Some("object") if has("properties") => NodeKind::Struct,
        Some("object") if has("additionalProperties") => NodeKind::Map,
        Some("object") if !flag("x-kubernetes-preserve-unknown-fields") && !flag("x-kubernetes-embedded-resource") => {
            NodeKind::Struct
        }
        _ => NodeKind::Any,
    };
    let mut node = Node::new(kind);
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let described =
            Field { default: property.get("default").cloned(), ..field(Shape::Custom(Arc::new(build(property)))) };
        node.fields.insert(name.clone(), described);
    }
    if let Some(element) = schema.get("items").or_else(|| schema.get("additionalProperties").filter(|a| a.is_object()))
    {
        node.element = Some(Shape::Custom(Arc::new(build(element))));
    } else if flag("x-kubernetes-preserve-unknown-fields") {
        node.element = Some(any());
    }
    read_keywords(&mut node, schema);
    if kind != NodeKind::List {
        node.list = ListKind::Atomic;
    }
    if flag("x-kubernetes-embedded-resource") {
        add_type_and_metadata(&mut node);
    }
    node
}
