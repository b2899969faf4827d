//! Owners and what goes with them, namespaces, events. Most need something that collects garbage.

use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{config_map, names, pod};
use crate::watching::eventually;

on_every_backend!(
    background_deletion_takes_dependents_along,
    foreground_deletion_waits_for_blocking_dependents,
    orphaning_keeps_dependents,
    dependent_of_two_owners_stays,
    chain_of_owners_is_collected,
    dependent_of_a_missing_owner_is_collected,
    dependent_with_another_uid_is_collected,
    cluster_wide_owner_of_namespaced_objects,
    namespace_is_emptied_and_removed,
    terminating_namespace_takes_nothing_new,
    namespace_waits_for_finalizers,
    namespace_has_a_phase_a_finalizer_and_a_label,
    default_namespaces_are_there,
    protected_namespaces_stay,
    namespace_names_are_labels,
    events_are_checked,
    events_of_both_groups_are_the_same_objects,
    events_count_up,
    finalize_is_a_subresource,
);

fn owned_by(name: &str, owner: &Value, blocking: bool) -> Value {
    let mut object = config_map(name, &json!({}));
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "blockOwnerDeletion": blocking}]);
    object
}

async fn gone(b: &Cluster, path: &str) {
    eventually(&format!("{path} is gone"), async || (b.get(path).await.code == 404).then_some(())).await;
}

async fn background_deletion_takes_dependents_along<B: Backend>() {
    let b = B::start_with_collector().await;
    let owner = b.post("configmaps", &config_map("owner", &json!({}))).await.created();
    b.post("configmaps", &owned_by("child", &owner, true)).await.created();
    b.delete_with("configmaps/owner", json!({"propagationPolicy": "Background"})).await.ok();
    assert_eq!(b.get("configmaps/owner").await.code, 404, "the owner goes at once");
    gone(&b, "configmaps/child").await;
}

async fn foreground_deletion_waits_for_blocking_dependents<B: Backend>() {
    let b = B::start_with_collector().await;
    let owner = b.post("configmaps", &config_map("owner", &json!({}))).await.created();
    let mut child = owned_by("child", &owner, true);
    child["metadata"]["finalizers"] = json!(["example.com/slow"]);
    b.post("configmaps", &child).await.created();
    b.post("configmaps", &owned_by("quick", &owner, false)).await.created();
    let said = b.delete_with("configmaps/owner", json!({"propagationPolicy": "Foreground"})).await.ok();
    assert_eq!(said["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    eventually("the child is being deleted", async || {
        b.get("configmaps/child").await.ok()["metadata"]["deletionTimestamp"].is_string().then_some(())
    })
    .await;
    gone(&b, "configmaps/quick").await;
    b.get("configmaps/owner").await.ok();
    b.merge("configmaps/child", &json!({"metadata": {"finalizers": null}})).await.ok();
    gone(&b, "configmaps/owner").await;
}

async fn orphaning_keeps_dependents<B: Backend>() {
    let b = B::start_with_collector().await;
    let owner = b.post("configmaps", &config_map("owner", &json!({}))).await.created();
    b.post("configmaps", &owned_by("child", &owner, true)).await.created();
    // The collector has to have seen the child, or it would not know what to keep.
    eventually("the owner is gone and the child is free", async || {
        let answer = b.get("configmaps/owner").await;
        if answer.code == 200 && answer.body["metadata"].get("deletionTimestamp").is_none() {
            b.delete_with("configmaps/owner", json!({"propagationPolicy": "Orphan"})).await.ok();
        }
        let child = b.get("configmaps/child").await.ok();
        (answer.code == 404 && child["metadata"].get("ownerReferences").is_none()).then_some(())
    })
    .await;
}

async fn dependent_of_two_owners_stays<B: Backend>() {
    let b = B::start_with_collector().await;
    let one = b.post("configmaps", &config_map("one", &json!({}))).await.created();
    let two = b.post("configmaps", &config_map("two", &json!({}))).await.created();
    let mut child = owned_by("child", &one, true);
    let second = owned_by("x", &two, true)["metadata"]["ownerReferences"][0].clone();
    child["metadata"]["ownerReferences"].as_array_mut().unwrap().push(second);
    b.post("configmaps", &child).await.created();
    b.delete("configmaps/one").await.ok();
    eventually("one owner is left", async || {
        let now = b.get("configmaps/child").await.ok();
        (now["metadata"]["ownerReferences"].as_array().unwrap().len() == 1).then_some(())
    })
    .await;
    b.delete("configmaps/two").await.ok();
    gone(&b, "configmaps/child").await;
}

