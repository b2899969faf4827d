//! Requests from bytes, and what must hold for every answer. Also used by the coverage-guided target in `fuzz/`.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use karpenter_apiserver::{Api, Body, Options};
use serde_json::Value;
use tower::ServiceExt as _;

/// One request in a form that a fuzzer can make up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Raw {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) content_type: String,
    pub(crate) accept: String,
    pub(crate) body: Vec<u8>,
}

impl Raw {
    /// Four lines, then the body.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut parts = bytes.splitn(5, |b| *b == b'\n');
        let mut line = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        let (method, target, content_type, accept) = (line(), line(), line(), line());
        Self { method, target, content_type, accept, body: parts.next().unwrap_or_default().to_vec() }
    }

    /// Nothing, where a client could not even send it.
    fn build(&self) -> Option<Request<Full<bytes::Bytes>>> {
        let mut request = Request::builder().method(self.method.as_bytes()).uri(self.target.as_bytes());
        for (name, value) in [("content-type", &self.content_type), ("accept", &self.accept)] {
            if !value.is_empty() {
                request = request.header(name, value.as_bytes());
            }
        }
        request.body(Full::from(self.body.clone())).ok()
    }
}

/// A server with a pod, a node and a definition, so that requests have something to hit.
async fn seeded() -> Api {
    // The wall clock is not asked: a run is repeated by its input alone.
    let epoch: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().expect("a constant");
    let started = tokio::time::Instant::now();
    let api = Api::new(Options { clock: std::sync::Arc::new(move || epoch + started.elapsed()), ..Options::default() });
    for (target, body) in [
        (
            "/api/v1/namespaces/default/pods",
            r#"{"metadata":{"name":"a","labels":{"app":"a"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#,
        ),
        (
            "/api/v1/namespaces/default/configmaps",
            r#"{"metadata":{"name":"a","finalizers":["example.com/x"]},"data":{"k":"v"}}"#,
        ),
        ("/api/v1/nodes", r#"{"metadata":{"name":"a"}}"#),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            r#"{"metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
        ),
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            r#"{"metadata":{"name":"a"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"a"}}}}"#,
        ),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            r#"{"metadata":{"name":"things.example.com"},"spec":{"group":"example.com","scope":"Cluster","names":{"kind":"Thing","plural":"things"},"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.x","statusReplicasPath":".status.x"}},"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"x":{"type":"integer","minimum":1},"list":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}}}},"x-kubernetes-validations":[{"rule":"!has(self.x) || self.x < 100"}]}}}}}]}}"#,
        ),
        (
            "/apis/example.com/v1/things",
            r#"{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"x":1}}"#,
        ),
    ] {
        let raw = Raw {
            method: "POST".to_owned(),
            target: target.to_owned(),
            body: body.as_bytes().to_vec(),
            ..Raw::default()
        };
        let answer = api.clone().oneshot(raw.build().expect("a request")).await.expect("an answer");
        assert_eq!(answer.status(), 201, "{target}");
    }
    api
}

/// Sends it. Whatever it is, there is an answer, and a refusal is a Status.
async fn check(api: &Api, raw: &Raw) {
    let Some(request) = raw.build() else { return };
    let answer: Response<Body> = api.clone().oneshot(request).await.expect("no request breaks the connection");
    let code = answer.status().as_u16();
    // A watch ends by itself within the hour.
    let collected = tokio::time::timeout(Duration::from_hours(3), answer.into_body().collect()).await;
    let bytes = collected.expect("every answer ends").expect("bodies do not fail").to_bytes();
    if code < 400 || bytes.is_empty() || bytes == "404 page not found\n" {
        assert!(code < 600, "{raw:?}");
        return;
    }
    let status: Value = serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{raw:?}: {code} {e} {bytes:?}"));
    assert_eq!(
        (&status["kind"], &status["status"], &status["code"]),
        (&"Status".into(), &"Failure".into(), &code.into()),
        "{raw:?}"
    );
    assert!(status["message"].is_string(), "{raw:?}: {status}");
}

/// Sends them one after the other to one server.
pub(crate) fn check_all(raws: &[Raw]) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let api = seeded().await;
        for raw in raws {
            check(&api, raw).await;
        }
    });
}
