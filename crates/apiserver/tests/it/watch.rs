//! Watches.

use http::Method;
use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::objects::{config_map, definition, labelled, pod, version};

on_every_backend!(
    watch_without_a_version_starts_with_what_is_there,
    watch_from_zero_starts_with_what_is_there,
    watch_from_a_version_tells_what_came_after,
    watch_sees_every_change_in_order,
    deleted_event_has_the_last_state_and_a_new_version,
    watch_ends_at_its_timeout,
    watch_sends_a_bookmark_before_it_ends,
    watch_without_bookmarks_sends_none,
    initial_events_end_with_a_marked_bookmark,
    initial_events_may_be_left_out,
    initial_events_need_a_version_match,
    selector_turns_changes_into_additions_and_deletions,
    field_selector_turns_changes_into_additions_and_deletions,
    watch_of_one_object_by_name,
    watch_of_all_namespaces,
    old_watch_path_works,
    watch_from_a_forgotten_version_is_gone,
    watch_from_the_future_is_refused,
    two_watches_see_the_same,
    watch_of_a_custom_resource,
    watch_of_metadata_only,
    watch_as_a_table,
    watch_objects_carry_their_kind,
    watch_from_now_starts_empty,
    finalized_object_is_modified_then_deleted,
    watch_ends_with_its_definition,
    bad_watch_queries_are_refused,
    status_changes_are_events_too,
);

async fn watch_without_a_version_starts_with_what_is_there<B: Backend>() {
    let b = B::start().await;
    for name in ["b", "a"] {
        b.post("configmaps", &config_map(name, &json!({}))).await.created();
    }
    let mut watch = b.watch("configmaps").await;
    let mut first = watch.names(2).await;
    first.sort();
    assert_eq!(first, ["ADDED a", "ADDED b"]);
    b.post("configmaps", &config_map("c", &json!({}))).await.created();
    assert_eq!(watch.names(1).await, ["ADDED c"]);
}

async fn watch_from_zero_starts_with_what_is_there<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    // Zero may be answered from a cache that lags; a read of now makes sure that it does not.
    b.get("configmaps").await.ok();
    let mut watch = b.watch("configmaps?resourceVersion=0").await;
    assert_eq!(watch.names(1).await, ["ADDED a"]);
}

async fn watch_from_a_version_tells_what_came_after<B: Backend>() {
    let b = B::start().await;
    let first = b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let second = b.post("configmaps", &config_map("b", &json!({}))).await.created();
    let mut watch = b.watch(&format!("configmaps?resourceVersion={}", version(&first))).await;
    let (kind, object) = watch.event().await;
    assert_eq!((kind.as_str(), object), ("ADDED", second));
}

async fn watch_sees_every_change_in_order<B: Backend>() {
    let b = B::start().await;
    let start = b.get("configmaps").await.ok();
    let mut watch = b.watch(&format!("configmaps?resourceVersion={}", version(&start))).await;
    b.post("configmaps", &config_map("a", &json!({"n": "0"}))).await.created();
    for n in 1..=3 {
        b.merge("configmaps/a", &json!({"data": {"n": n.to_string()}})).await.ok();
    }
    b.delete("configmaps/a").await.ok();
    b.post("configmaps", &config_map("a", &json!({"n": "new"}))).await.created();
    let mut seen = Vec::new();
    let mut last = 0;
    for _ in 0..6 {
        let (kind, object) = watch.event().await;
        let now: u64 = version(&object).parse().unwrap();
        assert!(now > last, "versions rise");
        last = now;
        seen.push(format!("{kind} {}", object["data"]["n"].as_str().unwrap()));
    }
    assert_eq!(seen, ["ADDED 0", "MODIFIED 1", "MODIFIED 2", "MODIFIED 3", "DELETED 3", "ADDED new"]);
}

async fn deleted_event_has_the_last_state_and_a_new_version<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({"k": "v"}))).await.created();
    let mut watch = b.watch(&format!("configmaps?resourceVersion={}", version(&made))).await;
    b.delete("configmaps/a").await.ok();
    let (kind, mut object) = watch.event().await;
    assert_eq!(kind, "DELETED");
    assert!(version(&object).parse::<u64>().unwrap() > version(&made).parse().unwrap());
    object["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    assert_eq!(object, made);
}

