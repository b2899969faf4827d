//! What the server says about itself: versions, groups, resources, schemas.

use http::Method;
use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::definition;
use crate::watching::eventually;

on_every_backend!(
    version_is_told,
    health_is_told,
    core_versions_are_listed,
    groups_are_listed,
    one_group_is_described,
    core_resources_are_described,
    resources_of_a_group_are_described,
    unknown_group_is_not_found,
    custom_kinds_are_discovered,
    aggregated_discovery_of_groups,
    aggregated_discovery_of_core,
    aggregated_discovery_of_custom_kinds,
    schema_index_lists_versions,
    schemas_of_a_version,
    schemas_of_custom_kinds,
    access_reviews_are_answered,
    root_lists_paths,
    unknown_paths_are_not_found,
);

async fn version_is_told<B: Backend>() {
    let b = B::start().await;
    let version = b.get("/version").await.ok();
    assert_eq!((&version["major"], &version["minor"]), (&json!("1"), &json!("35")));
    assert!(version["gitVersion"].as_str().unwrap().starts_with("v1.35."));
}

async fn health_is_told<B: Backend>() {
    let b = B::start().await;
    for path in ["/healthz", "/readyz", "/livez"] {
        let answer = b.get(path).await;
        assert_eq!((answer.code, answer.text.as_str()), (200, "ok"), "{path}");
    }
}

async fn core_versions_are_listed<B: Backend>() {
    let b = B::start().await;
    let list = b.get("/api").await.ok();
    assert_eq!((&list["kind"], &list["versions"]), (&json!("APIVersions"), &json!(["v1"])));
}

async fn groups_are_listed<B: Backend>() {
    let b = B::start().await;
    let list = b.get("/apis").await.ok();
    assert_eq!(list["kind"], "APIGroupList");
    let groups: Vec<&str> = list["groups"].as_array().unwrap().iter().map(|g| g["name"].as_str().unwrap()).collect();
    for group in [
        "apps",
        "batch",
        "policy",
        "storage.k8s.io",
        "coordination.k8s.io",
        "rbac.authorization.k8s.io",
        "scheduling.k8s.io",
        "apiextensions.k8s.io",
        "events.k8s.io",
        "resource.k8s.io",
        "authorization.k8s.io",
        "admissionregistration.k8s.io",
    ] {
        assert!(groups.contains(&group), "{group} in {groups:?}");
    }
}

async fn one_group_is_described<B: Backend>() {
    let b = B::start().await;
    let version = json!({"groupVersion": "apps/v1", "version": "v1"});
    let want = json!({"kind": "APIGroup", "apiVersion": "v1", "name": "apps", "versions": [version], "preferredVersion": version});
    assert_eq!(b.get("/apis/apps").await.ok(), want);
}

/// Without hashes, which depend on how the server stores things.
fn resource<'a>(list: &'a Value, name: &str) -> &'a Value {
    list["resources"]
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["name"] == name)
        .unwrap_or_else(|| panic!("{name} is there"))
}

async fn core_resources_are_described<B: Backend>() {
    let b = B::start().await;
    let list = b.get("/api/v1").await.ok();
    assert_eq!((&list["kind"], &list["groupVersion"]), (&json!("APIResourceList"), &json!("v1")));
    let mut pods = resource(&list, "pods").clone();
    pods.as_object_mut().unwrap().remove("storageVersionHash");
    assert_eq!(
        pods,
        json!({"name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod", "shortNames": ["po"], "categories": ["all"],
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]})
    );
    assert_eq!(
        resource(&list, "pods/eviction"),
        &json!({"name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]})
    );
    assert_eq!(
        resource(&list, "pods/binding"),
        &json!({"name": "pods/binding", "singularName": "", "namespaced": true, "kind": "Binding", "verbs": ["create"]})
    );
    assert_eq!(resource(&list, "nodes")["namespaced"], false);
    assert_eq!(resource(&list, "nodes/status")["verbs"], json!(["get", "patch", "update"]));
}

async fn resources_of_a_group_are_described<B: Backend>() {
    let b = B::start().await;
    let list = b.get("/apis/apps/v1").await.ok();
    let names: Vec<&str> = list["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status"
        ]
    );
    assert_eq!(resource(&list, "deployments/scale")["group"], "autoscaling");
    assert_eq!(resource(&list, "deployments")["shortNames"], json!(["deploy"]));
}

