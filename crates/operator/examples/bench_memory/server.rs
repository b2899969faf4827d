//! As much of an API server as the controller needs: lists in pages, watches that stay open, patches that are remembered, and
//! yes to everything else.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::{StreamExt as _, stream};
use http::{Method, StatusCode, header};
use karpenter_controllers::watches::Form;
use karpenter_testkit::protobuf;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::cluster::Cluster;

#[derive(Clone)]
pub(crate) struct Server(Arc<Shared>);

struct Shared {
    cluster: Cluster,
    port: u16,
    /// Every list is complete once pods, the longest, are watched.
    watched: AtomicBool,
    events: Mutex<Option<mpsc::Sender<usize>>>,
    to_send: AtomicUsize,
    version: AtomicUsize,
    /// Objects that were written to, by kind and name.
    written: Mutex<BTreeMap<(String, String), String>>,
    /// Who watches a kind that is not pods.
    watching: Mutex<BTreeMap<String, mpsc::UnboundedSender<String>>>,
}

impl Server {
    pub(crate) async fn start(cluster: Cluster) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let server = Self(Arc::new(Shared {
            cluster,
            port,
            watched: AtomicBool::new(false),
            events: Mutex::new(None),
            to_send: AtomicUsize::new(0),
            version: AtomicUsize::new(0),
            written: Mutex::default(),
            watching: Mutex::default(),
        }));
        let app = axum::Router::new().fallback(answer).with_state(server.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Ok(server)
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.0.watched.load(Ordering::Relaxed)
    }

    /// Changes pods all over the cluster.
    pub(crate) async fn send_events(&self, count: usize) {
        self.0.to_send.store(count, Ordering::Relaxed);
        let sender = self.0.events.lock().ok().and_then(|sender| sender.clone());
        let Some(sender) = sender else { return };
        for number in 0..count {
            if sender.send(number).await.is_err() {
                return;
            }
        }
    }

    pub(crate) fn all_sent(&self) -> bool {
        self.0.to_send.load(Ordering::Relaxed) == 0
    }
}

