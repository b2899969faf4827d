//! From the JSON of a schema to the form that the passes walk.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;
use serde_json::{Map, Value};

use crate::rules::Rules;
use crate::{pattern, rules};

/// A compiled schema, for any number of objects.
#[derive(Debug)]
pub struct Schema {
    pub(crate) root: Node,
    /// Whether there is any CEL rule.
    pub(crate) has_rules: bool,
    /// Whether the value is a whole object, with type and metadata that no schema needs to mention.
    pub(crate) resource: bool,
}

/// Why a schema cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    #[error("{at}: a schema must be an object")]
    NotAnObject { at: String },
    #[error("{at}: nested deeper than {limit} levels")]
    TooDeep { at: String, limit: usize },
    #[error("{at}.{keyword}: unexpected value {value}")]
    Keyword { at: String, keyword: &'static str, value: Value },
    #[error("{at}.pattern: not a regular expression")]
    Pattern { at: String, source: Box<regex::Error> },
    #[error("{at}.x-kubernetes-validations: {reason}")]
    Rule { at: String, reason: String },
}

/// Deeper schemas are refused; `kube-cel` has the same bound, and recursion stays well inside a stack.
const MAX_DEPTH: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    /// Elements are objects told apart by these fields.
    Map(Vec<String>),
}

#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) kind: Option<Type>,
    pub(crate) int_or_string: bool,
    pub(crate) nullable: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Node>,
    pub(crate) additional: Option<Box<Node>>,
    pub(crate) items: Option<Box<Node>>,
    pub(crate) list: ListType,
    pub(crate) checks: Checks,
    pub(crate) rules: Option<Rules>,
}

/// What is checked about a value apart from its type.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) required: BTreeSet<String>,
    pub(crate) one_of: Option<Vec<Value>>,
    pub(crate) pattern: Option<(String, Regex)>,
    pub(crate) format: Option<String>,
    pub(crate) minimum: Option<Bound>,
    pub(crate) maximum: Option<Bound>,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) exactly_one_of: Vec<Node>,
    pub(crate) not: Option<Box<Node>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) value: f64,
    pub(crate) text: String,
    pub(crate) exclusive: bool,
}

impl Schema {
    /// Compiles the `openAPIV3Schema` of a CRD version.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let mut compiler = Compiler::default();
        let root = compiler.node(schema, "openAPIV3Schema", 0)?;
        Ok(Self { root, has_rules: compiler.has_rules, resource: true })
    }

    /// Compiles the schema of a value that is not a Kubernetes object itself.
    pub fn compile_fragment(schema: &Value) -> Result<Self, SchemaError> {
        Ok(Self { resource: false, ..Self::compile(schema)? })
    }
}

#[derive(Debug, Default)]
struct Compiler {
    has_rules: bool,
}

impl Compiler {
    fn node(&mut self, schema: &Value, at: &str, depth: usize) -> Result<Node, SchemaError> {
        let Value::Object(map) = schema else { return Err(SchemaError::NotAnObject { at: at.to_owned() }) };
        if depth > MAX_DEPTH {
            return Err(SchemaError::TooDeep { at: at.to_owned(), limit: MAX_DEPTH });
        }
        let read = Reader { map, at };
        let mut node = Node {
            kind: read.kind()?,
            int_or_string: read.flag("x-kubernetes-int-or-string")?,
            nullable: read.flag("nullable")?,
            preserve_unknown: read.flag("x-kubernetes-preserve-unknown-fields")?,
            embedded_resource: read.flag("x-kubernetes-embedded-resource")?,
            default: map.get("default").cloned(),
            list: read.list_type()?,
            ..Node::default()
        };
        if let Some(properties) = read.object("properties")? {
            for (name, child) in properties {
                node.properties.insert(name.clone(), self.node(child, &format!("{at}.properties[{name}]"), depth + 1)?);
            }
        }
        match map.get("additionalProperties") {
            None | Some(Value::Bool(false)) => {}
            // Anything goes below, as with preserve-unknown-fields, but keys are map keys.
            Some(Value::Bool(true)) => {
                node.additional = Some(Box::new(Node { preserve_unknown: true, ..Node::default() }));
            }
            Some(child) => {
                node.additional = Some(Box::new(self.node(child, &format!("{at}.additionalProperties"), depth + 1)?));
            }
        }
        if let Some(child) = map.get("items") {
            node.items = Some(Box::new(self.node(child, &format!("{at}.items"), depth + 1)?));
        }
        node.checks = self.checks(&read, depth)?;
        if map.contains_key("x-kubernetes-validations") {
            let compiled = rules::compile(schema).map_err(|reason| SchemaError::Rule { at: at.to_owned(), reason })?;
            self.has_rules = true;
            node.rules = Some(compiled);
        }
        Ok(node)
    }

