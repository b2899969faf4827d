//! What a request is about, and whether its user may ask.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, Method, Response, header};
use serde_json::{Value, json};

use super::acting::Actor;
use super::documents::{self, Document};
use super::{Api, lock};
use crate::discovery;
use crate::rbac;
use crate::request::{Query, ResourcePath, Verb};
use crate::serve::accept::{Form, accepted};
use crate::state::{Call, Content, State, storage};
use crate::status::Failure;
use crate::store::Table;
use crate::table::IncludeObject;
use crate::watch::{Body, View};

impl Api {
    pub(super) fn discovery(&self, parts: &Parts) -> Option<Response<Body>> {
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return None;
        }
        let accept = parts.headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let key = documents::key(path, query, accept);
        let (registry, crds, definitions) = {
            let state = lock(&self.inner.state);
            if let Some(key) = &key
                && let Some(kept) = lock(&self.inner.documents).get(state.definitions, key)
            {
                return Some(kept.response());
            }
            let crds = state.registry.by_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").map(|kind| {
                let table = state.store.table(&storage(kind));
                table.into_iter().flat_map(Table::values).map(|e| Arc::clone(&e.value)).collect::<Vec<_>>()
            });
            (state.registry.clone(), crds.unwrap_or_default(), state.definitions)
        };
        let found = Document::from(discovery::answer(path, query, accept, &registry, &crds)?);
        if let Some(key) = key {
            lock(&self.inner.documents).keep(definitions, key, &found);
        }
        Some(found.response())
    }

    /// Which kind and verb a request is about.
    pub(super) fn understand(&self, parts: &Parts, path: &ResourcePath, query: Query) -> Result<Call, Failure> {
        let state = lock(&self.inner.state);
        let found = state.registry.by_plural(&path.group, &path.version, &path.plural).cloned();
        let Some(kind) = found else {
            let served = state.registry.has_version(&path.group, &path.version);
            return Err(if served { Failure::unknown_resource() } else { Failure::unknown_path() });
        };
        let subresource = path.subresource.clone().unwrap_or_default();
        let verb = Verb::of(&parts.method, path, &query);
        if parts.method == Method::HEAD {
            return Err(Failure::method_not_allowed());
        }
        let in_scope = match (&path.namespace, kind.namespaced) {
            (Some(_), namespaced) => namespaced,
            (None, true) => path.name.is_none(),
            (None, false) => true,
        };
        if !in_scope || (!subresource.is_empty() && kind.subresource(&subresource).is_none()) {
            let of_object = kind.crd && in_scope && matches!(subresource.as_str(), "status" | "scale");
            let name = path.name.as_deref().unwrap_or_default();
            return Err(if of_object { Failure::not_found(&kind, name) } else { Failure::unknown_resource() });
        }
        let allowed = if subresource.is_empty() {
            &kind.verbs
        } else {
            &kind.subresource(&subresource).ok_or_else(Failure::unknown_resource)?.verbs
        };
        // Across namespaces, objects can only be read.
        let everywhere = kind.namespaced && path.namespace.is_none();
        let verb = verb
            .filter(|verb| allowed.iter().any(|v| v == verb.name()) && !(everywhere && verb.writes()))
            .ok_or_else(Failure::method_not_allowed)?;
        let user_agent = parts.headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        Ok(Call {
            verb,
            kind,
            namespace: path.namespace.clone().unwrap_or_default(),
            name: path.name.clone().unwrap_or_default(),
            subresource,
            query,
            user_agent: user_agent.to_owned(),
            content: Content::default(),
            now: (self.inner.options.clock)(),
        })
    }

    /// Where roles are not asked everything is allowed, and reviews say so.
    pub(super) fn allow(&self, parts: &Parts, call: &mut Call) {
        let actor = parts.extensions.get::<Actor>();
        if let Some(actor) = actor {
            actor.note(&as_roles_see(call), true);
        }
        if !call.kind.is_review() {
            return;
        }
        let identities = self.identities(actor);
        let user = rbac::identify(&identities, &parts.headers, &rbac::Policy::default());
        let user = user.unwrap_or_else(|_| identities.default.clone());
        set_status(call, |kind, _| match kind {
            "SelfSubjectReview" => rbac::self_review(&user),
            "SelfSubjectRulesReview" => rbac::rules_review(&rbac::Policy::default(), &rbac::User::admin(), ""),
            _ => json!({"allowed": true}),
        });
    }

    fn identities(&self, actor: Option<&Actor>) -> rbac::Identities {
        match actor {
            Some(actor) => rbac::Identities { default: actor.user.clone() },
            None => self.inner.options.identities.clone(),
        }
    }

    pub(super) fn authorize(&self, state: &State, parts: &Parts, call: &mut Call) -> Result<(), Failure> {
        let objects = |kind: &str| -> Vec<Arc<Value>> {
            let Some(kind) = state.registry.by_kind("rbac.authorization.k8s.io", "v1", kind) else { return Vec::new() };
            let table = state.store.table(&storage(kind));
            table.into_iter().flat_map(Table::values).map(|e| Arc::clone(&e.value)).collect()
        };
        let (cluster_roles, cluster_role_bindings) = (objects("ClusterRole"), objects("ClusterRoleBinding"));
        let (roles, role_bindings) = (objects("Role"), objects("RoleBinding"));
        let policy = rbac::Policy {
            cluster_roles: &cluster_roles,
            cluster_role_bindings: &cluster_role_bindings,
            roles: &roles,
            role_bindings: &role_bindings,
        };
        let forbidden =
            |(message, details): (String, Value)| Failure::new(403, "Forbidden", message).with_details(details);
        let actor = parts.extensions.get::<Actor>();
        let user = rbac::identify(&self.identities(actor), &parts.headers, &policy).map_err(forbidden)?;
        let request = as_roles_see(call);
        let decision = rbac::allowed(&policy, &user, &request);
        if let Some(actor) = actor {
            actor.note(&request, decision.is_allowed());
        }
        match decision {
            rbac::Decision::Denied { reason } => Err(forbidden(rbac::refusal(&user, &request, &reason))),
            rbac::Decision::Allowed { .. } => {
                set_status(call, |kind, review| match kind {
                    "SelfSubjectReview" => rbac::self_review(&user),
                    "SelfSubjectRulesReview" => {
                        let namespace = review["spec"]["namespace"].as_str().unwrap_or_default();
                        rbac::rules_review(&policy, &user, namespace)
                    }
                    _ => rbac::review(&policy, &user, review),
                });
                Ok(())
            }
        }
    }
}

