//! Strategic merge patches: lists by their merge keys, and the directives.

use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{deployment, node, pod};

on_every_backend!(
    containers_are_merged_by_name,
    new_containers_are_put_first,
    set_element_order_orders,
    patch_delete_removes_an_element,
    patch_replace_replaces_a_list,
    patch_replace_replaces_a_map,
    patch_delete_removes_a_map,
    null_removes_a_field,
    environment_is_merged_by_name,
    ports_are_merged_by_container_port,
    taints_are_atomic,
    tolerations_are_atomic,
    conditions_are_merged_by_type,
    retain_keys_drops_the_others,
    bad_directive_is_refused,
    merge_key_is_required,
    volumes_are_merged_by_name,
    service_ports_are_merged_by_port,
    image_pull_secrets_are_replaced,
    primitive_lists_are_replaced,
);

const AT: &str = "apps/v1 deployments/a";

async fn stored(b: &Cluster) {
    let mut object = deployment("a", 1);
    object["spec"]["template"]["spec"]["containers"] = json!([
        {"name": "one", "image": "registry/one:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 80, "name": "http"}], "command": ["run", "it"]},
        {"name": "two", "image": "registry/two:1"},
    ]);
    object["spec"]["template"]["spec"]["nodeSelector"] = json!({"a": "b"});
    b.post("apps/v1 deployments", &object).await.created();
}

/// Patches the pod template's spec and returns it.
async fn patched(b: &Cluster, spec: &Value) -> Value {
    let mut now = b.strategic(AT, &json!({"spec": {"template": {"spec": spec}}})).await.ok();
    now["spec"]["template"]["spec"].take()
}

fn column(list: &Value, field: &str) -> String {
    let words: Vec<_> = list.as_array().unwrap().iter().map(|e| e[field].to_string().replace('"', "")).collect();
    words.join(" ")
}

async fn containers_are_merged_by_name<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let now = patched(&b, &json!({"containers": [{"name": "two", "image": "registry/two:2"}]})).await;
    assert_eq!(column(&now["containers"], "name"), "one two");
    assert_eq!(column(&now["containers"], "image"), "registry/one:1 registry/two:2");
}

async fn new_containers_are_put_first<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let now = patched(&b, &json!({"containers": [{"name": "three", "image": "registry/three:1"}]})).await;
    assert_eq!(column(&now["containers"], "name"), "three one two");
}

async fn set_element_order_orders<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let order = json!([{"name": "two"}, {"name": "three"}, {"name": "one"}]);
    let new = json!([{"name": "three", "image": "registry/three:1"}]);
    let now = patched(&b, &json!({"$setElementOrder/containers": order, "containers": new})).await;
    assert_eq!(column(&now["containers"], "name"), "two three one");
}

async fn patch_delete_removes_an_element<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let now = patched(&b, &json!({"containers": [{"name": "two", "$patch": "delete"}]})).await;
    assert_eq!(column(&now["containers"], "name"), "one");
}

async fn patch_replace_replaces_a_list<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let now =
        patched(&b, &json!({"containers": [{"name": "new", "image": "registry/new:1"}, {"$patch": "replace"}]})).await;
    assert_eq!(column(&now["containers"], "name"), "new");
}

async fn patch_replace_replaces_a_map<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let now = patched(&b, &json!({"nodeSelector": {"$patch": "replace", "c": "d"}})).await;
    assert_eq!(now["nodeSelector"], json!({"c": "d"}));
}

async fn patch_delete_removes_a_map<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let now = patched(&b, &json!({"nodeSelector": {"$patch": "delete"}})).await;
    assert_eq!(now.get("nodeSelector"), None);
}

async fn null_removes_a_field<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let now =
        patched(&b, &json!({"nodeSelector": {"a": null, "c": "d"}, "containers": [{"name": "one", "env": null}]}))
            .await;
    assert_eq!(now["nodeSelector"], json!({"c": "d"}));
    assert_eq!(now["containers"][0].get("env"), None);
    assert_eq!(now["containers"][0]["image"], "registry/one:1");
}

async fn environment_is_merged_by_name<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let env = json!([{"name": "B", "value": "3"}, {"name": "C", "value": "4"}, {"name": "A", "$patch": "delete"}]);
    let now = patched(&b, &json!({"containers": [{"name": "one", "env": env}]})).await;
    assert_eq!(column(&now["containers"][0]["env"], "name"), "B C");
    assert_eq!(column(&now["containers"][0]["env"], "value"), "3 4");
}

