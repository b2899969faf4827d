//! Scale, eviction, binding and what else hangs below an object.

use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{definition, deployment, node, pod, pod_labelled, version};

on_every_backend!(
    scale_of_a_deployment_is_read,
    scale_is_written,
    scale_is_patched,
    scale_with_a_stale_version_is_a_conflict,
    negative_scale_is_refused,
    scale_of_a_custom_resource,
    scale_that_is_not_declared_is_not_found,
    eviction_deletes_a_pod,
    eviction_of_a_missing_pod_is_not_found,
    budget_without_room_refuses_eviction,
    budget_with_room_is_used_up,
    budget_of_other_pods_does_not_matter,
    two_budgets_for_a_pod_are_an_error,
    pending_pods_are_evicted_past_a_budget,
    budget_that_is_not_observed_refuses,
    eviction_dry_run,
    eviction_name_must_match,
    eviction_precondition,
    unhealthy_pods_follow_the_policy,
    binding_puts_a_pod_on_a_node,
    second_binding_is_a_conflict,
    binding_through_the_collection,
    binding_of_a_missing_pod_is_not_found,
    binding_copies_topology_labels,
    gated_pod_is_not_bound,
    unknown_subresource_is_not_found,
    ephemeral_containers_are_a_subresource,
    resize_is_a_subresource,
);

const AT: &str = "apps/v1 deployments/a";

async fn scale_of_a_deployment_is_read<B: Backend>() {
    let b = B::start().await;
    let made = b.post("apps/v1 deployments", &deployment("a", 3)).await.created();
    let scale = b.get("apps/v1 deployments/a/scale").await.ok();
    let meta = json!({"name": "a", "namespace": b.namespace(), "uid": made["metadata"]["uid"],
        "resourceVersion": version(&made), "creationTimestamp": made["metadata"]["creationTimestamp"]});
    assert_eq!(
        scale,
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta, "spec": {"replicas": 3},
            "status": {"replicas": 0, "selector": "app=a"}})
    );
}

async fn scale_is_written<B: Backend>() {
    let b = B::start().await;
    b.post("apps/v1 deployments", &deployment("a", 3)).await.created();
    let mut scale = b.get("apps/v1 deployments/a/scale").await.ok();
    scale["spec"]["replicas"] = json!(5);
    let now = b.put("apps/v1 deployments/a/scale", &scale).await.ok();
    assert_eq!(now["spec"]["replicas"], 5);
    let now = b.get(AT).await.ok();
    assert_eq!((&now["spec"]["replicas"], &now["metadata"]["generation"]), (&json!(5), &json!(2)));
}

async fn scale_is_patched<B: Backend>() {
    let b = B::start().await;
    b.post("apps/v1 deployments", &deployment("a", 3)).await.created();
    let now = b.merge("apps/v1 deployments/a/scale", &json!({"spec": {"replicas": 0}})).await.ok();
    assert_eq!(now["spec"], json!({}), "zero is left out");
    assert_eq!(b.get(AT).await.ok()["spec"]["replicas"], 0);
}

async fn scale_with_a_stale_version_is_a_conflict<B: Backend>() {
    let b = B::start().await;
    b.post("apps/v1 deployments", &deployment("a", 3)).await.created();
    let mut stale = b.get("apps/v1 deployments/a/scale").await.ok();
    b.merge(AT, &json!({"spec": {"replicas": 4}})).await.ok();
    stale["spec"]["replicas"] = json!(5);
    b.put("apps/v1 deployments/a/scale", &stale).await.refused_saying(
        409,
        "Conflict",
        "deployments.apps \"a\": the object has been modified",
    );
}

async fn negative_scale_is_refused<B: Backend>() {
    let b = B::start().await;
    b.post("apps/v1 deployments", &deployment("a", 3)).await.created();
    b.merge("apps/v1 deployments/a/scale", &json!({"spec": {"replicas": -1}})).await.refused(
        422,
        "Invalid",
        "Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
    );
}

