//! Server-side apply: ownership, conflicts, force, fields that are given up, lists.

use http::Method;
use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{config_map, definition, deployment, node, owned, owned_through, pod, version};

on_every_backend!(
    apply_creates,
    apply_again_changes_nothing,
    apply_updates_its_own_fields,
    apply_takes_back_what_it_drops,
    dropped_field_stays_when_shared,
    same_value_is_shared,
    sharing_changes_no_time,
    kubectl_keeps_what_it_applied_from_the_client,
    other_value_is_a_conflict,
    two_conflicts_are_both_told,
    conflict_with_an_updater_names_it,
    force_takes_ownership,
    last_owner_takes_the_field_along,
    apply_keeps_what_others_own,
    apply_needs_a_manager,
    apply_needs_no_managed_fields,
    apply_with_a_stale_version_is_a_conflict,
    apply_of_another_name_is_refused,
    apply_of_another_kind_is_refused,
    apply_takes_yaml,
    apply_of_malformed_yaml_is_refused,
    containers_are_a_map_by_name,
    ports_are_a_map_by_two_keys,
    finalizers_are_a_set,
    labels_are_granular,
    tolerations_are_atomic,
    status_is_applied_apart,
    custom_list_map_is_merged_by_its_key,
    custom_set_is_merged,
    custom_atomic_list_is_replaced,
    update_after_apply_takes_fields_over,
    clearing_managed_fields,
    apply_dry_run,
    apply_with_unknown_field_is_refused,
    conflict_on_a_list_element_names_its_key,
    force_is_only_for_apply,
    node_taints_are_applied,
);

const AT: &str = "configmaps/a";

fn data(data: &Value) -> Value {
    config_map("a", data)
}

/// Says nothing about data; an empty map would own it.
fn bare() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
}

async fn applied(b: &Cluster, manager: &str, fields: &Value) -> Value {
    b.apply(manager, AT, &data(fields)).await.ok()
}

async fn apply_creates<B: Backend>() {
    let b = B::start().await;
    let made = b.apply("one", AT, &data(&json!({"k": "v"}))).await.created();
    assert_eq!(made["data"], json!({"k": "v"}));
    let entries = made["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 1);
    let mut entry = entries[0].clone();
    entry.as_object_mut().unwrap().remove("time").unwrap();
    let fields = json!({"f:data": {"f:k": {}}});
    assert_eq!(
        entry,
        json!({"manager": "one", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
    );
}

async fn apply_again_changes_nothing<B: Backend>() {
    let b = B::start().await;
    let made = b.apply("one", AT, &data(&json!({"k": "v"}))).await.created();
    assert_eq!(applied(&b, "one", &json!({"k": "v"})).await, made);
}

async fn apply_updates_its_own_fields<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &data(&json!({"k": "v"}))).await.created();
    let now = applied(&b, "one", &json!({"k": "w", "l": "x"})).await;
    assert_eq!(now["data"], json!({"k": "w", "l": "x"}));
    assert_eq!(owned(&now, "one", "Apply"), &json!({"f:data": {"f:k": {}, "f:l": {}}}));
}

async fn apply_takes_back_what_it_drops<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &data(&json!({"k": "v", "l": "v"}))).await.created();
    let now = applied(&b, "one", &json!({"l": "v"})).await;
    assert_eq!(now["data"], json!({"l": "v"}));
    let now = b.apply("one", AT, &bare()).await.ok();
    assert_eq!(now.get("data"), None);
}

async fn dropped_field_stays_when_shared<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &data(&json!({"k": "v", "l": "v"}))).await.created();
    applied(&b, "two", &json!({"k": "v"})).await;
    let now = applied(&b, "one", &json!({})).await;
    assert_eq!(now["data"], json!({"k": "v"}));
    assert_eq!(owned(&now, "two", "Apply"), &json!({"f:data": {"f:k": {}}}));
}

async fn same_value_is_shared<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &data(&json!({"k": "v"}))).await.created();
    let now = applied(&b, "two", &json!({"k": "v"})).await;
    for manager in ["one", "two"] {
        assert_eq!(owned(&now, manager, "Apply"), &json!({"f:data": {"f:k": {}}}), "{manager}");
    }
}

async fn sharing_changes_no_time<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &data(&json!({"k": "v"}))).await.created();
    let now = applied(&b, "two", &json!({"k": "v"})).await;
    let entries = now["metadata"]["managedFields"].as_array().unwrap();
    let times: Vec<(&str, bool)> =
        entries.iter().map(|e| (e["manager"].as_str().unwrap(), e["time"].is_string())).collect();
    assert_eq!(times, [("two", false), ("one", true)]);
}

