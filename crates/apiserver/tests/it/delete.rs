//! Deletion: answers, finalizers, grace periods, preconditions, collections.

use http::Method;
use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{config_map, deployment, labelled, names, pod, pod_on, version};

on_every_backend!(
    deletion_is_answered_with_a_status,
    deletion_of_a_pod_is_answered_with_the_pod,
    deletion_of_a_missing_object_is_not_found,
    finalizer_holds_the_object,
    finalizers_may_not_be_added_while_deleting,
    second_deletion_of_a_finalized_object_changes_nothing,
    last_finalizer_takes_the_object_away,
    other_fields_may_change_while_deleting,
    unbound_pod_goes_at_once,
    bound_pod_stays_for_its_grace_period,
    grace_period_of_the_request_wins,
    grace_period_can_only_shrink,
    zero_grace_period_removes_a_bound_pod,
    finished_pod_goes_at_once,
    bound_pod_with_a_finalizer,
    kubelet_finishes_a_graceful_deletion,
    precondition_on_uid,
    precondition_on_version,
    collection_is_deleted_by_selector,
    whole_collection_is_deleted,
    collection_of_pods_is_deleted_gracefully,
    collection_respects_finalizers,
    delete_options_in_the_query,
    both_propagation_settings_are_refused,
    unknown_propagation_is_refused,
    negative_grace_period_is_one_second,
    foreground_sets_a_finalizer,
    orphan_sets_a_finalizer,
    malformed_delete_options_are_refused,
    grace_period_does_not_matter_to_config_maps,
    deleted_name_can_be_used_again,
    terminating_pod_stays_in_lists,
);

async fn finalized(b: &Cluster) -> Value {
    let mut object = config_map("a", &json!({"k": "v"}));
    object["metadata"]["finalizers"] = json!(["example.com/x", "example.com/y"]);
    b.post("configmaps", &object).await.created()
}

async fn deletion_is_answered_with_a_status<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let said = b.delete("configmaps/a").await.ok();
    assert_eq!(
        said,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}})
    );
    b.get("configmaps/a").await.refused(404, "NotFound", "configmaps \"a\" not found");
    let made = b.post("apps/v1 deployments", &deployment("a", 1)).await.created();
    let said = b.delete("apps/v1 deployments/a").await.ok();
    let details = json!({"name": "a", "group": "apps", "kind": "deployments", "uid": made["metadata"]["uid"]});
    assert_eq!(said["details"], details);
}

async fn deletion_of_a_pod_is_answered_with_the_pod<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    let said = b.delete("pods/a").await.ok();
    assert_eq!((&said["kind"], &said["metadata"]["name"]), (&json!("Pod"), &json!("a")));
}

async fn deletion_of_a_missing_object_is_not_found<B: Backend>() {
    let b = B::start().await;
    b.delete("configmaps/a").await.refused(404, "NotFound", "configmaps \"a\" not found");
}

async fn finalizer_holds_the_object<B: Backend>() {
    let b = B::start().await;
    let made = finalized(&b).await;
    let said = b.delete("configmaps/a").await.ok();
    assert_eq!(said["kind"], "ConfigMap", "the object as it is now");
    assert!(said["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(said["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_ne!(version(&said), version(&made));
    assert_eq!(b.get("configmaps/a").await.ok(), said);
}

async fn finalizers_may_not_be_added_while_deleting<B: Backend>() {
    let b = B::start().await;
    finalized(&b).await;
    b.delete("configmaps/a").await.ok();
    let more = json!({"metadata": {"finalizers": ["example.com/x", "example.com/y", "example.com/z"]}});
    b.merge("configmaps/a", &more).await.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is being \
         deleted, found new finalizers []string{\"example.com/z\"}",
    );
}

async fn second_deletion_of_a_finalized_object_changes_nothing<B: Backend>() {
    let b = B::start().await;
    finalized(&b).await;
    let first = b.delete("configmaps/a").await.ok();
    let second = b.delete("configmaps/a").await.ok();
    assert_eq!(first, second);
}

async fn last_finalizer_takes_the_object_away<B: Backend>() {
    let b = B::start().await;
    finalized(&b).await;
    b.delete("configmaps/a").await.ok();
    let patch = json!([{"op": "remove", "path": "/metadata/finalizers/0"}]);
    let now = b.json_patch("configmaps/a", &patch).await.ok();
    assert_eq!(now["metadata"]["finalizers"], json!(["example.com/y"]));
    let last = b.json_patch("configmaps/a", &patch).await.ok();
    assert_eq!(last["metadata"].get("finalizers"), None);
    b.get("configmaps/a").await.refused(404, "NotFound", "configmaps \"a\" not found");
}

async fn other_fields_may_change_while_deleting<B: Backend>() {
    let b = B::start().await;
    finalized(&b).await;
    let gone = b.delete("configmaps/a").await.ok();
    let mut next = gone.clone();
    next["data"]["k"] = json!("w");
    next["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    let now = b.put("configmaps/a", &next).await.ok();
    assert_eq!(now["data"]["k"], "w");
    assert_eq!(now["metadata"]["deletionTimestamp"], gone["metadata"]["deletionTimestamp"], "there is no way back");
}

async fn unbound_pod_goes_at_once<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    b.delete("pods/a").await.ok();
    b.get("pods/a").await.refused(404, "NotFound", "pods \"a\" not found");
}

/// Seconds from the creation until the given deletion time.
fn until_deletion(pod: &Value) -> i64 {
    let at = |field: &str| pod["metadata"][field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    at("deletionTimestamp").as_second() - at("creationTimestamp").as_second()
}

async fn bound_pod_stays_for_its_grace_period<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod_on("a", "n")).await.created();
    let said = b.delete("pods/a").await.ok();
    assert_eq!(said["metadata"]["deletionGracePeriodSeconds"], 30);
    assert!((30..35).contains(&until_deletion(&said)));
    assert_eq!(b.get("pods/a").await.ok(), said);
    let mut brief = pod_on("b", "n");
    brief["spec"]["terminationGracePeriodSeconds"] = json!(5);
    b.post("pods", &brief).await.created();
    assert_eq!(b.delete("pods/b").await.ok()["metadata"]["deletionGracePeriodSeconds"], 5);
}

async fn grace_period_of_the_request_wins<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod_on("a", "n")).await.created();
    let said = b.delete_with("pods/a", json!({"gracePeriodSeconds": 300})).await.ok();
    assert_eq!(said["metadata"]["deletionGracePeriodSeconds"], 300);
    assert!((300..305).contains(&until_deletion(&said)));
}

