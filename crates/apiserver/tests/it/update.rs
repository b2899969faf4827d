//! Replacing objects: optimistic concurrency, no-op writes, generations, status apart from the rest, dry run.

use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{config_map, definition, deployment, node, owned, owned_through, pod, version};

on_every_backend!(
    stale_write_is_a_conflict,
    update_without_a_version_wins,
    update_of_a_custom_resource_needs_a_version,
    update_replaces_the_whole_object,
    update_of_a_missing_object_is_not_found,
    update_creates_where_a_kind_allows_it,
    name_of_body_must_match_the_path,
    name_may_be_left_out_of_an_update,
    uid_of_body_must_match,
    identity_survives_an_update,
    write_that_changes_nothing_keeps_the_version,
    write_that_changes_nothing_makes_no_event,
    every_write_has_a_higher_version,
    generation_counts_changes_of_the_spec,
    generation_of_a_custom_resource_counts_changes,
    update_leaves_the_status_alone,
    status_update_leaves_the_spec_alone,
    status_update_is_checked_for_conflicts,
    status_update_of_a_custom_resource,
    status_of_a_kind_without_it_is_not_found,
    status_can_be_read,
    dry_run_create_stores_nothing,
    dry_run_update_stores_nothing,
    dry_run_delete_removes_nothing,
    dry_run_is_still_validated,
    unknown_dry_run_is_refused,
    immutable_pod_fields_are_refused,
    pod_images_and_tolerations_may_change,
    pod_node_name_is_not_set_by_update,
    selector_of_a_deployment_is_immutable,
    updates_move_ownership,
    status_is_owned_apart,
    delete_wins_over_a_later_update,
    node_status_and_spec_are_written_apart,
    provider_id_is_set_once,
    generate_name_conflict_does_not_matter_on_update,
);

async fn stored(b: &Cluster) -> Value {
    b.post("configmaps", &config_map("a", &json!({"k": "v"}))).await.created()
}

async fn stale_write_is_a_conflict<B: Backend>() {
    let b = B::start().await;
    let mut stale = stored(&b).await;
    b.merge("configmaps/a", &json!({"data": {"k": "w"}})).await.ok();
    stale["data"]["k"] = json!("x");
    let said = b.put("configmaps/a", &stale).await.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the \
         latest version and try again",
    );
    assert_eq!(said["details"], json!({"name": "a", "kind": "configmaps"}));
    assert_eq!(b.get("configmaps/a").await.ok()["data"]["k"], "w");
}

async fn update_without_a_version_wins<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let now = b.put("configmaps/a", &config_map("a", &json!({"k": "w"}))).await.ok();
    assert_eq!(now["data"]["k"], "w");
}

async fn update_of_a_custom_resource_needs_a_version<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    b.install(&definition(&group, "Thing", "Namespaced", &json!({"type": "object"}))).await;
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}});
    b.post(&format!("{group}/v1 things"), &thing).await.created();
    b.put(&format!("{group}/v1 things/a"), &thing).await.refused(
        422,
        "Invalid",
        &format!("things.{group} \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"),
    );
}

async fn update_replaces_the_whole_object<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map("a", &json!({"k": "v"}));
    object["metadata"]["labels"] = json!({"x": "y"});
    b.post("configmaps", &object).await.created();
    let now = b.put("configmaps/a", &config_map("a", &json!({"other": "v"}))).await.ok();
    assert_eq!(now["data"], json!({"other": "v"}));
    assert_eq!(now["metadata"].get("labels"), None);
}

async fn update_of_a_missing_object_is_not_found<B: Backend>() {
    let b = B::start().await;
    b.put("configmaps/a", &config_map("a", &json!({}))).await.refused(404, "NotFound", "configmaps \"a\" not found");
    let mut object = config_map("a", &json!({}));
    object["metadata"]["resourceVersion"] = json!("1");
    b.put("configmaps/a", &object).await.refused(404, "NotFound", "configmaps \"a\" not found");
}

