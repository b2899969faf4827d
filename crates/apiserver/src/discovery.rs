//! The kinds that are served, as clients ask for them: plain and aggregated discovery, the version, health, and the addresses
//! of the OpenAPI documents.

mod answer;

use std::sync::Arc;

use base64::Engine as _;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

pub use self::answer::{Answer, answer};
use crate::openapi::recorded::recorded;
use crate::resource::{Registry, ResourceType, Subresource};

/// `/api`
pub fn api_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    })
}

/// `/apis`
pub fn group_list(registry: &Registry) -> Value {
    let groups: Vec<_> = groups(registry).iter().filter(|g| !g.name.is_empty()).map(Group::plain).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`
pub fn api_group(registry: &Registry, name: &str) -> Option<Value> {
    let groups = groups(registry);
    let mut group = groups.iter().find(|g| g.name == name && !name.is_empty())?.plain();
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    Some(group)
}

/// `/api/v1` or `/apis/GROUP/VERSION`
pub fn api_resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let groups = groups(registry);
    let (_, types) = groups.iter().find(|g| g.name == group)?.versions.iter().find(|(v, _)| v == version)?;
    let resources: Vec<_> = types.iter().flat_map(|kind| plain_resources(kind)).collect();
    let mut list =
        json!({"kind": "APIResourceList", "groupVersion": types.first()?.api_version(), "resources": resources});
    if !group.is_empty() {
        // The core group alone leaves this out.
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

/// Whose groups an aggregated list holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// `/api`, the core group.
    Api,
    /// `/apis`, the others.
    Apis,
}

/// `/api` and `/apis` for clients that want all in one answer (`apidiscovery.k8s.io/v2`).
pub fn aggregated(registry: &Registry, root: Root) -> Value {
    let wanted = |group: &&Group| group.name.is_empty() == (root == Root::Api);
    let items: Vec<_> = groups(registry).iter().filter(wanted).map(Group::aggregated).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

/// `/version`, in the server's order of fields and on many lines, since people read it with `kubectl get --raw`.
pub fn version() -> String {
    let order =
        ["major", "minor", "emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"];
    let order = order.iter().chain(&[
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
    ]);
    let version = &recorded().version;
    let lines: Vec<_> = order.map(|name| format!("  {name:?}: {}", version[name])).collect();
    format!("{{\n{}\n}}", lines.join(",\n"))
}

struct Group {
    name: String,
    /// The preferred one first.
    versions: Vec<(String, Vec<Arc<ResourceType>>)>,
}

/// Built-in groups in the order of the registry, then those of CRDs by name. Kinds of a CRD may extend a group.
fn groups(registry: &Registry) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut types: Vec<_> = registry.iter().cloned().collect();
    types.sort_by(|a, b| match (a.crd, b.crd) {
        (true, true) => (&a.group, &a.plural).cmp(&(&b.group, &b.plural)),
        (a, b) => a.cmp(&b),
    });
    for kind in types {
        let group = position(&groups, |g| g.name == kind.group).unwrap_or_else(|| {
            groups.push(Group { name: kind.group.clone(), versions: Vec::new() });
            groups.len() - 1
        });
        let versions = &mut groups[group].versions;
        let version = position(versions, |(v, _)| *v == kind.version).unwrap_or_else(|| {
            versions.push((kind.version.clone(), Vec::new()));
            versions.len() - 1
        });
        versions[version].1.push(kind);
    }
    for group in &mut groups {
        group.versions.sort_by(|(a, _), (b, _)| rank(b).cmp(&rank(a)).then_with(|| a.cmp(b)));
    }
    groups
}

fn position<T>(items: &[T], matches: impl Fn(&T) -> bool) -> Option<usize> {
    items.iter().position(matches)
}

/// `v2` before `v1` before `v1beta2` before `v1alpha1` before names of another form.
fn rank(version: &str) -> (u8, u64, u64) {
    let number = |text: &str| text.parse::<u64>().ok().filter(|n| *n > 0);
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    if let Some(major) = number(rest) {
        return (3, major, 0);
    }
    for (word, stage) in [("beta", 2), ("alpha", 1)] {
        if let Some((Some(major), Some(minor))) = rest.split_once(word).map(|(a, b)| (number(a), number(b))) {
            return (stage, major, minor);
        }
    }
    (0, 0, 0)
}

impl Group {
    fn plain(&self) -> Value {
        let version = |(version, _): &(String, _)| json!({"groupVersion": format!("{}/{version}", self.name), "version": version});
        let versions: Vec<_> = self.versions.iter().map(version).collect();
        json!({"name": self.name, "preferredVersion": versions.first(), "versions": versions})
    }

    fn aggregated(&self) -> Value {
        let metadata = if self.name.is_empty() { json!({}) } else { json!({"name": self.name}) };
        let versions: Vec<_> = self
            .versions
            .iter()
            .map(|(version, types)| {
                let resources: Vec<_> = types.iter().map(|kind| aggregated_resource(kind)).collect();
                json!({"version": version, "resources": resources, "freshness": "Current"})
            })
            .collect();
        json!({"metadata": metadata, "versions": versions})
    }
}

/// The server lists the verbs of custom kinds in an order of its own.
fn verbs(kind: &ResourceType) -> Vec<&str> {
    let mut verbs: Vec<_> = kind.verbs.iter().map(String::as_str).collect();
    if kind.crd {
        let order = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
        verbs.sort_by_key(|verb| position(&order, |o| o == verb));
    }
    verbs
}

/// Alphabetical for built-in kinds; `status` comes before `scale` for custom ones.
fn subresources(kind: &ResourceType) -> Vec<&Subresource> {
    let mut list: Vec<_> = kind.subresources.iter().collect();
    list.sort_by_key(|s| (kind.crd && s.name != "status", s.name.clone()));
    list
}

fn plain_resources(kind: &ResourceType) -> Vec<Value> {
    let mut main = json!({
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": verbs(kind),
    });
    add_names(&mut main, kind);
    if kind.verbs.iter().any(|verb| verb == "list") {
        main["storageVersionHash"] = json!(storage_version_hash(kind));
    }
    let mut resources = vec![main];
    for subresource in subresources(kind) {
        let mut entry = json!({
            "name": format!("{}/{}", kind.plural, subresource.name),
            "singularName": "",
            "namespaced": kind.namespaced,
            "kind": subresource.kind,
            "verbs": subresource.verbs,
        });
        if let Some((group, version)) = &subresource.group_version {
            entry["group"] = json!(group);
            entry["version"] = json!(version);
        }
        resources.push(entry);
    }
    resources
}

fn add_names(entry: &mut Value, kind: &ResourceType) {
    if !kind.short_names.is_empty() {
        entry["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        entry["categories"] = json!(kind.categories);
    }
}

fn aggregated_resource(kind: &ResourceType) -> Value {
    // The server leaves group and version of its own kinds empty where they are the resource's.
    let own = if kind.crd { (kind.group.as_str(), kind.version.as_str()) } else { ("", "") };
    let response_kind =
        |(group, version): (&str, &str), name: &str| json!({"group": group, "version": version, "kind": name});
    let mut entry = json!({
        "resource": kind.plural,
        "responseKind": response_kind(own, &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": verbs(kind),
    });
    add_names(&mut entry, kind);
    let parts: Vec<_> = subresources(kind)
        .into_iter()
        .map(|s| {
            let of = s.group_version.as_ref().map_or(own, |(g, v)| (g.as_str(), v.as_str()));
            json!({"subresource": s.name, "responseKind": response_kind(of, &s.kind), "verbs": s.verbs})
        })
        .collect();
    if !parts.is_empty() {
        entry["subresources"] = Value::Array(parts);
    }
    entry
}

/// Tells clients whether the stored form changed; built from the names as the real server does.
fn storage_version_hash(kind: &ResourceType) -> String {
    let digest = Sha256::digest(format!("{}/{}/{}", kind.group, kind.version, kind.kind));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

#[cfg(test)]
mod tests;
