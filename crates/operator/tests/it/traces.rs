//! Traces reach a collector. What is in them is looked at on the whole way of a pod.

use std::net::TcpListener;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;

/// As much of a collector as we need: it takes what is posted as JSON to the path for traces, and nothing else.
pub(crate) struct Collector {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Value>>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Span(Value);

impl Span {
    pub(crate) fn is(&self, name: &str) -> bool {
        self.0["name"] == name
    }

    pub(crate) fn id(&self) -> &str {
        self.0["spanId"].as_str().unwrap()
    }

    pub(crate) fn parent(&self) -> &str {
        self.0["parentSpanId"].as_str().unwrap()
    }

    pub(crate) fn says(&self, key: &str, value: &str) -> bool {
        let attributes = self.0["attributes"].as_array().unwrap();
        attributes.iter().any(|attribute| attribute["key"] == key && attribute["value"]["stringValue"] == value)
    }

    /// Whether a span of this name is around it, near or far, in the same trace.
    pub(crate) fn is_inside(&self, name: &str, all: &[Self]) -> bool {
        all.iter()
            .filter(|span| span.id() == self.parent() && span.0["traceId"] == self.0["traceId"])
            .any(|span| span.is(name) || span.is_inside(name, all))
    }
}

impl Collector {
    /// In a thread of its own: the test's runtime may be blocked by waiting for a process.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = received.clone();
        let take = async move |body: axum::body::Bytes| {
            let body = serde_json::from_slice(&body).unwrap();
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(body);
        };
        let app = axum::Router::new().route("/v1/traces", axum::routing::post(take));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), app).await.unwrap();
            });
        });
        Self { url, received }
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let mut spans = Vec::new();
        for resource in received.iter().flat_map(|body| body["resourceSpans"].as_array().unwrap()) {
            let attributes = resource["resource"]["attributes"].to_string();
            assert!(attributes.contains(r#""service.name","value":{"stringValue":"karpenter"}"#), "{attributes}");
            let scopes = resource["scopeSpans"].as_array().unwrap().iter();
            spans.extend(scopes.flat_map(|scope| scope["spans"].as_array().unwrap().iter().cloned().map(Span)));
        }
        spans
    }
}

fn controller(endpoint: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_karpenter-controller"))
        .env_clear()
        .envs([("CLOUD_PROVIDER", "kwok"), ("METRICS_PORT", "0"), ("HEALTH_PROBE_PORT", "0"), ("LOG_LEVEL", "error")])
        .env("KUBECONFIG", "/nonexistent/kubeconfig")
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        .output()
        .unwrap()
}

/// What happened before the end is sent before the end, whatever the level of the log is; a failure is one in the trace.
#[test]
fn the_last_span_reaches_the_collector() {
    let collector = Collector::start();
    let out = controller(&format!("{}/", collector.url));
    assert_eq!(out.status.code(), Some(1), "{out:?}");
    let spans = collector.spans();
    let [span] = spans.as_slice() else { panic!("one span, not {spans:?}") };
    assert!(span.is("start"));
    assert_eq!(span.0["status"]["code"], 2, "{span:?}");
    assert!(span.0["status"]["message"].as_str().unwrap().contains("KUBECONFIG"), "{span:?}");
    assert_eq!((span.0["traceId"].as_str().unwrap().len(), span.id().len()), (32, 16));
    let nanos = |key: &str| span.0[key].as_str().unwrap().parse::<u64>().unwrap();
    assert!(nanos("startTimeUnixNano") > 1_600_000_000_000_000_000, "{span:?}");
    assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"), "{span:?}");
}

/// A collector that is not there, or does not speak the protocol, keeps nobody from anything.
#[test]
fn without_a_collector_everything_else_goes_on() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [closed, silent.local_addr().unwrap()] {
        let since = Instant::now();
        let out = controller(&format!("http://{address}"));
        assert_eq!(out.status.code(), Some(1), "{out:?} after {:?}", since.elapsed());
        assert!(String::from_utf8_lossy(&out.stdout).contains("KUBECONFIG"), "{out:?}");
    }
}

/// An address that is none is an invalid setting like any other.
#[test]
fn an_address_that_is_none() {
    for address in ["collector:4317", "grpc://collector:4317", "http://", "http://collector:4318?x=1"] {
        let out = controller(address);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{address}: {said}");
        assert!(said.contains("--otel-exporter-otlp-endpoint") && said.contains(&format!("{address:?}")), "{said}");
    }
}