async fn scale_of_a_custom_resource<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    let whole = json!({"type": "integer"});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": whole}},
        "status": {"type": "object", "properties": {"size": whole, "selector": {"type": "string"}}}}});
    let mut crd = definition(&group, "Thing", "Cluster", &schema);
    crd["spec"]["versions"][0]["subresources"] = json!({"status": {}, "scale": {"specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"}});
    b.install(&crd).await;
    let at = format!("/apis/{group}/v1/things/a");
    let thing =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 2}});
    b.post(&format!("/apis/{group}/v1/things"), &thing).await.created();
    b.merge(&format!("{at}/status"), &json!({"status": {"size": 1, "selector": "x=y"}})).await.ok();
    let mut scale = b.get(&format!("{at}/scale")).await.ok();
    assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
    assert_eq!(scale["spec"], json!({"replicas": 2}));
    assert_eq!(scale["status"], json!({"replicas": 1, "selector": "x=y"}));
    scale["spec"]["replicas"] = json!(7);
    b.put(&format!("{at}/scale"), &scale).await.ok();
    let now = b.merge(&format!("{at}/scale"), &json!({"spec": {"replicas": 8}})).await.ok();
    assert_eq!(now["spec"]["replicas"], 8);
    let now = b.get(&at).await.ok();
    assert_eq!((&now["spec"]["size"], &now["metadata"]["generation"]), (&json!(8), &json!(3)));
}

async fn scale_that_is_not_declared_is_not_found<B: Backend>() {
    let b = B::start().await;
    let group = b.group();
    b.install(&definition(&group, "Thing", "Namespaced", &json!({"type": "object"}))).await;
    let thing = json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "a"}});
    b.post(&format!("{group}/v1 things"), &thing).await.created();
    for subresource in ["scale", "status"] {
        let answer = b.get(&format!("{group}/v1 things/a/{subresource}")).await;
        answer.refused(404, "NotFound", &format!("things.{group} \"a\" not found"));
    }
}

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
}

async fn eviction_deletes_a_pod<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    let said = b.post("pods/a/eviction", &eviction("a")).await.created();
    assert_eq!(said, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}));
    b.get("pods/a").await.refused(404, "NotFound", "pods \"a\" not found");
}

async fn eviction_of_a_missing_pod_is_not_found<B: Backend>() {
    let b = B::start().await;
    b.post("pods/a/eviction", &eviction("a")).await.refused(404, "NotFound", "pods \"a\" not found");
}

/// A running pod with this label, on a node.
async fn running(b: &Cluster, name: &str, app: &str, ready: bool) {
    let mut object = pod_labelled(name, app);
    object["spec"]["nodeName"] = json!("n");
    b.post("pods", &object).await.created();
    let status = if ready { "True" } else { "False" };
    let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}});
    b.merge(&format!("pods/{name}/status"), &status).await.ok();
}

/// A budget for this label, with the status that its controller would give it.
async fn budget(b: &Cluster, name: &str, app: &str, allowed: i64) {
    let object =
        json!({"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}});
    b.post("policy/v1 poddisruptionbudgets", &object).await.created();
    let status = json!({"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1 + allowed,
        "desiredHealthy": 1, "expectedPods": 1 + allowed});
    b.merge(&format!("policy/v1 poddisruptionbudgets/{name}/status"), &json!({"status": status})).await.ok();
}

async fn budget_without_room_refuses_eviction<B: Backend>() {
    let b = B::start().await;
    running(&b, "a", "web", true).await;
    budget(&b, "keep", "web", 0).await;
    let said = b.post("pods/a/eviction", &eviction("a")).await.refused(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
    );
    let message = "The disruption budget keep needs 1 healthy pods and has 1 currently";
    assert_eq!(said["details"], json!({"causes": [{"reason": "DisruptionBudget", "message": message}]}));
    b.get("pods/a").await.ok();
}

async fn budget_with_room_is_used_up<B: Backend>() {
    let b = B::start().await;
    running(&b, "a", "web", true).await;
    running(&b, "b", "web", true).await;
    budget(&b, "keep", "web", 1).await;
    b.post("pods/a/eviction", &eviction("a")).await.created();
    assert!(b.get("pods/a").await.ok()["metadata"]["deletionTimestamp"].is_string());
    let now = b.get("policy/v1 poddisruptionbudgets/keep").await.ok();
    assert_eq!(now["status"]["disruptionsAllowed"], 0);
    assert!(now["status"]["disruptedPods"]["a"].is_string());
    b.post("pods/b/eviction", &eviction("b")).await.refused_saying(429, "TooManyRequests", "disruption budget");
    let conditions = &b.get("pods/a").await.ok()["status"]["conditions"];
    let target = conditions.as_array().unwrap().iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!(
        (&target["status"], &target["reason"], &target["message"]),
        (&json!("True"), &json!("EvictionByEvictionAPI"), &json!("Eviction API: evicting"))
    );
}

async fn budget_of_other_pods_does_not_matter<B: Backend>() {
    let b = B::start().await;
    running(&b, "a", "web", true).await;
    budget(&b, "keep", "other", 0).await;
    b.post("pods/a/eviction", &eviction("a")).await.created();
}

async fn two_budgets_for_a_pod_are_an_error<B: Backend>() {
    let b = B::start().await;
    running(&b, "a", "web", true).await;
    budget(&b, "one", "web", 1).await;
    budget(&b, "two", "web", 1).await;
    b.post("pods/a/eviction", &eviction("a")).await.refused(
        500,
        "",
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
    );
}

async fn pending_pods_are_evicted_past_a_budget<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod_labelled("a", "web")).await.created();
    budget(&b, "keep", "web", 0).await;
    b.post("pods/a/eviction", &eviction("a")).await.created();
    b.get("pods/a").await.refused(404, "NotFound", "pods \"a\" not found");
}

