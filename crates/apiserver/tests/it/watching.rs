//! An open watch, read line by line.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;

use crate::backend::Cluster;

/// Nothing that a body waits for takes longer; virtual seconds on the embedded API.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct Watch {
    chunks: Pin<Box<dyn Stream<Item = Result<Bytes, kube::Error>> + Send>>,
    read: Vec<u8>,
}

impl Cluster {
    /// `path` has a query; `watch=true` is added.
    pub(crate) async fn watch(&self, path: &str) -> Watch {
        self.watch_with(path, &[]).await
    }

    pub(crate) async fn watch_with(&self, path: &str, headers: &[(&str, &str)]) -> Watch {
        let query = if path.contains('?') { '&' } else { '?' };
        let deadline = tokio::time::Instant::now() + LIMIT;
        let answer = loop {
            let mut request = Request::get(format!("{}{query}watch=true", self.path(path)));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let answer = self.client().send(request.body(Body::empty()).unwrap()).await.unwrap();
            // A server whose watch cache of a new kind is still filling up asks to come again.
            if answer.status() != 429 || tokio::time::Instant::now() > deadline {
                break answer;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        };
        assert_eq!(answer.status(), 200, "{path}");
        Watch { chunks: Box::pin(answer.into_body().into_data_stream()), read: Vec::new() }
    }
}

impl Watch {
    /// The next line, or none when the server has ended the watch.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let Some(chunk) = timeout(LIMIT, self.chunks.next()).await.expect("an event, or the end of the watch")
            else {
                assert_eq!(String::from_utf8_lossy(&self.read), "", "a line was cut off");
                return None;
            };
            self.read.extend_from_slice(&chunk.unwrap());
        }
    }

    /// Type and object of the next event.
    pub(crate) async fn event(&mut self) -> (String, Value) {
        let mut event = self.next().await.expect("the watch goes on");
        (event["type"].as_str().unwrap().to_owned(), event["object"].take())
    }

    /// Type and name, as in `ADDED a`, of the next `count` events.
    pub(crate) async fn names(&mut self, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            let (kind, object) = self.event().await;
            names.push(format!("{kind} {}", object["metadata"]["name"].as_str().unwrap_or_default()));
        }
        names
    }

    pub(crate) async fn ended(&mut self) {
        assert_eq!(self.next().await, None);
    }
}

/// Asks until the answer is there.
pub(crate) async fn eventually<T>(what: &str, question: impl AsyncFn() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = question().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(LIMIT, asking).await.unwrap_or_else(|_| panic!("not within {LIMIT:?}: {what}"))
}

impl Cluster {
    /// Makes the definition and waits until its objects are served.
    pub(crate) async fn install(&self, crd: &Value) {
        self.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await.created();
        self.served(crd).await;
    }

    /// The condition comes a moment before the endpoint.
    pub(crate) async fn served(&self, crd: &Value) {
        let (name, spec) = (crd["metadata"]["name"].as_str().unwrap(), &crd["spec"]);
        let (group, plural) = (spec["group"].as_str().unwrap(), spec["names"]["plural"].as_str().unwrap());
        eventually(&format!("{name} is served"), async || {
            let now = self.get(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")).await.ok();
            let conditions = now["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().find(|c| c["type"] == "Established" && c["status"] == "True")?;
            for version in spec["versions"].as_array().unwrap().iter().filter(|v| v["served"] == true) {
                let version = version["name"].as_str().unwrap();
                let list = self.get(&format!("/apis/{group}/{version}/{plural}?limit=1")).await;
                (list.code == 200).then_some(())?;
            }
            Some(())
        })
        .await;
    }
}
