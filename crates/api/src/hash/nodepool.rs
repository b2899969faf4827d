//! The NodePool hash: `spec.template` without its requirements (API-213 … API-226).

use std::fmt;

use karpenter_model::duration::NillableDuration;

use super::HashError;
use super::fnv::{Record, int64, list, non_empty, string_map};
use crate::kinds::nodepool::{NodeClaimTemplate, NodeClaimTemplateSpec, TemplateMetadata};
use crate::kinds::{NodeClassRef, Taint};
use crate::values::{DurationText, NillableDurationText};

/// Version under which our hashes equal the published ones.
pub const NODE_POOL_HASH_VERSION: &str = "v3";

/// Version of pools whose template taints carry a time.
///
/// The published hash takes that time in through an encoding of its own; ours leaves it out. Such a value must not
/// stand under `v3`, where it would mark every node drifted; under another version nodes are stamped anew (API-224).
pub const NODE_POOL_HASH_VERSION_WITHOUT_TIMES: &str = "v3-without-times";

/// A hash and the version under which it may be compared. Displays as the annotation's value (API-216).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePoolHash {
    pub value: u64,
    pub version: &'static str,
}

impl fmt::Display for NodePoolHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

/// Hash of a pool's template. Requirements, limits, weight, replicas and disruption settings take no part.
pub fn node_pool_hash(template: &NodeClaimTemplate) -> Result<NodePoolHash, HashError> {
    let spec = &template.spec;
    let value = Record::new("NodeClaimTemplate")
        .field("ObjectMeta", template.metadata.as_ref().and_then(metadata))
        .field("Spec", Some(template_spec(spec)?))
        .hash();
    let mut taints = spec.taints.iter().chain(&spec.startup_taints).flatten();
    let timed = taints.any(|taint| taint.time_added.is_some());
    let version = if timed { NODE_POOL_HASH_VERSION_WITHOUT_TIMES } else { NODE_POOL_HASH_VERSION };
    Ok(NodePoolHash { value, version })
}

fn metadata(metadata: &TemplateMetadata) -> Option<u64> {
    let TemplateMetadata { labels, annotations } = metadata;
    if labels.is_none() && annotations.is_none() {
        return None;
    }
    let record = Record::new("ObjectMeta")
        .field("Labels", labels.as_ref().map(string_map))
        .field("Annotations", annotations.as_ref().map(string_map));
    Some(record.hash())
}

fn template_spec(spec: &NodeClaimTemplateSpec) -> Result<u64, HashError> {
    let taints = |taints: &Option<Vec<Taint>>| taints.as_ref().map(|taints| list(taints.iter().map(taint)));
    let grace = spec.termination_grace_period.as_ref().map(grace_period).transpose()?;
    let expiry = spec.expire_after.as_ref().map(expire_after).transpose()?.flatten();
    let record = Record::new("NodeClaimTemplateSpec")
        .field("Taints", taints(&spec.taints))
        .field("StartupTaints", taints(&spec.startup_taints))
        .field("NodeClassRef", Some(node_class_ref(&spec.node_class_ref)))
        .field("TerminationGracePeriod", grace)
        .field("ExpireAfter", expiry);
    Ok(record.hash())
}

fn taint(taint: &Taint) -> u64 {
    Record::new("Taint")
        .field("Key", non_empty(&taint.key))
        .field("Value", taint.value.as_deref().and_then(non_empty))
        .field("Effect", non_empty(&taint.effect))
        .hash()
}

fn node_class_ref(reference: &NodeClassRef) -> u64 {
    Record::new("NodeClassReference")
        .field("Kind", non_empty(&reference.kind))
        .field("Name", non_empty(&reference.name))
        .field("Group", non_empty(&reference.group))
        .hash()
}

/// Present even when zero, but then without its number (API-223).
fn grace_period(text: &DurationText) -> Result<u64, HashError> {
    let duration = text.parse().map_err(|source| error("spec.template.spec.terminationGracePeriod", source))?;
    let nanos = (!duration.is_zero()).then(|| int64(duration.as_nanos()));
    Ok(Record::new("Duration").field("Duration", nanos).hash())
}

/// Absent when `Never`; with `0s` present and with its number (API-223).
fn expire_after(text: &NillableDurationText) -> Result<Option<u64>, HashError> {
    let parsed = text.parse().map_err(|source| error("spec.template.spec.expireAfter", source))?;
    let NillableDuration::After(duration) = parsed else { return Ok(None) };
    Ok(Some(Record::new("NillableDuration").field("Duration", Some(int64(duration.as_nanos()))).hash()))
}