async fn budget_that_is_not_observed_refuses<B: Backend>() {
    let b = B::start().await;
    running(&b, "a", "web", true).await;
    let object =
        json!({"metadata": {"name": "keep"}, "spec": {"minAvailable": 0, "selector": {"matchLabels": {"app": "web"}}}});
    b.post("policy/v1 poddisruptionbudgets", &object).await.created();
    let answer = b.post("pods/a/eviction", &eviction("a")).await;
    let wait = answer.headers["retry-after"].to_str().unwrap().to_owned();
    let said =
        answer.refused(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.");
    assert_eq!(wait, "10");
    assert_eq!(said["details"]["retryAfterSeconds"], 10);
    let message = "The disruption budget keep is still being processed by the server.";
    assert_eq!(said["details"]["causes"], json!([{"reason": "DisruptionBudget", "message": message}]));
}

async fn eviction_dry_run<B: Backend>() {
    let b = B::start().await;
    running(&b, "a", "web", true).await;
    budget(&b, "keep", "web", 1).await;
    let mut dry = eviction("a");
    dry["deleteOptions"] = json!({"dryRun": ["All"]});
    b.post("pods/a/eviction", &dry).await.created();
    b.post("pods/a/eviction?dryRun=All", &eviction("a")).await.created();
    assert_eq!(b.get("pods/a").await.ok()["metadata"].get("deletionTimestamp"), None);
    let now = b.get("policy/v1 poddisruptionbudgets/keep").await.ok();
    assert_eq!(now["status"]["disruptionsAllowed"], 1);
}

async fn eviction_name_must_match<B: Backend>() {
    let b = B::start().await;
    running(&b, "a", "web", true).await;
    b.post("pods/a/eviction", &eviction("b")).await.refused(
        400,
        "BadRequest",
        "name in URL does not match name in Eviction object",
    );
}

async fn eviction_precondition<B: Backend>() {
    let b = B::start().await;
    running(&b, "a", "web", true).await;
    let mut other = eviction("a");
    other["deleteOptions"] = json!({"preconditions": {"uid": "other"}});
    b.post("pods/a/eviction", &other).await.refused_saying(
        409,
        "Conflict",
        "the UID in the precondition (other) does not match",
    );
    let mut quick = eviction("a");
    quick["deleteOptions"] = json!({"gracePeriodSeconds": 0});
    b.post("pods/a/eviction", &quick).await.created();
    b.get("pods/a").await.refused(404, "NotFound", "pods \"a\" not found");
}

async fn unhealthy_pods_follow_the_policy<B: Backend>() {
    let b = B::start().await;
    running(&b, "a", "web", false).await;
    budget(&b, "keep", "web", 0).await;
    let at = "policy/v1 poddisruptionbudgets/keep/status";
    b.merge(at, &json!({"status": {"currentHealthy": 0}})).await.ok();
    b.post("pods/a/eviction", &eviction("a")).await.refused_saying(429, "TooManyRequests", "disruption budget");
    // Enough others are healthy, so one that is not may go.
    b.merge(at, &json!({"status": {"currentHealthy": 1}})).await.ok();
    b.post("pods/a/eviction", &eviction("a")).await.created();
    running(&b, "b", "always", false).await;
    budget(&b, "lax", "always", 0).await;
    b.merge("policy/v1 poddisruptionbudgets/lax", &json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}))
        .await
        .ok();
    b.merge(
        "policy/v1 poddisruptionbudgets/lax/status",
        &json!({"status": {"currentHealthy": 0, "observedGeneration": 2}}),
    )
    .await
    .ok();
    b.post("pods/b/eviction", &eviction("b")).await.created();
}