    fn checks(&mut self, read: &Reader<'_>, depth: usize) -> Result<Checks, SchemaError> {
        Ok(Checks {
            required: read.strings("required")?.into_iter().collect(),
            one_of: read.array("enum")?.cloned(),
            pattern: read.pattern()?,
            format: read.string("format")?.map(str::to_owned),
            minimum: read.bound("minimum", "exclusiveMinimum")?,
            maximum: read.bound("maximum", "exclusiveMaximum")?,
            multiple_of: read.number("multipleOf")?,
            min_length: read.count("minLength")?,
            max_length: read.count("maxLength")?,
            min_items: read.count("minItems")?,
            max_items: read.count("maxItems")?,
            min_properties: read.count("minProperties")?,
            max_properties: read.count("maxProperties")?,
            all_of: self.branches(read, "allOf", depth)?,
            any_of: self.branches(read, "anyOf", depth)?,
            exactly_one_of: self.branches(read, "oneOf", depth)?,
            not: match read.map.get("not") {
                None => None,
                Some(child) => Some(Box::new(self.node(child, &format!("{}.not", read.at), depth + 1)?)),
            },
        })
    }

    fn branches(&mut self, read: &Reader<'_>, keyword: &'static str, depth: usize) -> Result<Vec<Node>, SchemaError> {
        let branches = read.array(keyword)?.map(Vec::as_slice).unwrap_or_default();
        branches
            .iter()
            .enumerate()
            .map(|(i, child)| self.node(child, &format!("{}.{keyword}[{i}]", read.at), depth + 1))
            .collect()
    }
}

/// Typed access to the keywords of one schema node.
struct Reader<'a> {
    map: &'a Map<String, Value>,
    at: &'a str,
}

impl<'a> Reader<'a> {
    fn get<T>(&self, keyword: &'static str, read: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>, SchemaError> {
        let Some(value) = self.map.get(keyword) else { return Ok(None) };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(self.unexpected(keyword, value)),
        }
    }

    fn unexpected(&self, keyword: &'static str, value: &Value) -> SchemaError {
        SchemaError::Keyword { at: self.at.to_owned(), keyword, value: value.clone() }
    }

    fn flag(&self, keyword: &'static str) -> Result<bool, SchemaError> {
        Ok(self.get(keyword, Value::as_bool)?.unwrap_or(false))
    }

    fn string(&self, keyword: &'static str) -> Result<Option<&'a str>, SchemaError> {
        self.get(keyword, Value::as_str)
    }

    fn count(&self, keyword: &'static str) -> Result<Option<u64>, SchemaError> {
        self.get(keyword, Value::as_u64)
    }

    fn number(&self, keyword: &'static str) -> Result<Option<f64>, SchemaError> {
        self.get(keyword, Value::as_f64)
    }

    fn array(&self, keyword: &'static str) -> Result<Option<&'a Vec<Value>>, SchemaError> {
        self.get(keyword, Value::as_array)
    }

    fn object(&self, keyword: &'static str) -> Result<Option<&'a Map<String, Value>>, SchemaError> {
        self.get(keyword, Value::as_object)
    }

    fn strings(&self, keyword: &'static str) -> Result<Vec<String>, SchemaError> {
        let list = |value: &'a Value| {
            value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        Ok(self.get(keyword, list)?.unwrap_or_default())
    }

    fn kind(&self) -> Result<Option<Type>, SchemaError> {
        self.get("type", |value| match value.as_str()? {
            "object" => Some(Type::Object),
            "array" => Some(Type::Array),
            "string" => Some(Type::String),
            "integer" => Some(Type::Integer),
            "number" => Some(Type::Number),
            "boolean" => Some(Type::Boolean),
            _ => None,
        })
    }

    fn list_type(&self) -> Result<ListType, SchemaError> {
        let keys = self.strings("x-kubernetes-list-map-keys")?;
        let list = self.get("x-kubernetes-list-type", |value| match value.as_str()? {
            "atomic" => Some(ListType::Atomic),
            "set" => Some(ListType::Set),
            "map" => Some(ListType::Map(keys.clone())),
            _ => None,
        })?;
        Ok(list.unwrap_or_default())
    }

    fn pattern(&self) -> Result<Option<(String, Regex)>, SchemaError> {
        let Some(text) = self.string("pattern")? else { return Ok(None) };
        match pattern::compile(text) {
            Ok(regex) => Ok(Some((text.to_owned(), regex))),
            Err(source) => Err(SchemaError::Pattern { at: self.at.to_owned(), source: Box::new(source) }),
        }
    }

    fn bound(&self, keyword: &'static str, exclusive: &'static str) -> Result<Option<Bound>, SchemaError> {
        let exclusive = self.flag(exclusive)?;
        let bound = |value: &Value| Some(Bound { value: value.as_f64()?, text: value.to_string(), exclusive });
        self.get(keyword, bound)
    }
}
