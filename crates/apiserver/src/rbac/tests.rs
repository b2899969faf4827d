use super::*;

fn arcs(values: &Value) -> Vec<Arc<Value>> {
    values.as_array().unwrap().iter().cloned().map(Arc::new).collect()
}

struct Stored {
    cluster_roles: Vec<Arc<Value>>,
    cluster_role_bindings: Vec<Arc<Value>>,
    roles: Vec<Arc<Value>>,
    role_bindings: Vec<Arc<Value>>,
}

impl Stored {
    fn policy(&self) -> Policy<'_> {
        Policy {
            cluster_roles: &self.cluster_roles,
            cluster_role_bindings: &self.cluster_role_bindings,
            roles: &self.roles,
            role_bindings: &self.role_bindings,
        }
    }
}

fn stored() -> Stored {
    let user = |name: &str| json!([{"kind": "User", "name": name}]);
    let cluster_role = |name: &str| json!({"kind": "ClusterRole", "name": name});
    Stored {
        cluster_roles: arcs(&json!([
            {"metadata": {"name": "nodes"}, "rules": [
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"], "resourceNames": ["n1"]},
                {"apiGroups": [""], "resources": ["pods/eviction", "*/status"], "verbs": ["create", "patch"]},
                {"nonResourceURLs": ["/metrics", "/logs/*"], "verbs": ["get"]},
            ]},
            {"metadata": {"name": "all"}, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": "all"}}]}},
            {"metadata": {"name": "part", "labels": {"to": "all"}}, "rules": [
                {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["*"]},
            ]},
        ])),
        cluster_role_bindings: arcs(&json!([
            {"metadata": {"name": "b1"}, "roleRef": cluster_role("nodes"), "subjects": user("bob")},
            {"metadata": {"name": "b2"}, "roleRef": cluster_role("all"), "subjects": [{"kind": "Group", "name": "devs"}]},
            {"metadata": {"name": "b3"}, "roleRef": cluster_role("nopes"), "subjects": user("eve")},
        ])),
        roles: arcs(&json!([
            {"metadata": {"name": "leases", "namespace": "a"}, "rules": [
                {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]},
            ]},
        ])),
        role_bindings: arcs(&json!([
            {"metadata": {"name": "b4", "namespace": "a"}, "roleRef": {"kind": "Role", "name": "leases"},
             "subjects": [{"kind": "ServiceAccount", "name": "karpenter", "namespace": "a"}]},
            {"metadata": {"name": "b5", "namespace": "a"}, "roleRef": cluster_role("nodes"), "subjects": user("ann")},
            {"metadata": {"name": "b6", "namespace": "a"}, "roleRef": {"kind": "Role", "name": "nope"}, "subjects": user("eve")},
        ])),
    }
}

