//! Creation: names, identity, what the server fills in and what it refuses.

use serde_json::json;

use crate::backend::{Backend, on_every_backend};
use crate::objects::{config_map, definition, keys, node, pod, version};

on_every_backend!(
    server_fills_in_identity,
    client_cannot_choose_identity,
    generate_name_appends_five_characters,
    name_wins_over_generate_name,
    name_is_required,
    second_object_of_a_name_is_refused,
    name_must_be_a_dns_subdomain,
    label_values_are_checked,
    label_keys_are_checked,
    annotations_are_checked,
    namespace_of_body_must_match_the_path,
    namespace_must_exist,
    kind_of_body_must_match_the_path,
    version_of_body_must_match_the_path,
    missing_kind_is_taken_from_the_path,
    status_is_dropped_on_create,
    generation_starts_at_one_where_there_is_a_spec,
    resource_version_may_not_be_given,
    finalizer_names_are_checked,
    owner_references_are_checked,
    cluster_scoped_objects_have_no_namespace,
    null_fields_are_dropped,
    empty_maps_of_built_in_kinds_are_dropped,
    creation_is_owned_by_its_manager,
    long_labels_and_names_are_refused,
    secret_string_data_becomes_data,
    immutable_config_map_stays_as_it_is,
);

async fn server_fills_in_identity<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({"k": "v"}))).await.created();
    assert_eq!(made["apiVersion"], "v1");
    assert_eq!(made["kind"], "ConfigMap");
    assert_eq!(made["data"], json!({"k": "v"}));
    let meta = &made["metadata"];
    let mut fields = keys(meta);
    fields.sort_unstable();
    assert_eq!(fields, ["creationTimestamp", "managedFields", "name", "namespace", "resourceVersion", "uid"]);
    assert_eq!(meta["namespace"], b.namespace());
    let uid = meta["uid"].as_str().unwrap();
    let parts: Vec<usize> = uid.split('-').map(str::len).collect();
    assert_eq!(parts, [8, 4, 4, 4, 12], "{uid}");
    let time = meta["creationTimestamp"].as_str().unwrap();
    assert_eq!((time.len(), time.ends_with('Z')), (20, true), "whole seconds: {time}");
    assert!(version(&made).parse::<u64>().unwrap() > 0);
    assert_eq!(b.get("configmaps/a").await.ok(), made);
}

async fn client_cannot_choose_identity<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map("a", &json!({}));
    object["metadata"]["uid"] = json!("11111111-2222-3333-4444-555555555555");
    object["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    object["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
    object["metadata"]["deletionGracePeriodSeconds"] = json!(5);
    object["metadata"]["generation"] = json!(7);
    object["metadata"]["selfLink"] = json!("/x");
    let made = b.post("configmaps", &object).await.created();
    assert_ne!(made["metadata"]["uid"], object["metadata"]["uid"]);
    assert_ne!(made["metadata"]["creationTimestamp"], object["metadata"]["creationTimestamp"]);
    assert_eq!(made["metadata"].get("deletionTimestamp"), None);
    assert_eq!(made["metadata"].get("deletionGracePeriodSeconds"), None);
    assert_eq!(made["metadata"]["generation"], 7, "nobody looks at it where there is no spec");
    assert_eq!(made["metadata"].get("selfLink"), None);
}

async fn generate_name_appends_five_characters<B: Backend>() {
    let b = B::start().await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}});
    let first = b.post("configmaps", &object).await.created();
    let second = b.post("configmaps", &object).await.created();
    for made in [&first, &second] {
        let name = made["metadata"]["name"].as_str().unwrap();
        let end = name.strip_prefix("made-").unwrap();
        assert_eq!(end.len(), 5, "{name}");
        assert!(end.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{name}");
        assert_eq!(made["metadata"]["generateName"], "made-");
    }
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
}

async fn name_wins_over_generate_name<B: Backend>() {
    let b = B::start().await;
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain", "generateName": "made-"}});
    let made = b.post("configmaps", &object).await.created();
    assert_eq!(made["metadata"]["name"], "plain");
    assert_eq!(made["metadata"]["generateName"], "made-");
}

