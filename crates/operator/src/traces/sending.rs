//! From finished spans to requests.

use std::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// A collector beside us answers in milliseconds; a hanging one must not hold spans back for long.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long spans wait for others to go with them.
const GATHER: Duration = Duration::from_secs(1);
/// Spans of a request: about half a megabyte.
const MOST: usize = 512;

#[derive(Debug)]
pub(super) enum Message {
    Span(Value),
    /// Everything before this is to be sent now.
    Flush(oneshot::Sender<()>),
}

/// Sends spans in batches until nobody can make any more.
pub(super) async fn run(client: Client, endpoint: String, mut receiver: mpsc::Receiver<Message>) {
    let mut was_taken = true;
    while let Some(first) = receiver.recv().await {
        let (mut spans, mut flushed) = (Vec::new(), None);
        let until = Instant::now() + GATHER;
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Span(span) => spans.push(span),
                Message::Flush(done) => flushed = Some(done),
            }
            if flushed.is_some() || spans.len() >= MOST {
                break;
            }
            next = tokio::time::timeout_at(until, receiver.recv()).await.ok().flatten();
        }
        if !spans.is_empty() {
            let sent = send(&client, spans).await;
            if let Err(why) = &sent
                && was_taken
            {
                tracing::warn!(endpoint, error = why, "traces cannot be sent, spans are dropped until they can");
            }
            was_taken = sent.is_ok();
        }
        if let Some(done) = flushed {
            // Whoever waited may have given up.
            let _ = done.send(());
        }
    }
}

async fn send(client: &Client, spans: Vec<Value>) -> Result<(), String> {
    let body = request(&spans).to_string().into_bytes();
    let request = Request::post("/v1/traces").header(CONTENT_TYPE, "application/json").body(Body::from(body));
    let request = request.map_err(|error| error.to_string())?;
    match tokio::time::timeout(PATIENCE, client.send(request)).await {
        Err(_) => Err("no answer".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
        Ok(Ok(answer)) => Err(format!("answered with {}", answer.status())),
    }
}

fn request(spans: &[Value]) -> Value {
    let resource = [("service.name", "karpenter"), ("service.version", env!("CARGO_PKG_VERSION"))]
        .map(|(key, value)| json!({"key": key, "value": {"stringValue": value}}));
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"scope": {"name": "karpenter"}, "spans": spans}],
    }]})
}
