//! What a real kube-apiserver says of its built-in kinds. `openapi/README.md` tells how to record it again.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;

static PACKED: &[u8] = include_bytes!("../../openapi/recorded.json.zz");

#[derive(Debug)]
pub(crate) struct Recorded {
    /// The answer to `/version`.
    pub(crate) version: Value,
    pub(crate) schemas: BTreeMap<String, Value>,
    /// The schema's name by group, version and kind.
    pub(crate) names: BTreeMap<(String, String, String), String>,
    /// The columns of tables by `group/version/plural`.
    pub(crate) columns: BTreeMap<String, Value>,
    /// The binary form of each schema: `[number, name, type, how]` per field, read by `serve::protobuf`.
    pub(crate) messages: BTreeMap<String, Value>,
    /// Aggregated discovery: the groups, the core one first.
    #[cfg(test)]
    pub(crate) discovery: Vec<Value>,
}

pub(crate) fn recorded() -> &'static Recorded {
    static RECORDED: LazyLock<Recorded> = LazyLock::new(|| {
        let text = miniz_oxide::inflate::decompress_to_vec_zlib(PACKED).expect("the recorded file is packed with zlib");
        Recorded::new(serde_json::from_slice(&text).expect("the recorded file is JSON"))
    });
    &RECORDED
}

impl Recorded {
    fn new(mut file: Value) -> Self {
        let schemas = entries(file["schemas"].take());
        Self {
            version: file["version"].take(),
            names: names(&schemas),
            schemas,
            columns: entries(file["columns"].take()),
            messages: entries(file["messages"].take()),
            #[cfg(test)]
            discovery: file["discovery"].as_array().cloned().unwrap_or_default(),
        }
    }

    /// `v1.35.4`
    pub(crate) fn git_version(&self) -> &str {
        self.version["gitVersion"].as_str().unwrap_or_default()
    }

    /// `1.35`
    pub(crate) fn minor(&self) -> String {
        let part = |name: &str| self.version[name].as_str().unwrap_or_default().to_owned();
        format!("{}.{}", part("major"), part("minor"))
    }
}

fn entries(value: Value) -> BTreeMap<String, Value> {
    if let Value::Object(map) = value { map.into_iter().collect() } else { BTreeMap::new() }
}

/// Some kinds of all groups (`DeleteOptions`, `WatchEvent`) have one schema with many kinds; the kinds of resources have one
/// of their own.
fn names(schemas: &BTreeMap<String, Value>) -> BTreeMap<(String, String, String), String> {
    let mut names = BTreeMap::new();
    for (name, schema) in schemas {
        for kind in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            let part = |key: &str| kind[key].as_str().unwrap_or_default().to_owned();
            names.insert((part("group"), part("version"), part("kind")), name.clone());
        }
    }
    names
}
