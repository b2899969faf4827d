//! Who may do what, decided by role objects. Bodies act as an administrator who speaks for somebody else.

use http::Method;
use serde_json::{Value, json};

use crate::backend::{Backend, Cluster, on_every_backend};
use crate::objects::{config_map, pod};
use crate::watching::eventually;
use crate::wire::Answer;

on_every_backend!(
    without_a_role_nothing_is_allowed,
    cluster_role_grants_in_all_namespaces,
    role_grants_in_its_namespace,
    cluster_role_can_be_bound_in_a_namespace,
    subresources_are_granted_apart,
    names_narrow_a_rule_down,
    collections_are_deleted_by_a_verb_of_their_own,
    groups_are_subjects,
    service_accounts_are_subjects,
    missing_role_is_told,
    aggregated_roles_count,
    reviews_agree_with_requests,
    users_are_told_who_they_are,
    discovery_is_for_everybody,
    taking_a_binding_away_takes_the_right_away,
);

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn ask(b: &Cluster, user: &str, method: Method, path: &str, body: &Value) -> Answer {
    let headers = [("impersonate-user", user), ("content-type", "application/json")];
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    b.send(method, path, &headers, body).await
}

async fn get(b: &Cluster, user: &str, path: &str) -> Answer {
    ask(b, user, Method::GET, path, &Value::Null).await
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn user(name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name})
}

fn role(kind: &str, name: &str, rules: &Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules})
}

fn binding(kind: &str, name: &str, role_kind: &str, subject: &Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": name}})
}

/// In the whole cluster.
async fn grant(b: &Cluster, subject: &Value, rules: &Value) {
    let name = b.name("granted");
    b.post(&format!("{ROLES}/clusterroles"), &role("ClusterRole", &name, rules)).await.created();
    let binding = binding("ClusterRoleBinding", &name, "ClusterRole", subject);
    b.post(&format!("{ROLES}/clusterrolebindings"), &binding).await.created();
}

/// The real server learns of roles a moment later.
async fn allowed(b: &Cluster, user: &str, path: &str) {
    let what = format!("{user} may read {path}");
    eventually(&what, async || (get(b, user, path).await.code == 200).then_some(())).await;
}

async fn without_a_role_nothing_is_allowed<B: Backend>() {
    let b = B::start_with_roles().await;
    let (user, space) = (b.name("nobody"), b.namespace());
    let cannot = |verb: &str, what: &str, place: &str| format!("User {user:?} cannot {verb} {what} {place}");
    let here = format!("in the namespace {space:?}");
    let why = cannot("list", "resource \"configmaps\" in API group \"\"", &here);
    let said = get(&b, &user, "configmaps").await.refused(403, "Forbidden", &format!("configmaps is forbidden: {why}"));
    assert_eq!(said["details"], json!({"kind": "configmaps"}));
    let why = cannot("get", "resource \"deployments\" in API group \"apps\"", &here);
    let message = format!("deployments.apps \"a\" is forbidden: {why}");
    let said = get(&b, &user, "apps/v1 deployments/a").await.refused(403, "Forbidden", &message);
    assert_eq!(said["details"], json!({"name": "a", "group": "apps", "kind": "deployments"}));
    let why = cannot("list", "resource \"nodes\" in API group \"\"", "at the cluster scope");
    get(&b, &user, "/api/v1/nodes").await.refused(403, "Forbidden", &format!("nodes is forbidden: {why}"));
    let why = cannot("watch", "resource \"nodes\" in API group \"\"", "at the cluster scope");
    get(&b, &user, "/api/v1/nodes?watch=1").await.refused(403, "Forbidden", &format!("nodes is forbidden: {why}"));
    let why = cannot("create", "resource \"configmaps\" in API group \"\"", &here);
    let made = ask(&b, &user, Method::POST, "configmaps", &config_map("a", &json!({}))).await;
    made.refused(403, "Forbidden", &format!("configmaps is forbidden: {why}"));
    let why = cannot("get", "resource \"namespaces\" in API group \"\"", &here);
    let message = format!("namespaces {space:?} is forbidden: {why}");
    get(&b, &user, &format!("/api/v1/namespaces/{space}")).await.refused(403, "Forbidden", &message);
}

async fn cluster_role_grants_in_all_namespaces<B: Backend>() {
    let b = B::start_with_roles().await;
    let name = b.name("reader");
    grant(&b, &user(&name), &json!([rule("", &["configmaps"], &["get", "list"])])).await;
    allowed(&b, &name, "configmaps").await;
    allowed(&b, &name, "/api/v1/configmaps").await;
    allowed(&b, &name, "/api/v1/namespaces/default/configmaps").await;
    get(&b, &name, "secrets").await.refused_saying(403, "Forbidden", "cannot list resource \"secrets\"");
    get(&b, &name, "configmaps?watch=true").await.refused_saying(403, "Forbidden", "cannot watch");
    let made = ask(&b, &name, Method::POST, "configmaps", &config_map("a", &json!({}))).await;
    made.refused_saying(403, "Forbidden", "cannot create");
}