async fn watch_ends_at_its_timeout<B: Backend>() {
    let b = B::start().await;
    let start = tokio::time::Instant::now();
    let mut watch = b.watch("configmaps?timeoutSeconds=1").await;
    watch.ended().await;
    let took = start.elapsed().as_secs_f64();
    assert!((0.9..5.0).contains(&took), "{took}");
}

/// A bookmark says how far the server has got, so something that this watch does not select happens meanwhile.
async fn watch_sends_a_bookmark_before_it_ends<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let path = "configmaps?timeoutSeconds=5&allowWatchBookmarks=true&labelSelector=none&resourceVersion=";
    // The real server does not promise it for every watch: it comes in the last two seconds, or not at all on a busy machine.
    let mut first = None;
    for attempt in 0..20 {
        let mut watch = b.watch(&format!("{path}{}", version(&made))).await;
        b.post("configmaps", &config_map(&format!("b{attempt}"), &json!({}))).await.created();
        first = watch.next().await;
        if first.is_some() {
            break;
        }
    }
    let event = first.expect("one of the watches had a bookmark");
    assert_eq!(event["type"], "BOOKMARK");
    let object = &event["object"];
    assert!(version(object).parse::<u64>().unwrap() > version(&made).parse().unwrap());
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
}

async fn watch_without_bookmarks_sends_none<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let mut watch = b.watch(&format!("configmaps?timeoutSeconds=3&resourceVersion={}", version(&made))).await;
    watch.ended().await;
}

async fn initial_events_end_with_a_marked_bookmark<B: Backend>() {
    let b = B::start().await;
    for name in ["a", "b"] {
        b.post("configmaps", &config_map(name, &json!({}))).await.created();
    }
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = b.watch(&format!("configmaps?{query}")).await;
    assert_eq!(watch.names(2).await, ["ADDED a", "ADDED b"]);
    let (kind, object) = watch.event().await;
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(object["metadata"]["annotations"], json!({"k8s.io/initial-events-end": "true"}));
    let newest = b.get("configmaps/b").await.ok();
    assert!(version(&object).parse::<u64>().unwrap() >= version(&newest).parse().unwrap());
    b.post("configmaps", &config_map("c", &json!({}))).await.created();
    assert_eq!(watch.names(1).await, ["ADDED c"]);
}

async fn initial_events_may_be_left_out<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = b.watch(&format!("configmaps?{query}")).await;
    b.post("configmaps", &config_map("b", &json!({}))).await.created();
    assert_eq!(watch.names(1).await, ["ADDED b"]);
}

async fn initial_events_need_a_version_match<B: Backend>() {
    let b = B::start().await;
    b.get("configmaps?watch=true&sendInitialEvents=true").await.refused(
        422,
        "Invalid",
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting \
         resourceVersionMatch to NotOlderThan",
    );
    b.get("configmaps?watch=true&resourceVersion=1&resourceVersionMatch=NotOlderThan").await.refused_saying(
        422,
        "Invalid",
        "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
    );
    b.get("configmaps?sendInitialEvents=true").await.refused_saying(
        422,
        "Invalid",
        "sendInitialEvents is forbidden for list",
    );
}

async fn selector_turns_changes_into_additions_and_deletions<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &labelled("a", &json!({"in": "no"}))).await.created();
    b.post("configmaps", &labelled("b", &json!({"in": "yes"}))).await.created();
    let list = b.get("configmaps?labelSelector=in%3Dyes").await.ok();
    let mut watch = b.watch(&format!("configmaps?labelSelector=in%3Dyes&resourceVersion={}", version(&list))).await;
    let label = |value: &str| json!({"metadata": {"labels": {"in": value}}});
    b.merge("configmaps/a", &label("maybe")).await.ok();
    b.merge("configmaps/a", &label("yes")).await.ok();
    b.merge("configmaps/a", &json!({"data": {"k": "v"}})).await.ok();
    b.merge("configmaps/b", &label("no")).await.ok();
    b.merge("configmaps/b", &json!({"data": {"k": "v"}})).await.ok();
    b.delete("configmaps/b").await.ok();
    b.delete("configmaps/a").await.ok();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let (kind, object) = watch.event().await;
        let label = object["metadata"]["labels"]["in"].as_str().unwrap();
        seen.push(format!("{kind} {} {label}", object["metadata"]["name"].as_str().unwrap()));
    }
    // The object that leaves is told in its last state that was selected.
    assert_eq!(seen, ["ADDED a yes", "MODIFIED a yes", "DELETED b yes", "DELETED a yes"]);
}