async fn name_is_required<B: Backend>() {
    let b = B::start().await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let said = b.post("configmaps", &object).await.refused(
        422,
        "Invalid",
        "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required",
    );
    let cause = json!([{"reason": "FieldValueRequired", "message": "Required value: name or generateName is required", "field": "metadata.name"}]);
    assert_eq!(said["details"], json!({"kind": "ConfigMap", "causes": cause}));
}

async fn second_object_of_a_name_is_refused<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let said = b.post("configmaps", &config_map("a", &json!({}))).await.refused(
        409,
        "AlreadyExists",
        "configmaps \"a\" already exists",
    );
    assert_eq!(said["details"], json!({"name": "a", "kind": "configmaps"}));
    assert_eq!(said["metadata"], json!({}));
}

async fn name_must_be_a_dns_subdomain<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("Not_Valid", &json!({}))).await.refused(
        422,
        "Invalid",
        "ConfigMap \"Not_Valid\" is invalid: metadata.name: Invalid value: \"Not_Valid\": a lowercase RFC 1123 subdomain \
         must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric \
         character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
    );
}

async fn label_values_are_checked<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map("a", &json!({}));
    object["metadata"]["labels"] = json!({"app": "has space"});
    b.post("configmaps", &object).await.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.labels: Invalid value: \"has space\": a valid label must be an empty string \
         or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
         (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
         '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
    );
}

async fn label_keys_are_checked<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map("a", &json!({}));
    object["metadata"]["labels"] = json!({"a/b/c": "x"});
    b.post("configmaps", &object).await.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.labels: Invalid value: \"a/b/c\": a valid label key must consist of \
         alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  \
         or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an \
         optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
    );
}

async fn annotations_are_checked<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map("a", &json!({}));
    object["metadata"]["annotations"] = json!({"bad key": "any value, \u{e4} and\nmore"});
    b.post("configmaps", &object).await.refused_saying(
        422,
        "Invalid",
        "metadata.annotations: Invalid value: \"bad key\"",
    );
    object["metadata"]["annotations"] = json!({"key": "any value, \u{e4} and\nmore"});
    b.post("configmaps", &object).await.created();
}

async fn namespace_of_body_must_match_the_path<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map("a", &json!({}));
    object["metadata"]["namespace"] = json!("default");
    b.post("configmaps", &object).await.refused(
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    );
    object["metadata"]["namespace"] = json!(b.namespace());
    b.post("configmaps", &object).await.created();
}

async fn namespace_must_exist<B: Backend>() {
    let b = B::start().await;
    let said = b.post("/api/v1/namespaces/no-such-place/configmaps", &config_map("a", &json!({}))).await.refused(
        404,
        "NotFound",
        "namespaces \"no-such-place\" not found",
    );
    assert_eq!(said["details"], json!({"name": "no-such-place", "kind": "namespaces"}));
}

async fn kind_of_body_must_match_the_path<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &pod("a")).await.refused(
        400,
        "BadRequest",
        "Pod in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion",
    );
}

async fn version_of_body_must_match_the_path<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map("a", &json!({}));
    object["apiVersion"] = json!("apps/v1");
    b.post("configmaps", &object).await.refused_saying(
        400,
        "BadRequest",
        "ConfigMap in version \"v1\" cannot be handled",
    );
}

async fn missing_kind_is_taken_from_the_path<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &json!({"metadata": {"name": "a"}})).await.created();
    assert_eq!((&made["apiVersion"], &made["kind"]), (&json!("v1"), &json!("ConfigMap")));
}

async fn status_is_dropped_on_create<B: Backend>() {
    let b = B::start().await;
    let mut object = pod("a");
    object["status"] = json!({"phase": "Running", "message": "mine"});
    let made = b.post("pods", &object).await.created();
    assert_eq!(made["status"]["phase"], "Pending");
    assert_eq!(made["status"].get("message"), None);
    let group = b.group();
    let schema = json!({"type": "object", "properties": {"status": {"type": "object", "properties": {"x": {"type": "integer"}}}}});
    let mut crd = definition(&group, "Thing", "Namespaced", &schema);
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    b.install(&crd).await;
    let thing =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}, "status": {"x": 1}});
    let made = b.post(&format!("{group}/v1 things"), &thing).await.created();
    assert_eq!(made.get("status"), None);
}

