//! The shape of objects as merging sees it: which lists have keys, what is atomic, which fields there are.
//!
//! Built-in kinds take it from the recorded schemas, custom ones from their CRD.

mod builtin;
mod custom;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub(crate) use builtin::{metadata, of_kind};
pub(crate) use custom::of_schema;

/// A part of the shape of an object.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: NodeKind,
    /// By name; only for [`NodeKind::Struct`].
    pub(crate) fields: BTreeMap<String, Field>,
    /// Of the items of a list or the values of a map.
    pub(crate) element: Option<Shape>,
    /// Written and owned as a whole.
    pub(crate) atomic: bool,
    pub(crate) list: ListKind,
    /// The type in the real server's source, for messages; empty for custom resources.
    pub(crate) go: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
    /// Text that the server brings into a canonical form.
    Quantity,
    Time,
    MicroTime,
    /// Fields with names.
    Struct,
    /// Any keys.
    Map,
    List,
    /// Nothing is known: the value decides.
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListKind {
    Atomic,
    Set,
    /// Items are told apart by these fields.
    Keys(Vec<String>),
}

#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) shape: Shape,
    pub(crate) default: Option<Value>,
    pub(crate) required: bool,
    /// `x-kubernetes-patch-merge-key`
    pub(crate) merge_key: Option<String>,
    /// `x-kubernetes-patch-strategy`
    pub(crate) merge: bool,
}

/// A reference to a [`Node`]: built-in ones are shared and may be recursive.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    Builtin(usize),
    Custom(Arc<Node>),
}

impl Shape {
    pub(crate) fn node(&self) -> &Node {
        match self {
            Self::Builtin(index) => builtin::node(*index),
            Self::Custom(node) => node,
        }
    }

    /// Of a field or of a map's value.
    pub(crate) fn child(&self, name: &str) -> Shape {
        let node = self.node();
        match node.fields.get(name) {
            Some(field) => field.shape.clone(),
            None => self.element(),
        }
    }

    /// Of the items of a list or values of a map.
    pub(crate) fn element(&self) -> Shape {
        self.node().element.clone().unwrap_or_else(any)
    }

    pub(crate) fn has_field(&self, name: &str) -> bool {
        self.node().fields.contains_key(name)
    }

    /// How a value is taken apart.
    pub(crate) fn form(&self, value: &Value) -> Form {
        let node = self.node();
        match (value, node.kind) {
            (Value::Object(_), NodeKind::Struct | NodeKind::Map | NodeKind::Any)
            // Null takes the form of whatever it is compared with.
            | (Value::Null, NodeKind::Struct | NodeKind::Map)
                if !node.atomic =>
            {
                Form::Map
            }
            (Value::Array(_) | Value::Null, NodeKind::List) if node.list != ListKind::Atomic => Form::List,
            _ => Form::Leaf,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Leaf,
    Map,
    List,
}

impl Node {
    pub(crate) fn new(kind: NodeKind) -> Self {
        Self { kind, fields: BTreeMap::new(), element: None, atomic: false, list: ListKind::Atomic, go: String::new() }
    }
}

/// The shape of what is not described.
pub(crate) fn any() -> Shape {
    Shape::Custom(Arc::new(Node::new(NodeKind::Any)))
}

/// What both sorts of schemas say about lists and maps.
fn read_keywords(node: &mut Node, schema: &Value) {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => node.list = ListKind::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            node.list = ListKind::Keys(keys.filter_map(Value::as_str).map(str::to_owned).collect());
        }
        _ => {}
    }
    if schema.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic") {
        node.atomic = true;
    }
}
