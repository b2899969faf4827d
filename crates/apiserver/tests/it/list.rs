//! Reading: get, list, pages, resource versions.

use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{config_map, names, node, version};

on_every_backend!(
    missing_object_is_not_found,
    empty_list_is_a_list,
    list_is_sorted_by_name,
    list_of_all_namespaces_is_sorted_by_namespace,
    items_of_a_list_carry_no_kind,
    list_has_the_version_of_now,
    limit_and_continue_walk_all_pages,
    pages_show_the_state_of_the_first_page,
    remaining_count_is_left_out_with_a_selector,
    bad_continue_token_is_refused,
    negative_limit_is_refused,
    list_at_an_exact_version_shows_the_past,
    list_not_older_than_a_version_is_fresh,
    version_match_needs_a_version,
    unknown_version_match_is_refused,
    version_from_the_future_is_refused,
    malformed_version_is_refused,
    get_takes_a_version_too,
    get_of_a_name_by_field_selector_in_a_list,
    object_in_another_namespace_is_not_found,
    cluster_scoped_list,
    exact_match_of_version_zero_is_refused,
    continue_and_version_exclude_each_other,
);

async fn three(b: &Cluster) -> Vec<Value> {
    let mut made = Vec::new();
    for name in ["b", "c", "a"] {
        made.push(b.post("configmaps", &config_map(name, &json!({"n": name}))).await.created());
    }
    made
}

async fn missing_object_is_not_found<B: Backend>() {
    let b = B::start().await;
    let said = b.get("configmaps/none").await.refused(404, "NotFound", "configmaps \"none\" not found");
    assert_eq!(said["details"], json!({"name": "none", "kind": "configmaps"}));
    let said = b.get("apps/v1 deployments/none").await.refused(404, "NotFound", "deployments.apps \"none\" not found");
    assert_eq!(said["details"], json!({"name": "none", "group": "apps", "kind": "deployments"}));
}

async fn empty_list_is_a_list<B: Backend>() {
    let b = B::start().await;
    let list = b.get("configmaps").await.ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert_eq!(list["items"], json!([]));
    // A namespace that does not exist has no objects either.
    let list = b.get("/api/v1/namespaces/no-such-place/pods").await.ok();
    assert_eq!((&list["kind"], &list["items"]), (&json!("PodList"), &json!([])));
}

async fn list_is_sorted_by_name<B: Backend>() {
    let b = B::start().await;
    three(&b).await;
    assert_eq!(names(&b.get("configmaps").await.ok()), ["a", "b", "c"]);
}

async fn list_of_all_namespaces_is_sorted_by_namespace<B: Backend>() {
    let b = B::start().await;
    let other = b.name("a-earlier-one");
    b.post("/api/v1/namespaces", &json!({"metadata": {"name": other}})).await.created();
    let mark = b.name("all");
    let object = |name: &str| json!({"metadata": {"name": name, "labels": {"mark": mark}}});
    for (place, name) in [(b.namespace(), "a"), (b.namespace(), "b"), (other.as_str(), "c")] {
        b.post(&format!("/api/v1/namespaces/{place}/configmaps"), &object(name)).await.created();
    }
    let list = b.get(&format!("/api/v1/configmaps?labelSelector=mark%3D{mark}")).await.ok();
    assert_eq!(names(&list), ["c", "a", "b"]);
    assert_eq!(list["items"][0]["metadata"]["namespace"], other.as_str());
}

async fn items_of_a_list_carry_no_kind<B: Backend>() {
    let b = B::start().await;
    three(&b).await;
    let list = b.get("configmaps").await.ok();
    assert_eq!(list["items"][0].get("kind"), None);
    assert_eq!(list["items"][0].get("apiVersion"), None);
}

async fn list_has_the_version_of_now<B: Backend>() {
    let b = B::start().await;
    let last = three(&b).await.pop().unwrap();
    let list = b.get("configmaps").await.ok();
    let newest: u64 = version(&list).parse().unwrap();
    assert!(newest >= version(&last).parse().unwrap());
    let other = b.get("secrets").await.ok();
    assert!(version(&other).parse::<u64>().unwrap() >= newest, "one counter for all kinds");
}

