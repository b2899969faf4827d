//! Who may do what, from role objects: `rbac.authorization.k8s.io/v1` as the real server decides and words it. It is a pure
//! function of the stored roles and bindings, so the least privilege of a chart can be tested request by request.
//!
//! The rules that every cluster grants its authenticated users (discovery, asking about oneself) are built in. Not here:
//! the ban on granting more than one has.

mod access;
mod identity;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

pub use self::access::{Access, grants, rules_for};
pub use self::identity::{Identities, User, identify};

/// The stored objects that decide.
#[derive(Debug, Clone, Copy, Default)]
pub struct Policy<'a> {
    pub cluster_roles: &'a [Arc<Value>],
    pub cluster_role_bindings: &'a [Arc<Value>],
    /// Of all namespaces.
    pub roles: &'a [Arc<Value>],
    /// Of all namespaces.
    pub role_bindings: &'a [Arc<Value>],
}

/// What is asked, as roles see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Resource {
        /// `get`, `deletecollection` and so on.
        verb: String,
        group: String,
        resource: String,
        subresource: String,
        /// Empty at the cluster scope. Requests for one namespace are in that namespace.
        namespace: String,
        /// Empty for lists.
        name: String,
    },
    /// A path that is no resource.
    Path {
        /// The method in lower case.
        verb: String,
        path: String,
    },
}

/// The verdict; the reason is the one an access review shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    Allowed { reason: String },
    Denied { reason: String },
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed { .. })
    }
}

/// Whether `user` may do `request`.
pub fn allowed(policy: &Policy<'_>, user: &User, request: &Request) -> Decision {
    if user.is_master() || granted_to_all(user, request) {
        return Decision::Allowed { reason: String::new() };
    }
    let mut missing = Vec::new();
    for (binding, scope, subject) in bindings(policy, user, request.namespace()) {
        match rules(policy, &binding["roleRef"], scope) {
            None => missing.push(not_found(&binding["roleRef"])),
            Some(rules) if rules.iter().any(|rule| covers(rule, request)) => {
                return Decision::Allowed { reason: reason(binding, scope, subject) };
            }
            Some(_) => {}
        }
    }
    let reason = if missing.is_empty() { String::new() } else { format!("RBAC: {}", together(&missing)) };
    Decision::Denied { reason }
}

/// Message and `details` of the 403 answer.
pub fn refusal(user: &User, request: &Request, reason: &str) -> (String, Value) {
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    match request {
        Request::Path { verb, path } => {
            (format!("forbidden: User {:?} cannot {verb} path {path:?}{reason}", user.name), json!({}))
        }
        Request::Resource { verb, group, resource, subresource, namespace, name } => {
            let qualified = if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") };
            let named = if name.is_empty() { String::new() } else { format!(" {name:?}") };
            let full = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
            let place = match namespace.as_str() {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {namespace:?}"),
            };
            let message = format!(
                "{qualified}{named} is forbidden: User {:?} cannot {verb} resource {full:?} in API group {group:?} \
                 {place}{reason}",
                user.name
            );
            let mut details = serde_json::Map::new();
            for (key, value) in [("name", name), ("group", group), ("kind", resource)] {
                if !value.is_empty() {
                    details.insert(key.to_owned(), json!(value));
                }
            }
            (message, Value::Object(details))
        }
    }
}

/// Answers a `SelfSubjectReview`, which `kubectl auth whoami` asks: gives its `status`.
pub fn self_review(user: &User) -> Value {
    json!({"userInfo": {"username": user.name, "groups": user.groups}})
}

/// Answers a `SelfSubjectAccessReview` or `SubjectAccessReview`: gives its `status`.
pub fn review(policy: &Policy<'_>, asking: &User, review: &Value) -> Value {
    let spec = &review["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let user = if review["kind"] == "SubjectAccessReview" || review["kind"] == "LocalSubjectAccessReview" {
        User { name: text(&spec["user"]), groups: list(&spec["groups"]).iter().map(text).collect() }
    } else {
        asking.clone()
    };
    let request = match (&spec["resourceAttributes"], &spec["nonResourceAttributes"]) {
        (Value::Null, path) => Request::Path { verb: text(&path["verb"]), path: text(&path["path"]) },
        (of, _) => Request::Resource {
            verb: text(&of["verb"]),
            group: text(&of["group"]),
            resource: text(&of["resource"]),
            subresource: text(&of["subresource"]),
            namespace: text(&of["namespace"]),
            name: text(&of["name"]),
        },
    };
    let (allowed, reason) = match allowed(policy, &user, &request) {
        Decision::Allowed { reason } => (true, reason),
        Decision::Denied { reason } => (false, reason),
    };
    if reason.is_empty() { json!({"allowed": allowed}) } else { json!({"allowed": allowed, "reason": reason}) }
}

