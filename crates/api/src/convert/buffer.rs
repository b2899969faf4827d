//! Capacity buffers and the shapes of their pods.

use k8s_openapi::api::core::v1::{Pod, PodSpec, PodTemplateSpec};
use karpenter_model::buffer::{BufferReference, BufferView};
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::{PodId, PodView};

use super::{Converted, Problems, pod, quantities};
use crate::kinds::{CapacityBuffer, ConditionStatus};

pub fn buffer(buffer: &CapacityBuffer) -> Converted<BufferView> {
    let mut problems = Problems::new("CapacityBuffer", &buffer.metadata);
    let (spec, status) = (&buffer.spec, buffer.status.as_ref());
    let template = spec.pod_template_ref.as_ref().map(|of| BufferReference::PodTemplate { name: of.name.clone() });
    let scalable = spec.scalable_ref.as_ref().map(|of| BufferReference::Scalable {
        group: of.api_group.clone().unwrap_or_default(),
        kind: of.kind.clone(),
        name: of.name.clone(),
    });
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let count = |number: Option<i32>| number.map(|number| u32::try_from(number).unwrap_or(0));
    let view = BufferView {
        id: PodId::new(
            buffer.metadata.namespace.clone().unwrap_or_default(),
            buffer.metadata.name.clone().unwrap_or_default(),
        ),
        uid: buffer.metadata.uid.clone().unwrap_or_default(),
        reference: template.or(scalable),
        replicas: count(spec.replicas),
        percentage: count(spec.percentage),
        limits: quantities(&mut problems, "spec.limits", spec.limits.as_ref()),
        ready: conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "ReadyForProvisioning" && condition.status == ConditionStatus::True),
        desired: count(status.and_then(|status| status.replicas)),
    };
    Converted { view, problems: problems.found }
}

/// A pod of the template, without volumes that would need a claim of their own, and without their mounts (SCH-185).
pub fn buffer_shape(namespace: &str, template: &PodTemplateSpec, rules: &LabelRules) -> Converted<PodView> {
    let mut metadata = template.metadata.clone().unwrap_or_default();
    metadata.namespace = Some(namespace.to_owned());
    let spec = without_claims(template.spec.clone().unwrap_or_default());
    pod(&Pod { metadata, spec: Some(spec), status: None }, rules)
}

fn without_claims(mut spec: PodSpec) -> PodSpec {
    let Some(volumes) = &mut spec.volumes else { return spec };
    let mut gone = Vec::new();
    volumes.retain(|volume| {
        let claimed = volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
        if claimed {
            gone.push(volume.name.clone());
        }
        !claimed
    });
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        if let Some(mounts) = &mut container.volume_mounts {
            mounts.retain(|mount| !gone.contains(&mount.name));
        }
    }
    spec.node_name = None;
    spec
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
        serde_json::from_value(object).unwrap()
    }

    /// SC-285, SCH-185.
    #[test]
    fn claims_are_left_out() {
        let mounts = json!([{"name": "data", "mountPath": "/d"}, {"name": "scratch", "mountPath": "/s"},
            {"name": "config", "mountPath": "/c"}]);
        let spec: PodSpec = read(json!({
            "nodeName": "n",
            "containers": [{"name": "c", "volumeMounts": mounts}],
            "initContainers": [{"name": "i", "volumeMounts": mounts}],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "x"}},
                {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "config", "configMap": {"name": "c"}},
            ],
        }));
        let kept = without_claims(spec.clone());
        let names: Vec<String> = kept.volumes.unwrap().into_iter().map(|volume| volume.name).collect();
        assert_eq!(names, ["config"]);
        for container in kept.containers.into_iter().chain(kept.init_containers.unwrap()) {
            let mounts: Vec<String> = container.volume_mounts.unwrap().into_iter().map(|mount| mount.name).collect();
            assert_eq!(mounts, ["config"]);
        }
        let template = PodTemplateSpec { metadata: None, spec: Some(spec) };
        let shape = buffer_shape("shop", &template, &LabelRules::core()).view;
        assert!(shape.volume_claims.is_empty() && shape.node_name.is_none());
        assert_eq!(shape.id.namespace, "shop");
    }

    /// SCH-180, SCH-182.
    #[test]
    fn buffers_are_understood() {
        let object = read(json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "b", "namespace": "n", "uid": "u"},
            "spec": {"scalableRef": {"kind": "Deployment", "name": "web"}, "percentage": 20, "limits": {"cpu": "4"}},
            "status": {"replicas": 3, "conditions": [
                {"type": "ReadyForProvisioning", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }));
        let view = buffer(&object).view;
        let reference =
            BufferReference::Scalable { group: String::new(), kind: "Deployment".into(), name: "web".into() };
        assert_eq!(view.reference, Some(reference));
        assert_eq!((view.replicas, view.percentage, view.desired, view.ready), (None, Some(20), Some(3), true));
        assert_eq!(view.limits.to_string(), "cpu: 4");
        let odd: CapacityBuffer = read(json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": {"name": "b"},
            "spec": {"replicas": -4, "podTemplateRef": {"name": "t"}, "limits": {"cpu": "lots"}},
        }));
        let converted = buffer(&odd);
        assert_eq!((converted.view.replicas, converted.view.ready), (Some(0), false));
        assert!(converted.problems[0].to_string().starts_with("CapacityBuffer/b spec.limits[cpu]: "));
    }
}
