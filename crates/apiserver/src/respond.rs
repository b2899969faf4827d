//! From what was found to an HTTP response.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderValue, Response, header};
use http_body_util::{BodyExt as _, Full};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::resource::ResourceType;
use crate::serve::accept::Form;
use crate::state::{ListAnswer, as_requested};
use crate::status::Failure;
use crate::store::encode;
use crate::table;
use crate::watch::{Body, View};

pub(crate) fn full(bytes: Bytes) -> Body {
    Full::new(bytes).boxed_unsync()
}

pub(crate) fn json_response(code: u16, bytes: Bytes) -> Response<Body> {
    response(code, "application/json", full(bytes))
}

pub(crate) fn response(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

pub(crate) fn failure(failure: &Failure) -> Response<Body> {
    if failure.plain {
        return response(failure.code, "text/plain; charset=utf-8", full(failure.message.clone().into()));
    }
    let mut response = json_response(failure.code, encode(&failure.json()));
    if let Some(seconds) = failure.retry_after_seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// `299 - "…"`, one header per warning.
pub(crate) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let text = format!("299 - {warning:?}");
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// The type by which messages of the server name a kind.
pub(crate) fn go_type(kind: &ResourceType, suffix: &str) -> String {
    if kind.crd {
        return format!("*unstructured.Unstructured{suffix}");
    }
    let package = kind.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
    format!("*{package}.{}{suffix}", kind.kind)
}

/// One object in the form that the client wants.
pub(crate) fn object(kind: &ResourceType, value: &Arc<Value>, view: View, now: Timestamp) -> Bytes {
    if let Form::Table(version) = view.form
        && value["kind"] == "Scale"
        && value["apiVersion"] == "autoscaling/v1"
    {
        let options = table::Options { include: view.include, columns: true, now };
        return versioned(table::render_scale(value, options), version);
    }
    // What is no object of the kind, such as a Status, has one form only.
    if value["kind"] != kind.kind {
        return encode(value);
    }
    match view.form {
        Form::Whole => encode(value),
        Form::Table(version) => {
            let metadata = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
            let options = table::Options { include: view.include, columns: true, now };
            versioned(table::render(kind, std::slice::from_ref(value), &metadata, options), version)
        }
        Form::Metadata(version) | Form::MetadataList(version) => versioned(table::partial_object(value), version),
    }
}

fn versioned(mut value: Value, version: &str) -> Bytes {
    value["apiVersion"] = json!(format!("meta.k8s.io/{version}"));
    encode(&value)
}

pub(crate) fn list(kind: &ResourceType, answer: &ListAnswer, view: View, now: Timestamp) -> Bytes {
    let metadata = answer.metadata();
    if view.form == Form::Whole {
        return whole_list(kind, answer, &metadata);
    }
    let items: Vec<Arc<Value>> = answer.items.iter().map(|entry| as_requested(kind, &entry.value)).collect();
    match view.form {
        Form::Table(version) => {
            let options = table::Options { include: view.include, columns: true, now };
            versioned(table::render(kind, &items, &metadata, options), version)
        }
        Form::Metadata(version) | Form::MetadataList(version) => {
            versioned(table::partial_list(&items, &metadata), version)
        }
        Form::Whole => Bytes::new(),
    }
}

/// Items of lists of built-in kinds do not say what they are.
fn without_type(value: &Value) -> Value {
    let mut value = value.clone();
    if let Value::Object(map) = &mut value {
        map.remove("apiVersion");
        map.remove("kind");
    }
    value
}

/// Put together from the items' own JSON, which is written once and kept.
fn whole_list(kind: &ResourceType, answer: &ListAnswer, metadata: &Value) -> Bytes {
    let head = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
        json!(kind.list_kind),
        json!(kind.api_version())
    );
    let mut out = BytesMut::with_capacity(head.len() + answer.items.len() * 1024);
    out.put_slice(head.as_bytes());
    for (i, entry) in answer.items.iter().enumerate() {
        if i > 0 {
            out.put_u8(b',');
        }
        match (kind.crd, entry.is_plain(kind)) {
            (true, _) => entry.json(kind, &mut out),
            (false, true) => out.put_slice(entry.encoded()),
            (false, false) => out.put_slice(&encode(&without_type(&entry.requested(kind)))),
        }
    }
    out.put_slice(b"]}");
    out.freeze()
}