fn error(field: &str, source: karpenter_model::duration::DurationError) -> HashError {
    HashError::Duration { field: field.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn hash(template: &Value) -> u64 {
        hash_of(template).unwrap().value
    }

    fn hash_of(template: &Value) -> Result<NodePoolHash, HashError> {
        node_pool_hash(&serde_json::from_value(template.clone()).unwrap())
    }

    /// Base B of the vectors with members merged into its spec.
    fn base(spec: Value) -> Value {
        let mut base = json!({ "requirements": [], "expireAfter": "720h",
            "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default" } });
        if let (Value::Object(base), Value::Object(more)) = (&mut base, spec) {
            base.extend(more);
        }
        json!({ "spec": base })
    }

    fn with_metadata(mut template: Value, metadata: Value) -> Value {
        template["metadata"] = metadata;
        template
    }

    /// API-225, API-216, API-217, API-222, API-223, API-226, V15-5, LIF-96, Y21: the published vectors.
    #[test]
    fn published_vectors() {
        let ec2 = |group: &str| json!({ "group": group, "kind": "EC2NodeClass", "name": "default" });
        let tainted = json!({ "terminationGracePeriod": "48h",
            "taints": [{ "key": "example.com/special", "value": "true", "effect": "NoSchedule" }],
            "startupTaints": [{ "key": "example.com/boot", "effect": "NoExecute" }] });
        for (template, want) in [
            (base(json!({ "nodeClassRef": ec2(""), "terminationGracePeriod": "1h" })), 377_058_807_571_762_610),
            (base(json!({ "nodeClassRef": ec2("karpenter.k8s.aws") })), 6_821_555_240_594_823_858),
            (base(json!({})), 12_745_407_319_442_031_341),
            (base(json!({ "expireAfter": "Never" })), 7_428_780_003_907_761_376),
            (base(json!({ "expireAfter": "0s" })), 13_546_070_544_088_512_816),
            (base(json!({ "terminationGracePeriod": "0s" })), 16_848_824_146_983_765_585),
            (base(json!({ "taints": [] })), 845_502_862_369_909_111),
            (
                with_metadata(base(json!({})), json!({ "labels": { "team": "a", "tier": "web" } })),
                5_187_040_843_980_608_212,
            ),
            (
                with_metadata(base(tainted), json!({ "labels": { "team": "a" }, "annotations": { "owner": "x" } })),
                15_279_676_536_408_515_251,
            ),
        ] {
            assert_eq!(hash(&template), want, "{template}");
        }
        assert_eq!(hash_of(&base(json!({}))).unwrap().to_string(), "12745407319442031341");
        assert_eq!(hash_of(&base(json!({}))).unwrap().version, "v3");
    }

    /// API-213, API-214, API-215, LC-95: what does not matter.
    #[test]
    fn equal_meaning_gives_equal_hash() {
        let taint = |key: &str| json!({ "key": key, "effect": "NoSchedule" });
        for (name, one, two) in [
            ("requirements", base(json!({})), base(json!({ "requirements": [{ "key": "a", "operator": "Exists" }] }))),
            ("duration text", base(json!({ "expireAfter": "720h" })), base(json!({ "expireAfter": "43200m" }))),
            (
                "taint order",
                base(json!({ "taints": [taint("a"), taint("b")] })),
                base(json!({ "taints": [taint("b"), taint("a")] })),
            ),
            ("empty metadata", base(json!({})), with_metadata(base(json!({})), json!({}))),
            (
                "empty taint value",
                base(json!({ "taints": [taint("a")] })),
                base(json!({ "taints": [{ "key": "a", "value": "", "effect": "NoSchedule" }] })),
            ),
        ] {
            assert_eq!(hash(&one), hash(&two), "{name}");
        }
    }

    /// API-213, API-223, LC-95: what does.
    #[test]
    fn different_meaning_gives_different_hash() {
        let taint = json!([{ "key": "a", "effect": "NoSchedule" }]);
        let all = [
            base(json!({})),
            base(json!({ "taints": taint })),
            base(json!({ "startupTaints": taint })),
            base(json!({ "startupTaints": [] })),
            base(json!({ "expireAfter": null })),
            base(json!({ "expireAfter": "1h" })),
            base(json!({ "terminationGracePeriod": "1h" })),
            with_metadata(base(json!({})), json!({ "labels": {} })),
            with_metadata(base(json!({})), json!({ "annotations": {} })),
            with_metadata(base(json!({})), json!({ "labels": { "a": "b" } })),
            with_metadata(base(json!({})), json!({ "annotations": { "a": "b" } })),
            base(json!({ "nodeClassRef": { "group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "other" } })),
        ];
        let mut hashes: Vec<_> = all.iter().map(hash).collect();
        hashes[4] = 0; // `expireAfter` absent equals `Never`, checked below
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), all.len());
        assert_eq!(hash(&all[4]), hash(&base(json!({ "expireAfter": "Never" }))));
    }

    /// API-224: a time on a template taint leaves the hash alone but not its version.
    #[test]
    fn times_on_taints_change_the_version() {
        let taints = |time: Option<&str>| json!([{ "key": "a", "effect": "NoSchedule", "timeAdded": time }]);
        let plain = hash_of(&base(json!({ "taints": taints(None) }))).unwrap();
        for field in ["taints", "startupTaints"] {
            let timed = hash_of(&base(json!({ field: taints(Some("2024-01-01T00:00:00Z")) }))).unwrap();
            assert_eq!(timed.version, NODE_POOL_HASH_VERSION_WITHOUT_TIMES);
            assert_eq!(timed.value, hash(&base(json!({ field: taints(None) }))));
        }
        assert_eq!(plain.version, NODE_POOL_HASH_VERSION);
    }

    /// API-214: a duration that means nothing is an error that names its field.
    #[test]
    fn malformed_durations_are_named() {
        for (field, path) in [
            ("expireAfter", "spec.template.spec.expireAfter: "),
            ("terminationGracePeriod", "spec.template.spec.terminationGracePeriod: "),
        ] {
            let error = hash_of(&base(json!({ field: "soon" }))).unwrap_err().to_string();
            assert!(error.starts_with(path), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_hashed_or_refused(key in any::<String>(), value in any::<String>(), text in any::<String>()) {
            let template = with_metadata(
                base(json!({ "expireAfter": text, "taints": [{ "key": key, "value": value, "effect": text }] })),
                json!({ "labels": { &key: value } }),
            );
            let _ = hash_of(&template);
        }
    }
}
