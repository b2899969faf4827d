//! Other forms of the same objects: tables and metadata alone.

use http::Method;
use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{config_map, definition, deployment, node, pod, version};
use crate::wire::Answer;

on_every_backend!(
    list_as_a_table,
    one_object_as_a_table,
    table_of_pods,
    table_of_nodes,
    table_of_deployments,
    table_of_a_custom_kind,
    table_of_a_kind_without_columns,
    tables_can_include_objects_or_nothing,
    tables_have_pages,
    list_of_metadata,
    object_as_metadata,
    unknown_forms_are_not_acceptable,
    first_acceptable_form_wins,
    table_of_a_status_is_the_status,
    table_of_a_created_object,
    empty_tables_have_columns,
    table_of_a_scale,
);

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

async fn accepting(b: &Cluster, accept: &str, path: &str) -> Answer {
    b.send(Method::GET, path, &[("accept", accept)], Vec::new()).await
}

fn columns(table: &Value) -> Vec<String> {
    let definitions = table["columnDefinitions"].as_array().unwrap();
    definitions
        .iter()
        .map(|c| format!("{}:{}:{}:{}", c["name"], c["type"], c["format"], c["priority"]).replace('"', ""))
        .collect()
}

/// Cells of each row; ages become `AGE`.
fn rows(table: &Value) -> Vec<Value> {
    let age = table["columnDefinitions"].as_array().unwrap().iter().position(|c| c["name"] == "Age");
    table["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let mut cells = row["cells"].clone();
            if let Some(age) = age {
                cells[age] = json!("AGE");
            }
            cells
        })
        .collect()
}

async fn list_as_a_table<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({"k": "v", "l": "w"}))).await.created();
    b.post("configmaps", &config_map("b", &json!({}))).await.created();
    let table = accepting(&b, TABLE, "configmaps").await.ok();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    assert!(version(&table).parse::<u64>().unwrap() >= version(&made).parse().unwrap());
    assert_eq!(columns(&table), ["Name:string:name:0", "Data:string::0", "Age:string::0"]);
    assert_eq!(rows(&table), [json!(["a", 2, "AGE"]), json!(["b", 0, "AGE"])]);
    let object = &table["rows"][0]["object"];
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1")));
    assert_eq!(object["metadata"], made["metadata"]);
}

async fn one_object_as_a_table<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let table = accepting(&b, TABLE, "configmaps/a").await.ok();
    assert_eq!(rows(&table), [json!(["a", 0, "AGE"])]);
    assert_eq!(version(&table), version(&made));
}

async fn table_of_pods<B: Backend>() {
    let b = B::start().await;
    let mut object = pod("a");
    object["spec"]["containers"] = json!([{"name": "one", "image": "x:1"}, {"name": "two", "image": "x:1"}]);
    object["spec"]["nodeName"] = json!("n1");
    b.post("pods", &object).await.created();
    let container = |name: &str, ready: bool, restarts: i64| json!({"name": name, "ready": ready, "restartCount": restarts, "image": "x:1", "imageID": "", "state": {"running": {}}});
    let status = json!({"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}], "nominatedNodeName": "",
        "containerStatuses": [container("one", true, 0), container("two", false, 0)]});
    b.merge("pods/a/status", &json!({"status": status})).await.ok();
    b.post("pods", &pod("b")).await.created();
    let table = accepting(&b, TABLE, "pods").await.ok();
    assert_eq!(
        columns(&table),
        [
            "Name:string:name:0",
            "Ready:string::0",
            "Status:string::0",
            "Restarts:string::0",
            "Age:string::0",
            "IP:string::1",
            "Node:string::1",
            "Nominated Node:string::1",
            "Readiness Gates:string::1"
        ]
    );
    assert_eq!(
        rows(&table),
        [
            json!(["a", "1/2", "Running", "0", "AGE", "10.1.2.3", "n1", "<none>", "<none>"]),
            json!(["b", "0/1", "Pending", "0", "AGE", "<none>", "<none>", "<none>", "<none>"]),
        ]
    );
    b.delete("pods/a").await.ok();
    let table = accepting(&b, TABLE, "pods/a").await.ok();
    assert_eq!(table["rows"][0]["cells"][2], "Terminating");
}

