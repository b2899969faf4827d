//! From bytes to an object: JSON, the right kind, no unknown fields.

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{Call, FieldValidation, State, events};
use crate::json::{self, Parsed};
use crate::shape::Shape;
use crate::status::{Cause, Failure};
use crate::typed::{self, json_type};

/// The body of a request and what it claims to be.
#[derive(Debug, Default)]
pub(crate) struct Content {
    /// Without parameters.
    pub(crate) media_type: String,
    pub(crate) bytes: Bytes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl Content {
    pub(crate) fn patch_type(&self) -> Option<PatchType> {
        match self.media_type.as_str() {
            "application/json-patch+json" => Some(PatchType::Json),
            "application/merge-patch+json" => Some(PatchType::Merge),
            "application/strategic-merge-patch+json" => Some(PatchType::Strategic),
            "application/apply-patch+yaml" | "application/apply-patch+json" => Some(PatchType::Apply),
            _ => None,
        }
    }

    pub(crate) fn parse(&self) -> Result<Value, String> {
        self.parse_strictly().map(|parsed| parsed.value)
    }

    /// Also tells of fields that are there twice.
    fn parse_strictly(&self) -> Result<Parsed, String> {
        if self.media_type.ends_with("yaml") && self.bytes.first() != Some(&b'{') {
            let text = std::str::from_utf8(&self.bytes).map_err(|e| e.to_string())?;
            let value = serde_saphyr::from_str(text).map_err(|e| e.to_string())?;
            return Ok(Parsed { value, duplicates: Vec::new() });
        }
        json::parse(&self.bytes)
    }
}

/// An object and what was odd about it.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

impl State {
    /// The object in the body of a create or update.
    pub(super) fn decode(&self, call: &Call) -> Result<Decoded, Failure> {
        let media = call.content.media_type.as_str();
        if !matches!(media, "" | "application/json" | "application/yaml") {
            return Err(Failure::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
            ));
        }
        let kind = &call.kind.kind;
        let Parsed { mut value, duplicates } = call.content.parse_strictly().map_err(|e| {
            let text = String::from_utf8_lossy(&call.content.bytes);
            let text: String = text.chars().take(1024).collect();
            Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: {e} ({text})"
            ))
        })?;
        if value.is_null() {
            value = Value::Object(Map::new());
        }
        if !value.is_object() {
            let digit = |n: u8| char::from_digit(u32::from(n), 16).unwrap_or_default();
            let hex: String =
                call.content.bytes.iter().take(1024).flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect();
            return Err(Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }} ({hex})",
                json_type(&value)
            )));
        }
        self.check_type(call, &value)?;
        let warnings: Vec<String> = duplicates.iter().map(|field| format!("duplicate field {field:?}")).collect();
        if !warnings.is_empty() && call.field_validation()? == FieldValidation::Strict {
            return Err(cannot_be_handled(call, &format!("strict decoding error: {}", warnings.join(", "))));
        }
        let mut decoded = self.conform(call, value, &|call, mismatch| cannot_be_handled(call, mismatch))?;
        if call.field_validation()? == FieldValidation::Warn {
            decoded.warnings.splice(0..0, warnings);
        }
        Ok(decoded)
    }

    fn check_type(&self, call: &Call, value: &Value) -> Result<(), Failure> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let (version, kind) = (text("apiVersion"), text("kind"));
        let wanted = call.kind.api_version();
        if call.kind.crd {
            if kind.is_empty() || version.is_empty() {
                let missing = if kind.is_empty() { "Kind" } else { "apiVersion" };
                return Err(Failure::bad_request(format!(
                    "the object provided is unrecognized (must be of type {}): Object '{missing}' is missing in '{value}'",
                    call.kind.kind
                )));
            }
            if version != wanted {
                return Err(Failure::bad_request(format!(
                    "the API version in the data ({version}) does not match the expected API version ({wanted})"
                )));
            }
            if kind != call.kind.kind {
                let name = value["metadata"]["name"].as_str().unwrap_or_default();
                let cause = Cause::invalid("kind", &kind.into(), &format!("must be {}", call.kind.kind));
                return Err(Failure::invalid_kind(&call.kind.group, kind, name, &[cause]));
            }
            return Ok(());
        }
        if (version.is_empty() || version == wanted) && (kind.is_empty() || kind == call.kind.kind) {
            return Ok(());
        }
        let (group, own) = version.split_once('/').unwrap_or(("", version));
        let kind = if kind.is_empty() { &call.kind.kind } else { kind };
        let why = if self.registry.by_kind(group, own, kind).is_some() {
            format!("converting ({own}.{kind}) to (core.{}): unknown conversion", call.kind.kind)
        } else {
            format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"")
        };
        Err(Failure::bad_request(format!("{kind} in version {own:?} cannot be handled as a {}: {why}", call.kind.kind)))
    }

    /// Brings an object into the form in which it is stored, with all that was unknown taken out. `refuse` words a value of
    /// the wrong type.
    pub(super) fn conform(
        &self,
        call: &Call,
        mut object: Value,
        refuse: &dyn Fn(&Call, &str) -> Failure,
    ) -> Result<Decoded, Failure> {
        let validation = call.field_validation()?;
        if let Value::Object(map) = &mut object {
            map.insert("apiVersion".to_owned(), call.kind.api_version().into());
            map.insert("kind".to_owned(), call.kind.kind.clone().into());
            match map.get("metadata") {
                None | Some(Value::Null) => {
                    map.insert("metadata".to_owned(), Value::Object(Map::new()));
                }
                _ => {}
            }
        }
        let unknown = if call.kind.crd {
            self.conform_custom(call, &mut object, refuse)?
        } else {
            conform_builtin(call, &mut object, refuse)?
        };
        let warnings: Vec<String> = unknown.iter().map(|field| format!("unknown field {field:?}")).collect();
        match validation {
            FieldValidation::Strict if !warnings.is_empty() => {
                Err(refuse(call, &format!("strict decoding error: {}", warnings.join(", "))))
            }
            FieldValidation::Ignore => Ok(Decoded { object, warnings: Vec::new() }),
            _ => Ok(Decoded { object, warnings }),
        }
    }

    fn conform_custom(
        &self,
        call: &Call,
        object: &mut Value,
        refuse: &dyn Fn(&Call, &str) -> Failure,
    ) -> Result<Vec<String>, Failure> {
        let Some(metadata) = object.get_mut("metadata") else { return Ok(Vec::new()) };
        let findings = typed::normalise_metadata(metadata);
        if let Some(mismatch) = findings.mismatch {
            return Err(refuse(call, &mismatch));
        }
        let mut unknown = findings.unknown;
        let version = self.custom.get(&call.kind.qualified()).and_then(|c| c.versions.get(&call.kind.version));
        if let Some(schema) = version.and_then(|v| v.schema.as_ref()) {
            unknown.extend(schema.prune(object).iter().map(ToString::to_string));
            schema.default(object);
        }
        if let Some(version) = version {
            prune_embedded(&version.shape, object, true);
        }
        unknown.sort();
        Ok(unknown)
    }
}