async fn role_grants_in_its_namespace<B: Backend>() {
    let b = B::start_with_roles().await;
    let (name, place) = (b.name("local"), format!("{ROLES}/namespaces/{}", b.namespace()));
    let rules = json!([rule("", &["configmaps"], &["*"])]);
    b.post(&format!("{place}/roles"), &role("Role", &name, &rules)).await.created();
    b.post(&format!("{place}/rolebindings"), &binding("RoleBinding", &name, "Role", &user(&name))).await.created();
    allowed(&b, &name, "configmaps").await;
    ask(&b, &name, Method::POST, "configmaps", &config_map("a", &json!({}))).await.created();
    ask(&b, &name, Method::DELETE, "configmaps/a", &Value::Null).await.ok();
    get(&b, &name, "/api/v1/configmaps").await.refused_saying(403, "Forbidden", "at the cluster scope");
    let elsewhere = get(&b, &name, "/api/v1/namespaces/default/configmaps").await;
    elsewhere.refused_saying(403, "Forbidden", "in the namespace \"default\"");
}

async fn cluster_role_can_be_bound_in_a_namespace<B: Backend>() {
    let b = B::start_with_roles().await;
    let (name, place) = (b.name("mixed"), format!("{ROLES}/namespaces/{}", b.namespace()));
    let rules = json!([rule("", &["configmaps", "nodes"], &["list"])]);
    b.post(&format!("{ROLES}/clusterroles"), &role("ClusterRole", &name, &rules)).await.created();
    let bound = binding("RoleBinding", &name, "ClusterRole", &user(&name));
    b.post(&format!("{place}/rolebindings"), &bound).await.created();
    allowed(&b, &name, "configmaps").await;
    get(&b, &name, "/api/v1/nodes").await.refused_saying(403, "Forbidden", "at the cluster scope");
}

async fn subresources_are_granted_apart<B: Backend>() {
    let b = B::start_with_roles().await;
    let name = b.name("evictor");
    b.post("pods", &pod("a")).await.created();
    let rules = json!([rule("", &["pods"], &["get"]), rule("", &["pods/eviction"], &["create"])]);
    grant(&b, &user(&name), &rules).await;
    allowed(&b, &name, "pods/a").await;
    get(&b, &name, "pods/a/status").await.refused_saying(403, "Forbidden", "cannot get resource \"pods/status\"");
    let gone = ask(&b, &name, Method::DELETE, "pods/a", &Value::Null).await;
    gone.refused_saying(403, "Forbidden", "cannot delete resource \"pods\"");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}});
    ask(&b, &name, Method::POST, "pods/a/eviction", &eviction).await.created();
}

async fn names_narrow_a_rule_down<B: Backend>() {
    let b = B::start_with_roles().await;
    let name = b.name("narrow");
    for map in ["mine", "other"] {
        b.post("configmaps", &config_map(map, &json!({}))).await.created();
    }
    let mut one = rule("", &["configmaps"], &["get", "update", "list"]);
    one["resourceNames"] = json!(["mine"]);
    grant(&b, &user(&name), &json!([one])).await;
    allowed(&b, &name, "configmaps/mine").await;
    get(&b, &name, "configmaps/other").await.refused_saying(403, "Forbidden", "configmaps \"other\" is forbidden");
    get(&b, &name, "configmaps").await.refused_saying(403, "Forbidden", "cannot list");
    // A list of one name is about that name.
    allowed(&b, &name, "configmaps?fieldSelector=metadata.name%3Dmine").await;
}

async fn collections_are_deleted_by_a_verb_of_their_own<B: Backend>() {
    let b = B::start_with_roles().await;
    let name = b.name("sweeper");
    grant(&b, &user(&name), &json!([rule("", &["configmaps"], &["list", "delete"])])).await;
    allowed(&b, &name, "configmaps").await;
    let swept = ask(&b, &name, Method::DELETE, "configmaps", &Value::Null).await;
    swept.refused_saying(403, "Forbidden", "cannot deletecollection resource \"configmaps\"");
    ask(&b, &name, Method::DELETE, "configmaps/none", &Value::Null).await.refused_saying(404, "NotFound", "none");
}

async fn groups_are_subjects<B: Backend>() {
    let b = B::start_with_roles().await;
    let group = b.name("team");
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group});
    grant(&b, &subject, &json!([rule("", &["configmaps"], &["list"])])).await;
    let asking = async |groups: &str| {
        let headers = [("impersonate-user", "somebody"), ("impersonate-group", groups)];
        b.send(Method::GET, "configmaps", &headers, Vec::new()).await.code
    };
    eventually("the group may list", async || (asking(&group).await == 200).then_some(())).await;
    assert_eq!(asking("another").await, 403);
}