async fn grace_period_can_only_shrink<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod_on("a", "n")).await.created();
    b.delete_with("pods/a", json!({"gracePeriodSeconds": 60})).await.ok();
    let longer = b.delete_with("pods/a", json!({"gracePeriodSeconds": 90})).await.ok();
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 60);
    let shorter = b.delete_with("pods/a", json!({"gracePeriodSeconds": 10})).await.ok();
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 10);
    assert!((10..15).contains(&until_deletion(&shorter)));
}

async fn zero_grace_period_removes_a_bound_pod<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod_on("a", "n")).await.created();
    b.delete_with("pods/a", json!({"gracePeriodSeconds": 0})).await.ok();
    b.get("pods/a").await.refused(404, "NotFound", "pods \"a\" not found");
}

async fn finished_pod_goes_at_once<B: Backend>() {
    let b = B::start().await;
    for phase in ["Succeeded", "Failed"] {
        b.post("pods", &pod_on("a", "n")).await.created();
        b.merge("pods/a/status", &json!({"status": {"phase": phase}})).await.ok();
        b.delete("pods/a").await.ok();
        b.get("pods/a").await.refused(404, "NotFound", "pods \"a\" not found");
    }
}

async fn bound_pod_with_a_finalizer<B: Backend>() {
    let b = B::start().await;
    let mut object = pod_on("a", "n");
    object["metadata"]["finalizers"] = json!(["example.com/x"]);
    b.post("pods", &object).await.created();
    b.delete("pods/a").await.ok();
    // The kubelet is done, the finalizer is not.
    let now = b.delete_with("pods/a", json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(now["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(b.get("pods/a").await.ok()["metadata"]["finalizers"], json!(["example.com/x"]));
    b.merge("pods/a", &json!({"metadata": {"finalizers": null}})).await.ok();
    b.get("pods/a").await.refused(404, "NotFound", "pods \"a\" not found");
}

async fn kubelet_finishes_a_graceful_deletion<B: Backend>() {
    let b = B::start().await;
    let made = b.post("pods", &pod_on("a", "n")).await.created();
    b.delete("pods/a").await.ok();
    let uid = &made["metadata"]["uid"];
    b.delete_with("pods/a", json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})).await.ok();
    b.get("pods/a").await.refused(404, "NotFound", "pods \"a\" not found");
}

async fn precondition_on_uid<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let uid = made["metadata"]["uid"].as_str().unwrap();
    b.delete_with("configmaps/a", json!({"preconditions": {"uid": "other"}})).await.refused(
        409,
        "Conflict",
        &format!("Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (other) does not match the UID in record ({uid}). The object might have been deleted and then recreated"),
    );
    b.delete_with("configmaps/a", json!({"preconditions": {"uid": uid}})).await.ok();
}

async fn precondition_on_version<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let now = b.merge("configmaps/a", &json!({"data": {"k": "v"}})).await.ok();
    let stale = version(&made);
    b.delete_with("configmaps/a", json!({"preconditions": {"resourceVersion": stale}})).await.refused(
        409,
        "Conflict",
        &format!("Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition ({stale}) does not match the ResourceVersion in record ({}). The object might have been modified", version(&now)),
    );
    b.delete_with("configmaps/a", json!({"preconditions": {"resourceVersion": version(&now)}})).await.ok();
}

