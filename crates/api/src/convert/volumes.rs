//! Storage objects.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodId;
use karpenter_model::requirements::{Requirement, Requirements};
use karpenter_model::volumes::{
    AttachmentView, CsiNodeView, StorageClassView, VolumeClaimView, VolumeSource, VolumeView,
};

use super::{Converted, Entry, Problems, non_empty, requirements};

/// Set when the controller of volumes has bound the claim.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";

pub fn volume_claim(claim: &PersistentVolumeClaim) -> VolumeClaimView {
    let meta = &claim.metadata;
    let spec = claim.spec.as_ref();
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    VolumeClaimView {
        id: PodId::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default()),
        deleting: meta.deletion_timestamp.is_some(),
        lost: phase == Some("Lost"),
        volume: non_empty(spec.and_then(|spec| spec.volume_name.as_ref())),
        bind_completed: meta.annotations.as_ref().is_some_and(|all| all.contains_key(BIND_COMPLETED)),
        class: spec.and_then(|spec| spec.storage_class_name.clone()),
    }
}

pub fn volume(volume: &PersistentVolume, rules: &LabelRules) -> Converted<VolumeView> {
    let mut problems = Problems::new("PersistentVolume", &volume.metadata);
    let required = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    let terms = required.map(|required| required.node_selector_terms.as_slice()).unwrap_or_default();
    let mut read = Vec::new();
    for (index, term) in terms.iter().enumerate() {
        let expressions = term.match_expressions.as_deref().unwrap_or_default();
        if expressions.is_empty() {
            continue;
        }
        let entries = expressions.iter().map(|expression| Entry {
            key: &expression.key,
            operator: &expression.operator,
            values: expression.values.as_deref().unwrap_or_default(),
            min_values: None,
        });
        let field = format!("spec.nodeAffinity.required.nodeSelectorTerms[{index}].matchExpressions");
        read.push(requirements(&mut problems, &field, rules, entries));
    }
    let view = VolumeView {
        name: volume.metadata.name.clone().unwrap_or_default(),
        deleting: volume.metadata.deletion_timestamp.is_some(),
        source: volume.spec.as_ref().map_or(VolumeSource::Other, source),
        terms: read,
        unreadable: problems.found.first().map(|problem| format!("{}: {}", problem.field, problem.message)),
    };
    Converted { view, problems: problems.found }
}

fn source(spec: &PersistentVolumeSpec) -> VolumeSource {
    if let Some(csi) = &spec.csi {
        VolumeSource::Csi { driver: csi.driver.clone() }
    } else if spec.aws_elastic_block_store.is_some() {
        VolumeSource::AwsEbs
    } else if spec.local.is_some() || spec.host_path.is_some() {
        VolumeSource::Local
    } else {
        VolumeSource::Other
    }
}

pub fn storage_class(class: &StorageClass, rules: &LabelRules) -> StorageClassView {
    let topologies = || class.allowed_topologies.iter().flatten();
    let expressions = || topologies().flat_map(|term| term.match_label_expressions.iter().flatten());
    let terms = topologies().filter_map(|term| {
        let listed = term.match_label_expressions.as_deref().filter(|all| !all.is_empty())?;
        let one = |key: &str, values: &[String]| Requirement::any_of(rules.normalized(key), values.iter().cloned());
        Some(listed.iter().map(|expression| one(&expression.key, &expression.values)).collect::<Requirements>())
    });
    StorageClassView {
        name: class.metadata.name.clone().unwrap_or_default(),
        provisioner: class.provisioner.clone(),
        immediate: class.volume_binding_mode.as_deref().unwrap_or("Immediate") == "Immediate",
        terms: terms.collect(),
        topology_keys: expressions().map(|expression| expression.key.clone()).collect(),
    }
}

/// A driver without a count attaches as much as one likes (V15-103); a negative count is one of nothing.
pub fn csi_node(node: &CSINode) -> CsiNodeView {
    let limits = node.spec.drivers.iter().map(|driver| {
        let count = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count);
        (driver.name.clone(), count.map(|count| u32::try_from(count).unwrap_or(0)))
    });
    CsiNodeView { name: node.metadata.name.clone().unwrap_or_default(), limits: limits.collect() }
}