async fn service_accounts_are_subjects<B: Backend>() {
    let b = B::start_with_roles().await;
    let subject = json!({"kind": "ServiceAccount", "name": "robot", "namespace": b.namespace()});
    grant(&b, &subject, &json!([rule("", &["configmaps"], &["list"])])).await;
    allowed(&b, &format!("system:serviceaccount:{}:robot", b.namespace()), "configmaps").await;
    let other = "system:serviceaccount:default:robot";
    get(&b, other, "configmaps").await.refused_saying(403, "Forbidden", &format!("User {other:?} cannot list"));
}

async fn missing_role_is_told<B: Backend>() {
    let b = B::start_with_roles().await;
    let name = b.name("lost");
    let bound = binding("ClusterRoleBinding", &name, "ClusterRole", &user(&name));
    b.post(&format!("{ROLES}/clusterrolebindings"), &bound).await.created();
    let why = format!("RBAC: clusterrole.rbac.authorization.k8s.io {name:?} not found");
    eventually("the refusal names the role", async || {
        let said = get(&b, &name, "configmaps").await;
        assert_eq!(said.code, 403);
        said.body["message"].as_str().unwrap().ends_with(&why).then_some(())
    })
    .await;
}

async fn aggregated_roles_count<B: Backend>() {
    // A controller writes the rules into the role that aggregates.
    let b = B::start_with_roles_and_collector().await;
    let (name, part) = (b.name("whole"), b.name("part"));
    let mut whole = role("ClusterRole", &name, &json!([]));
    whole["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {"for": name}}]});
    b.post(&format!("{ROLES}/clusterroles"), &whole).await.created();
    let mut labelled = role("ClusterRole", &part, &json!([rule("", &["configmaps"], &["list"])]));
    labelled["metadata"]["labels"] = json!({"for": name});
    b.post(&format!("{ROLES}/clusterroles"), &labelled).await.created();
    let bound = binding("ClusterRoleBinding", &name, "ClusterRole", &user(&name));
    b.post(&format!("{ROLES}/clusterrolebindings"), &bound).await.created();
    allowed(&b, &name, "configmaps").await;
}

async fn reviews_agree_with_requests<B: Backend>() {
    let b = B::start_with_roles().await;
    let name = b.name("asker");
    grant(&b, &user(&name), &json!([rule("", &["configmaps"], &["list"])])).await;
    allowed(&b, &name, "configmaps").await;
    let granted = b.name("granted");
    let reason = format!("RBAC: allowed by ClusterRoleBinding {granted:?} of ClusterRole {granted:?} to User {name:?}");
    for (verb, status) in [("list", json!({"allowed": true, "reason": reason})), ("delete", json!({"allowed": false}))]
    {
        let attributes = json!({"verb": verb, "resource": "configmaps", "namespace": b.namespace()});
        let review =
            |kind: &str, spec: Value| json!({"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec});
        let own = review("SelfSubjectAccessReview", json!({"resourceAttributes": attributes}));
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        assert_eq!(ask(&b, &name, Method::POST, path, &own).await.created()["status"], status);
        let of = review("SubjectAccessReview", json!({"user": name, "resourceAttributes": attributes}));
        let answer = b.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &of).await.created();
        assert_eq!(answer["status"], status);
        let mut local = of.clone();
        local["kind"] = json!("LocalSubjectAccessReview");
        local["metadata"] = json!({"namespace": b.namespace()});
        let answer = b.post("authorization.k8s.io/v1 localsubjectaccessreviews", &local).await.created();
        assert_eq!(answer["status"], status);
    }
}

async fn users_are_told_who_they_are<B: Backend>() {
    let b = B::start_with_roles().await;
    let name = b.name("self");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = ask(&b, &name, Method::POST, path, &review).await.created();
    assert_eq!(answer["status"]["userInfo"], json!({"username": name, "groups": ["system:authenticated"]}));
    assert!(answer["metadata"]["creationTimestamp"].is_string());
    let answer = b.post(path, &review).await.created();
    assert_eq!(answer["status"]["userInfo"]["groups"], json!(["system:masters", "system:authenticated"]));
    let bad = b.send(Method::POST, path, &[("content-type", "application/json")], b"{".to_vec()).await;
    bad.refused_saying(400, "BadRequest", "json parse error");
}

async fn discovery_is_for_everybody<B: Backend>() {
    let b = B::start_with_roles().await;
    let name = b.name("guest");
    for path in ["/api", "/apis", "/apis/apps/v1", "/version", "/healthz", "/openapi/v3"] {
        assert_eq!(get(&b, &name, path).await.code, 200, "{path}");
    }
}

async fn taking_a_binding_away_takes_the_right_away<B: Backend>() {
    let b = B::start_with_roles().await;
    let name = b.name("former");
    grant(&b, &user(&name), &json!([rule("", &["configmaps"], &["list"])])).await;
    allowed(&b, &name, "configmaps").await;
    b.delete(&format!("{ROLES}/clusterrolebindings/{}", b.name("granted"))).await.ok();
    eventually("the right is gone", async || (get(&b, &name, "configmaps").await.code == 403).then_some(())).await;
}
