//! Merge patches and JSON patches, and what is refused.

use http::Method;
use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{config_map, definition, deployment, pod, version};

on_every_backend!(
    merge_patch_merges_maps,
    merge_patch_null_removes,
    merge_patch_replaces_lists,
    merge_patch_of_a_missing_object_is_not_found,
    merge_patch_with_a_stale_version_is_a_conflict,
    merge_patch_with_the_current_version_passes,
    merge_patch_cannot_rename,
    merge_patch_cannot_change_identity,
    malformed_merge_patch_is_refused,
    merge_patch_that_is_no_object_is_refused,
    json_patch_adds_replaces_and_removes,
    json_patch_moves_and_copies,
    json_patch_appends_to_lists,
    json_patch_test_guards,
    json_patch_of_a_missing_path_is_refused,
    json_patch_escapes_slashes,
    json_patch_with_a_bad_operation_is_refused,
    json_patch_that_is_no_list_is_refused,
    json_patch_of_the_whole_map,
    patch_needs_a_known_type,
    patch_that_breaks_the_schema_is_refused,
    patch_of_finalizers_and_owners,
    patch_of_a_custom_resource_has_no_strategic_form,
    patch_of_a_collection_is_not_allowed,
    patch_of_status_ignores_the_rest,
    patch_may_not_change_kind,
    long_json_patch_is_refused,
    two_patches_of_different_fields_both_stay,
);

const AT: &str = "configmaps/a";

async fn stored(b: &Cluster) -> Value {
    let mut object = config_map("a", &json!({"k": "v", "l": "v"}));
    object["metadata"]["labels"] = json!({"x": "y"});
    b.post("configmaps", &object).await.created()
}

async fn merge_patch_merges_maps<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let now = b.merge(AT, &json!({"data": {"k": "w", "m": "n"}, "metadata": {"annotations": {"a": "b"}}})).await.ok();
    assert_eq!(now["data"], json!({"k": "w", "l": "v", "m": "n"}));
    assert_eq!(now["metadata"]["annotations"], json!({"a": "b"}));
    assert_eq!(now["metadata"]["labels"], json!({"x": "y"}));
}

async fn merge_patch_null_removes<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let now = b.merge(AT, &json!({"data": {"k": null, "none": null}, "metadata": {"labels": null}})).await.ok();
    assert_eq!(now["data"], json!({"l": "v"}));
    assert_eq!(now["metadata"].get("labels"), None);
}

async fn merge_patch_replaces_lists<B: Backend>() {
    let b = B::start().await;
    b.post("apps/v1 deployments", &deployment("a", 1)).await.created();
    let containers = json!([{"name": "other", "image": "registry/other:1"}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    let now = b.merge("apps/v1 deployments/a", &patch).await.ok();
    let list = now["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!((list.len(), &list[0]["name"]), (1, &json!("other")));
}

async fn merge_patch_of_a_missing_object_is_not_found<B: Backend>() {
    let b = B::start().await;
    b.merge(AT, &json!({})).await.refused(404, "NotFound", "configmaps \"a\" not found");
}

async fn merge_patch_with_a_stale_version_is_a_conflict<B: Backend>() {
    let b = B::start().await;
    let stale = stored(&b).await;
    b.merge(AT, &json!({"data": {"k": "w"}})).await.ok();
    let patch = json!({"metadata": {"resourceVersion": version(&stale)}, "data": {"k": "x"}});
    b.merge(AT, &patch).await.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the \
         latest version and try again",
    );
    let other = json!({"metadata": {"uid": "other"}});
    b.merge(AT, &other).await.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable",
    );
}

async fn merge_patch_with_the_current_version_passes<B: Backend>() {
    let b = B::start().await;
    let made = stored(&b).await;
    let patch =
        json!({"metadata": {"resourceVersion": version(&made), "uid": made["metadata"]["uid"]}, "data": {"k": "x"}});
    assert_eq!(b.merge(AT, &patch).await.ok()["data"]["k"], "x");
}

async fn merge_patch_cannot_rename<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    b.merge(AT, &json!({"metadata": {"name": "b"}})).await.refused(
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    );
}

async fn merge_patch_cannot_change_identity<B: Backend>() {
    let b = B::start().await;
    let made = stored(&b).await;
    let patch = json!({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 4}, "data": {"k": "x"}});
    let now = b.merge(AT, &patch).await.ok();
    assert_eq!(now["metadata"]["creationTimestamp"], made["metadata"]["creationTimestamp"]);
    let gone = json!({"metadata": {"namespace": "default"}});
    b.merge(AT, &gone).await.refused(
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    );
}