async fn collection_is_deleted_by_selector<B: Backend>() {
    let b = B::start().await;
    for (name, x) in [("a", "1"), ("b", "2"), ("c", "1")] {
        b.post("configmaps", &labelled(name, &json!({"x": x}))).await.created();
    }
    let gone = b.delete("configmaps?labelSelector=x%3D1").await.ok();
    assert_eq!(gone["kind"], "ConfigMapList");
    assert_eq!(names(&gone), ["a", "c"]);
    assert_eq!(names(&b.get("configmaps").await.ok()), ["b"]);
    b.delete("configmaps?fieldSelector=metadata.name%3Db").await.ok();
    assert_eq!(names(&b.get("configmaps").await.ok()), [""; 0]);
}

async fn whole_collection_is_deleted<B: Backend>() {
    let b = B::start().await;
    for name in ["a", "b"] {
        b.post("secrets", &json!({"metadata": {"name": name}})).await.created();
    }
    b.delete("secrets").await.ok();
    assert_eq!(names(&b.get("secrets").await.ok()), [""; 0]);
    assert_eq!(b.delete("secrets").await.ok()["items"], json!([]));
}

async fn collection_of_pods_is_deleted_gracefully<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    b.post("pods", &pod_on("b", "n")).await.created();
    b.delete("pods").await.ok();
    let left = b.get("pods").await.ok();
    assert_eq!(names(&left), ["b"]);
    assert_eq!(left["items"][0]["metadata"]["deletionGracePeriodSeconds"], 30);
    b.delete_with("pods", json!({"gracePeriodSeconds": 0})).await.ok();
    assert_eq!(names(&b.get("pods").await.ok()), [""; 0]);
}

async fn collection_respects_finalizers<B: Backend>() {
    let b = B::start().await;
    finalized(&b).await;
    b.post("configmaps", &config_map("b", &json!({}))).await.created();
    b.delete("configmaps").await.ok();
    assert_eq!(names(&b.get("configmaps").await.ok()), ["a"]);
}

async fn delete_options_in_the_query<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod_on("a", "n")).await.created();
    let said = b.delete("pods/a?gracePeriodSeconds=7").await.ok();
    assert_eq!(said["metadata"]["deletionGracePeriodSeconds"], 7);
    b.delete("pods/a?gracePeriodSeconds=0").await.ok();
    b.get("pods/a").await.refused(404, "NotFound", "pods \"a\" not found");
}

async fn both_propagation_settings_are_refused<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let options = json!({"orphanDependents": true, "propagationPolicy": "Background"});
    b.delete_with("configmaps/a", options).await.refused_saying(
        422,
        "Invalid",
        "orphanDependents and deletionPropagation cannot be both set",
    );
}

async fn unknown_propagation_is_refused<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    b.delete_with("configmaps/a", json!({"propagationPolicy": "Sideways"})).await.refused(
        422,
        "Invalid",
        "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \"Sideways\": supported values: \
         \"Foreground\", \"Background\", \"Orphan\", \"nil\"",
    );
}

async fn negative_grace_period_is_one_second<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod_on("a", "n")).await.created();
    let said = b.delete_with("pods/a", json!({"gracePeriodSeconds": -1})).await.ok();
    assert_eq!(said["metadata"]["deletionGracePeriodSeconds"], 1);
}

async fn foreground_sets_a_finalizer<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let said = b.delete_with("configmaps/a", json!({"propagationPolicy": "Foreground", "dryRun": ["All"]})).await.ok();
    assert_eq!(said["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(said["metadata"]["deletionTimestamp"].is_string());
}

async fn orphan_sets_a_finalizer<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let said = b.delete_with("configmaps/a", json!({"propagationPolicy": "Orphan", "dryRun": ["All"]})).await.ok();
    assert_eq!(said["metadata"]["finalizers"], json!(["orphan"]));
}

async fn malformed_delete_options_are_refused<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let json = [("content-type", "application/json")];
    let answer = b.send(Method::DELETE, "configmaps/a", &json, b"{\"kind\":".to_vec()).await;
    answer.refused_saying(
        400,
        "BadRequest",
        "couldn't get version/kind; json parse error: unexpected end of JSON input",
    );
    b.get("configmaps/a").await.ok();
}

async fn grace_period_does_not_matter_to_config_maps<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    b.delete_with("configmaps/a", json!({"gracePeriodSeconds": 60})).await.ok();
    b.get("configmaps/a").await.refused(404, "NotFound", "configmaps \"a\" not found");
}

async fn deleted_name_can_be_used_again<B: Backend>() {
    let b = B::start().await;
    let first = b.post("configmaps", &config_map("a", &json!({}))).await.created();
    b.delete("configmaps/a").await.ok();
    let second = b.post("configmaps", &config_map("a", &json!({}))).await.created();
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
}

async fn terminating_pod_stays_in_lists<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod_on("a", "n")).await.created();
    b.delete("pods/a").await.ok();
    assert_eq!(names(&b.get("pods").await.ok()), ["a"]);
    b.post("pods", &pod_on("a", "n")).await.refused(
        409,
        "AlreadyExists",
        "object is being deleted: pods \"a\" already exists",
    );
}