async fn unknown_group_is_not_found<B: Backend>() {
    let b = B::start().await;
    for path in ["/apis/nobody.example.com", "/apis/nobody.example.com/v1", "/apis/apps/v9", "/api/v2"] {
        let answer = b.get(path).await;
        assert_eq!(answer.code, 404, "{path} {}", answer.text);
    }
}

/// Installs a kind with all that discovery tells, and waits until it does.
async fn rich(b: &Cluster) -> String {
    let group = b.group();
    let schema = json!({"type": "object", "description": "A thing.", "properties": {
        "spec": {"type": "object", "description": "What is wanted.", "properties": {"x": {"type": "integer", "description": "How many."}}},
        "status": {"type": "object", "properties": {"x": {"type": "integer"}}}}});
    let mut crd = definition(&group, "Thing", "Namespaced", &schema);
    crd["spec"]["names"]["shortNames"] = json!(["th"]);
    crd["spec"]["names"]["categories"] = json!(["stuff"]);
    crd["spec"]["versions"][0]["subresources"] =
        json!({"status": {}, "scale": {"specReplicasPath": ".spec.x", "statusReplicasPath": ".status.x"}});
    b.install(&crd).await;
    let path = format!("/apis/{group}/v1");
    eventually("the kind is discovered", async || (b.get(&path).await.code == 200).then_some(())).await;
    group
}