async fn field_selector_turns_changes_into_additions_and_deletions<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    let list = b.get("pods").await.ok();
    let query = format!("fieldSelector=status.phase%3DRunning&resourceVersion={}", version(&list));
    let mut watch = b.watch(&format!("pods?{query}")).await;
    for phase in ["Running", "Succeeded"] {
        b.merge("pods/a/status", &json!({"status": {"phase": phase}})).await.ok();
    }
    assert_eq!(watch.names(2).await, ["ADDED a", "DELETED a"]);
}

async fn watch_of_one_object_by_name<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let query = format!("fieldSelector=metadata.name%3Da&resourceVersion={}", version(&made));
    let mut watch = b.watch(&format!("configmaps?{query}")).await;
    b.post("configmaps", &config_map("b", &json!({}))).await.created();
    b.merge("configmaps/a", &json!({"data": {"k": "v"}})).await.ok();
    assert_eq!(watch.names(1).await, ["MODIFIED a"]);
}

async fn watch_of_all_namespaces<B: Backend>() {
    let b = B::start().await;
    let mark = b.name("mark");
    let list = b.get("/api/v1/configmaps").await.ok();
    let query = format!("labelSelector=mark%3D{mark}&resourceVersion={}", version(&list));
    let mut watch = b.watch(&format!("/api/v1/configmaps?{query}")).await;
    b.post("configmaps", &labelled("a", &json!({"mark": mark}))).await.created();
    let (kind, object) = watch.event().await;
    assert_eq!((kind.as_str(), &object["metadata"]["namespace"]), ("ADDED", &json!(b.namespace())));
}

async fn old_watch_path_works<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    b.post("configmaps", &config_map("b", &json!({}))).await.created();
    let mut watch = b.watch(&format!("/api/v1/watch/namespaces/{}/configmaps/b", b.namespace())).await;
    assert_eq!(watch.names(1).await, ["ADDED b"]);
}

async fn watch_from_a_forgotten_version_is_gone<B: Backend>() {
    let b = B::start().await;
    // What a definition serves has no history from before it was there.
    let group = b.group();
    b.install(&definition(&group, "Thing", "Namespaced", &json!({"type": "object"}))).await;
    let mut watch = b.watch(&format!("{group}/v1 things?resourceVersion=1")).await;
    let (kind, object) = watch.event().await;
    assert_eq!(kind, "ERROR");
    assert_eq!(
        (&object["kind"], &object["code"], &object["reason"]),
        (&json!("Status"), &json!(410), &json!("Expired"))
    );
    let message = object["message"].as_str().unwrap();
    assert!(message.starts_with("too old resource version: 1 ("), "{message}");
    watch.ended().await;
}

async fn watch_from_the_future_is_refused<B: Backend>() {
    let b = B::start().await;
    let answer = b.get("configmaps?watch=true&resourceVersion=999999999&timeoutSeconds=1").await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    assert_eq!(answer.text, "", "it waits for it until the timeout");
}

async fn two_watches_see_the_same<B: Backend>() {
    let b = B::start().await;
    let list = b.get("configmaps").await.ok();
    let path = format!("configmaps?resourceVersion={}", version(&list));
    let (mut one, mut two) = (b.watch(&path).await, b.watch(&path).await);
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    b.delete("configmaps/a").await.ok();
    for _ in 0..2 {
        assert_eq!(one.event().await, two.event().await);
    }
}

async fn watch_of_a_custom_resource<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    b.install(&definition(&group, "Thing", "Namespaced", &json!({"type": "object"}))).await;
    let things = format!("{group}/v1 things");
    let list = b.get(&things).await.ok();
    assert_eq!(list["kind"], "ThingList");
    let mut watch = b.watch(&format!("{things}?resourceVersion={}", version(&list))).await;
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}});
    let made = b.post(&things, &thing).await.created();
    assert_eq!(watch.event().await, ("ADDED".to_owned(), made));
}