async fn update_creates_where_a_kind_allows_it<B: Backend>() {
    let b = B::start().await;
    let role =
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a"}, "rules": []});
    b.put("rbac.authorization.k8s.io/v1 roles/a", &role).await.created();
    b.put("rbac.authorization.k8s.io/v1 roles/a", &role).await.ok();
    let event =
        json!({"metadata": {"name": "e", "namespace": b.namespace()}, "involvedObject": {"namespace": b.namespace()}});
    b.put("events/e", &event).await.created();
    let lease = json!({"metadata": {"name": "a"}, "spec": {}});
    b.put("coordination.k8s.io/v1 leases/a", &lease).await.created();
    b.put("coordination.k8s.io/v1 leases/a", &lease).await.refused(
        422,
        "Invalid",
        "leases.coordination.k8s.io \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
    );
}

async fn name_of_body_must_match_the_path<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    b.put("configmaps/a", &config_map("b", &json!({}))).await.refused(
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    );
}

async fn name_may_be_left_out_of_an_update<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let now = b.put("configmaps/a", &json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "w"}})).await;
    now.refused(400, "BadRequest", "the name of the object (a based on URL) was undeterminable: name must be provided");
}

async fn uid_of_body_must_match<B: Backend>() {
    let b = B::start().await;
    let uid = stored(&b).await["metadata"]["uid"].as_str().unwrap().to_owned();
    let mut other = config_map("a", &json!({}));
    other["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    b.put("configmaps/a", &other).await.refused(
        409,
        "Conflict",
        &format!(
            "Operation cannot be fulfilled on configmaps \"a\": StorageError: invalid object, Code: 4, Key: \
             /registry/configmaps/{}/a, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: \
             11111111-2222-3333-4444-555555555555, UID in object meta: {uid}",
            b.namespace()
        ),
    );
}

async fn identity_survives_an_update<B: Backend>() {
    let b = B::start().await;
    let made = stored(&b).await;
    let mut next = config_map("a", &json!({"k": "w"}));
    next["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    let now = b.put("configmaps/a", &next).await.ok();
    for field in ["uid", "creationTimestamp", "namespace", "name"] {
        assert_eq!(now["metadata"][field], made["metadata"][field], "{field}");
    }
}

async fn write_that_changes_nothing_keeps_the_version<B: Backend>() {
    let b = B::start().await;
    let made = stored(&b).await;
    assert_eq!(b.put("configmaps/a", &made).await.ok(), made);
    let same = json!({"data": {"k": "v"}});
    assert_eq!(b.merge("configmaps/a", &same).await.ok(), made);
    assert_eq!(b.strategic("configmaps/a", &same).await.ok(), made);
    let test = json!([{"op": "replace", "path": "/data/k", "value": "v"}]);
    assert_eq!(b.json_patch("configmaps/a", &test).await.ok(), made);
    assert_eq!(version(&b.get("configmaps/a").await.ok()), version(&made));
}

async fn write_that_changes_nothing_makes_no_event<B: Backend>() {
    let b = B::start().await;
    let made = stored(&b).await;
    let mut watch = b.watch(&format!("configmaps?resourceVersion={}", version(&made))).await;
    b.put("configmaps/a", &made).await.ok();
    b.merge("configmaps/a", &json!({"data": {"k": "v"}})).await.ok();
    b.merge("configmaps/a", &json!({"data": {"k": "w"}})).await.ok();
    let (kind, object) = watch.event().await;
    assert_eq!((kind.as_str(), &object["data"]["k"]), ("MODIFIED", &json!("w")));
}

async fn every_write_has_a_higher_version<B: Backend>() {
    let b = B::start().await;
    let mut last: u64 = version(&stored(&b).await).parse().unwrap();
    for value in ["1", "2", "3"] {
        let now = b.merge("configmaps/a", &json!({"data": {"k": value}})).await.ok();
        let next: u64 = version(&now).parse().unwrap();
        assert!(next > last);
        last = next;
    }
}

async fn generation_counts_changes_of_the_spec<B: Backend>() {
    let b = B::start().await;
    b.post("apps/v1 deployments", &deployment("a", 1)).await.created();
    let at = "apps/v1 deployments/a";
    let generation = |o: Value| o["metadata"]["generation"].as_i64().unwrap();
    assert_eq!(generation(b.merge(at, &json!({"metadata": {"labels": {"x": "y"}}})).await.ok()), 1);
    assert_eq!(generation(b.merge(at, &json!({"spec": {"replicas": 2}})).await.ok()), 2);
    assert_eq!(generation(b.merge(at, &json!({"spec": {"replicas": 2}})).await.ok()), 2);
    assert_eq!(generation(b.merge(&format!("{at}/status"), &json!({"status": {"replicas": 2}})).await.ok()), 2);
    assert_eq!(generation(b.merge(at, &json!({"metadata": {"generation": 40}})).await.ok()), 2);
}

async fn generation_of_a_custom_resource_counts_changes<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut crd = definition(&group, "Thing", "Namespaced", &any);
    b.install(&crd).await;
    crd["spec"]["names"] = json!({"kind": "Part", "plural": "parts", "singular": "part", "listKind": "PartList"});
    crd["metadata"]["name"] = json!(format!("parts.{group}"));
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    b.install(&crd).await;
    let generation = |o: Value| o["metadata"]["generation"].as_i64().unwrap();
    for (plural, kind, after_status) in [("things", "Thing", 2), ("parts", "Part", 1)] {
        let object =
            json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "a"}, "spec": {"x": 1}});
        assert_eq!(generation(b.post(&format!("{group}/v1 {plural}"), &object).await.created()), 1);
        let at = format!("{group}/v1 {plural}/a");
        assert_eq!(generation(b.merge(&at, &json!({"metadata": {"labels": {"x": "y"}}})).await.ok()), 1, "{plural}");
        // Without a status subresource, status is a field like any other.
        assert_eq!(generation(b.merge(&at, &json!({"status": {"x": 1}})).await.ok()), after_status, "{plural}");
        assert_eq!(generation(b.merge(&at, &json!({"spec": {"x": 2}})).await.ok()), after_status + 1, "{plural}");
    }
}