fn binding(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}})
}

async fn binding_puts_a_pod_on_a_node<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    let said = b.post("pods/a/binding", &binding("a", "n1")).await.created();
    assert_eq!(said, json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}));
    let now = b.get("pods/a").await.ok();
    assert_eq!(now["spec"]["nodeName"], "n1");
    let condition = &now["status"]["conditions"][0];
    assert_eq!((&condition["type"], &condition["status"]), (&json!("PodScheduled"), &json!("True")));
    assert_eq!(now["metadata"]["generation"], 1);
}

async fn second_binding_is_a_conflict<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    b.post("pods/a/binding", &binding("a", "n1")).await.created();
    b.post("pods/a/binding", &binding("a", "n2")).await.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\"",
    );
}

async fn binding_through_the_collection<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    b.post("bindings", &binding("a", "n1")).await.created();
    assert_eq!(b.get("pods/a").await.ok()["spec"]["nodeName"], "n1");
}

async fn binding_of_a_missing_pod_is_not_found<B: Backend>() {
    let b = B::start().await;
    b.post("pods/a/binding", &binding("a", "n1")).await.refused(404, "NotFound", "pods \"a\" not found");
}

async fn binding_copies_topology_labels<B: Backend>() {
    let b = B::start().await;
    let name = b.name("node");
    let mut object = node(&name);
    object["metadata"]["labels"] =
        json!({"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "other": "x"});
    b.post("/api/v1/nodes", &object).await.created();
    b.post("pods", &pod("a")).await.created();
    b.post("pods/a/binding", &binding("a", &name)).await.created();
    assert_eq!(
        b.get("pods/a").await.ok()["metadata"]["labels"],
        json!({"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"})
    );
}

async fn gated_pod_is_not_bound<B: Backend>() {
    let b = B::start().await;
    let mut object = pod("a");
    object["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    b.post("pods", &object).await.created();
    b.post("pods/a/binding", &binding("a", "n1")).await.refused(
        409,
        "Conflict",
        "Operation cannot be fulfilled on pods/binding \"a\": pod a has non-empty .spec.schedulingGates",
    );
}

async fn unknown_subresource_is_not_found<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    b.get("pods/a/shadow").await.refused(404, "NotFound", "the server could not find the requested resource");
    b.get("pods/a/eviction").await.refused(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    );
}

async fn ephemeral_containers_are_a_subresource<B: Backend>() {
    let b = B::start().await;
    b.post("pods", &pod("a")).await.created();
    let patch = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "registry/debug:1"}]}});
    let now = b.strategic("pods/a/ephemeralcontainers", &patch).await.ok();
    assert_eq!(now["spec"]["ephemeralContainers"][0]["name"], "debug");
    b.strategic("pods/a", &json!({"spec": {"ephemeralContainers": [{"name": "more", "image": "registry/debug:1"}]}}))
        .await
        .refused_saying(422, "Invalid", "pod updates may not change fields other than");
}

async fn resize_is_a_subresource<B: Backend>() {
    let b = B::start().await;
    let mut object = pod("a");
    object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    b.post("pods", &object).await.created();
    let patch = json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}});
    let now = b.strategic("pods/a/resize", &patch).await.ok();
    assert_eq!(now["spec"]["containers"][0]["resources"]["requests"]["cpu"], "2");
    assert_eq!(now["metadata"]["generation"], 2);
}