async fn raw(b: &Cluster, content_type: &str, body: &str) -> crate::wire::Answer {
    b.send(Method::PATCH, AT, &[("content-type", content_type)], body.as_bytes().to_vec()).await
}

async fn malformed_merge_patch_is_refused<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    raw(&b, "application/merge-patch+json", "{\"data\": ").await.refused_saying(
        400,
        "BadRequest",
        "unexpected end of JSON input",
    );
}

async fn merge_patch_that_is_no_object_is_refused<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let answer = raw(&b, "application/merge-patch+json", "[1]").await;
    answer.refused_saying(400, "BadRequest", "json: cannot unmarshal array into Go value of type");
}

async fn json_patch_adds_replaces_and_removes<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let patch = json!([
        {"op": "test", "path": "/data/k", "value": "v"},
        {"op": "replace", "path": "/data/k", "value": "w"},
        {"op": "remove", "path": "/data/l"},
        {"op": "add", "path": "/data/m", "value": "n"},
    ]);
    assert_eq!(b.json_patch(AT, &patch).await.ok()["data"], json!({"k": "w", "m": "n"}));
    let absent = json!([{"op": "replace", "path": "/data/none", "value": "x"}]);
    assert_eq!(b.json_patch(AT, &absent).await.ok()["data"]["none"], "x", "stricter readers of the standard differ");
}

async fn json_patch_moves_and_copies<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let patch = json!([
        {"op": "move", "from": "/data/k", "path": "/data/moved"},
        {"op": "copy", "from": "/data/l", "path": "/data/copied"},
    ]);
    assert_eq!(b.json_patch(AT, &patch).await.ok()["data"], json!({"moved": "v", "copied": "v", "l": "v"}));
}

async fn json_patch_appends_to_lists<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    b.merge(AT, &json!({"metadata": {"finalizers": ["example.com/a"]}})).await.ok();
    let patch = json!([
        {"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/z"},
        {"op": "add", "path": "/metadata/finalizers/0", "value": "example.com/b"},
    ]);
    let now = b.json_patch(AT, &patch).await.ok();
    assert_eq!(now["metadata"]["finalizers"], json!(["example.com/b", "example.com/a", "example.com/z"]));
}

async fn json_patch_test_guards<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let patch = json!([{"op": "test", "path": "/data/k", "value": "other"}, {"op": "remove", "path": "/data/k"}]);
    b.json_patch(AT, &patch).await.refused(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    );
    assert_eq!(b.get(AT).await.ok()["data"]["k"], "v");
}

async fn json_patch_of_a_missing_path_is_refused<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    for patch in [
        json!([{"op": "remove", "path": "/data/none"}]),
        json!([{"op": "add", "path": "/none/deep", "value": "x"}]),
        json!([{"op": "move", "from": "/data/none", "path": "/data/x"}]),
        json!([{"op": "add", "path": "/metadata/finalizers/7", "value": "x"}]),
    ] {
        b.json_patch(AT, &patch).await.refused(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
        );
    }
}

async fn json_patch_escapes_slashes<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    b.merge(AT, &json!({"metadata": {"annotations": {"example.com/x": "1", "keep": "1"}}})).await.ok();
    let patch = json!([{"op": "remove", "path": "/metadata/annotations/example.com~1x"}]);
    assert_eq!(b.json_patch(AT, &patch).await.ok()["metadata"]["annotations"], json!({"keep": "1"}));
}

async fn json_patch_with_a_bad_operation_is_refused<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let patch = json!([{"op": "frobnicate", "path": "/data/k"}]);
    b.json_patch(AT, &patch).await.refused(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    );
}

async fn json_patch_that_is_no_list_is_refused<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    b.json_patch(AT, &json!({"op": "remove"})).await.refused_saying(
        400,
        "BadRequest",
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    );
}

async fn json_patch_of_the_whole_map<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let patch =
        json!([{"op": "add", "path": "/metadata/labels", "value": {"only": "one"}}, {"op": "remove", "path": "/data"}]);
    let now = b.json_patch(AT, &patch).await.ok();
    assert_eq!(now["metadata"]["labels"], json!({"only": "one"}));
    assert_eq!(now.get("data"), None);
}

