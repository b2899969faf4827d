//! What the API knows about its kinds: names, verbs, subresources.

mod builtin;

use std::collections::BTreeMap;
use std::sync::Arc;

/// One kind in one version, built in or from a CustomResourceDefinition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceType {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    /// `PodList` and the like.
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// In the order of discovery, which is alphabetical.
    pub verbs: Vec<String>,
    pub subresources: Vec<Subresource>,
    /// From a CustomResourceDefinition.
    pub crd: bool,
    /// Only for kinds from a CustomResourceDefinition; built-in kinds have columns of their own.
    pub printer_columns: Vec<PrinterColumn>,
}

/// `pods/eviction` and the like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subresource {
    /// The last part of the path.
    pub name: String,
    /// Group and version of `kind` where these are not the ones of the resource.
    pub group_version: Option<(String, String)>,
    pub kind: String,
    pub verbs: Vec<String>,
}

/// `additionalPrinterColumns` of a CRD version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrinterColumn {
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub column_type: String,
    pub format: String,
    pub description: String,
    pub priority: i64,
    pub json_path: String,
}

impl ResourceType {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `pods` or `deployments.apps`, as messages name a resource.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// Whether spec and status are written apart.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Whether it is a question that is answered at once, and nothing is stored.
    pub fn is_review(&self) -> bool {
        matches!(self.group.as_str(), "authentication.k8s.io" | "authorization.k8s.io")
    }

    /// Objects of all versions of a kind are stored under this.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }
}

/// A kind, whatever its version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    pub group: String,
    pub kind: String,
}

/// All kinds that are served, in a fixed order: built-in ones as discovery lists them, then those of CRDs by name.
#[derive(Debug, Clone)]
pub struct Registry {
    builtin: Vec<Arc<ResourceType>>,
    /// By name of the CRD, which is `plural.group`; one entry per served version, the preferred one first.
    custom: BTreeMap<String, Vec<Arc<ResourceType>>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::builtin()
    }
}

impl Registry {
    /// The kinds that are there before any CRD.
    pub fn builtin() -> Self {
        Self { builtin: builtin::types(), custom: BTreeMap::new() }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<ResourceType>> {
        self.builtin.iter().chain(self.custom.values().flatten())
    }

    /// By the parts of a path.
    pub fn by_plural(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceType>> {
        self.iter().find(|t| t.group == group && t.version == version && t.plural == plural)
    }

    /// By `apiVersion` and `kind` of an object.
    pub fn by_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<ResourceType>> {
        self.iter().find(|t| t.group == group && t.version == version && t.kind == kind)
    }

    /// Whether anything is served under this group and version.
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.iter().any(|t| t.group == group && t.version == version)
    }

    /// What the CRD of this name defines.
    pub fn custom_types(&self, crd_name: &str) -> &[Arc<ResourceType>] {
        self.custom.get(crd_name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Takes the place of what the CRD of this name defined before; no types take it away.
    pub fn set_custom(&mut self, crd_name: &str, types: Vec<ResourceType>) {
        if types.is_empty() {
            self.custom.remove(crd_name);
        } else {
            self.custom.insert(crd_name.to_owned(), types.into_iter().map(Arc::new).collect());
        }
    }
}