/// A list of one name is allowed to whoever may see that name.
fn selected_name(query: &Query) -> String {
    let terms = query.get("fieldSelector").unwrap_or_default().split(',');
    let mut names = terms.filter_map(|term| term.trim().strip_prefix("metadata.name="));
    names.next().map(|name| name.trim_start_matches('=').to_owned()).unwrap_or_default()
}

fn as_roles_see(call: &Call) -> rbac::Request {
    rbac::Request::Resource {
        verb: call.verb.name().to_owned(),
        group: call.kind.group.clone(),
        resource: call.kind.plural.clone(),
        subresource: call.subresource.clone(),
        // A namespace is in itself, so that a role there can allow to read it.
        namespace: if call.kind.kind == "Namespace" { call.name.clone() } else { call.namespace.clone() },
        name: if call.name.is_empty() { selected_name(&call.query) } else { call.name.clone() },
    }
}

/// Sets the status of a review that is sent, whatever verdict the client put there; `status` gets kind and object.
fn set_status(call: &mut Call, status: impl FnOnce(&str, &Value) -> Value) {
    if !call.kind.is_review() {
        return;
    }
    let Ok(Value::Object(mut object)) = call.content.parse() else { return };
    let status = status(&call.kind.kind, &Value::Object(object.clone()));
    object.insert("status".to_owned(), status);
    call.content.bytes = crate::store::encode(&Value::Object(object));
}

/// How the client wants to see objects.
pub(super) fn view(headers: &HeaderMap, query: &Query) -> Result<View, Failure> {
    let accept: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok()).collect();
    let form = accepted(&accept.join(",")).map_err(|refusal| {
        let failure = Failure::new(406, "NotAcceptable", refusal.message);
        if refusal.details { failure.with_details(json!({})) } else { failure }
    })?;
    let include = match (form, query.get("includeObject").unwrap_or_default()) {
        (Form::Table(_), wanted) => IncludeObject::parse(wanted).ok_or_else(|| {
            let why = "must be 'Metadata', 'Object', 'None', or empty";
            Failure::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {wanted:?}: {why}"
            ))
        })?,
        _ => IncludeObject::Metadata,
    };
    Ok(View { form, include })
}
