//! From spans of the code to spans of OTLP.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use karpenter_platform::{Clock as _, SystemClock};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::sending::Message;
use crate::fields::Fields;

/// What a span says at most of what happened in it: a pass may log thousands of lines.
const EVENTS: usize = 32;

#[derive(Debug)]
pub(crate) struct Spans {
    sender: mpsc::Sender<Message>,
    ids: Ids,
}

impl Spans {
    pub(super) fn new(sender: mpsc::Sender<Message>) -> Self {
        Self { sender, ids: Ids::default() }
    }
}

/// Numbers that no other process has: hashes of a count, with keys of this process.
#[derive(Debug, Default)]
struct Ids {
    keys: RandomState,
    count: AtomicU64,
}

impl Ids {
    fn next(&self) -> u64 {
        // Zero is not an id.
        self.keys.hash_one(self.count.fetch_add(1, Ordering::Relaxed)).max(1)
    }
}

/// A span that has not ended.
#[derive(Debug)]
struct Open {
    trace: u128,
    span: u64,
    parent: Option<u64>,
    started: i128,
    fields: Fields,
    events: Vec<Value>,
    /// What the last error or warning in it said. A field `error` says more.
    failure: Option<String>,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Spans {
    fn on_new_span(&self, given: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let around =
            span.parent().and_then(|parent| parent.extensions().get::<Open>().map(|open| (open.trace, open.span)));
        let (trace, parent) = match around {
            Some((trace, parent)) => (trace, Some(parent)),
            None => (u128::from(self.ids.next()) << 64 | u128::from(self.ids.next()), None),
        };
        let mut fields = Fields::default();
        given.record(&mut fields);
        let open =
            Open { trace, span: self.ids.next(), parent, started: now(), fields, events: Vec::new(), failure: None };
        span.extensions_mut().insert(open);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            values.record(&mut open.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let Some(span) = context.event_span(event) else { return };
        let mut extensions = span.extensions_mut();
        let Some(open) = extensions.get_mut::<Open>() else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        if *event.metadata().level() <= Level::WARN {
            open.failure = Some(fields.message.clone());
        }
        if open.events.len() < EVENTS {
            let attributes = attributes(&fields.others);
            let event = json!({"timeUnixNano": now().to_string(), "name": fields.message, "attributes": attributes});
            open.events.push(event);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(open) = span.extensions_mut().remove::<Open>() else { return };
        // Nobody waits for a collector: what does not fit is lost.
        let _ = self.sender.try_send(Message::Span(finished(span.name(), open)));
    }
}

fn finished(name: &str, open: Open) -> Value {
    let Open { trace, span, parent, started, fields, events, failure } = open;
    let parent = parent.map(|parent| format!("{parent:016x}")).unwrap_or_default();
    // 1: inside of the process. 2: an error.
    let said = fields.others.iter().rev().find(|(name, _)| *name == "error").and_then(|(_, value)| value.as_str());
    let failure = said.map(str::to_owned).or(failure);
    let status = failure.map_or_else(|| json!({}), |message| json!({"code": 2, "message": message}));
    json!({
        "traceId": format!("{trace:032x}"),
        "spanId": format!("{span:016x}"),
        "parentSpanId": parent,
        "name": name,
        "kind": 1,
        "startTimeUnixNano": started.to_string(),
        "endTimeUnixNano": now().to_string(),
        "attributes": attributes(&fields.others),
        "events": events,
        "status": status,
    })
}

fn now() -> i128 {
    SystemClock.now().as_nanosecond()
}

/// A list of attributes as OTLP has it.
fn attributes(fields: &[(&'static str, Value)]) -> Vec<Value> {
    fields.iter().map(|(name, value)| json!({"key": name, "value": attribute(value)})).collect()
}

fn attribute(value: &Value) -> Value {
    match value {
        Value::Bool(value) => json!({"boolValue": value}),
        Value::Number(number) if number.is_f64() => json!({"doubleValue": number}),
        // Sixty-four bits do not fit a JSON number, so the protocol has them as text.
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::String(text) => json!({"stringValue": text}),
        // Numbers that are none.
        other => json!({"stringValue": other.to_string()}),
    }
}
