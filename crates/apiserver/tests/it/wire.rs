//! Requests as they are on the wire, and what was answered.

use std::time::Duration;

use http::{HeaderMap, Method, Request};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use crate::backend::Cluster;
use crate::watching::LIMIT;

const JSON: &str = "application/json";

/// Code, headers and body of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) request: String,
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
    /// Null when the body is not JSON.
    pub(crate) body: Value,
}

impl Answer {
    /// The body of a `200`.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.code, 200, "{}: {}", self.request, self.text);
        self.body
    }

    /// The body of a `201`.
    #[track_caller]
    pub(crate) fn created(self) -> Value {
        assert_eq!(self.code, 201, "{}: {}", self.request, self.text);
        self.body
    }

    /// A Status with exactly this code, reason and message; it is returned for its details.
    #[track_caller]
    pub(crate) fn refused(self, code: u16, reason: &str, message: &str) -> Value {
        let said = |field: &str| self.body[field].as_str().unwrap_or_default().to_owned();
        let got = (self.code, said("reason"), said("message"));
        assert_eq!(got, (code, reason.to_owned(), message.to_owned()), "{}: {}", self.request, self.text);
        assert_eq!(self.body["kind"], "Status", "{}", self.text);
        assert_eq!(self.body["apiVersion"], "v1", "{}", self.text);
        assert_eq!(self.body["status"], "Failure", "{}", self.text);
        assert_eq!(self.body["code"], code, "{}", self.text);
        self.body
    }

    /// Like [`refused`](Self::refused), for messages of which only a part is promised.
    #[track_caller]
    pub(crate) fn refused_saying(self, code: u16, reason: &str, part: &str) -> Value {
        let message = self.body["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(part), "{}: {code} {reason} {part:?} wanted in {}", self.request, self.text);
        self.refused(code, reason, &message)
    }

    /// The texts of the `Warning` headers.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let values = self.headers.get_all("warning").into_iter();
        values
            .map(|v| {
                let text = v.to_str().unwrap().strip_prefix("299 - \"").unwrap().strip_suffix('"').unwrap();
                text.replace("\\\"", "\"").replace("\\\\", "\\")
            })
            .collect()
    }
}

impl Cluster {
    /// `pods/a` is in the body's namespace, `apps/v1 deployments/a` too; a path that starts with `/` is taken as it is.
    pub(crate) fn path(&self, short: &str) -> String {
        if short.starts_with('/') {
            return short.to_owned();
        }
        let namespace = self.namespace();
        match short.split_once(' ') {
            Some((version, rest)) => format!("/apis/{version}/namespaces/{namespace}/{rest}"),
            None => format!("/api/v1/namespaces/{namespace}/{short}"),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, &[], Vec::new()).await
    }

    pub(crate) async fn post(&self, path: &str, object: &Value) -> Answer {
        self.send(Method::POST, path, &[("content-type", JSON)], object.to_string().into_bytes()).await
    }

    pub(crate) async fn put(&self, path: &str, object: &Value) -> Answer {
        self.send(Method::PUT, path, &[("content-type", JSON)], object.to_string().into_bytes()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], Vec::new()).await
    }

    /// With `DeleteOptions`.
    pub(crate) async fn delete_with(&self, path: &str, mut options: Value) -> Answer {
        options["apiVersion"] = json!("v1");
        options["kind"] = json!("DeleteOptions");
        self.send(Method::DELETE, path, &[("content-type", JSON)], options.to_string().into_bytes()).await
    }

    pub(crate) async fn merge(&self, path: &str, patch: &Value) -> Answer {
        self.patch("application/merge-patch+json", path, patch).await
    }

    pub(crate) async fn strategic(&self, path: &str, patch: &Value) -> Answer {
        self.patch("application/strategic-merge-patch+json", path, patch).await
    }

    pub(crate) async fn json_patch(&self, path: &str, patch: &Value) -> Answer {
        self.patch("application/json-patch+json", path, patch).await
    }

    /// Server-side apply by this field manager.
    pub(crate) async fn apply(&self, manager: &str, path: &str, object: &Value) -> Answer {
        let query = if path.contains('?') { '&' } else { '?' };
        self.patch("application/apply-patch+yaml", &format!("{path}{query}fieldManager={manager}"), object).await
    }

    async fn patch(&self, content_type: &str, path: &str, patch: &Value) -> Answer {
        self.send(Method::PATCH, path, &[("content-type", content_type)], patch.to_string().into_bytes()).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
        let path = self.path(path);
        let request = format!("{method} {path}");
        let deadline = Instant::now() + LIMIT;
        let (head, bytes) = loop {
            let mut built = Request::builder().method(method.clone()).uri(path.as_str());
            for (name, value) in headers {
                built = built.header(*name, *value);
            }
            let asking = async {
                let answer = self.client().send(built.body(Body::from(body.clone())).unwrap()).await.unwrap();
                let (head, body) = answer.into_parts();
                (head, body.collect_bytes().await.unwrap())
            };
            // A watch that was not meant to be one would never end.
            let (head, bytes) = timeout(LIMIT, asking).await.unwrap_or_else(|_| panic!("{request} is not answered"));
            // A server whose watch cache of a new kind is still filling up asks to come again, and has done nothing.
            let filling_up = head.status == 429 && String::from_utf8_lossy(&bytes).contains("(re)initializing");
            if !filling_up || Instant::now() > deadline {
                break (head, bytes);
            }
            sleep(Duration::from_millis(200)).await;
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer { request, code: head.status.as_u16(), headers: head.headers, text, body }
    }
}