async fn update_leaves_the_status_alone<B: Backend>() {
    let b = B::start().await;
    b.post("apps/v1 deployments", &deployment("a", 1)).await.created();
    b.merge("apps/v1 deployments/a/status", &json!({"status": {"replicas": 3}})).await.ok();
    let mut next = deployment("a", 2);
    next["status"] = json!({"replicas": 9});
    let now = b.put("apps/v1 deployments/a", &next).await.ok();
    assert_eq!((&now["spec"]["replicas"], &now["status"]["replicas"]), (&json!(2), &json!(3)));
}

async fn status_update_leaves_the_spec_alone<B: Backend>() {
    let b = B::start().await;
    let mut object = b.post("apps/v1 deployments", &deployment("a", 1)).await.created();
    object["spec"]["replicas"] = json!(7);
    object["metadata"]["labels"] = json!({"x": "y"});
    object["status"] = json!({"replicas": 3});
    let now = b.put("apps/v1 deployments/a/status", &object).await.ok();
    assert_eq!((&now["spec"]["replicas"], &now["status"]["replicas"]), (&json!(1), &json!(3)));
    assert_eq!(now["metadata"].get("labels"), None);
}

async fn status_update_is_checked_for_conflicts<B: Backend>() {
    let b = B::start().await;
    let mut stale = b.post("pods", &pod("a")).await.created();
    b.merge("pods/a", &json!({"metadata": {"labels": {"x": "y"}}})).await.ok();
    stale["status"]["phase"] = json!("Running");
    b.put("pods/a/status", &stale).await.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on pods \"a\": the object has been modified; please apply your changes to the latest \
         version and try again",
    );
}