pub fn attachment(attachment: &VolumeAttachment) -> AttachmentView {
    AttachmentView {
        name: attachment.metadata.name.clone().unwrap_or_default(),
        node: attachment.spec.node_name.clone(),
        volume: non_empty(attachment.spec.source.persistent_volume_name.as_ref()),
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::labels;
    use serde_json::{Value, json};

    use super::*;

    fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
        serde_json::from_value(object).unwrap()
    }

    /// SCH-151: named claims, and ephemeral ones by the names of pod and volume; other volumes are none.
    #[test]
    fn claims_of_a_pod() {
        let pod = read(json!({
            "metadata": {"name": "web-0", "namespace": "shop"},
            "spec": {"containers": [], "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "web-data"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "config", "configMap": {"name": "c"}},
            ]},
        }));
        let view = super::super::pod(&pod, &LabelRules::core()).view;
        assert_eq!(view.volume_claims, ["web-data", "web-0-scratch"]);
    }

    /// SCH-152, SC-249.
    #[test]
    fn volume_claims() {
        let claim = volume_claim(&read(json!({
            "metadata": {"name": "c", "namespace": "n", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": "v", "storageClassName": ""}, "status": {"phase": "Lost"},
        })));
        assert_eq!(claim.id.to_string(), "n/c");
        assert!(claim.bind_completed && claim.lost && !claim.deleting);
        assert_eq!((claim.volume.as_deref(), claim.class.as_deref()), (Some("v"), Some("")));
        let bare = volume_claim(&read(json!({"metadata": {"name": "c"}, "spec": {"volumeName": ""}})));
        assert!(!bare.bind_completed && !bare.lost && bare.volume.is_none() && bare.class.is_none());
    }

    /// SCH-32, SCH-153, SCH-157: aliases become the stable keys, terms without expressions are none.
    #[test]
    fn volumes() {
        let zone = |key: &str| json!({"matchExpressions": [{"key": key, "operator": "In", "values": ["z1"]}]});
        let of = |spec: Value, terms: &[Value]| {
            let mut object = json!({"metadata": {"name": "v"}, "spec": spec});
            object["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
            volume(&read(object), &LabelRules::core().alias("topology.ebs.csi.aws.com/zone", labels::ZONE))
        };
        let csi = of(
            json!({"csi": {"driver": "d", "volumeHandle": "h"}}),
            &[zone("topology.ebs.csi.aws.com/zone"), json!({}), zone("failure-domain.beta.kubernetes.io/zone")],
        )
        .view;
        let terms: Vec<String> = csi.terms.iter().map(ToString::to_string).collect();
        assert_eq!(terms, ["topology.kubernetes.io/zone In [z1]"; 2]);
        assert_eq!(csi.source, VolumeSource::Csi { driver: "d".to_owned() });
        for (spec, source) in [
            (json!({"awsElasticBlockStore": {"volumeID": "vol-1"}}), VolumeSource::AwsEbs),
            (json!({"local": {"path": "/x"}}), VolumeSource::Local),
            (json!({"hostPath": {"path": "/x"}}), VolumeSource::Local),
            (json!({"nfs": {"server": "s", "path": "/x"}}), VolumeSource::Other),
        ] {
            assert_eq!(of(spec, &[]).view.source, source);
        }
        let odd = of(json!({}), &[json!({"matchExpressions": [{"key": "k", "operator": "Near", "values": ["x"]}]})]);
        assert_eq!(odd.problems.len(), 1);
        assert!(odd.view.unreadable.unwrap().contains("nodeSelectorTerms[0].matchExpressions[0]"));
    }

    /// SCH-152, SCH-153.
    #[test]
    fn storage_classes() {
        let class = storage_class(
            &read(json!({
                "metadata": {"name": "k"}, "provisioner": "d", "volumeBindingMode": "WaitForFirstConsumer",
                "allowedTopologies": [
                    {"matchLabelExpressions": [
                        {"key": "failure-domain.beta.kubernetes.io/zone", "values": ["z1", "z2"]}]},
                    {},
                ],
            })),
            &LabelRules::core(),
        );
        let terms: Vec<String> = class.terms.iter().map(ToString::to_string).collect();
        assert_eq!(terms, ["topology.kubernetes.io/zone In [z1 z2]"]);
        assert!(!class.immediate && class.topology_keys.contains("failure-domain.beta.kubernetes.io/zone"));
        let plain = storage_class(&read(json!({"metadata": {"name": "k"}, "provisioner": "d"})), &LabelRules::core());
        assert!(plain.immediate && plain.terms.is_empty());
    }

    /// VC-99, V15-103, SCH-229.
    #[test]
    fn limits_of_drivers() {
        let driver = |name: &str, allocatable: Value| json!({"name": name, "nodeID": "i", "allocatable": allocatable});
        let node = csi_node(&read(json!({
            "metadata": {"name": "n"},
            "spec": {"drivers": [
                driver("counted", json!({"count": 10})), driver("uncounted", json!({})), driver("silent", Value::Null),
                driver("broken", json!({"count": -1})),
            ]},
        })));
        let limits: Vec<_> = node.limits.iter().map(|(name, limit)| (name.as_str(), *limit)).collect();
        assert_eq!(limits, [("broken", Some(0)), ("counted", Some(10)), ("silent", None), ("uncounted", None)]);
    }

    #[test]
    fn attachments() {
        let view = attachment(&read(json!({
            "metadata": {"name": "a"},
            "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
        })));
        assert_eq!((view.name.as_str(), view.node.as_str(), view.volume.as_deref()), ("a", "n", Some("v")));
    }
}
