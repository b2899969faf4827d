//! Taints and tolerations, and the node's `unschedulable`, which is a taint by another name.

use k8s_openapi::api::core::v1::{Taint, Toleration};

use super::{Filter, Refusal};
use crate::scheduler::cluster::NodeInfo;
use crate::scheduler::pod_info::PodInfo;

pub(super) fn unschedulable(pod: &PodInfo, node: &NodeInfo) -> Option<Refusal> {
    if !node.node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or_default() {
        return None;
    }
    let (key, effect) = ("node.kubernetes.io/unschedulable".to_owned(), "NoSchedule".to_owned());
    let taint = Taint { key, effect, ..Taint::default() };
    (!tolerated(pod, &taint)).then(|| Refusal::lasting(Filter::NodeUnschedulable, "node(s) were unschedulable"))
}

pub(super) fn untolerated(pod: &PodInfo, node: &NodeInfo) -> Option<Refusal> {
    has_untolerated(pod, node).then(|| Refusal::lasting(Filter::TaintToleration, "node(s) had untolerated taint(s)"))
}

pub(super) fn has_untolerated(pod: &PodInfo, node: &NodeInfo) -> bool {
    taints(node).any(|t| matches!(t.effect.as_str(), "NoSchedule" | "NoExecute") && !tolerated(pod, t))
}

/// How many taints ask the pod to stay away without insisting.
pub(in crate::scheduler) fn untolerated_preferences(pod: &PodInfo, node: &NodeInfo) -> usize {
    taints(node).filter(|t| t.effect == "PreferNoSchedule" && !tolerated(pod, t)).count()
}

fn taints(node: &NodeInfo) -> impl Iterator<Item = &Taint> {
    node.node.spec.iter().flat_map(|s| s.taints.iter().flatten())
}

fn tolerated(pod: &PodInfo, taint: &Taint) -> bool {
    let mut tolerations = pod.pod.spec.iter().flat_map(|s| s.tolerations.iter().flatten());
    tolerations.any(|t| tolerates(t, taint))
}

/// An empty effect or key stands for any. `Gt` and `Lt` match nothing: their feature is off by default in 1.35.
fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    fn given(text: Option<&String>) -> &str {
        text.map_or("", String::as_str)
    }
    let any_or = |text: &str, wanted: &str| text.is_empty() || text == wanted;
    any_or(given(toleration.effect.as_ref()), &taint.effect)
        && any_or(given(toleration.key.as_ref()), &taint.key)
        && match given(toleration.operator.as_ref()) {
            "" | "Equal" => given(toleration.value.as_ref()) == given(taint.value.as_ref()),
            "Exists" => true,
            _ => false,
        }
}