async fn custom_kinds_are_discovered<B: Backend>() {
    let b = B::start().await;
    let group = rich(&b).await;
    let mut list = b.get(&format!("/apis/{group}/v1")).await.ok();
    let resources = list["resources"].as_array_mut().unwrap();
    for resource in resources.iter_mut() {
        resource.as_object_mut().unwrap().remove("storageVersionHash");
    }
    assert_eq!(
        resources,
        &[
            json!({"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "shortNames": ["th"], "categories": ["stuff"],
                "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]}),
            json!({"name": "things/status", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["get", "patch", "update"]}),
            json!({"name": "things/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1", "kind": "Scale",
                "verbs": ["get", "patch", "update"]}),
        ]
    );
    let found = eventually("the group is listed", async || {
        let list = b.get("/apis").await.ok();
        list["groups"].as_array().unwrap().iter().find(|g| g["name"] == group).cloned()
    })
    .await;
    assert_eq!(found["preferredVersion"]["groupVersion"], format!("{group}/v1"));
}

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async fn aggregated(b: &Cluster, path: &str) -> Value {
    let answer = b.send(Method::GET, path, &[("accept", AGGREGATED)], Vec::new()).await;
    assert_eq!(answer.headers["content-type"], AGGREGATED);
    answer.ok()
}

async fn aggregated_discovery_of_groups<B: Backend>() {
    let b = B::start().await;
    let list = aggregated(&b, "/apis").await;
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("APIGroupDiscoveryList"), &json!("apidiscovery.k8s.io/v2"))
    );
    let apps = list["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == "apps").unwrap();
    assert_eq!((&apps["versions"][0]["version"], &apps["versions"][0]["freshness"]), (&json!("v1"), &json!("Current")));
    let resources = apps["versions"][0]["resources"].as_array().unwrap();
    let deployments = resources.iter().find(|r| r["resource"] == "deployments").unwrap();
    assert_eq!(
        deployments,
        &json!({"resource": "deployments", "responseKind": {"group": "", "version": "", "kind": "Deployment"}, "scope": "Namespaced",
            "singularResource": "deployment", "shortNames": ["deploy"], "categories": ["all"],
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "subresources": [
                {"subresource": "scale", "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}, "verbs": ["get", "patch", "update"]},
                {"subresource": "status", "responseKind": {"group": "", "version": "", "kind": "Deployment"}, "verbs": ["get", "patch", "update"]}]})
    );
}

async fn aggregated_discovery_of_core<B: Backend>() {
    let b = B::start().await;
    let list = aggregated(&b, "/api").await;
    let core = &list["items"][0];
    assert_eq!(core["versions"][0]["version"], "v1");
    let resources = core["versions"][0]["resources"].as_array().unwrap();
    let nodes = resources.iter().find(|r| r["resource"] == "nodes").unwrap();
    assert_eq!((&nodes["scope"], &nodes["shortNames"]), (&json!("Cluster"), &json!(["no"])));
}

async fn aggregated_discovery_of_custom_kinds<B: Backend>() {
    let b = B::start().await;
    let group = rich(&b).await;
    let found = eventually("the group is listed", async || {
        let list = aggregated(&b, "/apis").await;
        list["items"].as_array().unwrap().iter().find(|g| g["metadata"]["name"] == group).cloned()
    })
    .await;
    let thing = &found["versions"][0]["resources"][0];
    assert_eq!((&thing["resource"], &thing["singularResource"]), (&json!("things"), &json!("thing")));
    assert_eq!(thing["subresources"].as_array().unwrap().len(), 2);
}

async fn schema_index_lists_versions<B: Backend>() {
    let b = B::start().await;
    let index = b.get("/openapi/v3").await.ok();
    for version in
        ["api/v1", "apis/apps/v1", "apis/policy/v1", "apis/apiextensions.k8s.io/v1", "apis/coordination.k8s.io/v1"]
    {
        let address = index["paths"][version]["serverRelativeURL"].as_str().unwrap_or_default();
        assert!(address.starts_with(&format!("/openapi/v3/{version}?hash=")), "{version}: {address}");
    }
}

async fn schemas_of_a_version<B: Backend>() {
    let b = B::start().await;
    let index = b.get("/openapi/v3").await.ok();
    let address = index["paths"]["api/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = b.get(address).await.ok();
    let pod = &document["components"]["schemas"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["x-kubernetes-group-version-kind"], json!([{"group": "", "kind": "Pod", "version": "v1"}]));
    let spec = &document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"];
    assert_eq!(spec["properties"]["containers"]["x-kubernetes-patch-merge-key"], "name");
    assert!(document["paths"]["/api/v1/namespaces/{namespace}/pods"]["get"].is_object());
    let document = b.get("/openapi/v3/apis/apps/v1").await.ok();
    assert!(document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"].is_object());
}

async fn schemas_of_custom_kinds<B: Backend>() {
    let b = B::start().await;
    let group = rich(&b).await;
    let document = eventually("the schema is published", async || {
        let answer = b.get(&format!("/openapi/v3/apis/{group}/v1")).await;
        (answer.code == 200).then_some(answer.body)
    })
    .await;
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let of_thing = |schema: &&Value| schema["x-kubernetes-group-version-kind"][0]["kind"] == "Thing";
    let thing = schemas.values().find(of_thing).unwrap();
    assert_eq!(thing["x-kubernetes-group-version-kind"], json!([{"group": group, "kind": "Thing", "version": "v1"}]));
    assert_eq!(thing["description"], "A thing.");
    assert_eq!(thing["properties"]["spec"]["properties"]["x"], json!({"description": "How many.", "type": "integer"}));
}

async fn access_reviews_are_answered<B: Backend>() {
    let b = B::start().await;
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": b.namespace()}}});
    let answer = b.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review).await.created();
    assert_eq!(answer["status"]["allowed"], true);
    let rules = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": b.namespace()}});
    let answer = b.post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &rules).await.created();
    assert!(answer["status"]["resourceRules"].is_array());
}

async fn root_lists_paths<B: Backend>() {
    let b = B::start().await;
    let root = b.get("/").await.ok();
    let paths = root["paths"].as_array().unwrap();
    for path in ["/api", "/api/v1", "/apis", "/apis/apps/v1", "/openapi/v3", "/version"] {
        assert!(paths.contains(&json!(path)), "{path}");
    }
}

async fn unknown_paths_are_not_found<B: Backend>() {
    let b = B::start().await;
    let answer = b.get("/nowhere").await;
    assert_eq!((answer.code, answer.text.as_str()), (404, "404 page not found\n"));
    b.get("/api/v1/wonders").await.refused(404, "NotFound", "the server could not find the requested resource");
    b.get("/apis/apps/v1/wonders").await.refused(404, "NotFound", "the server could not find the requested resource");
}