async fn table_of_nodes<B: Backend>() {
    let b = B::start().await;
    let name = b.name("node");
    let mut object = node(&name);
    object["metadata"]["labels"] = json!({"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "big"});
    object["spec"] = json!({"unschedulable": true});
    object["status"] = json!({"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.35.0", "osImage": "Linux 1", "kernelVersion": "6.1", "containerRuntimeVersion": "containerd://2", "architecture": "amd64", "bootID": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "linux", "systemUUID": ""},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "1.2.3.4"}]});
    b.post("/api/v1/nodes", &object).await.created();
    let table = accepting(&b, TABLE, &format!("/api/v1/nodes/{name}")).await.ok();
    let names: Vec<String> = columns(&table).iter().map(|c| c.split(':').next().unwrap().to_owned()).collect();
    assert_eq!(
        names,
        [
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            "Internal-IP",
            "External-IP",
            "OS-Image",
            "Kernel-Version",
            "Container-Runtime"
        ]
    );
    assert_eq!(
        rows(&table),
        [json!([
            name,
            "Ready,SchedulingDisabled",
            "big,worker",
            "AGE",
            "v1.35.0",
            "10.0.0.1",
            "1.2.3.4",
            "Linux 1",
            "6.1",
            "containerd://2"
        ])]
    );
}

async fn table_of_deployments<B: Backend>() {
    let b = B::start().await;
    b.post("apps/v1 deployments", &deployment("a", 3)).await.created();
    let status = json!({"replicas": 3, "readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2});
    b.merge("apps/v1 deployments/a/status", &json!({"status": status})).await.ok();
    let table = accepting(&b, TABLE, "apps/v1 deployments").await.ok();
    assert_eq!(
        columns(&table),
        [
            "Name:string:name:0",
            "Ready:string::0",
            "Up-to-date:string::0",
            "Available:string::0",
            "Age:string::0",
            "Containers:string::1",
            "Images:string::1",
            "Selector:string::1"
        ]
    );
    assert_eq!(rows(&table), [json!(["a", "2/3", 1, 2, "AGE", "main", "registry/main:1", "app=a"])]);
}

async fn table_of_a_custom_kind<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}, "color": {"type": "string"}, "on": {"type": "boolean"}, "when": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}}}});
    let mut crd = definition(&group, "Thing", "Namespaced", &json!({"type": "object", "properties": {"spec": spec}}));
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "how big"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "First", "type": "string", "jsonPath": ".spec.list[?(@.name==\"x\")].name"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    b.install(&crd).await;
    let thing = |name: &str, spec: Value| json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": name}, "spec": spec});
    let at = format!("{group}/v1 things");
    b.post(&at, &thing("a", json!({"size": 3, "color": "red", "on": true, "list": [{"name": "x"}]}))).await.created();
    b.post(&at, &thing("b", json!({}))).await.created();
    let table = accepting(&b, TABLE, &at).await.ok();
    assert_eq!(
        columns(&table),
        ["Name:string:name:0", "Size:integer::0", "Color:string::1", "On:boolean::0", "First:string::0", "Age:date::0"]
    );
    assert_eq!(table["columnDefinitions"][1]["description"], "how big");
    assert_eq!(rows(&table), [json!(["a", 3, "red", true, "x", "AGE"]), json!(["b", null, null, null, null, "AGE"])]);
}

async fn table_of_a_kind_without_columns<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    b.install(&definition(&group, "Thing", "Cluster", &json!({"type": "object"}))).await;
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}});
    b.post(&format!("/apis/{group}/v1/things"), &thing).await.created();
    let table = accepting(&b, TABLE, &format!("/apis/{group}/v1/things")).await.ok();
    assert_eq!(columns(&table), ["Name:string:name:0", "Age:date::0"]);
    assert_eq!(rows(&table), [json!(["a", "AGE"])]);
}

async fn tables_can_include_objects_or_nothing<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({"k": "v"}))).await.created();
    let table = accepting(&b, TABLE, "configmaps?includeObject=Object").await.ok();
    assert_eq!(table["rows"][0]["object"], made);
    let table = accepting(&b, TABLE, "configmaps?includeObject=None").await.ok();
    assert_eq!(table["rows"][0]["object"], Value::Null);
    accepting(&b, TABLE, "configmaps?includeObject=Everything").await.refused_saying(
        400,
        "BadRequest",
        "includeObject",
    );
}