async fn answer(State(server): State<Server>, request: Request) -> Response {
    let path = request.uri().path().trim_matches('/').to_owned();
    let query: BTreeMap<String, String> = request
        .uri()
        .query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let words: Vec<&str> = path.split('/').collect();
    let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let form = if accept.starts_with(PROTOBUF) { Form::Protobuf } else { Form::Json };
    match (request.method(), words.as_slice()) {
        (&Method::GET, ["version"]) => {
            reply(&json!({"major": "1", "minor": "35", "gitVersion": "v1.35.4", "gitCommit": "",
            "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""}))
        }
        (&Method::GET, ["apis", group, version]) => reply(&served(group, version)),
        (&Method::GET, ["api", _, kind] | ["apis", _, _, kind])
            if query.get("watch").is_some_and(|watch| watch == "true") =>
        {
            server.watch(kind, form)
        }
        (&Method::GET, ["api", _, kind] | ["apis", _, _, kind]) => server.list(kind, &query, form),
        (&Method::GET, [.., kind, name]) => server.get(kind, name),
        (&Method::PATCH | &Method::PUT, words) => {
            let words: Vec<String> =
                words.iter().filter(|word| **word != "status").map(|word| (*word).to_owned()).collect();
            let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap_or_default();
            match words.as_slice() {
                [.., kind, name] => server.patch(kind, name, &serde_json::from_slice(&body).unwrap_or_default()),
                _ => missing(),
            }
        }
        (&Method::POST, _) => {
            let body = axum::body::to_bytes(request.into_body(), 1 << 20).await.unwrap_or_default();
            let mut object: Value = serde_json::from_slice(&body).unwrap_or_default();
            if object["kind"] == "SelfSubjectAccessReview" {
                object["status"] = json!({"allowed": true});
            }
            reply(&object)
        }
        _ => missing(),
    }
}

impl Server {
    fn list(&self, kind: &str, query: &BTreeMap<String, String>, form: Form) -> Response {
        let number = |key: &str| query.get(key).and_then(|text| text.parse::<usize>().ok());
        let (from, count) = (number("continue").unwrap_or(0), self.0.cluster.count(kind));
        let to = number("limit").map_or(count, |limit| count.min(from + limit));
        if kind == "pods" && form == Form::Protobuf {
            let rest = if to < count { to.to_string() } else { String::new() };
            let pods = (from..to).map(|number| binary(&self.0.cluster.object(kind, number)));
            return typed(protobuf::pod_list(pods, "900000", &rest), PROTOBUF);
        }
        let more = if to < count { format!(r#","continue":"{to}""#) } else { String::new() };
        let items: Vec<String> = (from..to).map(|number| self.0.cluster.object(kind, number)).collect();
        text(format!(
            r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"900000"{more}}},"items":[{}]}}"#,
            items.join(",")
        ))
    }

    fn object(&self, kind: &str, name: &str) -> Option<String> {
        let key = (kind.to_owned(), name.to_owned());
        if let Some(known) = self.0.written.lock().ok().and_then(|written| written.get(&key).cloned()) {
            return Some(known);
        }
        let number = name.rsplit('-').next().and_then(|text| text.parse().ok()).unwrap_or(0);
        (number < self.0.cluster.count(kind)).then(|| self.0.cluster.object(kind, number))
    }

    fn get(&self, kind: &str, name: &str) -> Response {
        self.object(kind, name).map_or_else(missing, text)
    }

    /// Whoever watches the kind hears of it.
    fn patch(&self, kind: &str, name: &str, patch: &Value) -> Response {
        let Some(mut object) = self.object(kind, name).and_then(|text| serde_json::from_str::<Value>(&text).ok())
        else {
            return missing();
        };
        let before = object.clone();
        let version = object["metadata"]["resourceVersion"].clone();
        merge(&mut object, patch);
        object["metadata"]["resourceVersion"] = version;
        if object != before {
            let version = 1_000_000 + self.0.version.fetch_add(1, Ordering::Relaxed);
            object["metadata"]["resourceVersion"] = version.to_string().into();
            if let (Ok(mut written), Ok(watching)) = (self.0.written.lock(), self.0.watching.lock()) {
                written.insert((kind.to_owned(), name.to_owned()), object.to_string());
                if let Some(watching) = watching.get(kind) {
                    // Who has gone needs no news.
                    let _ = watching.send(format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n"));
                }
            }
        }
        reply(&object)
    }

    fn watch(&self, kind: &str, form: Form) -> Response {
        if kind != "pods" {
            let (sender, receiver) = mpsc::unbounded_channel();
            if let Ok(mut watching) = self.0.watching.lock() {
                watching.insert(kind.to_owned(), sender);
            }
            let lines =
                stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
            return Response::new(Body::from_stream(lines.map(Ok::<_, std::io::Error>)));
        }
        let (sender, receiver) = mpsc::channel(1024);
        if let Ok(mut events) = self.0.events.lock() {
            *events = Some(sender);
        }
        self.0.watched.store(true, Ordering::Relaxed);
        let shared = self.0.clone();
        let lines = stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
        let lines = lines.map(move |number| {
            let Shared { cluster, to_send, .. } = &*shared;
            // A prime step visits pods of all nodes and workloads.
            let pod = number.wrapping_mul(7919) % cluster.pods;
            to_send.fetch_sub(1, Ordering::Relaxed);
            let object = cluster.pod(pod, 1 + number / cluster.pods);
            Ok::<_, std::io::Error>(match form {
                Form::Json => format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n").into_bytes(),
                Form::Protobuf => protobuf::event("MODIFIED", "Pod", &binary(&object)),
            })
        });
        typed(Body::from_stream(lines), if form == Form::Protobuf { WATCHED } else { "application/json" })
    }
}

/// As RFC 7386 says.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        into.clone_from(patch);
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            if let Some(into) = into.as_object_mut() {
                into.remove(key);
            }
        } else {
            merge(&mut into[key], value);
        }
    }
}

fn served(group: &str, version: &str) -> Value {
    let kinds: &[(&str, &str)] = match group {
        "karpenter.sh" => &[("nodepools", "NodePool"), ("nodeclaims", "NodeClaim")],
        "karpenter.kwok.sh" => &[("kwoknodeclasses", "KWOKNodeClass")],
        _ => &[],
    };
    let resources: Vec<Value> = kinds
        .iter()
        .map(|(name, kind)| json!({"name": name, "singularName": "", "namespaced": false, "kind": kind, "verbs": ["list"]}))
        .collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"), "resources": resources})
}

fn reply(value: &Value) -> Response {
    text(value.to_string())
}

fn text(body: String) -> Response {
    typed(body, "application/json")
}

fn typed(body: impl Into<Body>, content_type: &'static str) -> Response {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const WATCHED: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// A pod as an API server writes it for those who ask for protobuf.
pub(crate) fn binary(pod: &str) -> Vec<u8> {
    protobuf::pod(&serde_json::from_str(pod).unwrap_or_default())
}

fn missing() -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not here"});
    let mut response = reply(&status);
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}