async fn chain_of_owners_is_collected<B: Backend>() {
    let b = B::start_with_collector().await;
    let one = b.post("configmaps", &config_map("one", &json!({}))).await.created();
    let two = b.post("configmaps", &owned_by("two", &one, true)).await.created();
    b.post("configmaps", &owned_by("three", &two, true)).await.created();
    b.delete("configmaps/one").await.ok();
    gone(&b, "configmaps/two").await;
    gone(&b, "configmaps/three").await;
}

async fn dependent_of_a_missing_owner_is_collected<B: Backend>() {
    let b = B::start_with_collector().await;
    let never = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "never", "uid": "11111111-2222-3333-4444-555555555555"}});
    b.post("configmaps", &owned_by("child", &never, false)).await.created();
    gone(&b, "configmaps/child").await;
}

async fn dependent_with_another_uid_is_collected<B: Backend>() {
    let b = B::start_with_collector().await;
    let mut owner = b.post("configmaps", &config_map("owner", &json!({}))).await.created();
    owner["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    b.post("configmaps", &owned_by("child", &owner, false)).await.created();
    gone(&b, "configmaps/child").await;
    b.get("configmaps/owner").await.ok();
}

async fn cluster_wide_owner_of_namespaced_objects<B: Backend>() {
    let b = B::start_with_collector().await;
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": b.name("class")}, "value": 1});
    let at = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let owner = b.post(at, &class).await.created();
    b.post("configmaps", &owned_by("child", &owner, false)).await.created();
    b.delete(&format!("{at}/{}", b.name("class"))).await.ok();
    gone(&b, "configmaps/child").await;
}

async fn namespace_is_emptied_and_removed<B: Backend>() {
    let b = B::start_with_collector().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    b.post("secrets", &json!({"metadata": {"name": "a"}})).await.created();
    let at = format!("/api/v1/namespaces/{}", b.namespace());
    let said = b.delete(&at).await.ok();
    assert_eq!(said["status"]["phase"], "Terminating");
    assert!(said["metadata"]["deletionTimestamp"].is_string());
    gone(&b, &at).await;
    assert_eq!(names(&b.get("configmaps").await.ok()), [""; 0]);
    assert_eq!(names(&b.get("secrets").await.ok()), [""; 0]);
}

async fn terminating_namespace_takes_nothing_new<B: Backend>() {
    let b = B::start().await;
    let mut held = config_map("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    b.post("configmaps", &held).await.created();
    b.delete(&format!("/api/v1/namespaces/{}", b.namespace())).await.ok();
    let namespace = b.namespace();
    let answer = eventually("the namespace is seen as terminating", async || {
        let answer = b.post("configmaps", &json!({"metadata": {"generateName": "new-"}})).await;
        (answer.code != 201).then_some(answer)
    })
    .await;
    let name = answer.body["details"]["name"].as_str().unwrap().to_owned();
    let said = answer.refused(
        403,
        "Forbidden",
        &format!("configmaps \"{name}\" is forbidden: unable to create new content in namespace {namespace} because it is being terminated"),
    );
    assert_eq!(said["details"]["causes"][0]["reason"], "NamespaceTerminating");
    b.merge("configmaps/held", &json!({"data": {"k": "v"}})).await.ok();
}

async fn namespace_waits_for_finalizers<B: Backend>() {
    let b = B::start_with_collector().await;
    let mut held = config_map("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/x"]);
    b.post("configmaps", &held).await.created();
    let at = format!("/api/v1/namespaces/{}", b.namespace());
    b.delete(&at).await.ok();
    eventually("the object is being deleted", async || {
        b.get("configmaps/held").await.ok()["metadata"]["deletionTimestamp"].is_string().then_some(())
    })
    .await;
    assert_eq!(b.get(&at).await.ok()["status"]["phase"], "Terminating");
    b.merge("configmaps/held", &json!({"metadata": {"finalizers": null}})).await.ok();
    gone(&b, &at).await;
}

async fn namespace_has_a_phase_a_finalizer_and_a_label<B: Backend>() {
    let b = B::start().await;
    let name = b.name("place");
    let made = b.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await.created();
    assert_eq!(made["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(made["status"], json!({"phase": "Active"}));
    assert_eq!(made["metadata"]["labels"], json!({"kubernetes.io/metadata.name": name}));
    let now = b
        .merge(
            &format!("/api/v1/namespaces/{name}"),
            &json!({"metadata": {"labels": {"kubernetes.io/metadata.name": "x", "a": "b"}}}),
        )
        .await
        .ok();
    assert_eq!(now["metadata"]["labels"], json!({"kubernetes.io/metadata.name": name, "a": "b"}));
}

async fn default_namespaces_are_there<B: Backend>() {
    let b = B::start().await;
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        eventually(&format!("{name} is there"), async || {
            (b.get(&format!("/api/v1/namespaces/{name}")).await.code == 200).then_some(())
        })
        .await;
    }
}

async fn protected_namespaces_stay<B: Backend>() {
    let b = B::start().await;
    for name in ["default", "kube-system", "kube-public"] {
        b.delete(&format!("/api/v1/namespaces/{name}")).await.refused(
            403,
            "Forbidden",
            &format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted"),
        );
    }
}

async fn namespace_names_are_labels<B: Backend>() {
    let b = B::start().await;
    b.post("/api/v1/namespaces", &json!({"metadata": {"name": "a.b"}})).await.refused(
        422,
        "Invalid",
        "Namespace \"a.b\" is invalid: metadata.name: Invalid value: \"a.b\": must not contain dots",
    );
    b.post("/api/v1/namespaces", &json!({"metadata": {"name": "A"}})).await.refused(
        422,
        "Invalid",
        "Namespace \"A\" is invalid: metadata.name: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower \
         case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or \
         '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
    );
}

async fn events_are_checked<B: Backend>() {
    let b = B::start().await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "a", "namespace": "elsewhere"}, "reason": "R", "message": "m", "type": "Normal"});
    b.post("events", &event).await.refused(
        422,
        "Invalid",
        "Event \"e\" is invalid: involvedObject.namespace: Invalid value: \"elsewhere\": does not match event.namespace",
    );
    let event = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "a", "namespace": b.namespace()}, "reason": "R", "type": "Normal"});
    b.post("events.k8s.io/v1 events", &event).await.refused_saying(422, "Invalid", "eventTime: Required value");
}