async fn tables_have_pages<B: Backend>() {
    let b = B::start().await;
    for name in ["a", "b", "c"] {
        b.post("configmaps", &config_map(name, &json!({}))).await.created();
    }
    let table = accepting(&b, TABLE, "configmaps?limit=2").await.ok();
    assert_eq!(rows(&table).len(), 2);
    assert_eq!(table["metadata"]["remainingItemCount"], 1);
    let token = table["metadata"]["continue"].as_str().unwrap();
    let table = accepting(&b, TABLE, &format!("configmaps?limit=2&continue={token}")).await.ok();
    assert_eq!(rows(&table), [json!(["c", 0, "AGE"])]);
}

async fn list_of_metadata<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({"k": "v"}))).await.created();
    let list = accepting(&b, METADATA_LIST, "configmaps").await.ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1")));
    assert_eq!(list["items"][0]["metadata"], made["metadata"]);
    assert_eq!(list["items"][0].get("data"), None);
    assert_ne!(version(&list), "");
}

async fn object_as_metadata<B: Backend>() {
    let b = B::start().await;
    let made = b.post("configmaps", &config_map("a", &json!({"k": "v"}))).await.created();
    let object = accepting(&b, METADATA, "configmaps/a").await.ok();
    let want = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"]});
    assert_eq!(object, want);
    let patch = json!({"metadata": {"labels": {"a": "b"}}}).to_string().into_bytes();
    let head = [("accept", METADATA), ("content-type", "application/merge-patch+json")];
    let object = b.send(Method::PATCH, "configmaps/a", &head, patch).await.ok();
    assert_eq!((&object["kind"], object.get("data")), (&json!("PartialObjectMetadata"), None));
}

async fn unknown_forms_are_not_acceptable<B: Backend>() {
    let b = B::start().await;
    accepting(&b, "text/html", "configmaps").await.refused(
        406,
        "NotAcceptable",
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, \
         application/vnd.kubernetes.protobuf, application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch",
    );
    accepting(&b, "application/json;as=Table;v=v7;g=meta.k8s.io", "configmaps").await.refused_saying(
        406,
        "NotAcceptable",
        "only the following media types are accepted",
    );
}

async fn first_acceptable_form_wins<B: Backend>() {
    let b = B::start().await;
    b.post("configmaps", &config_map("a", &json!({}))).await.created();
    let both = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    assert_eq!(accepting(&b, both, "configmaps").await.ok()["kind"], "Table");
    let unknown_first = "application/json;as=Table;v=v7;g=meta.k8s.io,application/json";
    assert_eq!(accepting(&b, unknown_first, "configmaps").await.ok()["kind"], "ConfigMapList");
    assert_eq!(accepting(&b, "*/*", "configmaps").await.ok()["kind"], "ConfigMapList");
}

async fn table_of_a_status_is_the_status<B: Backend>() {
    let b = B::start().await;
    accepting(&b, TABLE, "configmaps/none").await.refused(404, "NotFound", "configmaps \"none\" not found");
}

async fn table_of_a_created_object<B: Backend>() {
    let b = B::start().await;
    let head = [("accept", TABLE), ("content-type", "application/json")];
    let body = config_map("a", &json!({})).to_string().into_bytes();
    let table = b.send(Method::POST, "configmaps", &head, body).await.created();
    assert_eq!(rows(&table), [json!(["a", 0, "AGE"])]);
}

async fn empty_tables_have_columns<B: Backend>() {
    let b = B::start().await;
    let table = accepting(&b, TABLE, "pods").await.ok();
    assert_eq!(table["rows"], json!([]));
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
}

async fn table_of_a_scale<B: Backend>() {
    let b = B::start().await;
    let made = b.post("apps/v1 deployments", &deployment("a", 3)).await.created();
    let table = accepting(&b, TABLE, "apps/v1 deployments/a/scale").await.ok();
    let want = ["Name:string::0", "Desired:integer::0", "Available:integer::0", "Age:string::0"];
    assert_eq!(columns(&table), want);
    let described = |i: usize| table["columnDefinitions"][i]["description"].as_str().unwrap();
    assert_eq!(described(1), "replicas is the desired number of instances for the scaled object.");
    assert_eq!(described(2), "replicas is the actual number of observed instances of the scaled object.");
    assert_eq!(rows(&table), [json!(["a", 3, 0, "AGE"])]);
    assert_eq!(version(&table), version(&made));
}