/// The note of a client-side apply says which fields are kubectl's, under whatever name it wrote them.
async fn kubectl_keeps_what_it_applied_from_the_client<B: Backend>() {
    let b = B::start().await;
    let note =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v", "l": "w"}});
    let mut object = data(&json!({"k": "v", "l": "changed"}));
    object["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": note.to_string()});
    b.post("configmaps?fieldManager=kubectl-client-side-apply", &object).await.created();
    let wanted = data(&json!({"k": "x", "l": "x"}));
    b.apply("kubectl", AT, &wanted).await.refused(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using v1: .data.l",
    );
    b.apply("another", AT, &data(&json!({"k": "x"}))).await.refused_saying(409, "Conflict", ".data.k");
    let now = b.apply("kubectl", AT, &data(&json!({"k": "x"}))).await.ok();
    assert_eq!(now["data"], json!({"k": "x", "l": "changed"}));
    assert_eq!(owned(&now, "kubectl", "Apply"), &json!({"f:data": {"f:k": {}}}));
}

async fn other_value_is_a_conflict<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &data(&json!({"k": "v"}))).await.created();
    let said = b.apply("two", AT, &data(&json!({"k": "w"}))).await.refused(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"one\": .data.k",
    );
    let causes = json!([{"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.k"}]);
    assert_eq!(said["details"], json!({"causes": causes}));
    assert_eq!(b.get(AT).await.ok()["data"]["k"], "v");
}

async fn two_conflicts_are_both_told<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &data(&json!({"k": "v", "l": "v"}))).await.created();
    b.apply("two", AT, &data(&json!({"m": "v"}))).await.ok();
    b.apply("three", AT, &data(&json!({"k": "w", "l": "w", "m": "w"}))).await.refused(
        409,
        "Conflict",
        "Apply failed with 3 conflicts: conflicts with \"one\":\n- .data.k\n- .data.l\nconflicts with \"two\":\n- .data.m",
    );
}

async fn conflict_with_an_updater_names_it<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps?fieldManager=writer", &data(&json!({"k": "v"}))).await.created();
    let message = b.apply("two", AT, &data(&json!({"k": "w"}))).await;
    let said = message.body["message"].as_str().unwrap().to_owned();
    message.refused(409, "Conflict", &said);
    let start = "Apply failed with 1 conflict: conflict with \"writer\" using v1: .data.k";
    assert_eq!(said, start);
}

async fn force_takes_ownership<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &data(&json!({"k": "v", "l": "v"}))).await.created();
    let now = b.apply("two", "configmaps/a?force=true", &data(&json!({"k": "w"}))).await.ok();
    assert_eq!(now["data"], json!({"k": "w", "l": "v"}));
    assert_eq!(owned(&now, "one", "Apply"), &json!({"f:data": {"f:l": {}}}));
    assert_eq!(owned(&now, "two", "Apply"), &json!({"f:data": {"f:k": {}}}));
}

async fn last_owner_takes_the_field_along<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &data(&json!({"k": "v"}))).await.created();
    applied(&b, "two", &json!({"k": "v"})).await;
    b.apply("one", AT, &bare()).await.ok();
    let now = b.apply("two", AT, &bare()).await.ok();
    assert_eq!(now.get("data"), None);
    assert_eq!(now["metadata"].get("managedFields"), None, "nobody owns anything");
}

async fn apply_keeps_what_others_own<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps?fieldManager=writer", &data(&json!({"other": "v"}))).await.created();
    applied(&b, "one", &json!({"k": "v"})).await;
    let now = applied(&b, "one", &json!({})).await;
    assert_eq!(now["data"], json!({"other": "v"}));
}

async fn apply_needs_a_manager<B: Backend>() {
    let b = B::start().await;
    let body = data(&json!({})).to_string().into_bytes();
    let answer = b.send(Method::PATCH, AT, &[("content-type", "application/apply-patch+yaml")], body).await;
    answer.refused(
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
    );
}

async fn apply_needs_no_managed_fields<B: Backend>() {
    let b = B::start().await;
    let made = b.apply("one", AT, &data(&json!({"k": "v"}))).await.created();
    b.apply("one", AT, &made).await.refused(400, "BadRequest", "metadata.managedFields must be nil");
}

