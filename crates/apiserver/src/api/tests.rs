use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use http_body_util::Full;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api as Objects, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::*;
use crate::resource::GroupKind;

fn client(api: &Api) -> Client {
    Client::new(api.clone(), "default")
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

/// Sends a raw request and returns code and JSON.
async fn send(api: &Api, method: &str, path: &str, content: &str, body: &str) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path);
    if !content.is_empty() {
        request = request.header("content-type", content);
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let response = api.clone().call(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

#[tokio::test(start_paused = true)]
async fn objects_live_and_die() {
    let api = Api::default();
    let maps: Objects<ConfigMap> = Objects::default_namespaced(client(&api));
    let made = maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert!(made.uid().is_some() && made.resource_version().is_some());
    let mut changed = made.clone();
    changed.data = Some([("k".to_owned(), "v".to_owned())].into());
    let changed = maps.replace("a", &PostParams::default(), &changed).await.unwrap();
    let stale = maps.replace("a", &PostParams::default(), &made).await.unwrap_err();
    assert!(stale.to_string().contains("the object has been modified"), "{stale}");
    let same = maps.replace("a", &PostParams::default(), &changed).await.unwrap();
    assert_eq!(same.resource_version(), changed.resource_version(), "nothing changed");
    assert_eq!(maps.list(&ListParams::default()).await.unwrap().items.len(), 1);
    let kind = GroupKind { group: String::new(), kind: "ConfigMap".to_owned() };
    assert_eq!(api.object(&kind, "default", "a").unwrap()["data"]["k"], "v");
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("a").await.unwrap().is_none());

    // All of that from behind.
    assert!(api.object(&kind, "default", "a").is_none() && api.objects("", "v1", "ConfigMap").is_empty());
    let (written, now) = api.changes(&kind, 0).unwrap();
    let told: Vec<(bool, bool)> = written.iter().map(|w| (w.old.is_some(), w.new.is_some())).collect();
    assert_eq!((told, now), (vec![(false, true), (true, true), (true, false)], api.revision()));
    assert!(api.changes(&kind, now).unwrap().0.is_empty());
    api.compact();
    assert!(api.changes(&kind, now - 1).is_none(), "forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_sees_every_change() {
    let api = Api::default();
    let maps: Objects<ConfigMap> = Objects::default_namespaced(client(&api));
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    let mut events = watcher(maps.clone(), watcher::Config::default()).applied_objects().boxed();
    assert_eq!(events.try_next().await.unwrap().unwrap().name_any(), "a");
    maps.create(&PostParams::default(), &config_map("b")).await.unwrap();
    assert_eq!(events.try_next().await.unwrap().unwrap().name_any(), "b");
    tokio::time::sleep(Duration::from_hours(1)).await;
    api.compact();
    maps.create(&PostParams::default(), &config_map("c")).await.unwrap();
    let mut names = Vec::new();
    while !names.contains(&"c".to_owned()) {
        names.push(events.try_next().await.unwrap().unwrap().name_any());
    }
}

#[tokio::test(start_paused = true)]
async fn pages_agree_with_each_other() {
    let api = Api::default();
    let maps: Objects<ConfigMap> = Objects::default_namespaced(client(&api));
    for name in ["a", "b", "c", "d"] {
        maps.create(&PostParams::default(), &config_map(name)).await.unwrap();
    }
    let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!(first.metadata.remaining_item_count, Some(2));
    let token = first.metadata.continue_.unwrap();
    maps.delete("c", &DeleteParams::default()).await.unwrap();
    maps.create(&PostParams::default(), &config_map("e")).await.unwrap();
    let rest = maps.list(&ListParams::default().continue_token(&token)).await.unwrap();
    assert_eq!(rest.items.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>(), ["c", "d"]);
    api.compact();
    let late = maps.list(&ListParams::default().continue_token(&token)).await.unwrap_err();
    assert!(late.to_string().contains("too old"), "{late}");
}

#[tokio::test(start_paused = true)]
async fn applied_fields_have_owners() {
    let api = Api::default();
    let maps: Objects<ConfigMap> = Objects::default_namespaced(client(&api));
    let apply = |manager: &'static str, data: Value| {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        let maps = maps.clone();
        async move { maps.patch("a", &PatchParams::apply(manager), &Patch::Apply(&config)).await }
    };
    apply("one", json!({"a": "1", "b": "1"})).await.unwrap();
    let refused = apply("two", json!({"b": "2"})).await.unwrap_err();
    assert!(refused.to_string().contains("Apply failed with 1 conflict: conflict with \"one\": .data.b"), "{refused}");
    let left = apply("one", json!({"a": "1"})).await.unwrap();
    assert_eq!(left.data.unwrap().into_keys().collect::<Vec<_>>(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn pods_take_their_time() {
    let api = Api::default();
    let pods: Objects<Pod> = Objects::default_namespaced(client(&api));
    let pod = |name: &str, node: &str| -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}}))
        .unwrap()
    };
    pods.create(&PostParams::default(), &pod("bound", "n")).await.unwrap();
    pods.create(&PostParams::default(), &pod("waiting", "")).await.unwrap();
    pods.delete("bound", &DeleteParams::default()).await.unwrap();
    pods.delete("waiting", &DeleteParams::default()).await.unwrap();
    let going = pods.get("bound").await.unwrap();
    assert_eq!(going.metadata.deletion_grace_period_seconds, Some(30));
    assert!(pods.get_opt("waiting").await.unwrap().is_none());
    pods.delete("bound", &DeleteParams::default().grace_period(0)).await.unwrap();
    assert!(pods.get_opt("bound").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn bad_requests_are_refused_as_by_the_server() {
    let api = Api::default();
    let maps = "/api/v1/namespaces/default/configmaps";
    let json_type = "application/json";
    for (method, path, content, body, code, reason) in [
        ("GET", "/api/v1/things", "", "", 404, "NotFound"),
        ("PUT", maps, json_type, "{}", 405, "MethodNotAllowed"),
        ("POST", maps, json_type, "{", 400, "BadRequest"),
        ("POST", maps, json_type, "[]", 400, "BadRequest"),
        ("POST", maps, "application/vnd.kubernetes.protobuf", "x", 415, "UnsupportedMediaType"),
        ("POST", maps, json_type, "{\"metadata\": {}}", 422, "Invalid"),
        ("GET", "/api/v1/pods?labelSelector=a===b", "", "", 400, "BadRequest"),
        ("GET", "/api/v1/pods?fieldSelector=spec.x=b", "", "", 400, "BadRequest"),
        ("PATCH", "/api/v1/namespaces/default", json_type, "{}", 415, "UnsupportedMediaType"),
        ("PATCH", "/api/v1/namespaces/default", "application/merge-patch+json", "[]", 400, "BadRequest"),
        ("PATCH", "/api/v1/namespaces/default", "application/json-patch+json", "[{\"op\":\"x\"}]", 422, "Invalid"),
        ("POST", maps, json_type, "{\"metadata\": \"x\"}", 400, "BadRequest"),
    ] {
        let (found, status) = send(&api, method, path, content, body).await;
        assert_eq!(
            (found, status["reason"].as_str().unwrap_or_default()),
            (code, reason),
            "{method} {path} {body}: {status}"
        );
    }
    let big = "a".repeat(3 * 1024 * 1024 + 1);
    assert_eq!(send(&api, "POST", maps, json_type, &big).await.0, 413);
    assert_eq!(send(&api, "GET", "/apis/nope.example.com/v1/things", "", "").await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_get_lost_and_the_world_can_stop() {
    let api = Api::default();
    let maps: Objects<ConfigMap> = Objects::default_namespaced(client(&api));
    api.add_fault(Rule::new(Fault::AnswerLost).verb(Verb::Create).nth(1));
    assert!(maps.create(&PostParams::default(), &config_map("a")).await.is_err());
    assert!(maps.get_opt("a").await.unwrap().is_some(), "it was written all the same");
    api.add_fault(Rule::new(Fault::StopBefore).verb(Verb::Delete));
    let gone = tokio::time::timeout(Duration::from_mins(1), maps.delete("a", &DeleteParams::default())).await;
    assert!(gone.is_err(), "nobody answers");
    api.stopped().await;
    assert!(maps.get_opt("a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_hot_loop_is_reported() {
    let started = tokio::time::Instant::now();
    let clock: Clock = Arc::new(move || Timestamp::UNIX_EPOCH + started.elapsed());
    let api = Api::new(Options { clock, requests_per_instant: Some(50), ..Options::default() });
    let maps: Objects<ConfigMap> = Objects::default_namespaced(client(&api));
    let mut failed = 0;
    for _ in 0..200 {
        failed += usize::from(maps.get_opt("a").await.is_err());
    }
    assert_eq!(failed, 1);
    assert!(api.hot_loop().unwrap().contains("get ConfigMap a"));
    assert!(started.elapsed() > Duration::from_secs(10), "time passes again, with every request");
}

/// Documents are built once, and again when kinds change.
#[tokio::test(start_paused = true)]
async fn schemas_follow_definitions() {
    let api = Api::default();
    let index = async || send(&api, "GET", "/openapi/v3", "", "").await.1["paths"].clone();
    let before = index().await;
    assert_eq!(index().await, before);
    let crd = json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Cluster",
        "names": {"kind": "Thing", "plural": "things"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&api, "POST", crds, "application/json", &crd.to_string()).await.0, 201);
    let with = index().await;
    assert!(with.get("apis/example.com/v1").is_some());
    assert_eq!(with.as_object().map(serde_json::Map::len), before.as_object().map(|paths| paths.len() + 1));
    assert_eq!(send(&api, "DELETE", &format!("{crds}/things.example.com"), "", "").await.0, 200);
    assert_eq!(index().await, before);
}
