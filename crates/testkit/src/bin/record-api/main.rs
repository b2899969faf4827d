//! Records what a real kube-apiserver says of its built-in kinds, for the embedded API server to repeat: the OpenAPI schemas,
//! the columns of its tables, discovery, and, from its sources, the binary form of objects.
//!
//! `cargo run -p karpenter-testkit --bin record-api -- crates/apiserver/openapi/recorded.json.zz` writes it again, to be done
//! when `tools/kubernetes/go.mod` moves to another release. The descriptions are Kubernetes' own (Apache-2.0).

mod messages;

use std::collections::BTreeMap;
use std::io::Write as _;

use anyhow::{Context as _, Result};
use karpenter_testkit::ControlPlane;
use kube::Client;
use serde_json::{Map, Value, json};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const TABLE: &str = "application/json;g=meta.k8s.io;v=v1;as=Table";
/// The best that zlib has; done once, read often.
const LEVEL: u8 = 10;

#[tokio::main]
async fn main() -> Result<()> {
    let path = std::env::args().nth(1).context("usage: record-api FILE")?;
    let cluster = ControlPlane::builder().start().await?;
    let client = cluster.client();
    let discovery = discovery(&client).await?;
    let recorded = json!({
        "version": get(&client, "/version", "application/json").await?,
        "schemas": schemas(&client).await?,
        "columns": columns(&client, &discovery).await?,
        "discovery": discovery,
        "messages": messages::messages()?,
    });
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(&serde_json::to_vec(&recorded)?, LEVEL);
    std::fs::write(&path, &packed).with_context(|| format!("cannot write {path}"))?;
    writeln!(std::io::stdout(), "{path}: {} bytes", packed.len())?;
    Ok(())
}

async fn get(client: &Client, path: &str, accept: &str) -> Result<Value> {
    let request = http::Request::get(path).header("accept", accept).body(Vec::new())?;
    client.request(request).await.with_context(|| format!("GET {path}"))
}

/// The groups with their versions and resources; the core group has no name.
async fn discovery(client: &Client) -> Result<Vec<Value>> {
    let mut groups = Vec::new();
    for path in ["/api", "/apis"] {
        let mut list = get(client, path, AGGREGATED).await?;
        if let Value::Array(items) = list["items"].take() {
            groups.extend(items);
        }
    }
    Ok(groups)
}

/// All schemas by their name. One name means the same in every document.
async fn schemas(client: &Client) -> Result<BTreeMap<String, Value>> {
    let index = get(client, "/openapi/v3", "application/json").await?;
    let mut schemas = BTreeMap::new();
    for entry in index["paths"].as_object().context("no paths")?.values() {
        let url = entry["serverRelativeURL"].as_str().context("no serverRelativeURL")?;
        let mut document = get(client, url, "application/json").await?;
        if let Value::Object(found) = document["components"]["schemas"].take() {
            schemas.extend(found);
        }
    }
    Ok(schemas)
}

/// The columns of each resource, by `group/version/plural`.
async fn columns(client: &Client, groups: &[Value]) -> Result<Map<String, Value>> {
    let mut columns = Map::new();
    for (group, version, resource) in resources(groups) {
        let plural = resource["resource"].as_str().unwrap_or_default();
        if resource["verbs"].as_array().is_none_or(|verbs| !verbs.contains(&json!("list"))) {
            continue;
        }
        let path = match group {
            "" => format!("/api/{version}/{plural}"),
            _ => format!("/apis/{group}/{version}/{plural}"),
        };
        let mut table = get(client, &path, TABLE).await?;
        columns.insert(format!("{group}/{version}/{plural}"), table["columnDefinitions"].take());
    }
    Ok(columns)
}

fn resources(groups: &[Value]) -> impl Iterator<Item = (&str, &str, &Value)> {
    groups.iter().flat_map(|group| {
        let name = group["metadata"]["name"].as_str().unwrap_or_default();
        list(&group["versions"]).iter().flat_map(move |version| {
            let number = version["version"].as_str().unwrap_or_default();
            list(&version["resources"]).iter().map(move |resource| (name, number, resource))
        })
    })
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