async fn events_of_both_groups_are_the_same_objects<B: Backend>() {
    let b = B::start().await;
    let event = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "a", "namespace": b.namespace()}, "reason": "Started",
        "note": "it runs", "type": "Normal", "action": "Starting", "eventTime": "2026-01-02T03:04:05.000006Z", "reportingController": "example.com/c", "reportingInstance": "c-1"});
    b.post("events.k8s.io/v1 events", &event).await.created();
    let core = b.get("events/e").await.ok();
    assert_eq!((&core["apiVersion"], &core["kind"]), (&json!("v1"), &json!("Event")));
    assert_eq!((&core["involvedObject"]["name"], &core["message"]), (&json!("a"), &json!("it runs")));
    assert_eq!((&core["reportingComponent"], &core["eventTime"]), (&json!("example.com/c"), &event["eventTime"]));
    assert_eq!(b.get("events.k8s.io/v1 events/e").await.ok()["note"], "it runs");
}

async fn events_count_up<B: Backend>() {
    let b = B::start().await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "a", "namespace": b.namespace()}, "reason": "R", "message": "m", "type": "Warning",
        "count": 1, "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:05Z", "source": {"component": "c"}});
    let made = b.post("events", &event).await.created();
    assert_eq!(
        (&made["eventTime"], &made["reportingComponent"], &made["reportingInstance"]),
        (&Value::Null, &json!(""), &json!(""))
    );
    let now = b.strategic("events/e", &json!({"count": 2, "lastTimestamp": "2026-01-02T03:05:05Z"})).await.ok();
    assert_eq!((&now["count"], &now["lastTimestamp"]), (&json!(2), &json!("2026-01-02T03:05:05Z")));
}

async fn finalize_is_a_subresource<B: Backend>() {
    let b = B::start().await;
    let name = b.name("place");
    let mut made = b.post("/api/v1/namespaces", &json!({"metadata": {"name": name}})).await.created();
    b.post(&format!("/api/v1/namespaces/{name}/pods"), &pod("left-behind")).await.created();
    made["spec"]["finalizers"] = json!([]);
    let at = format!("/api/v1/namespaces/{name}");
    assert_eq!(
        b.put(&at, &made).await.ok()["spec"]["finalizers"],
        json!(["kubernetes"]),
        "only through the subresource"
    );
    b.delete(&at).await.ok();
    let mut now = b.get(&at).await.ok();
    now["spec"]["finalizers"] = json!([]);
    b.put(&format!("{at}/finalize"), &now).await.ok();
    gone(&b, &at).await;
}