async fn apply_with_a_stale_version_is_a_conflict<B: Backend>() {
    let b = B::start().await;
    let made = b.apply("one", AT, &data(&json!({"k": "v"}))).await.created();
    b.merge(AT, &json!({"data": {"l": "x"}})).await.ok();
    let mut stale = data(&json!({"k": "w"}));
    stale["metadata"]["resourceVersion"] = json!(version(&made));
    b.apply("one", AT, &stale).await.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the \
         latest version and try again",
    );
    stale["metadata"]["name"] = json!("new");
    b.apply("one", "configmaps/new", &stale).await.created();
}

async fn apply_of_another_name_is_refused<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &config_map("b", &json!({}))).await.refused(
        400,
        "BadRequest",
        "the name of the object (b) does not match the name on the URL (a)",
    );
}

async fn apply_of_another_kind_is_refused<B: Backend>() {
    let b = B::start().await;
    let answer = b.apply("one", AT, &pod("a")).await;
    let said = answer.body["message"].as_str().unwrap_or_default().to_owned();
    answer.refused_saying(400, "BadRequest", &said);
}

async fn apply_takes_yaml<B: Backend>() {
    let b = B::start().await;
    let yaml =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  # a comment\n  k: |\n    two\n    lines\n";
    let head = [("content-type", "application/apply-patch+yaml")];
    let made = b.send(Method::PATCH, "configmaps/a?fieldManager=one", &head, yaml.as_bytes().to_vec()).await.created();
    assert_eq!(made["data"]["k"], "two\nlines\n");
}

async fn apply_of_malformed_yaml_is_refused<B: Backend>() {
    let b = B::start().await;
    let head = [("content-type", "application/apply-patch+yaml")];
    let answer = b.send(Method::PATCH, "configmaps/a?fieldManager=one", &head, b"a: [1".to_vec()).await;
    answer.refused_saying(400, "BadRequest", "error decoding YAML");
}

fn workload(containers: &Value) -> Value {
    let mut object = deployment("d", 1);
    object["spec"]["template"]["spec"]["containers"] = containers.clone();
    object
}

const WORKLOAD: &str = "apps/v1 deployments/d";

fn column(list: &Value, field: &str) -> String {
    let words: Vec<_> = list.as_array().unwrap().iter().map(|e| e[field].to_string().replace('"', "")).collect();
    words.join(" ")
}

async fn containers_are_a_map_by_name<B: Backend>() {
    let b = B::start().await;
    let first = json!([{"name": "one", "image": "registry/one:1"}]);
    b.apply("a", WORKLOAD, &workload(&first)).await.created();
    let second = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"template": {"spec": {"containers": [{"name": "two", "image": "registry/two:1"}]}}}});
    let now = b.apply("b", WORKLOAD, &second).await.ok();
    assert_eq!(column(&now["spec"]["template"]["spec"]["containers"], "name"), "one two");
    let fields = owned(&now, "b", "Apply");
    assert_eq!(
        fields["f:spec"]["f:template"]["f:spec"]["f:containers"],
        json!({"k:{\"name\":\"two\"}": {".": {}, "f:image": {}, "f:name": {}}})
    );
    let nothing = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}});
    let now = b.apply("b", WORKLOAD, &nothing).await.ok();
    assert_eq!(column(&now["spec"]["template"]["spec"]["containers"], "name"), "one");
}

