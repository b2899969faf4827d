//! Objects of any kind but pods, without what nobody reads, and without stopping for one that cannot be read.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::serde::de::{Deserialize, DeserializeOwned, Deserializer};
use kube::Resource;
use kube::core::PartialObjectMeta;

use super::pod_text::copy;

/// An object, or what is wrong with it beside its metadata.
#[derive(Debug, Clone)]
pub(crate) struct Lean<K>(pub(crate) Result<K, Malformed>);

#[derive(Debug, Clone)]
pub(crate) struct Malformed {
    pub(crate) metadata: ObjectMeta,
    pub(crate) error: String,
}

/// Fails only where the text is no JSON.
impl<'de, K: DeserializeOwned> Deserialize<'de> for Lean<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = copy::object(deserializer)?;
        Ok(Self(serde_json::from_slice(&text).map_err(|error| {
            let partial: Option<PartialObjectMeta> = serde_json::from_slice(&text).ok();
            let metadata = partial.map(|partial| partial.metadata).unwrap_or_default();
            Malformed { metadata, error: error.to_string() }
        })))
    }
}

impl<K: Resource<DynamicType = ()>> Resource for Lean<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        match &self.0 {
            Ok(object) => object.meta(),
            Err(malformed) => &malformed.metadata,
        }
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(malformed) => &mut malformed.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use kube::ResourceExt;
    use kube::core::ObjectList;
    use serde_json::json;

    use super::*;

    /// What nobody reads is not kept, what is wrong with one is said, and the others are there.
    #[test]
    fn nodes_are_lean_and_odd_ones_do_not_stop_the_rest() {
        let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}, "items": [
            {"metadata": {"name": "a", "uid": "1", "labels": {"x": "y"}, "managedFields": [{"manager": "kubelet"}]},
                "spec": {"providerID": "p"}, "status": {"images": [{"names": ["i"]}], "capacity": {"cpu": "4"}}},
            {"metadata": {"name": "b", "uid": "2"}, "spec": "none"},
            {"metadata": {"name": "c"}}]});
        let list: ObjectList<Lean<Node>> = serde_json::from_str(&list.to_string()).unwrap();
        let names: Vec<String> = list.items.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["a", "b", "c"]);
        let node = list.items[0].0.as_ref().unwrap();
        assert_eq!((node.metadata.managed_fields.as_ref(), node.labels()["x"].as_str()), (None, "y"));
        let status = node.status.as_ref().unwrap();
        assert_eq!((status.images.as_ref(), status.capacity.as_ref().unwrap()["cpu"].0.as_str()), (None, "4"));
        let malformed = list.items[1].0.as_ref().unwrap_err();
        assert_eq!(malformed.metadata.uid.as_deref(), Some("2"));
        assert!(!malformed.error.is_empty());
        assert!(list.items[2].0.is_ok());
    }
}
