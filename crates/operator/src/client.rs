//! The way to the API server: how fast, under which name, and only while we may act.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context as Task, Poll};
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::header::{HeaderValue, USER_AGENT};
use http::{Method, Request, Response};
use karpenter_controllers::leader::Fence;
use karpenter_controllers::metrics::Metrics;
use kube::client::{Body, ClientBuilder};
use kube::{Client, Config};
use tokio::time::Instant;
use tower::{Layer, Service};
use tracing::Instrument as _;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// `KUBECONFIG`, a file in the home folder, or the service account of the pod.
pub(crate) async fn config() -> Result<Config> {
    let mut config =
        Config::infer().await.context("no cluster to work on: run in a cluster, or point KUBECONFIG at one")?;
    // Reconcilers know what an answer means and when to ask again. Below them a retry would only hide it: an eviction that
    // a budget refuses is answered with 429, and would be repeated here for minutes, past every deadline and every lease.
    config.default_retry = false;
    // API-304.
    let agent = HeaderValue::from_static(concat!("karpenter/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    Ok(config)
}

/// How long an event lets others go first.
const LONGEST_QUIET: Duration = Duration::from_secs(10);

/// What is set once there are metrics: they are made with the provider, which is made with the client.
pub(crate) type LateMetrics = Arc<OnceLock<Arc<Metrics>>>;

/// How requests go out.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// Not positive means without limit.
    pub(crate) per_second: i64,
    pub(crate) burst: i64,
    pub(crate) fence: Fence,
    pub(crate) metrics: LateMetrics,
}

impl Rules {
    pub(crate) fn client(self, config: Config) -> Result<Client> {
        let pace = Arc::new(Mutex::new(Pace::new(self.per_second, self.burst)));
        let builder = ClientBuilder::try_from(config).context("the client cannot be set up")?;
        Ok(builder.with_layer(&Gate { pace, fence: self.fence, metrics: self.metrics }).build())
    }
}

/// Says when the next request may go, at an even rate after a first burst.
#[derive(Debug)]
struct Pace {
    interval: Duration,
    /// How far requests may run ahead of the rate.
    ahead: Duration,
    next: Option<Instant>,
}

impl Pace {
    fn new(per_second: i64, burst: i64) -> Self {
        let per_second = u32::try_from(per_second).unwrap_or(0);
        let interval = Duration::from_secs(1).checked_div(per_second).unwrap_or_default();
        let burst = u32::try_from(burst.max(1)).unwrap_or(u32::MAX);
        Self { interval, ahead: interval.saturating_mul(burst - 1), next: None }
    }

    /// How long until half of the burst is free.
    fn busy(&self, now: Instant) -> Duration {
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now + self.ahead / 2))
    }

    fn reserve(&mut self, now: Instant) -> Instant {
        let due = self.next.map_or(now, |next| next.max(now));
        self.next = Some(due + self.interval);
        due.checked_sub(self.ahead).map_or(now, |at| at.max(now))
    }
}

#[derive(Debug, Clone)]
struct Gate {
    pace: Arc<Mutex<Pace>>,
    fence: Fence,
    metrics: LateMetrics,
}

impl<S> Layer<S> for Gate {
    type Service = Gated<S>;

    fn layer(&self, inner: S) -> Gated<S> {
        Gated { gate: self.clone(), inner }
    }
}

#[derive(Debug)]
struct Gated<S> {
    gate: Gate,
    inner: S,
}

/// A write of a process that may not act any more. Nothing was sent.
#[derive(Debug, thiserror::Error)]
#[error("not the leader any more, the request was not sent")]
struct NotLeader;

impl<S, B> Service<Request<Body>> for Gated<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, task: &mut Task<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(task)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let pace = self.gate.pace.clone();
        let writes = !matches!(*request.method(), Method::GET | Method::HEAD);
        let asked = Asked::of(&request);
        let (fence, metrics) = (self.gate.fence.clone(), self.gate.metrics.clone());
        let Asked { verb, resource, .. } = &asked;
        let span = tracing::debug_span!("api", verb, resource, path = request.uri().path());
        // Nothing is sent before the future is polled.
        let answer = self.inner.call(request);
        let yields = asked.verb == "CREATE" && asked.resource == "events";
        let sent = async move {
            if yields {
                quiet(&pace).await;
            }
            let at = lock(&pace).reserve(Instant::now());
            tokio::time::sleep_until(at).await;
            if writes && !fence.is_open() {
                return Err(NotLeader.into());
            }
            let started = Instant::now();
            let answer = answer.await;
            if let Some(metrics) = metrics.get() {
                let code = answer.as_ref().map_or("<error>".to_owned(), |answer| answer.status().as_str().to_owned());
                asked.count(metrics, &code, started.elapsed());
            }
            answer
        };
        Box::pin(sent.instrument(span))
    }
}

fn lock(pace: &Mutex<Pace>) -> std::sync::MutexGuard<'_, Pace> {
    // No code that could panic runs under the lock.
    pace.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Events tell about what is done, and must not hold it up: while there is much to do they wait, but not for ever.
async fn quiet(pace: &Mutex<Pace>) {
    let end = Instant::now() + LONGEST_QUIET;
    loop {
        let now = Instant::now();
        let busy = lock(pace).busy(now);
        if busy.is_zero() || now >= end {
            return;
        }
        tokio::time::sleep_until(end.min(now + busy)).await;
    }
}

/// What a request was about, as metrics tell it (API-211).
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    method: String,
    verb: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
}

impl Asked {
    fn of<B>(request: &Request<B>) -> Self {
        let mut parts = request.uri().path().split('/').filter(|part| !part.is_empty());
        let (group, version) = match parts.next() {
            Some("api") => ("", parts.next()),
            Some("apis") => (parts.next().unwrap_or_default(), parts.next()),
            _ => ("", None),
        };
        let mut rest: Vec<&str> = parts.collect();
        if rest.first() == Some(&"namespaces") && rest.len() > 2 {
            rest.drain(..2);
        }
        let part = |index: usize| rest.get(index).copied().unwrap_or_default();
        let verb = match (request.method().as_str(), rest.len()) {
            ("GET", 1) => "LIST",
            ("GET" | "HEAD", _) => "GET",
            ("POST", _) => "CREATE",
            ("PUT", _) => "UPDATE",
            ("PATCH", _) => "PATCH",
            ("DELETE", _) => "DELETE",
            _ => "",
        };
        Self {
            method: request.method().to_string(),
            verb,
            group: group.to_owned(),
            version: version.unwrap_or_default().to_owned(),
            resource: part(0).to_owned(),
            subresource: part(2).to_owned(),
        }
    }

    fn count(&self, metrics: &Metrics, code: &str, took: Duration) {
        let Self { method, verb, group, version, resource, subresource } = self;
        metrics.all.requests.increment([code, method]);
        let labels = [*verb, group.as_str(), version, resource, subresource];
        metrics.all.request_duration.observe(labels, took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
