//! Traces for an OpenTelemetry collector: passes, reconciles, and the calls to cloud and API server inside them.
//!
//! Off unless `--otel-exporter-otlp-endpoint` names a collector, and then not even made. What goes out is OTLP over HTTP in its
//! JSON form, which is a few objects; a library for it would bring a second HTTP client and a dozen crates along. A collector
//! that is slow or away costs spans and one line in the log, never work.

mod sending;
mod spans;

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::{Client, Config};
use tokio::sync::{mpsc, oneshot};

use self::sending::Message;
pub(crate) use self::spans::Spans;

/// Spans that wait to be sent: a second of a busy controller, at about a kilobyte each.
const WAITING: usize = 4096;
/// At the end nobody waits longer for a collector.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What is traced goes to the collector as long as the runtime lives.
#[derive(Debug)]
pub(crate) struct Traces(mpsc::Sender<Message>);

/// `None` without an endpoint. To be called inside of the runtime.
pub(crate) fn start(endpoint: &str) -> Result<Option<(Spans, Traces)>> {
    if endpoint.is_empty() {
        return Ok(None);
    }
    let refused = || format!("--otel-exporter-otlp-endpoint: cannot send traces to {endpoint:?}");
    let mut config = Config::new(endpoint.parse().with_context(refused)?);
    config.default_retry = false;
    let client = Client::try_from(config).with_context(refused)?;
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(sending::run(client, endpoint.to_owned(), receiver));
    Ok(Some((Spans::new(sender.clone()), Traces(sender))))
}

impl Traces {
    /// What has ended by now is sent, when the collector takes it.
    pub(crate) async fn stop(self) {
        let (done, sent) = oneshot::channel();
        let flush = async {
            if self.0.send(Message::Flush(done)).await.is_ok() {
                let _ = sent.await;
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, flush).await;
    }
}