/// Answers a `SelfSubjectRulesReview`, which `kubectl auth can-i --list` asks: gives its `status`.
pub fn rules_review(policy: &Policy<'_>, user: &User, namespace: &str) -> Value {
    let mut all = Vec::new();
    if user.is_master() {
        all.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        all.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
    }
    if user.groups.iter().any(|group| group == "system:authenticated") {
        let reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"];
        all.push(json!({"verbs": ["create"], "apiGroups": ["authorization.k8s.io"], "resources": reviews}));
        all.push(
            json!({"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]}),
        );
        let paths = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz"];
        let paths: Vec<_> = paths.into_iter().chain(["/version", "/version/"]).collect();
        all.push(json!({"verbs": ["get"], "nonResourceURLs": paths}));
    }
    let public = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    all.push(json!({"verbs": ["get"], "nonResourceURLs": public}));
    let mut missing = Vec::new();
    for (binding, scope, _) in bindings(policy, user, namespace) {
        match rules(policy, &binding["roleRef"], scope) {
            None => missing.push(not_found(&binding["roleRef"])),
            Some(rules) => all.extend(rules.into_iter().cloned()),
        }
    }
    let (paths, resources): (Vec<_>, Vec<_>) = all.into_iter().partition(|rule| rule.get("nonResourceURLs").is_some());
    let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
    if !missing.is_empty() {
        status["evaluationError"] = json!(together(&missing));
    }
    status
}

/// The bindings that concern the user, with the namespace they are good for (empty: all) and the subject that names the user.
fn bindings<'a>(
    policy: &Policy<'a>,
    user: &'a User,
    namespace: &'a str,
) -> impl Iterator<Item = (&'a Arc<Value>, &'a str, &'a Value)> {
    let of_cluster = policy.cluster_role_bindings.iter().map(|binding| (binding, ""));
    let of_namespace = policy
        .role_bindings
        .iter()
        .filter(move |binding| !namespace.is_empty() && binding["metadata"]["namespace"] == namespace)
        .map(move |binding| (binding, namespace));
    of_cluster.chain(of_namespace).filter_map(|(binding, scope)| {
        let subject = list(&binding["subjects"]).iter().find(|s| applies(s, user, scope))?;
        Some((binding, scope, subject))
    })
}

/// Several errors as the server puts them into one.
fn together(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

impl Request {
    fn namespace(&self) -> &str {
        match self {
            Self::Resource { namespace, .. } => namespace,
            Self::Path { .. } => "",
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// `system:discovery`, `system:public-info-viewer` and `system:basic-user`, which every cluster has from the start.
fn granted_to_all(user: &User, request: &Request) -> bool {
    let authenticated = user.groups.iter().any(|group| group == "system:authenticated");
    match request {
        Request::Path { verb, path } if verb == "get" => {
            let public = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
            let below = ["/api", "/apis", "/openapi"];
            let starts = |root: &&str| path == *root || path.starts_with(&format!("{root}/"));
            public.contains(&path.as_str()) || (authenticated && below.iter().any(starts))
        }
        Request::Resource { verb, group, resource, .. } => {
            let own = ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"];
            let asking = ["authorization.k8s.io", "authentication.k8s.io"].contains(&group.as_str());
            authenticated && verb == "create" && asking && own.contains(&resource.as_str())
        }
        Request::Path { .. } => false,
    }
}

/// Whether a subject of a binding is this user. A service account without a namespace is one of the binding's.
fn applies(subject: &Value, user: &User, scope: &str) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str() {
        Some("User") => user.name == name,
        Some("Group") => user.groups.iter().any(|group| group == name),
        Some("ServiceAccount") => {
            let namespace = subject["namespace"].as_str().unwrap_or(scope);
            !namespace.is_empty() && user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

/// The rules of the role that a binding refers to, if there is such a role.
fn rules<'a>(policy: &Policy<'a>, reference: &Value, scope: &str) -> Option<Vec<&'a Value>> {
    if reference["kind"] == "Role" {
        let found = |role: &&Arc<Value>| {
            role["metadata"]["name"] == reference["name"] && role["metadata"]["namespace"] == scope
        };
        return policy.roles.iter().find(found).map(|role| list(&role["rules"]).iter().collect());
    }
    let role = policy.cluster_roles.iter().find(|role| role["metadata"]["name"] == reference["name"])?;
    let mut rules = Vec::new();
    collect(policy, role, &mut BTreeSet::new(), &mut rules);
    Some(rules)
}

/// The rules of a role and of those that it aggregates, which a controller writes into it in a real cluster.
fn collect<'a>(policy: &Policy<'a>, role: &'a Value, seen: &mut BTreeSet<&'a str>, rules: &mut Vec<&'a Value>) {
    if !seen.insert(role["metadata"]["name"].as_str().unwrap_or_default()) {
        return;
    }
    rules.extend(list(&role["rules"]));
    for selector in list(&role["aggregationRule"]["clusterRoleSelectors"]) {
        for other in policy.cluster_roles.iter().filter(|other| selects(selector, &other["metadata"]["labels"])) {
            collect(policy, other, seen, rules);
        }
    }
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    equal.all(|(key, value)| &labels[key] == value)
        && list(&selector["matchExpressions"]).iter().all(|expression| {
            let label = &labels[expression["key"].as_str().unwrap_or_default()];
            match expression["operator"].as_str() {
                Some("In") => list(&expression["values"]).contains(label),
                Some("NotIn") => !list(&expression["values"]).contains(label),
                Some("Exists") => !label.is_null(),
                Some("DoesNotExist") => label.is_null(),
                _ => false,
            }
        })
}

/// Whether a rule allows the request: every part has to fit.
fn covers(rule: &Value, request: &Request) -> bool {
    let has = |field: &str, value: &str| list(&rule[field]).iter().any(|v| v == "*" || v == value);
    match request {
        Request::Path { verb, path } => {
            let fits = |pattern: &str| match pattern.strip_suffix('*') {
                Some(start) => path.starts_with(start),
                None => path == pattern,
            };
            has("verbs", verb) && list(&rule["nonResourceURLs"]).iter().filter_map(Value::as_str).any(fits)
        }
        Request::Resource { verb, group, resource, subresource, name, .. } => {
            let full = if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") };
            let any = format!("*/{subresource}");
            let fits = |r: &Value| r == "*" || *r == full || (!subresource.is_empty() && *r == any);
            let names = list(&rule["resourceNames"]);
            has("verbs", verb)
                && has("apiGroups", group)
                && list(&rule["resources"]).iter().any(fits)
                && (names.is_empty() || names.iter().any(|n| n == name.as_str()))
        }
    }
}

fn not_found(reference: &Value) -> String {
    let kind = reference["kind"].as_str().unwrap_or_default().to_lowercase();
    format!("{kind}.rbac.authorization.k8s.io {:?} not found", reference["name"].as_str().unwrap_or_default())
}

fn reason(binding: &Value, scope: &str, subject: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (name, role) = (text(&binding["metadata"]["name"]), &binding["roleRef"]);
    let binding = match scope {
        "" => format!("ClusterRoleBinding {name:?}"),
        namespace => format!("RoleBinding {:?}", format!("{name}/{namespace}")),
    };
    let role = format!("{} {:?}", text(&role["kind"]), text(&role["name"]));
    let subject = match subject["kind"].as_str() {
        Some("ServiceAccount") => {
            let namespace = subject["namespace"].as_str().unwrap_or(scope);
            format!("ServiceAccount {:?}", format!("{}/{namespace}", text(&subject["name"])))
        }
        kind => format!("{} {:?}", kind.unwrap_or_default(), text(&subject["name"])),
    };
    format!("RBAC: allowed by {binding} of {role} to {subject}")
}

#[cfg(test)]
mod tests;
