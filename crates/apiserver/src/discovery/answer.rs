//! The paths that are about no resource.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Root, aggregated, api_group, api_resources, api_versions, group_list, version};
use crate::openapi;
use crate::resource::Registry;

/// An answer that is whole at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub content_type: &'static str,
    /// Besides the content type.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
}

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// OpenAPI v2 in the binary form: as it is asked for, and as it is named in the answer.
const BINARY: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const BINARY_ANSWER: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The answer to a path of discovery, health or OpenAPI; `None` when the path is about a resource, or about nothing.
///
/// `accept` is the header as sent, `crds` are the stored CustomResourceDefinitions.
pub fn answer(path: &str, query: &str, accept: &str, registry: &Registry, crds: &[Arc<Value>]) -> Option<Answer> {
    let parts: Vec<_> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        ["version"] => Some(Answer { content_type: JSON, ..text(200, &version()) }),
        ["readyz" | "healthz" | "livez"] => Some(healthy(parts[0], query)),
        ["readyz" | "healthz" | "livez", "ping" | "log" | "etcd"] => Some(text(200, "ok")),
        ["api"] if wants_aggregated(accept) => Some(all(registry, Root::Api)),
        ["apis"] if wants_aggregated(accept) => Some(all(registry, Root::Apis)),
        ["api"] => Some(json(&api_versions("127.0.0.1:6443"))),
        ["apis"] => Some(json(&group_list(registry))),
        ["api", version] => api_resources(registry, "", version).map(|list| json(&list)),
        ["apis", group] => Some(api_group(registry, group).map_or_else(missing, |group| json(&group))),
        ["apis", group, version] => {
            Some(api_resources(registry, group, version).map_or_else(missing, |list| json(&list)))
        }
        ["openapi", "v2"] if accept.contains(BINARY) => {
            let body = openapi::v2::encode(&openapi::v2_document(registry, crds));
            Some(Answer { content_type: BINARY_ANSWER, body, ..text(200, "") })
        }
        ["openapi", "v2"] => Some(json(&openapi::v2_document(registry, crds))),
        ["openapi", "v3"] => Some(json(&openapi::v3_index(registry, crds))),
        ["openapi", "v3", "api", version] => Some(document(path, query, registry, crds, "", version)),
        ["openapi", "v3", "apis", group, version] => Some(document(path, query, registry, crds, group, version)),
        ["openapi", ..] => Some(text(404, "")),
        [""] => Some(json(&json!({"paths": paths(registry)}))),
        _ => None,
    }
}

/// What the server says to a path that it does not know.
pub(crate) fn missing() -> Answer {
    text(404, "404 page not found\n")
}

fn json(body: &Value) -> Answer {
    Answer { status: 200, content_type: JSON, headers: Vec::new(), body: body.to_string().into_bytes() }
}

fn text(status: u16, body: &str) -> Answer {
    Answer { status, content_type: TEXT, headers: Vec::new(), body: body.as_bytes().to_vec() }
}

fn all(registry: &Registry, root: Root) -> Answer {
    Answer { content_type: AGGREGATED, ..json(&aggregated(registry, root)) }
}

/// Clients list what they can read, the best first; only version 2 is spoken, as in the server since 1.35.
fn wants_aggregated(accept: &str) -> bool {
    accept.split(',').any(|choice| {
        let mut parameters = choice.split(';').map(str::trim);
        let is_json = parameters.next().is_some_and(|kind| kind == JSON || kind == "*/*");
        let parameters: Vec<_> = parameters.collect();
        is_json && ["g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"].iter().all(|p| parameters.contains(p))
    })
}

fn healthy(name: &str, query: &str) -> Answer {
    let verbose = query.split('&').any(|part| part == "verbose" || part.starts_with("verbose="));
    if verbose {
        text(200, &format!("[+]ping ok\n[+]log ok\n[+]etcd ok\n{name} check passed\n"))
    } else {
        text(200, "ok")
    }
}

/// A document under the address of an older one has moved.
fn document(path: &str, query: &str, registry: &Registry, crds: &[Arc<Value>], group: &str, version: &str) -> Answer {
    if !registry.has_version(group, version) {
        return text(404, "");
    }
    let hash = openapi::hash(registry, crds, group, version);
    let mut headers = vec![("etag", format!("\"{hash}\"")), ("vary", "Accept".to_owned())];
    let asked = query.split('&').find_map(|part| part.strip_prefix("hash="));
    if asked.is_some_and(|asked| asked != hash) {
        headers.push(("location", format!("{path}?hash={hash}")));
        return Answer { status: 301, content_type: JSON, headers, body: Vec::new() };
    }
    if asked.is_some() {
        // What is under this address never changes, so clients may keep it.
        headers.push(("cache-control", "public, immutable, max-age=31536000".to_owned()));
    }
    let document = openapi::v3_document(registry, crds, group, version);
    document.map_or_else(|| text(404, ""), |document| Answer { headers, ..json(&document) })
}

fn paths(registry: &Registry) -> Vec<String> {
    let mut paths: Vec<_> = ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]
        .into_iter()
        .map(str::to_owned)
        .collect();
    for kind in registry.iter() {
        if kind.group.is_empty() {
            paths.push(format!("/api/{}", kind.version));
        } else {
            paths.push(format!("/apis/{}", kind.group));
            paths.push(format!("/apis/{}/{}", kind.group, kind.version));
        }
    }
    paths.sort();
    paths.dedup();
    paths
}