async fn status_update_of_a_custom_resource<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    let mut crd = definition(
        &group,
        "Thing",
        "Cluster",
        &json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
    );
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    b.install(&crd).await;
    let at = format!("/apis/{group}/v1/things/a");
    let thing =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}, "spec": {"x": 1}});
    let mut made = b.post(&format!("/apis/{group}/v1/things"), &thing).await.created();
    made["spec"]["x"] = json!(2);
    made["status"] = json!({"y": 3});
    made["metadata"]["annotations"] = json!({"k": "v"});
    let now = b.put(&format!("{at}/status"), &made).await.ok();
    assert_eq!((&now["spec"], &now["status"]), (&json!({"x": 1}), &json!({"y": 3})));
    assert_eq!(now["metadata"].get("annotations"), None);
    let now = b.merge(&at, &json!({"status": {"y": 4}, "spec": {"x": 5}})).await.ok();
    assert_eq!((&now["spec"], &now["status"]), (&json!({"x": 5}), &json!({"y": 3})));
}

async fn status_of_a_kind_without_it_is_not_found<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    b.merge("configmaps/a/status", &json!({"status": {}})).await.refused(
        404,
        "NotFound",
        "the server could not find the requested resource",
    );
}

async fn status_can_be_read<B: Backend>() {
    let b = B::start().await;
    let made = b.post("pods", &pod("a")).await.created();
    assert_eq!(b.get("pods/a/status").await.ok(), made);
}

async fn dry_run_create_stores_nothing<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps?dryRun=All", &config_map("a", &json!({"k": "v"}))).await.created();
    assert_ne!(made["metadata"]["uid"].as_str().unwrap(), "");
    assert_eq!(made["metadata"].get("resourceVersion"), None);
    b.get("configmaps/a").await.refused(404, "NotFound", "configmaps \"a\" not found");
}

async fn dry_run_update_stores_nothing<B: Backend>() {
    let b = B::start().await;
    let made = stored(&b).await;
    let would = b.put("configmaps/a?dryRun=All", &config_map("a", &json!({"k": "w"}))).await.ok();
    assert_eq!(would["data"]["k"], "w");
    assert_eq!(version(&would), version(&made));
    let would = b.merge("configmaps/a?dryRun=All", &json!({"data": {"k": "x"}})).await.ok();
    assert_eq!(would["data"]["k"], "x");
    assert_eq!(b.get("configmaps/a").await.ok(), made);
}

async fn dry_run_delete_removes_nothing<B: Backend>() {
    let b = B::start().await;
    let made = stored(&b).await;
    b.delete("configmaps/a?dryRun=All").await.ok();
    b.delete_with("configmaps/a", json!({"dryRun": ["All"]})).await.ok();
    assert_eq!(b.get("configmaps/a").await.ok(), made);
}

async fn dry_run_is_still_validated<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    b.post("configmaps?dryRun=All", &config_map("a", &json!({}))).await.refused(
        409,
        "AlreadyExists",
        "configmaps \"a\" already exists",
    );
    b.post("configmaps?dryRun=All", &config_map("-", &json!({}))).await.refused_saying(422, "Invalid", "metadata.name");
    b.delete("configmaps/b?dryRun=All").await.refused(404, "NotFound", "configmaps \"b\" not found");
}

async fn unknown_dry_run_is_refused<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps?dryRun=Some", &config_map("a", &json!({}))).await.refused(
        422,
        "Invalid",
        "CreateOptions.meta.k8s.io \"\" is invalid: dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"",
    );
}

async fn immutable_pod_fields_are_refused<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    let patch = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}});
    b.strategic("pods/a", &patch).await.refused_saying(
        422,
        "Invalid",
        "Pod \"a\" is invalid: spec: Forbidden: pod updates may not change fields other than \
         `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
         additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
         previously negative)",
    );
}

async fn pod_images_and_tolerations_may_change<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    let patch = json!({"spec": {"containers": [{"name": "main", "image": "registry/main:2"}]}});
    assert_eq!(b.strategic("pods/a", &patch).await.ok()["spec"]["containers"][0]["image"], "registry/main:2");
    let add = json!([{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "k", "operator": "Exists"}}]);
    assert_eq!(b.json_patch("pods/a", &add).await.ok()["spec"]["tolerations"].as_array().unwrap().len(), 3);
}

async fn pod_node_name_is_not_set_by_update<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    b.merge("pods/a", &json!({"spec": {"nodeName": "n"}})).await.refused_saying(
        422,
        "Invalid",
        "Pod \"a\" is invalid: spec: Forbidden: pod updates may not change fields other than",
    );
}