async fn generation_starts_at_one_where_there_is_a_spec<B: Backend>() {
    let b = B::start().await;
    let made = b.post("pods", &pod("a")).await.created();
    assert_eq!(made["metadata"]["generation"], 1);
    let made = b.post("apps/v1 deployments", &crate::objects::deployment("a", 1)).await.created();
    assert_eq!(made["metadata"]["generation"], 1);
    let made = b.post("/api/v1/nodes", &node(&b.name("node"))).await.created();
    assert_eq!(made["metadata"].get("generation"), None, "nodes have none");
}

async fn resource_version_may_not_be_given<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map("a", &json!({}));
    object["metadata"]["resourceVersion"] = json!("5");
    b.post("configmaps", &object).await.refused(500, "", "resourceVersion should not be set on objects to be created");
}

async fn finalizer_names_are_checked<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map("a", &json!({}));
    object["metadata"]["finalizers"] = json!(["plain"]);
    b.post("configmaps", &object).await.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.finalizers[0]: Invalid value: \"plain\": name is neither a standard finalizer \
         name nor is it fully qualified",
    );
    object["metadata"]["finalizers"] = json!(["example.com/mine"]);
    b.post("configmaps", &object).await.created();
}

async fn owner_references_are_checked<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map("a", &json!({}));
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": ""}]);
    b.post("configmaps", &object).await.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
    );
    let owner =
        |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name, "controller": true});
    object["metadata"]["ownerReferences"] = json!([owner("x"), owner("y")]);
    b.post("configmaps", &object).await.refused_saying(
        422,
        "Invalid",
        "Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/x and ConfigMap/y",
    );
}

async fn cluster_scoped_objects_have_no_namespace<B: Backend>() {
    let b = B::start().await;
    let mut object = node(&b.name("node"));
    let made = b.post("/api/v1/nodes", &object).await.created();
    assert_eq!(made["metadata"].get("namespace"), None);
    object["metadata"] = json!({"name": b.name("other"), "namespace": "default"});
    let made = b.post("/api/v1/nodes", &object).await.created();
    assert_eq!(made["metadata"].get("namespace"), None);
}

async fn null_fields_are_dropped<B: Backend>() {
    let b = B::start().await;
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": null}, "data": null});
    let made = b.post("configmaps", &object).await.created();
    assert_eq!(made.get("data"), None);
    assert_eq!(made["metadata"].get("labels"), None);
}

async fn empty_maps_of_built_in_kinds_are_dropped<B: Backend>() {
    let b = B::start().await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {}, "annotations": {}}, "data": {}});
    let made = b.post("configmaps", &object).await.created();
    assert_eq!(made.get("data"), None);
    assert_eq!(made["metadata"].get("labels"), None);
    assert_eq!(made["metadata"].get("annotations"), None);
}

async fn creation_is_owned_by_its_manager<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps?fieldManager=tester", &config_map("a", &json!({"k": "v"}))).await.created();
    let entries = made["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0]["time"], made["metadata"]["creationTimestamp"]);
    let mut entry = entries[0].clone();
    entry.as_object_mut().unwrap().remove("time");
    assert_eq!(
        entry,
        json!({"manager": "tester", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:k": {}}}})
    );
}

async fn long_labels_and_names_are_refused<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map(&"a".repeat(254), &json!({}));
    b.post("configmaps", &object).await.refused_saying(422, "Invalid", "must be no more than 253 characters");
    object["metadata"] = json!({"name": "a", "labels": {"k": "v".repeat(64)}});
    b.post("configmaps", &object).await.refused_saying(422, "Invalid", "must be no more than 63 bytes");
    object["metadata"] = json!({"name": "a".repeat(253), "labels": {"k": "v".repeat(63)}});
    b.post("configmaps", &object).await.created();
}

async fn secret_string_data_becomes_data<B: Backend>() {
    let b = B::start().await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "stringData": {"k": "hello"}});
    let made = b.post("secrets", &secret).await.created();
    assert_eq!(made["data"], json!({"k": "aGVsbG8="}));
    assert_eq!(made.get("stringData"), None);
    assert_eq!(made["type"], "Opaque");
}

async fn immutable_config_map_stays_as_it_is<B: Backend>() {
    let b = B::start().await;
    let mut object = config_map("a", &json!({"k": "v"}));
    object["immutable"] = json!(true);
    b.post("configmaps", &object).await.created();
    b.merge("configmaps/a", &json!({"data": {"k": "w"}})).await.refused(
        422,
        "Invalid",
        "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set",
    );
}
