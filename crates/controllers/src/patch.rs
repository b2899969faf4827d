//! Small writes.

use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource, ResourceExt as _};
use serde_json::Value;

/// A merge patch of metadata and spec that only applies to the version it was computed from.
pub async fn merge_locked<K>(api: &Api<K>, object: &K, mut patch: Value) -> Result<K, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    patch["metadata"]["resourceVersion"] = object.resource_version().into();
    api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await
}

/// The same for the status.
pub async fn merge_status_locked<K>(api: &Api<K>, object: &K, status: Value) -> Result<K, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let patch = serde_json::json!({ "metadata": { "resourceVersion": object.resource_version() }, "status": status });
    api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await
}

/// Deletes the object that was looked at, not one that took its name since. Gone already is what was wanted; what is left
/// of it otherwise is answered.
pub async fn delete_if_present<K>(api: &Api<K>, object: &K) -> Result<Option<K>, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let preconditions = Preconditions { uid: object.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match api.delete(&object.name_any(), &params).await {
        Ok(answer) => Ok(answer.left()),
        // Conflict: the name belongs to another object now.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Our finalizer taken off, the others kept.
pub(crate) fn without_finalizer<K: Resource>(object: &K) -> Value {
    let others: Vec<&String> =
        object.finalizers().iter().filter(|name| *name != karpenter_api::names::FINALIZER).collect();
    serde_json::json!({ "metadata": { "finalizers": others } })
}

/// Whether the answer to a write is that this very object is not there. Where its whole kind is not served, the answer names no object.
pub(crate) fn says_gone<K: Resource, T>(object: &K, answer: &Result<T, kube::Error>) -> bool {
    let Err(kube::Error::Api(status)) = answer else { return false };
    let named = status.details.as_ref().map(|details| details.name.as_str());
    status.is_not_found() && named == Some(object.name_any().as_str())
}

/// A write that found the object gone has nothing left to do.
pub fn ignore_gone<T>(answer: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