async fn limit_and_continue_walk_all_pages<B: Backend>() {
    let b = B::start().await;
    for i in 0..5 {
        b.post("configmaps", &config_map(&format!("c{i}"), &json!({}))).await.created();
    }
    let first = b.get("configmaps?limit=2").await.ok();
    assert_eq!(names(&first), ["c0", "c1"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = b.get(&format!("configmaps?limit=2&continue={token}")).await.ok();
    assert_eq!(names(&second), ["c2", "c3"]);
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    assert_eq!(version(&second), version(&first));
    let token = second["metadata"]["continue"].as_str().unwrap();
    let last = b.get(&format!("configmaps?limit=2&continue={token}")).await.ok();
    assert_eq!(names(&last), ["c4"]);
    assert_eq!(last["metadata"].get("continue"), None);
    assert_eq!(last["metadata"].get("remainingItemCount"), None);
}

async fn pages_show_the_state_of_the_first_page<B: Backend>() {
    let b = B::start().await;
    three(&b).await;
    let first = b.get("configmaps?limit=1").await.ok();
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    b.delete("configmaps/b").await.ok();
    b.post("configmaps", &config_map("bb", &json!({}))).await.created();
    let rest = b.get(&format!("configmaps?limit=10&continue={token}")).await.ok();
    assert_eq!(names(&rest), ["b", "c"], "deleted and created after the first page");
}

async fn remaining_count_is_left_out_with_a_selector<B: Backend>() {
    let b = B::start().await;
    for name in ["a", "b", "c"] {
        b.post("configmaps", &crate::objects::labelled(name, &json!({"x": "y"}))).await.created();
    }
    let page = b.get("configmaps?limit=1&labelSelector=x%3Dy").await.ok();
    assert_eq!(names(&page), ["a"]);
    assert_eq!(page["metadata"].get("remainingItemCount"), None);
    assert_ne!(page["metadata"]["continue"].as_str().unwrap_or_default(), "");
}

async fn bad_continue_token_is_refused<B: Backend>() {
    let b = B::start().await;
    b.get("configmaps?limit=1&continue=%21%21").await.refused_saying(400, "BadRequest", "continue key is not valid");
}

async fn negative_limit_is_refused<B: Backend>() {
    let b = B::start().await;
    three(&b).await;
    assert_eq!(names(&b.get("configmaps?limit=0").await.ok()), ["a", "b", "c"], "no limit");
    b.get("configmaps?limit=many").await.refused_saying(400, "BadRequest", "invalid syntax");
}

async fn list_at_an_exact_version_shows_the_past<B: Backend>() {
    let b = B::start().await;
    let made = three(&b).await;
    let then = version(&made[1]);
    b.delete("configmaps/b").await.ok();
    let path = format!("configmaps?resourceVersion={then}&resourceVersionMatch=Exact");
    let list = b.get(&path).await.ok();
    assert_eq!(names(&list), ["b", "c"]);
    assert_eq!(version(&list), then);
}

async fn list_not_older_than_a_version_is_fresh<B: Backend>() {
    let b = B::start().await;
    let made = three(&b).await;
    let then = version(&made[0]);
    for query in
        [format!("resourceVersion={then}"), format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan")]
    {
        let list = b.get(&format!("configmaps?{query}")).await.ok();
        assert!(names(&list).contains(&"b"), "{query}");
        assert!(version(&list).parse::<u64>().unwrap() >= then.parse().unwrap());
    }
    let list = b.get("configmaps?resourceVersion=0").await.ok();
    assert_eq!(list["kind"], "ConfigMapList");
}

async fn version_match_needs_a_version<B: Backend>() {
    let b = B::start().await;
    b.get("configmaps?resourceVersionMatch=Exact").await.refused(
        422,
        "Invalid",
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless \
         resourceVersion is provided",
    );
}

async fn unknown_version_match_is_refused<B: Backend>() {
    let b = B::start().await;
    b.get("configmaps?resourceVersion=5&resourceVersionMatch=Sometimes").await.refused(
        422,
        "Invalid",
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Unsupported value: \"Sometimes\": supported values: \
         \"Exact\", \"NotOlderThan\", \"\"",
    );
}

async fn version_from_the_future_is_refused<B: Backend>() {
    let b = B::start().await;
    // The real server waits three seconds for it to come.
    let said = b.get("configmaps?resourceVersion=999999999&resourceVersionMatch=NotOlderThan").await.refused_saying(
        504,
        "Timeout",
        "Too large resource version: 999999999, current: ",
    );
    assert_eq!(said["details"]["retryAfterSeconds"], 1);
    assert_eq!(
        said["details"]["causes"],
        json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}])
    );
}

async fn malformed_version_is_refused<B: Backend>() {
    let b = B::start().await;
    b.get("configmaps?resourceVersion=new").await.refused_saying(400, "BadRequest", "resourceVersion");
}

async fn get_takes_a_version_too<B: Backend>() {
    let b = B::start().await;
    let made = three(&b).await.remove(0);
    b.merge("configmaps/b", &json!({"data": {"n": "new"}})).await.ok();
    let read = b.get(&format!("configmaps/b?resourceVersion={}", version(&made))).await.ok();
    assert!(version(&read).parse::<u64>().unwrap() >= version(&made).parse().unwrap());
}

async fn get_of_a_name_by_field_selector_in_a_list<B: Backend>() {
    let b = B::start().await;
    three(&b).await;
    assert_eq!(names(&b.get("configmaps?fieldSelector=metadata.name%3Db").await.ok()), ["b"]);
    assert_eq!(names(&b.get("configmaps?fieldSelector=metadata.name%3Dz").await.ok()), [""; 0]);
}

async fn object_in_another_namespace_is_not_found<B: Backend>() {
    let b = B::start().await;
    three(&b).await;
    b.get("/api/v1/namespaces/default/configmaps/b").await.refused(404, "NotFound", "configmaps \"b\" not found");
}

async fn cluster_scoped_list<B: Backend>() {
    let b = B::start().await;
    let name = b.name("node");
    b.post("/api/v1/nodes", &node(&name)).await.created();
    let list = b.get("/api/v1/nodes").await.ok();
    assert_eq!(list["kind"], "NodeList");
    assert!(names(&list).contains(&name.as_str()));
    b.get(&format!("/api/v1/namespaces/{}/nodes", b.namespace())).await.refused(
        404,
        "NotFound",
        "the server could not find the requested resource",
    );
}

async fn exact_match_of_version_zero_is_refused<B: Backend>() {
    let b = B::start().await;
    b.get("configmaps?resourceVersion=0&resourceVersionMatch=Exact").await.refused(
        422,
        "Invalid",
        "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden \
         for resourceVersion \"0\"",
    );
}

async fn continue_and_version_exclude_each_other<B: Backend>() {
    let b = B::start().await;
    three(&b).await;
    let first = b.get("configmaps?limit=1").await.ok();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let path = format!("configmaps?limit=1&continue={token}&resourceVersion={}", version(&first));
    b.get(&path).await.refused_saying(
        400,
        "BadRequest",
        "specifying resource version is not allowed when using continue",
    );
}