async fn selector_of_a_deployment_is_immutable<B: Backend>() {
    let b = B::start().await;
    b.post("apps/v1 deployments", &deployment("a", 1)).await.created();
    let mut other = deployment("a", 1);
    other["spec"]["selector"]["matchLabels"] = json!({"app": "b"});
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
    b.put("apps/v1 deployments/a", &other).await.refused(
        422,
        "Invalid",
        "Deployment.apps \"a\" is invalid: spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"b\"}}: field is immutable",
    );
}

async fn updates_move_ownership<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps?fieldManager=first", &config_map("a", &json!({"k": "v", "l": "v"}))).await.created();
    let now = b.merge("configmaps/a?fieldManager=second", &json!({"data": {"k": "w"}})).await.ok();
    assert_eq!(owned(&now, "first", "Update"), &json!({"f:data": {".": {}, "f:l": {}}}));
    assert_eq!(owned(&now, "second", "Update"), &json!({"f:data": {"f:k": {}}}));
    let now = b.merge("configmaps/a?fieldManager=third", &json!({"data": {"l": null}})).await.ok();
    assert_eq!(owned(&now, "first", "Update"), &json!({"f:data": {}}));
    assert_eq!(owned(&now, "third", "Update"), &Value::Null, "it owns nothing");
}

async fn status_is_owned_apart<B: Backend>() {
    let b = B::start().await;
    b.post("apps/v1 deployments?fieldManager=m", &deployment("a", 1)).await.created();
    let now = b.merge("apps/v1 deployments/a/status?fieldManager=m", &json!({"status": {"replicas": 1}})).await.ok();
    assert_eq!(owned_through(&now, "m", "Update", "status"), &json!({"f:status": {"f:replicas": {}}}));
    assert_ne!(owned(&now, "m", "Update"), &Value::Null);
}

async fn delete_wins_over_a_later_update<B: Backend>() {
    let b = B::start().await;
    let made = stored(&b).await;
    b.delete("configmaps/a").await.ok();
    b.put("configmaps/a", &made).await.refused(404, "NotFound", "configmaps \"a\" not found");
}

async fn node_status_and_spec_are_written_apart<B: Backend>() {
    let b = B::start().await;
    let name = b.name("node");
    let mut object = node(&name);
    object["status"] = json!({"capacity": {"cpu": "4"}});
    let made = b.post("/api/v1/nodes", &object).await.created();
    assert_eq!(made["status"]["capacity"], json!({"cpu": "4"}), "kubelets register with a status");
    let at = format!("/api/v1/nodes/{name}");
    let now = b.merge(&at, &json!({"status": {"capacity": {"cpu": "8"}}, "spec": {"unschedulable": true}})).await.ok();
    assert_eq!((&now["status"]["capacity"]["cpu"], &now["spec"]["unschedulable"]), (&json!("4"), &json!(true)));
    let patch = json!({"status": {"capacity": {"cpu": "8"}}, "spec": {"unschedulable": null}});
    let now = b.strategic(&format!("{at}/status"), &patch).await.ok();
    assert_eq!((&now["status"]["capacity"]["cpu"], &now["spec"]["unschedulable"]), (&json!("8"), &json!(true)));
}

async fn provider_id_is_set_once<B: Backend>() {
    let b = B::start().await;
    let name = b.name("node");
    b.post("/api/v1/nodes", &node(&name)).await.created();
    let at = format!("/api/v1/nodes/{name}");
    b.merge(&at, &json!({"spec": {"providerID": "x://1"}})).await.ok();
    b.merge(&at, &json!({"spec": {"providerID": "x://2"}})).await.refused(
        422,
        "Invalid",
        &format!("Node \"{name}\" is invalid: spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid"),
    );
}

async fn generate_name_conflict_does_not_matter_on_update<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &json!({"metadata": {"generateName": "made-"}})).await.created();
    let name = made["metadata"]["name"].as_str().unwrap();
    let now = b.put(&format!("configmaps/{name}"), &config_map(name, &json!({}))).await.ok();
    assert_eq!(now["metadata"].get("generateName"), None);
}