async fn ports_are_a_map_by_two_keys<B: Backend>() {
    let b = B::start().await;
    let with = |ports: Value| workload(&json!([{"name": "one", "image": "registry/one:1", "ports": ports}]));
    let both = json!([{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP"}]);
    let made = b.apply("a", WORKLOAD, &with(both)).await.created();
    let containers = &owned(&made, "a", "Apply")["f:spec"]["f:template"]["f:spec"]["f:containers"];
    let ports = &containers["k:{\"name\":\"one\"}"]["f:ports"];
    assert_eq!(
        ports,
        &json!({
            "k:{\"containerPort\":53,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}},
            "k:{\"containerPort\":53,\"protocol\":\"UDP\"}": {".": {}, "f:containerPort": {}, "f:protocol": {}}})
    );
    let now = b.apply("a", WORKLOAD, &with(json!([{"containerPort": 53, "protocol": "TCP"}]))).await.ok();
    assert_eq!(column(&now["spec"]["template"]["spec"]["containers"][0]["ports"], "protocol"), "TCP");
}

async fn finalizers_are_a_set<B: Backend>() {
    let b = B::start().await;
    let with = |finalizers: Value| {
        let mut object = bare();
        object["metadata"]["finalizers"] = finalizers;
        object
    };
    b.apply("one", AT, &with(json!(["example.com/a"]))).await.created();
    let now = b.apply("two", AT, &with(json!(["example.com/b"]))).await.ok();
    assert_eq!(now["metadata"]["finalizers"], json!(["example.com/a", "example.com/b"]));
    assert_eq!(owned(&now, "two", "Apply")["f:metadata"], json!({"f:finalizers": {"v:\"example.com/b\"": {}}}));
    let now = b.apply("one", AT, &bare()).await.ok();
    assert_eq!(now["metadata"]["finalizers"], json!(["example.com/b"]));
}

async fn labels_are_granular<B: Backend>() {
    let b = B::start().await;
    let with = |labels: Value| {
        let mut object = bare();
        object["metadata"]["labels"] = labels;
        object
    };
    b.apply("one", AT, &with(json!({"a": "1"}))).await.created();
    let now = b.apply("two", AT, &with(json!({"b": "2"}))).await.ok();
    assert_eq!(now["metadata"]["labels"], json!({"a": "1", "b": "2"}));
    b.apply("two", AT, &with(json!({"a": "2"}))).await.refused(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"one\": .metadata.labels.a",
    );
}

async fn tolerations_are_atomic<B: Backend>() {
    let b = B::start().await;
    let with = |key: &str| {
        let mut object = workload(&json!([{"name": "one", "image": "registry/one:1"}]));
        object["spec"]["template"]["spec"]["tolerations"] = json!([{"key": key, "operator": "Exists"}]);
        object
    };
    let made = b.apply("one", WORKLOAD, &with("a")).await.created();
    assert_eq!(owned(&made, "one", "Apply")["f:spec"]["f:template"]["f:spec"]["f:tolerations"], json!({}));
    b.apply("two", WORKLOAD, &with("b")).await.refused(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"one\": .spec.template.spec.tolerations",
    );
}

async fn status_is_applied_apart<B: Backend>() {
    let b = B::start().await;
    b.apply("one", WORKLOAD, &workload(&json!([{"name": "one", "image": "registry/one:1"}]))).await.created();
    let status =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "status": {"replicas": 2}});
    let now = b.apply("one", &format!("{WORKLOAD}/status"), &status).await.ok();
    assert_eq!(now["status"]["replicas"], 2);
    assert_eq!(owned_through(&now, "one", "Apply", "status"), &json!({"f:status": {"f:replicas": {}}}));
    assert_eq!(now["spec"]["replicas"], 1);
    // A status in the main resource is not looked at.
    let now = b.apply("two", WORKLOAD, &status).await.ok();
    assert_eq!(owned(&now, "two", "Apply"), &Value::Null);
}

/// A custom resource with a map list, a set and an atomic list.
async fn lists(b: &Cluster) -> String {
    let group = b.group();
    let text = json!({"type": "string"});
    let element = json!({"type": "object", "required": ["key"], "properties": {"key": text, "value": text}});
    let spec = json!({"type": "object", "properties": {
        "map": {"type": "array", "items": element, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]},
        "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "list": {"type": "array", "items": text}}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    b.install(&definition(&group, "Thing", "Namespaced", &schema)).await;
    group
}

fn thing(group: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
}

async fn custom_list_map_is_merged_by_its_key<B: Backend>() {
    let b = B::start().await;
    let group = lists(&b).await;
    let at = format!("{group}/v1 things/a");
    b.apply("one", &at, &thing(&group, &json!({"map": [{"key": "x", "value": "1"}]}))).await.created();
    let now = b.apply("two", &at, &thing(&group, &json!({"map": [{"key": "y", "value": "2"}]}))).await.ok();
    assert_eq!(now["spec"]["map"], json!([{"key": "x", "value": "1"}, {"key": "y", "value": "2"}]));
    b.apply("two", &at, &thing(&group, &json!({"map": [{"key": "x", "value": "2"}]}))).await.refused(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"one\": .spec.map[key=\"x\"].value",
    );
    let twice = json!({"map": [{"key": "x"}, {"key": "x"}]});
    b.apply("three", &at, &thing(&group, &twice)).await.refused_saying(
        500,
        "",
        ".spec.map: duplicate entries for key [key=\"x\"]",
    );
    let now = b.apply("one", &at, &thing(&group, &json!({}))).await.ok();
    assert_eq!(now["spec"]["map"], json!([{"key": "y", "value": "2"}]));
}

async fn custom_set_is_merged<B: Backend>() {
    let b = B::start().await;
    let group = lists(&b).await;
    let at = format!("{group}/v1 things/a");
    b.apply("one", &at, &thing(&group, &json!({"set": ["a", "b"]}))).await.created();
    let now = b.apply("two", &at, &thing(&group, &json!({"set": ["b", "c"]}))).await.ok();
    assert_eq!(now["spec"]["set"], json!(["a", "b", "c"]));
    let now = b.apply("one", &at, &thing(&group, &json!({}))).await.ok();
    assert_eq!(now["spec"]["set"], json!(["b", "c"]));
}

async fn custom_atomic_list_is_replaced<B: Backend>() {
    let b = B::start().await;
    let group = lists(&b).await;
    let at = format!("{group}/v1 things/a");
    let made = b.apply("one", &at, &thing(&group, &json!({"list": ["a", "b"]}))).await.created();
    assert_eq!(owned(&made, "one", "Apply"), &json!({"f:spec": {"f:list": {}}}));
    b.apply("two", &at, &thing(&group, &json!({"list": ["c"]}))).await.refused(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"one\": .spec.list",
    );
    let now = b.apply("one", &at, &thing(&group, &json!({"list": ["c"]}))).await.ok();
    assert_eq!(now["spec"]["list"], json!(["c"]));
}

async fn update_after_apply_takes_fields_over<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &data(&json!({"k": "v", "l": "v"}))).await.created();
    let now = b.merge("configmaps/a?fieldManager=writer", &json!({"data": {"k": "w"}})).await.ok();
    assert_eq!(owned(&now, "one", "Apply"), &json!({"f:data": {"f:l": {}}}));
    assert_eq!(owned(&now, "writer", "Update"), &json!({"f:data": {"f:k": {}}}));
    let now = applied(&b, "one", &json!({"l": "v"})).await;
    assert_eq!(now["data"], json!({"k": "w", "l": "v"}));
}

async fn clearing_managed_fields<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &data(&json!({"k": "v"}))).await.created();
    let now = b.merge("configmaps/a?fieldManager=m", &json!({"metadata": {"managedFields": [{}]}})).await.ok();
    assert_eq!(now["metadata"].get("managedFields"), None);
    b.apply("two", AT, &data(&json!({"k": "w"}))).await.refused(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.k",
    );
    let now = b.apply("two", "configmaps/a?force=true", &data(&json!({"k": "w"}))).await.ok();
    assert_eq!(owned(&now, "two", "Apply"), &json!({"f:data": {"f:k": {}}}));
}