async fn patch_needs_a_known_type<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    raw(&b, "application/json", "{}").await.refused(415, "UnsupportedMediaType", "415: Unsupported Media Type");
}

async fn patch_that_breaks_the_schema_is_refused<B: Backend>() {
    let b = B::start().await;
    b.post("apps/v1 deployments", &deployment("a", 1)).await.created();
    let at = "apps/v1 deployments/a";
    b.merge(at, &json!({"spec": {"replicas": "many"}})).await.refused_saying(
        422,
        "Invalid",
        "cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    );
    b.merge(at, &json!({"spec": {"replicas": -1}})).await.refused(
        422,
        "Invalid",
        "Deployment.apps \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    );
}

async fn patch_of_finalizers_and_owners<B: Backend>() {
    let b = B::start().await;
    let owner = stored(&b).await;
    b.post("configmaps", &config_map("b", &json!({}))).await.created();
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": owner["metadata"]["uid"]});
    let now = b.merge("configmaps/b", &json!({"metadata": {"ownerReferences": [reference]}})).await.ok();
    assert_eq!(now["metadata"]["ownerReferences"], json!([reference]));
    // Strategic patches merge owners by uid.
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c"});
    let now = b.strategic("configmaps/b", &json!({"metadata": {"ownerReferences": [other]}})).await.ok();
    assert_eq!(now["metadata"]["ownerReferences"], json!([other, reference]));
    let now = b
        .strategic("configmaps/b", &json!({"metadata": {"ownerReferences": [{"uid": "c", "$patch": "delete"}]}}))
        .await
        .ok();
    assert_eq!(now["metadata"]["ownerReferences"], json!([reference]));
    // And add to finalizers.
    b.strategic("configmaps/b", &json!({"metadata": {"finalizers": ["example.com/x"]}})).await.ok();
    let now = b.strategic("configmaps/b", &json!({"metadata": {"finalizers": ["example.com/y"]}})).await.ok();
    assert_eq!(now["metadata"]["finalizers"], json!(["example.com/y", "example.com/x"]));
    let now = b
        .strategic("configmaps/b", &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/x"]}}))
        .await
        .ok();
    assert_eq!(now["metadata"]["finalizers"], json!(["example.com/y"]));
}

async fn patch_of_a_custom_resource_has_no_strategic_form<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    b.install(&definition(&group, "Thing", "Namespaced", &json!({"type": "object"}))).await;
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}});
    b.post(&format!("{group}/v1 things"), &thing).await.created();
    b.strategic(&format!("{group}/v1 things/a"), &json!({"metadata": {"labels": {"x": "y"}}})).await.refused(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
         application/merge-patch+json, application/apply-patch+yaml",
    );
}

async fn patch_of_a_collection_is_not_allowed<B: Backend>() {
    let b = B::start().await;
    b.merge("configmaps", &json!({})).await.refused(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    );
}

async fn patch_of_status_ignores_the_rest<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    let patch = json!({"status": {"phase": "Running"}, "metadata": {"labels": {"x": "y"}}, "spec": {"nodeName": "n"}});
    let now = b.strategic("pods/a/status", &patch).await.ok();
    assert_eq!(now["status"]["phase"], "Running");
    assert_eq!(now["spec"].get("nodeName"), None);
    assert_eq!(now["metadata"]["labels"], json!({"x": "y"}), "kubelets may label their pods");
}

async fn patch_may_not_change_kind<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    b.merge(AT, &json!({"kind": "Secret"})).await.refused_saying(
        422,
        "Invalid",
        " \"\" is invalid: patch: Invalid value: \"{",
    );
}

async fn long_json_patch_is_refused<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let many: Vec<Value> = (0..10_001).map(|_| json!({"op": "test", "path": "/data/k", "value": "v"})).collect();
    b.json_patch(AT, &json!(many)).await.refused_saying(
        413,
        "RequestEntityTooLarge",
        "The allowed maximum operations in a JSON patch is 10000, got 10001",
    );
}

async fn two_patches_of_different_fields_both_stay<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let (one, two) = (json!({"data": {"one": "1"}}), json!({"data": {"two": "2"}}));
    let (first, second) = futures::join!(b.merge(AT, &one), b.merge(AT, &two));
    first.ok();
    second.ok();
    assert_eq!(b.get(AT).await.ok()["data"], json!({"k": "v", "l": "v", "one": "1", "two": "2"}));
}
