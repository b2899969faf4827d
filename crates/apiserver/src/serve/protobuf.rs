//! Objects in the binary form that typed Go clients send: `kubectl create deployment`, the evictions of `kubectl drain`. It is
//! only read; all clients also read JSON answers.
//!
//! A body is the four bytes `k8s\0` and a message that names kind and version and holds the object's own message. Numbers and
//! types of fields are recorded with the schemas. Whatever does not fit is an error and never more than that.

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::openapi::recorded::recorded;

pub(crate) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8] = b"k8s\0";
/// Deeper than any real object; the schema of a schema refers to itself.
const DEPTH: usize = 64;
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// The object in its JSON form, or why the bytes are none.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    let body = body.strip_prefix(MAGIC).ok_or("provided data does not appear to be a protobuf message")?;
    let (mut type_meta, mut raw) = (&[][..], &[][..]);
    for part in parts(body) {
        match part? {
            (1, Wire::Bytes(bytes)) => type_meta = bytes,
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let (mut api_version, mut kind) = (String::new(), String::new());
    for part in parts(type_meta) {
        match part? {
            (1, Wire::Bytes(bytes)) => api_version = text(bytes)?,
            (2, Wire::Bytes(bytes)) => kind = text(bytes)?,
            _ => {}
        }
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let key = (group.to_owned(), version.to_owned(), kind.clone());
    let name =
        recorded().names.get(&key).ok_or_else(|| format!("no kind {kind:?} is registered for {api_version:?}"))?;
    let Value::Object(mut object) = message(name, raw, 0)? else { return Err(format!("{kind} is no object")) };
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    Ok(Value::Object(object))
}

enum Wire<'a> {
    Number(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

/// The fields of a message with their numbers. Ends after the first error.
fn parts(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u64, Wire<'_>), String>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let part = part(&mut bytes);
        if part.is_err() {
            bytes = &[];
        }
        Some(part)
    })
}

fn part<'a>(bytes: &mut &'a [u8]) -> Result<(u64, Wire<'a>), String> {
    let tag = number(bytes)?;
    let wire = match tag & 7 {
        0 => Wire::Number(number(bytes)?),
        1 => {
            let (eight, rest) = bytes.split_first_chunk::<8>().ok_or("unexpected end")?;
            *bytes = rest;
            Wire::Double(f64::from_le_bytes(*eight))
        }
        2 => {
            let length = usize::try_from(number(bytes)?).map_err(|e| e.to_string())?;
            let (content, rest) = bytes.split_at_checked(length).ok_or("unexpected end")?;
            *bytes = rest;
            Wire::Bytes(content)
        }
        other => return Err(format!("unknown wire type {other}")),
    };
    Ok((tag >> 3, wire))
}

fn number(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or("unexpected end")?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("a number is too long".to_owned())
}

fn text(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|e| e.to_string())
}

struct Field<'a> {
    name: &'a str,
    of: &'a str,
    how: &'a str,
}

fn field(message: &str, number: u64) -> Option<Field<'static>> {
    let fields = recorded().messages.get(message)?.as_array()?;
    let found = fields.iter().find(|f| f[0].as_u64() == Some(number))?;
    Some(Field { name: found[1].as_str()?, of: found[2].as_str()?, how: found[3].as_str()? })
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Value, String> {
    if depth > DEPTH {
        return Err("too deep".to_owned());
    }
    if let Some(special) = special(name, bytes)? {
        return Ok(special);
    }
    let mut object = Map::new();
    for part in parts(bytes) {
        let (number, wire) = part?;
        // Fields of a newer release are dropped, as unknown fields of JSON are.
        let Some(field) = field(name, number) else { continue };
        if field.how.contains('m') {
            let Wire::Bytes(entry) = wire else { return Err(format!("{} is no map", field.name)) };
            let (key, value) = map_entry(field.of, entry, depth)?;
            list_or_map(&mut object, field.name, json!({}))[&key] = value;
        } else if field.how.contains('r') {
            let items = repeated(field.of, wire, depth)?;
            if let Value::Array(list) = list_or_map(&mut object, field.name, json!([])) {
                list.extend(items);
            }
        } else {
            single(&mut object, &field, value(field.of, wire, depth)?);
        }
    }
    Ok(Value::Object(object))
}

/// Fields that are no pointers are always sent; their zero means that they are not set.
fn single(object: &mut Map<String, Value>, field: &Field<'_>, value: Value) {
    let zero = match &value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::String(s) => s.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    };
    match value {
        Value::Object(fields) if field.how.contains('i') => object.extend(fields),
        _ if zero && !field.how.contains('p') => {}
        value => drop(object.insert(field.name.to_owned(), value)),
    }
}

fn list_or_map<'a>(object: &'a mut Map<String, Value>, name: &str, empty: Value) -> &'a mut Value {
    object.entry(name).or_insert(empty)
}