async fn watch_of_metadata_only<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({"k": "v"}))).await.created();
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let mut watch = b.watch_with("configmaps", &[("accept", accept)]).await;
    let (kind, object) = watch.event().await;
    assert_eq!(kind, "ADDED");
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1")));
    assert_eq!(object["metadata"]["name"], "a");
    assert_eq!(object.get("data"), None);
}

async fn watch_as_a_table<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({"k": "v"}))).await.created();
    let mut watch = b.watch_with("configmaps", &[("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")]).await;
    let (kind, table) = watch.event().await;
    assert_eq!((kind.as_str(), &table["kind"]), ("ADDED", &json!("Table")));
    let columns: Vec<&Value> = table["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(columns, ["Name", "Data", "Age"]);
    assert_eq!(table["rows"][0]["cells"][0], "a");
    // Only the first event says what the columns are.
    b.post("configmaps", &config_map("b", &json!({}))).await.created();
    let (_, table) = watch.event().await;
    assert_eq!((&table["columnDefinitions"], &table["rows"][0]["cells"][0]), (&Value::Null, &json!("b")));
}

async fn watch_objects_carry_their_kind<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let (_, object) = b.watch("configmaps").await.event().await;
    assert_eq!(object, made);
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
}

async fn watch_from_now_starts_empty<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let list = b.get("configmaps").await.ok();
    let mut watch = b.watch(&format!("configmaps?resourceVersion={}", version(&list))).await;
    b.post("configmaps", &config_map("b", &json!({}))).await.created();
    assert_eq!(watch.names(1).await, ["ADDED b"]);
}

async fn finalized_object_is_modified_then_deleted<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/x"]);
    let made = b.post("configmaps", &object).await.created();
    let mut watch = b.watch(&format!("configmaps?resourceVersion={}", version(&made))).await;
    b.delete("configmaps/a").await.ok();
    b.merge("configmaps/a", &json!({"metadata": {"finalizers": null}})).await.ok();
    let (kind, first) = watch.event().await;
    assert_eq!(kind, "MODIFIED");
    assert!(first["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(first["metadata"]["finalizers"], json!(["example.com/x"]));
    let (kind, last) = watch.event().await;
    assert_eq!(kind, "DELETED");
    assert!(last["metadata"]["deletionTimestamp"].is_string());
}

async fn watch_ends_with_its_definition<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    let crd = definition(&group, "Thing", "Namespaced", &json!({"type": "object"}));
    b.install(&crd).await;
    let mut watch = b.watch(&format!("{group}/v1 things")).await;
    b.delete(&format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}")).await.ok();
    watch.ended().await;
}

async fn bad_watch_queries_are_refused<B: Backend>() {
    let b = B::start().await;
    // Whatever is not a no is a yes.
    assert_eq!(b.get("configmaps?watch=perhaps&timeoutSeconds=1").await.text, "");
    assert_eq!(b.get("configmaps?watch=false").await.ok()["kind"], "ConfigMapList");
    assert_eq!(b.get("configmaps?watch=0").await.ok()["kind"], "ConfigMapList");
    b.get("configmaps?watch=true&timeoutSeconds=soon").await.refused_saying(400, "BadRequest", "invalid syntax");
    b.get("configmaps?watch=true&resourceVersion=x").await.refused(
        500,
        "",
        "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax",
    );
    b.get("configmaps?watch=true&labelSelector=a%20in").await.refused_saying(
        400,
        "BadRequest",
        "unable to parse requirement",
    );
    b.send(Method::POST, "configmaps?watch=true", &[("content-type", "application/json")], b"{}".to_vec())
        .await
        .refused_saying(422, "Invalid", "metadata.name: Required value");
}

async fn status_changes_are_events_too<B: Backend>() {
    let b = B::start().await;
    let made = b.post("pods", &pod("a")).await.created();
    let mut watch = b.watch(&format!("pods?resourceVersion={}", version(&made))).await;
    b.merge("pods/a/status", &json!({"status": {"phase": "Running"}})).await.ok();
    let (kind, object) = watch.event().await;
    assert_eq!((kind.as_str(), &object["status"]["phase"]), ("MODIFIED", &json!("Running")));
}