/// Takes unknown fields out of the metadata of objects inside of objects.
fn prune_embedded(shape: &Shape, value: &mut Value, root: bool) {
    let Shape::Custom(node) = shape else {
        if !root {
            typed::normalise_metadata(value);
        }
        return;
    };
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut().filter(|(name, _)| !(root && *name == "metadata")) {
                if node.fields.contains_key(name) || node.element.is_some() {
                    prune_embedded(&shape.child(name), value, false);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prune_embedded(&shape.element(), item, false)),
        _ => {}
    }
}

fn conform_builtin(
    call: &Call,
    object: &mut Value,
    refuse: &dyn Fn(&Call, &str) -> Failure,
) -> Result<Vec<String>, Failure> {
    let kind = &call.kind;
    let shape = crate::shape::of_kind(&kind.group, &kind.version, &kind.kind).unwrap_or_else(crate::shape::any);
    let findings = typed::normalise(&shape, object, &kind.kind);
    if let Some(mismatch) = findings.mismatch {
        return Err(refuse(call, &mismatch));
    }
    if kind.group == "events.k8s.io" {
        events::to_core(object);
    }
    crate::kinds::set_defaults(kind, object);
    Ok(findings.unknown)
}

fn cannot_be_handled(call: &Call, why: &str) -> Failure {
    let kind = &call.kind.kind;
    Failure::bad_request(format!("{kind} in version {:?} cannot be handled as a {kind}: {why}", call.kind.version))
}
