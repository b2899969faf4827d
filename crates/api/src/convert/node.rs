//! Nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeCondition as ApiCondition, Taint as ApiTaint};
use karpenter_model::claim::Status;
use karpenter_model::node::{NodeCondition, NodeView};
use karpenter_model::shared::Labels;
use karpenter_model::taints::{Effect, Taint};

use super::{Converted, Problems, created_at, deleting_since, has_finalizer, non_empty, resources};

pub fn node(node: &Node) -> Converted<NodeView> {
    let mut problems = Problems::new("Node", &node.metadata);
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let capacity =
        resources::amounts(&mut problems, "status.capacity", status.and_then(|status| status.capacity.as_ref()));
    let allocatable =
        resources::amounts(&mut problems, "status.allocatable", status.and_then(|status| status.allocatable.as_ref()));
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let view = NodeView {
        name: node.metadata.name.clone().unwrap_or_default(),
        uid: node.metadata.uid.clone().unwrap_or_default(),
        provider_id: non_empty(node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref())),
        created_at: created_at(&node.metadata),
        deleting_since: deleting_since(&node.metadata),
        has_finalizer: has_finalizer(&node.metadata),
        labels: node.metadata.labels.clone().unwrap_or_default().into(),
        annotations: about_us(node.metadata.annotations.as_ref()),
        taints: taints
            .into_iter()
            .flatten()
            .enumerate()
            .filter_map(|(index, t)| taint(&mut problems, index, t))
            .collect(),
        capacity: capacity.into(),
        allocatable: allocatable.into(),
        ready: conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        conditions: conditions.into_iter().flatten().map(condition).collect(),
        boot_id: status
            .and_then(|status| status.node_info.as_ref())
            .map(|info| info.boot_id.clone())
            .unwrap_or_default(),
    };
    Converted { view, problems: problems.found }
}

/// Kubelets, drivers and networks write others on every node, each its own, and nothing is decided by them.
fn about_us(annotations: Option<&BTreeMap<String, String>>) -> Labels {
    let ours = annotations.into_iter().flatten().filter(|(key, _)| key.contains("karpenter"));
    ours.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A status that nobody defined is an unknown one.
fn condition(condition: &ApiCondition) -> NodeCondition {
    NodeCondition {
        kind: condition.type_.clone(),
        status: match condition.status.as_str() {
            "True" => Status::True,
            "False" => Status::False,
            _ => Status::Unknown,
        },
        reason: condition.reason.clone().unwrap_or_default(),
        since: condition.last_transition_time.as_ref().map(|time| time.0),
    }
}

fn taint(problems: &mut Problems, index: usize, taint: &ApiTaint) -> Option<Taint> {
    let effect = Effect::parse(&taint.effect).ok_or_else(|| format!("unknown effect {:?}", taint.effect));
    let effect = problems.check(&format!("spec.taints[{index}].effect"), effect)?;
    Some(Taint::new(&taint.key, taint.value.as_deref().unwrap_or_default(), effect))
}

/// The way back, for taints that we write.
pub fn node_taint(taint: &Taint) -> ApiTaint {
    ApiTaint {
        key: taint.key.clone(),
        value: Some(taint.value.clone()).filter(|value| !value.is_empty()),
        effect: taint.effect.as_str().to_owned(),
        time_added: None,
    }
}
