//! Pods as their owners see them.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt as _};

pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

pub(super) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

pub(super) fn is_deleting(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Counts towards what its owner wants.
pub(super) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_deleting(pod)
}

pub(super) fn is_bound(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some())
}

fn ready_condition(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    ready_condition(pod).is_some()
}

/// When a ready pod counts as available; `None` while it is not ready.
pub(super) fn available_at(pod: &Pod, min_ready_seconds: i32) -> Option<Timestamp> {
    let since = ready_condition(pod)?.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    since.checked_add(SignedDuration::from_secs(i64::from(min_ready_seconds))).ok()
}

pub(super) fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    available_at(pod, min_ready_seconds).is_some_and(|at| at <= now)
}

/// The reference that makes `owner` the controller of an object.
pub(super) fn controller_ref<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.name_any(),
        uid: owner.uid().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The key of the controller of this kind that owns an object.
pub(super) fn controller_key<K: Resource>(object: &K, kind: &str) -> Option<String> {
    let owner = object.owner_references().iter().find(|o| o.controller == Some(true) && o.kind == kind)?;
    Some(format!("{}/{}", object.namespace().unwrap_or_default(), owner.name))
}

/// How a new pod is called.
pub(super) enum PodName {
    Exactly(String),
    StartingWith(String),
}

pub(super) fn pod_from<K: Resource<DynamicType = ()>>(owner: &K, template: &PodTemplateSpec, name: PodName) -> Pod {
    let of_template = template.metadata.clone().unwrap_or_default();
    let (name, generate_name) = match name {
        PodName::Exactly(name) => (Some(name), None),
        PodName::StartingWith(start) => (None, Some(start)),
    };
    Pod {
        metadata: ObjectMeta {
            name,
            generate_name,
            namespace: owner.namespace(),
            labels: of_template.labels,
            annotations: of_template.annotations,
            finalizers: of_template.finalizers,
            owner_references: Some(vec![controller_ref(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

/// A short name for a template: equal templates have equal ones.
pub(super) fn template_hash(template: &PodTemplateSpec) -> String {
    // The alphabet of Kubernetes' own names: no vowels and no digits that look like letters.
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    // Maps are ordered and absent fields are left out, so equal templates have equal texts.
    let text = serde_json::to_string(template).unwrap_or_default();
    let mut number = crate::chance::Chance::about(0, &[&text]).number();
    let letters = (0..10).map(|_| {
        let letter = ALPHABET[usize::try_from(number % 27).unwrap_or_default()];
        number /= 27;
        char::from(letter)
    });
    letters.collect()
}

/// `25%` of `total`, or the number itself.
pub(super) fn scaled(
    value: Option<&k8s_openapi::apimachinery::pkg::util::intstr::IntOrString>,
    default: &str,
    total: i32,
    rounding: Rounding,
) -> i32 {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    let text = match value {
        Some(IntOrString::Int(number)) => return *number,
        Some(IntOrString::String(text)) => text.as_str(),
        None => default,
    };
    let Some(percent) = text.strip_suffix('%').and_then(|percent| percent.parse::<i64>().ok()) else {
        return text.parse().unwrap_or(0);
    };
    let product = percent * i64::from(total);
    let share = match rounding {
        Rounding::Up => product.div_euclid(100) + i64::from(product.rem_euclid(100) != 0),
        Rounding::Down => product.div_euclid(100),
    };
    i32::try_from(share).unwrap_or(i32::MAX)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rounding {
    Up,
    Down,
}

pub(super) fn with_label(labels: Option<BTreeMap<String, String>>, key: &str, value: &str) -> BTreeMap<String, String> {
    let mut labels = labels.unwrap_or_default();
    labels.insert(key.to_owned(), value.to_owned());
    labels
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

    use super::*;

    #[test]
    fn shares_of_a_total() {
        let text = |text: &str| Some(IntOrString::String(text.to_owned()));
        for (value, total, up, down) in [
            (text("25%"), 10, 3, 2),
            (text("25%"), 0, 0, 0),
            (text("100%"), 3, 3, 3),
            (Some(IntOrString::Int(7)), 3, 7, 7),
            (None, 4, 1, 1),
        ] {
            assert_eq!(scaled(value.as_ref(), "25%", total, Rounding::Up), up);
            assert_eq!(scaled(value.as_ref(), "25%", total, Rounding::Down), down);
        }
    }
}