async fn apply_dry_run<B: Backend>() {
    let b = B::start().await;
    b.apply("one", "configmaps/a?dryRun=All", &data(&json!({"k": "v"}))).await.created();
    b.get(AT).await.refused(404, "NotFound", "configmaps \"a\" not found");
    b.apply("one", AT, &data(&json!({"k": "v"}))).await.created();
    let would = b.apply("one", "configmaps/a?dryRun=All", &data(&json!({"k": "w"}))).await.ok();
    assert_eq!(would["data"]["k"], "w");
    assert_eq!(b.get(AT).await.ok()["data"]["k"], "v");
}

async fn apply_with_unknown_field_is_refused<B: Backend>() {
    let b = B::start().await;
    let mut object = data(&json!({}));
    object["color"] = json!("red");
    b.apply("one", AT, &object).await.refused_saying(500, "", ".color: field not declared in schema");
}

async fn conflict_on_a_list_element_names_its_key<B: Backend>() {
    let b = B::start().await;
    let with = |image: &str| workload(&json!([{"name": "one", "image": image}]));
    b.apply("a", WORKLOAD, &with("registry/one:1")).await.created();
    b.apply("b", WORKLOAD, &with("registry/one:2")).await.refused(
        409,
        "Conflict",
        "Apply failed with 1 conflict: conflict with \"a\": .spec.template.spec.containers[name=\"one\"].image",
    );
}

async fn force_is_only_for_apply<B: Backend>() {
    let b = B::start().await;
    b.apply("one", AT, &data(&json!({}))).await.created();
    b.merge("configmaps/a?force=true", &json!({})).await.refused(
        422,
        "Invalid",
        "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch",
    );
}

async fn node_taints_are_applied<B: Backend>() {
    let b = B::start().await;
    let name = b.name("node");
    b.post("/api/v1/nodes?fieldManager=kubelet", &node(&name)).await.created();
    let at = format!("/api/v1/nodes/{name}");
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}});
    let answer = b.apply("one", &at, &object).await;
    let now =
        if answer.code == 409 { b.apply("one", &format!("{at}?force=true"), &object).await.ok() } else { answer.ok() };
    assert_eq!(now["spec"]["taints"], json!([{"key": "a", "effect": "NoSchedule"}]), "an atomic list");
    assert_eq!(owned(&now, "one", "Apply"), &json!({"f:spec": {"f:taints": {}}}));
}