/// `verb group resource[/subresource] namespace name`, with `-` for what is empty; or `verb /path`.
fn request(text: &str) -> Request {
    let words: Vec<_> = text.split(' ').map(|word| word.strip_prefix('-').unwrap_or(word).to_owned()).collect();
    if let [verb, path] = words.as_slice() {
        return Request::Path { verb: verb.clone(), path: path.clone() };
    }
    let (resource, subresource) = words[2].split_once('/').unwrap_or((&words[2], ""));
    Request::Resource {
        verb: words[0].clone(),
        group: words[1].clone(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: words[3].clone(),
        name: words[4].clone(),
    }
}

#[test]
fn roles_decide() {
    let stored = stored();
    let dev = User { name: "dora".to_owned(), groups: vec!["devs".to_owned(), "system:authenticated".to_owned()] };
    let karpenter = User::service_account("a", "karpenter");
    for (user, asked, want) in [
        (&User::named("bob"), "list - nodes - -", true),
        (&User::named("bob"), "watch - nodes - -", false),
        (&User::named("bob"), "delete - nodes - n1", true),
        (&User::named("bob"), "delete - nodes - n2", false),
        (&User::named("bob"), "deletecollection - nodes - -", false),
        (&User::named("bob"), "create - pods/eviction x p", true),
        (&User::named("bob"), "create - pods x -", false),
        (&User::named("bob"), "patch - nodes/status - n1", true),
        (&User::named("bob"), "patch apps deployments/status x d", false),
        (&User::named("bob"), "get /metrics", true),
        (&User::named("bob"), "get /logs/a", true),
        (&User::named("bob"), "get /debug", false),
        (&User::named("bob"), "post /metrics", false),
        (&User::named("jim"), "list - nodes - -", false),
        (&dev, "update apps deployments/scale x d", true),
        (&dev, "get - pods x p", false),
        (&karpenter, "get coordination.k8s.io leases a l", true),
        (&karpenter, "get coordination.k8s.io leases b l", false),
        (&karpenter, "list coordination.k8s.io leases - -", false),
        (&User::service_account("b", "karpenter"), "get coordination.k8s.io leases a l", false),
        // A RoleBinding to a ClusterRole is good in its namespace only.
        (&User::named("ann"), "create - pods/eviction a p", true),
        (&User::named("ann"), "create - pods/eviction b p", false),
        (&User::named("ann"), "list - nodes - -", false),
        (&User::admin(), "delete - nodes - n2", true),
        // Every authenticated user may look around and ask about itself.
        (&User::named("jim"), "get /apis/apps/v1", true),
        (&User::named("jim"), "get /openapi/v3", true),
        (&User::named("jim"), "create authorization.k8s.io selfsubjectaccessreviews - -", true),
        (&User { name: "system:anonymous".to_owned(), groups: vec![] }, "get /api", false),
        (&User { name: "system:anonymous".to_owned(), groups: vec![] }, "get /version", true),
    ] {
        let decision = allowed(&stored.policy(), user, &request(asked));
        assert_eq!(decision.is_allowed(), want, "{} {asked}: {decision:?}", user.name);
    }
}

/// Recorded from kube-apiserver 1.35.4.
#[test]
fn refusals_are_worded_as_the_real_server_words_them() {
    let stored = stored();
    for (user, asked, want) in [
        (
            "jim",
            "list - pods - -",
            r#"pods is forbidden: User "jim" cannot list resource "pods" in API group "" at the cluster scope"#,
        ),
        (
            "jim",
            "get apps deployments/scale default x",
            r#"deployments.apps "x" is forbidden: User "jim" cannot get resource "deployments/scale" in API group "apps" in the namespace "default""#,
        ),
        ("jim", "get /metrics", r#"forbidden: User "jim" cannot get path "/metrics""#),
        (
            "eve",
            "get - pods a x",
            r#"pods "x" is forbidden: User "eve" cannot get resource "pods" in API group "" in the namespace "a": RBAC: [clusterrole.rbac.authorization.k8s.io "nopes" not found, role.rbac.authorization.k8s.io "nope" not found]"#,
        ),
        (
            "eve",
            "get - pods b x",
            r#"pods "x" is forbidden: User "eve" cannot get resource "pods" in API group "" in the namespace "b": RBAC: clusterrole.rbac.authorization.k8s.io "nopes" not found"#,
        ),
    ] {
        let (user, request) = (User::named(user), request(asked));
        let Decision::Denied { reason } = allowed(&stored.policy(), &user, &request) else {
            panic!("{asked} is allowed")
        };
        assert_eq!(refusal(&user, &request, &reason).0, want);
    }
    let (_, details) = refusal(&User::named("jim"), &request("get apps deployments/scale default x"), "");
    assert_eq!(details, json!({"name": "x", "group": "apps", "kind": "deployments"}));
}

#[test]
fn reviews_say_why() {
    let stored = stored();
    let ask =
        |kind: &str, spec: Value| review(&stored.policy(), &User::named("bob"), &json!({"kind": kind, "spec": spec}));
    let attributes = json!({"verb": "get", "resource": "nodes"});
    assert_eq!(
        ask("SelfSubjectAccessReview", json!({"resourceAttributes": attributes})),
        json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"b1\" of ClusterRole \"nodes\" to User \"bob\""})
    );
    let spec = json!({"user": "jim", "resourceAttributes": {"verb": "get", "resource": "nodes"}});
    assert_eq!(ask("SubjectAccessReview", spec), json!({"allowed": false}));
    let spec = json!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}});
    assert_eq!(ask("SelfSubjectAccessReview", spec)["allowed"], true);
}

#[test]
fn requests_tell_whose_they_are() {
    let headers = |pairs: &[(&'static str, &str)]| -> http::HeaderMap {
        let mut map = http::HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    };
    let stored = stored();
    let who = |pairs: &[(&'static str, &str)]| identify(&Identities::default(), &headers(pairs), &stored.policy());
    assert_eq!(who(&[]), Ok(User::admin()));
    assert_eq!(who(&[("impersonate-user", "bob")]), Ok(User::named("bob")));
    let both = who(&[("impersonate-user", "bob"), ("impersonate-group", "devs"), ("impersonate-group", "ops")]);
    assert_eq!(both.unwrap().groups, ["devs", "ops", "system:authenticated"]);
    let account = who(&[("impersonate-user", "system:serviceaccount:a:karpenter")]).unwrap();
    assert_eq!(account.groups, ["system:serviceaccounts", "system:serviceaccounts:a", "system:authenticated"]);
    let (message, _) = who(&[("x-remote-user", "jim"), ("impersonate-user", "bob")]).unwrap_err();
    assert_eq!(
        message,
        r#"users "bob" is forbidden: User "jim" cannot impersonate resource "users" in API group "" at the cluster scope"#
    );
}

/// The order and the built-in rules are recorded from kube-apiserver 1.35.4.
#[test]
fn rules_can_be_listed() {
    let stored = stored();
    let rules = rules_review(&stored.policy(), &User::service_account("a", "karpenter"), "a");
    let resources: Vec<_> = list(&rules["resourceRules"]).iter().map(|rule| &rule["resources"]).collect();
    assert_eq!(
        json!(resources),
        json!([["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["selfsubjectreviews"], ["leases"]])
    );
    assert_eq!(list(&rules["nonResourceRules"]).len(), 2);
    assert_eq!(rules["evaluationError"], Value::Null);
    let rules = rules_review(&stored.policy(), &User::named("eve"), "b");
    assert_eq!(rules["evaluationError"], "clusterrole.rbac.authorization.k8s.io \"nopes\" not found");
    assert_eq!(rules_review(&stored.policy(), &User::admin(), "")["resourceRules"][0]["verbs"], json!(["*"]));
}
