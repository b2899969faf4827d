//! Everything that happens to objects while somebody else is at work.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures::TryStreamExt as _;
use http::Request;
use kube::Client;
use kube::api::WatchEvent;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const WATCHED: [(&str, &str); 4] = [
    ("NodePool", "/apis/karpenter.sh/v1/nodepools"),
    ("NodeClaim", "/apis/karpenter.sh/v1/nodeclaims"),
    ("EC2NodeClass", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses"),
    ("Node", "/api/v1/nodes"),
];

/// What of an object must stay as it is: all but the account of who wrote it, and of nodes what their kubelets refresh.
pub(super) fn essence(kind: &str, object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    metadata.remove("managedFields");
    if kind != "Node" {
        return object;
    }
    // kube-controller-manager writes it whenever it gets to it.
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("node.alpha.kubernetes.io/ttl");
    }
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let conditions: Vec<Value> =
        conditions.iter().map(|one| json!([one["type"], one["status"], one["lastTransitionTime"]])).collect();
    json!({"metadata": object["metadata"], "spec": object["spec"], "conditions": conditions})
}

type Objects = BTreeMap<(String, String), Value>;

pub(super) struct History {
    before: Objects,
    seen: Arc<Mutex<Vec<(String, String, Value)>>>,
    watches: Vec<JoinHandle<()>>,
}

impl Drop for History {
    fn drop(&mut self) {
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

impl History {
    /// From this moment on.
    pub(super) async fn begin(client: &Client) -> Self {
        let (mut before, mut watches) = (Objects::new(), Vec::new());
        let seen = Arc::new(Mutex::new(Vec::new()));
        for (kind, path) in WATCHED {
            let list: Value = client.request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
            for object in list["items"].as_array().unwrap() {
                before.insert(key(kind, object), essence(kind, object));
            }
            let version = list["metadata"]["resourceVersion"].as_str().unwrap();
            let path = format!("{path}?watch=1&resourceVersion={version}&timeoutSeconds=3600");
            let (client, seen) = (client.clone(), Arc::clone(&seen));
            watches.push(tokio::spawn(async move {
                let request = Request::get(path).body(Vec::new()).unwrap();
                let mut events = pin!(client.request_events::<Value>(request).await.unwrap());
                loop {
                    let (verb, object) = match events.try_next().await {
                        Ok(Some(WatchEvent::Added(object))) => ("added", object),
                        Ok(Some(WatchEvent::Modified(object))) => ("modified", object),
                        Ok(Some(WatchEvent::Deleted(object))) => ("deleted", object),
                        Ok(Some(WatchEvent::Bookmark(_))) => continue,
                        // A watch that ends has missed something; the reader must know.
                        other => ("watch ended", json!({"metadata": {"name": format!("{other:?}")}})),
                    };
                    seen.lock().unwrap().push((verb.to_owned(), kind.to_owned(), object));
                    if verb == "watch ended" {
                        return;
                    }
                }
            }));
        }
        Self { before, seen, watches }
    }

    /// Whatever has not stayed as it was: what happened, to whom, and which lines of it.
    pub(super) fn changes(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let found = seen.iter().filter_map(|(verb, kind, object)| {
            let key = key(kind, object);
            let now = essence(kind, object);
            let before = self.before.get(&key);
            if verb == "modified" && before == Some(&now) {
                return None;
            }
            Some(format!("{verb} {} {}: {}", key.0, key.1, difference(before.unwrap_or(&Value::Null), &now)))
        });
        found.collect()
    }
}

fn key(kind: &str, object: &Value) -> (String, String) {
    (kind.to_owned(), object["metadata"]["name"].as_str().unwrap_or_default().to_owned())
}

/// Lines of the second that are not in the first, and the other way round.
fn difference(before: &Value, now: &Value) -> String {
    let lines = |value: &Value| -> Vec<String> {
        serde_json::to_string_pretty(value).unwrap().lines().map(|line| line.trim().to_owned()).collect()
    };
    let (before, now) = (lines(before), lines(now));
    let gone = before.iter().filter(|line| !now.contains(line)).map(|line| format!("-{line}"));
    let new = now.iter().filter(|line| !before.contains(line)).map(|line| format!("+{line}"));
    gone.chain(new).collect::<Vec<_>>().join("\n  ")
}