fn map_entry(of: &str, entry: &[u8], depth: usize) -> Result<(String, Value), String> {
    let (mut key, mut found) = (String::new(), None);
    for part in parts(entry) {
        match part? {
            (1, Wire::Bytes(bytes)) => key = text(bytes)?,
            (2, wire) => found = Some(value(of, wire, depth)?),
            _ => {}
        }
    }
    let found = found.map_or_else(|| value(of, Wire::Bytes(&[]), depth), Ok)?;
    Ok((key, found))
}

/// Numbers may come one by one or packed together.
fn repeated(of: &str, wire: Wire<'_>, depth: usize) -> Result<Vec<Value>, String> {
    match wire {
        Wire::Bytes(mut packed) if ["int32", "int64", "bool"].contains(&of) => {
            let mut items = Vec::new();
            while !packed.is_empty() {
                items.push(value(of, Wire::Number(number(&mut packed)?), depth)?);
            }
            Ok(items)
        }
        wire => Ok(vec![value(of, wire, depth)?]),
    }
}

fn value(of: &str, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    Ok(match (of, wire) {
        ("string", Wire::Bytes(bytes)) => json!(text(bytes)?),
        ("bytes", Wire::Bytes(bytes)) => json!(base64::engine::general_purpose::STANDARD.encode(bytes)),
        ("bool", Wire::Number(n)) => json!(n != 0),
        ("int32" | "int64", Wire::Number(n)) => json!(n.cast_signed()),
        ("double", Wire::Double(n)) => json!(n),
        (name, Wire::Bytes(bytes)) if recorded().messages.contains_key(name) => message(name, bytes, depth + 1)?,
        (of, _) => return Err(format!("a field does not hold {of}")),
    })
}

/// Messages whose JSON is no object of their fields.
fn special(name: &str, bytes: &[u8]) -> Result<Option<Value>, String> {
    let at = |wanted: u64| -> Result<Option<Wire<'_>>, String> {
        let mut found = None;
        for part in parts(bytes) {
            let (number, wire) = part?;
            if number == wanted {
                found = Some(wire);
            }
        }
        Ok(found)
    };
    let integer = |wanted: u64| -> Result<i64, String> {
        Ok(if let Some(Wire::Number(n)) = at(wanted)? { n.cast_signed() } else { 0 })
    };
    let string = |wanted: u64| -> Result<String, String> {
        if let Some(Wire::Bytes(bytes)) = at(wanted)? { text(bytes) } else { Ok(String::new()) }
    };
    let short = name.rsplit('.').next().unwrap_or_default();
    Ok(Some(match short {
        "Quantity" => match string(1)?.as_str() {
            "" => json!("0"),
            quantity => json!(quantity),
        },
        // Without a value there is no time, not the year 1970.
        "Time" | "MicroTime" if name.starts_with(META) && bytes.is_empty() => Value::Null,
        "Time" if name.starts_with(META) => json!(time(integer(1)?, 0)?.to_string()),
        "MicroTime" if name.starts_with(META) => json!(format!("{:.6}", time(integer(1)?, integer(2)?)?)),
        "IntOrString" if integer(1)? == 0 => json!(integer(2)?),
        "IntOrString" => json!(string(3)?),
        "RawExtension" | "FieldsV1" | "JSON" => match string(1)?.as_str() {
            "" => Value::Null,
            raw => serde_json::from_str(raw).map_err(|e| e.to_string())?,
        },
        "ExtraValue" => {
            let texts = parts(bytes).map(|part| match part? {
                (1, Wire::Bytes(bytes)) => text(bytes).map(Value::from),
                _ => Err("a list of texts is something else".to_owned()),
            });
            Value::Array(texts.collect::<Result<_, String>>()?)
        }
        _ => return Ok(None),
    }))
}

fn time(seconds: i64, nanos: i64) -> Result<Timestamp, String> {
    let nanos = i32::try_from(nanos).map_err(|e| e.to_string())?;
    Timestamp::new(seconds, nanos).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sent by kubectl 1.35.2; the JSON is what the real server made of it, without what it added.
    #[test]
    fn bodies_of_kubectl_are_read() {
        let cases: Vec<Value> = serde_json::from_str(include_str!("protobuf/recorded.json")).unwrap();
        for case in &cases {
            let body = base64::engine::general_purpose::STANDARD.decode(case["body"].as_str().unwrap()).unwrap();
            assert_eq!(decode(&body).unwrap(), case["object"], "{}", case["command"]);
            // Cut off anywhere it is an error or a shorter object, but never a panic.
            for end in 0..body.len() {
                let _ = decode(&body[..end]);
            }
            for at in 0..body.len() {
                let mut broken = body.clone();
                broken[at] ^= 0xff;
                let _ = decode(&broken);
            }
        }
        assert!(cases.len() > 10);
    }

    #[test]
    fn other_bytes_are_refused() {
        for body in [
            &b"{}"[..],
            b"",
            b"k8s\0",
            b"k8s\0\x0a\x05\x0a\x01x\x12\x00",
            b"k8s\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            assert!(decode(body).is_err(), "{body:?}");
        }
    }
}
