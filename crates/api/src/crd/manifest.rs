//! The `CustomResourceDefinition` object around a schema: names, scope, columns, subresources.

use serde_json::{Map, Value, json};

use super::schema::{Schema, object, string};

/// One custom resource kind of ours.
#[derive(Debug, Clone)]
pub struct Crd {
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    /// Kept to read old manifests; not installed unless asked for.
    pub legacy: bool,
    /// The complete object for the API server.
    pub manifest: Value,
}

impl Crd {
    /// `<plural>.<group>`, the name that the API server demands.
    pub fn name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }

    /// `group/version` as manifests write it.
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// The structural schema of the (only) version.
    pub fn schema(&self) -> &Value {
        &self.manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    }
}

/// What differs between kinds outside their schema.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) short_names: &'static [&'static str],
    pub(super) category: &'static str,
    pub(super) namespaced: bool,
    pub(super) legacy: bool,
    /// Spec and status replica paths of the scale subresource.
    pub(super) scale: Option<(&'static str, &'static str)>,
    pub(super) columns: Vec<Column>,
}

/// One column of `kubectl get`; priority 1 shows with `-o wide` only.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    pub(super) path: &'static str,
    pub(super) priority: u8,
}

pub(super) const fn column(name: &'static str, kind: &'static str, path: &'static str) -> Column {
    Column { name, kind, path, priority: 0 }
}

pub(super) const fn wide(name: &'static str, kind: &'static str, path: &'static str) -> Column {
    Column { name, kind, path, priority: 1 }
}

pub(super) const READY: &str = r#".status.conditions[?(@.type=="Ready")].status"#;
pub(super) const AGE: Column = column("Age", "date", ".metadata.creationTimestamp");

/// The root of a kind's schema: type and object metadata, to which the kind adds `spec` and `status`.
pub(super) fn root(description: &str) -> Schema {
    object(description)
        .field("apiVersion", string("The group and version of this object's schema, such as `karpenter.sh/v1`."))
        .field("kind", string("The kind of this object."))
        .field("metadata", super::schema::undescribed(object("")))
}

impl Resource {
    pub(super) fn with_schema(self, schema: Schema) -> Crd {
        let singular = self.kind.to_lowercase();
        let mut names = Map::new();
        names.insert("categories".into(), json!([self.category]));
        names.insert("kind".into(), self.kind.into());
        names.insert("listKind".into(), format!("{}List", self.kind).into());
        names.insert("plural".into(), self.plural.into());
        names.insert("singular".into(), singular.into());
        if !self.short_names.is_empty() {
            names.insert("shortNames".into(), json!(self.short_names));
        }
        let mut version = Map::new();
        version.insert("name".into(), self.version.into());
        version.insert("served".into(), true.into());
        version.insert("storage".into(), true.into());
        version.insert("schema".into(), json!({"openAPIV3Schema": Value::from(schema)}));
        version.insert("subresources".into(), self.subresources());
        if !self.columns.is_empty() {
            version.insert("additionalPrinterColumns".into(), self.columns.iter().map(Column::manifest).collect());
        }
        let manifest = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            "spec": {
                "group": self.group,
                "names": names,
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "versions": [version],
            },
        });
        Crd {
            group: self.group,
            version: self.version,
            kind: self.kind,
            plural: self.plural,
            namespaced: self.namespaced,
            legacy: self.legacy,
            manifest,
        }
    }

    fn subresources(&self) -> Value {
        match self.scale {
            None => json!({"status": {}}),
            Some((spec, status)) => json!({
                "scale": {"specReplicasPath": spec, "statusReplicasPath": status},
                "status": {},
            }),
        }
    }
}

impl Column {
    fn manifest(&self) -> Value {
        let mut column = json!({"jsonPath": self.path, "name": self.name, "type": self.kind});
        if self.priority > 0 {
            column["priority"] = self.priority.into();
        }
        column
    }
}