async fn ports_are_merged_by_container_port<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let ports = json!([{"containerPort": 80, "name": "web"}, {"containerPort": 81}]);
    let now = patched(&b, &json!({"containers": [{"name": "one", "ports": ports}]})).await;
    let ports = &now["containers"][0]["ports"];
    assert_eq!(column(ports, "containerPort"), "80 81");
    assert_eq!(column(ports, "protocol"), "TCP TCP");
    assert_eq!(ports[0]["name"], "web");
}

async fn taints_are_atomic<B: Backend>() {
    let b = B::start().await;
    let name = b.name("node");
    let mut object = node(&name);
    object["spec"] = json!({"taints": [{"key": "a", "effect": "NoSchedule"}]});
    b.post("/api/v1/nodes", &object).await.created();
    let patch = json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}});
    let now = b.strategic(&format!("/api/v1/nodes/{name}"), &patch).await.ok();
    assert_eq!(column(&now["spec"]["taints"], "key"), "b");
}

async fn tolerations_are_atomic<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    patched(&b, &json!({"tolerations": [{"key": "a", "operator": "Exists"}]})).await;
    let now = patched(&b, &json!({"tolerations": [{"key": "b", "operator": "Exists"}]})).await;
    assert_eq!(column(&now["tolerations"], "key"), "b");
}

async fn conditions_are_merged_by_type<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let at = "pods/a/status";
    b.strategic(at, &json!({"status": {"conditions": [condition("Ready", "False"), condition("Other", "True")]}}))
        .await
        .ok();
    let now = b.strategic(at, &json!({"status": {"conditions": [condition("Ready", "True")]}})).await.ok();
    let conditions = &now["status"]["conditions"];
    assert_eq!(column(conditions, "type"), "Ready Other");
    assert_eq!(column(conditions, "status"), "True True");
}

async fn retain_keys_drops_the_others<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let now = b.strategic(AT, &patch).await.ok();
    assert_eq!(now["spec"]["strategy"], json!({"type": "Recreate"}));
}

async fn bad_directive_is_refused<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let patch = json!({"spec": {"template": {"spec": {"nodeSelector": {"$patch": "shuffle"}}}}});
    b.strategic(AT, &patch).await.refused_saying(500, "", "unknown patch type: shuffle in map: map[$patch:shuffle]");
}

async fn merge_key_is_required<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"image": "registry/x:1"}]}}}});
    b.strategic(AT, &patch).await.refused_saying(500, "", "does not contain declared merge key: name");
}

async fn volumes_are_merged_by_name<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    patched(&b, &json!({"volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}}]})).await;
    let change = json!([{"name": "a", "emptyDir": {"medium": "Memory"}}, {"name": "b", "$patch": "delete"}]);
    let now = patched(&b, &json!({"volumes": change})).await;
    assert_eq!(now["volumes"], json!([{"name": "a", "emptyDir": {"medium": "Memory"}}]));
}

async fn service_ports_are_merged_by_port<B: Backend>() {
    let b = B::start().await;
    let ports = json!([{"name": "a", "port": 80}, {"name": "b", "port": 81}]);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"clusterIP": "None", "ports": ports}});
    b.post("services", &service).await.created();
    let patch = json!({"spec": {"ports": [{"port": 81, "name": "c"}]}});
    let now = b.strategic("services/s", &patch).await.ok();
    assert_eq!(column(&now["spec"]["ports"], "name"), "a c");
}

async fn image_pull_secrets_are_replaced<B: Backend>() {
    let b = B::start().await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}, "imagePullSecrets": [{"name": "a"}]});
    b.post("serviceaccounts", &account).await.created();
    let now = b.strategic("serviceaccounts/s", &json!({"imagePullSecrets": [{"name": "b"}]})).await.ok();
    assert_eq!(column(&now["imagePullSecrets"], "name"), "b");
}

async fn primitive_lists_are_replaced<B: Backend>() {
    let b = B::start().await;
    stored(&b).await;
    let now = patched(&b, &json!({"containers": [{"name": "one", "command": ["other"]}]})).await;
    assert_eq!(now["containers"][0]["command"], json!(["other"]));
}
