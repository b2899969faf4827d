//! Columns of custom kinds: those of the definition, or the age.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::jsonpath::Path;
use super::read::name;
use crate::openapi::recorded::recorded;
use crate::resource::{PrinterColumn, ResourceType};

pub(super) fn columns(kind: &ResourceType) -> Value {
    let recorded = &recorded().columns["/v1/namespaces"];
    let mut columns = vec![recorded[0].clone()];
    columns.extend(given(kind).iter().map(|column| {
        let description = match column.description.as_str() {
            "" => format!("Custom resource definition column (in JSONPath format): {}", column.json_path),
            words => words.to_owned(),
        };
        json!({
            "name": column.name,
            "type": column.column_type,
            "format": column.format,
            "description": description,
            "priority": column.priority,
        })
    }));
    Value::Array(columns)
}

pub(super) fn cells(kind: &ResourceType, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![name(object)];
    cells.extend(given(kind).iter().map(|column| {
        let path = Path::parse(&column.json_path);
        path.first(object).map_or(Value::Null, |found| cell(&column.column_type, found, now))
    }));
    cells
}

fn given(kind: &ResourceType) -> Vec<PrinterColumn> {
    if !kind.printer_columns.is_empty() {
        return kind.printer_columns.clone();
    }
    let description = recorded().columns["/v1/namespaces"][2]["description"].as_str().unwrap_or_default();
    vec![PrinterColumn {
        name: "Age".to_owned(),
        column_type: "date".to_owned(),
        format: String::new(),
        description: description.to_owned(),
        priority: 0,
        json_path: ".metadata.creationTimestamp".to_owned(),
    }]
}

/// A value that does not fit the column's type is left out.
fn cell(of: &str, value: &Value, now: Timestamp) -> Value {
    match (of, value) {
        ("integer", Value::Number(number)) => integer(number),
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) | ("string", Value::String(_)) => value.clone(),
        ("string", Value::Null) => Value::Null,
        ("string", other) => json!(other.to_string()),
        ("date", Value::String(text)) if text.is_empty() => json!("<unknown>"),
        ("date", Value::String(_)) => {
            json!(age::time(value).map_or_else(|| "<invalid>".to_owned(), |then| age::between(then, now)))
        }
        _ => Value::Null,
    }
}

/// Cut off, not rounded.
fn integer(number: &serde_json::Number) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "a cell of a table: what does not fit shows the nearest")]
    number.as_i64().map_or_else(|| json!(number.as_f64().unwrap_or_default() as i64), |n| json!(n))
}
