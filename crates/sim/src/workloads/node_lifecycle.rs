//! Notices nodes that have gone silent, and taints nodes by their conditions.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};
use kube::ResourceExt as _;
use serde_json::json;

use super::Patience;
use super::pods;
use crate::cluster::{Cluster, Outcome, Requeue, split};

const PREFIX: &str = "node.kubernetes.io/";

pub(super) async fn run(cluster: &Cluster, patience: Patience) {
    let queue = super::queue();
    cluster.wake_self::<Node>(&queue);
    // Not on every renewal: the next look is set for when the lease would have run out.
    cluster.wake::<Lease>(&queue, |cluster, lease| {
        let name = lease.name_any();
        let silent = cluster.get::<Node>(&name).is_some_and(|node| ready(&node).is_some_and(|c| c.status == "Unknown"));
        if silent && lease.namespace().as_deref() == Some("kube-node-lease") { vec![name] } else { vec![] }
    });
    cluster.synced().await;
    queue.work("node-lifecycle", |key| async move { reconcile(cluster, patience, split(&key).1).await }).await;
}

async fn reconcile(cluster: &Cluster, patience: Patience, name: &str) -> Outcome {
    let Some(node) = cluster.get::<Node>(name) else { return Ok(Requeue::OnChange) };
    let heard = last_heard(cluster, &node);
    let limit = heard.checked_add(SignedDuration::try_from(patience.heartbeat).unwrap_or_default());
    let limit = limit.unwrap_or(Timestamp::MAX);
    let mut node = node;
    let silent = cluster.now() >= limit;
    if silent && let Some(marked) = mark_unknown(cluster, &node).await? {
        node = marked;
    }
    let wanted = wanted_taints(&node, cluster.now());
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    if !same_taints(&taints, &wanted) {
        let patch = json!({
            "metadata": {"resourceVersion": node.resource_version()},
            "spec": {"taints": wanted},
        });
        cluster.patch(node.as_ref(), patch).await?;
    }
    if silent {
        return Ok(Requeue::OnChange);
    }
    let wait: Duration = limit.duration_since(cluster.now()).try_into().unwrap_or_default();
    Ok(Requeue::After(wait.max(Duration::from_secs(1))))
}

fn ready(node: &Node) -> Option<&NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == "Ready")
}

/// The lease, or the last status, or the birth of a node that has said nothing yet.
fn last_heard(cluster: &Cluster, node: &Node) -> Timestamp {
    let lease = cluster.get::<Lease>(&format!("kube-node-lease/{}", node.name_any()));
    let renewed = lease.and_then(|lease| Some(lease.spec.as_ref()?.renew_time.as_ref()?.0));
    let beat = ready(node).and_then(|ready| Some(ready.last_heartbeat_time.as_ref()?.0));
    let born = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
    [renewed, beat, born].into_iter().flatten().max().unwrap_or_else(|| cluster.now())
}

const OF_KUBELET: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

async fn mark_unknown(cluster: &Cluster, node: &Node) -> Result<Option<Arc<Node>>, kube::Error> {
    if ready(node).is_some_and(|ready| ready.status == "Unknown") {
        return Ok(None);
    }
    let mut conditions = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    if !conditions.iter().any(|condition| condition.type_ == "Ready") {
        conditions.push(NodeCondition { type_: "Ready".to_owned(), ..NodeCondition::default() });
    }
    for condition in conditions.iter_mut().filter(|c| OF_KUBELET.contains(&&*c.type_)) {
        "Unknown".clone_into(&mut condition.status);
        condition.reason = Some("NodeStatusUnknown".to_owned());
        condition.message = Some("Kubelet stopped posting node status.".to_owned());
        condition.last_transition_time = Some(cluster.time());
    }
    let marked = cluster.patch_status(node, json!({"conditions": conditions})).await?;
    for pod in cluster.pods_on(&node.name_any()) {
        mark_pod_not_ready(cluster, &pod).await?;
    }
    Ok(marked)
}

async fn mark_pod_not_ready(cluster: &Cluster, pod: &Pod) -> Result<(), kube::Error> {
    if !pods::is_ready(pod) {
        return Ok(());
    }
    let mut conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    for condition in conditions.iter_mut().filter(|condition| condition.type_ == "Ready") {
        "False".clone_into(&mut condition.status);
        condition.reason = Some("NodeNotReady".to_owned());
        condition.last_transition_time = Some(cluster.time());
    }
    cluster.patch_status(pod, json!({"conditions": conditions})).await?;
    Ok(())
}

/// The node's taints with those that follow from its conditions, and without those that no longer do.
fn wanted_taints(node: &Node, now: Timestamp) -> Vec<Taint> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let has = |type_: &str, status: &str| conditions.iter().any(|c| c.type_ == type_ && c.status == status);
    let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
    let (down, silent) = (has("Ready", "False"), has("Ready", "Unknown"));
    let table = [
        ("not-ready", "NoSchedule", down),
        ("unreachable", "NoSchedule", silent),
        ("memory-pressure", "NoSchedule", has("MemoryPressure", "True")),
        ("disk-pressure", "NoSchedule", has("DiskPressure", "True")),
        ("pid-pressure", "NoSchedule", has("PIDPressure", "True")),
        ("network-unavailable", "NoSchedule", has("NetworkUnavailable", "True")),
        ("unschedulable", "NoSchedule", unschedulable),
        ("not-ready", "NoExecute", down),
        ("unreachable", "NoExecute", silent),
    ];
    let mut taints = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    for (name, effect, wanted) in table {
        let key = format!("{PREFIX}{name}");
        let known = taints.iter().position(|taint| taint.key == key && taint.effect == effect);
        match (known, wanted) {
            (Some(index), false) => drop(taints.remove(index)),
            (None, true) => {
                let time_added = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now));
                taints.push(Taint { key, effect: effect.to_owned(), time_added, value: None });
            }
            _ => {}
        }
    }
    taints
}

fn same_taints(a: &[Taint], b: &[Taint]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.key == b.key && a.effect == b.effect)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_follow_conditions() {
        let shown = |ready: &str, taints: serde_json::Value| -> Vec<String> {
            let node = serde_json::from_value(json!({
                "metadata": {"name": "n"}, "spec": {"taints": taints},
                "status": {"conditions": [{"type": "Ready", "status": ready}, {"type": "DiskPressure", "status": "True"}]},
            }));
            let taints = wanted_taints(&node.unwrap(), Timestamp::UNIX_EPOCH);
            taints.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
        };
        let own = json!([{"key": "mine", "effect": "NoSchedule"}]);
        assert_eq!(shown("True", own.clone()), ["mine:NoSchedule", "node.kubernetes.io/disk-pressure:NoSchedule"]);
        assert_eq!(
            shown("Unknown", own),
            [
                "mine:NoSchedule",
                "node.kubernetes.io/unreachable:NoSchedule",
                "node.kubernetes.io/disk-pressure:NoSchedule",
                "node.kubernetes.io/unreachable:NoExecute",
            ]
        );
        let was_down = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]);
        assert_eq!(shown("True", was_down), ["node.kubernetes.io/disk-pressure:NoSchedule"]);
    }
}
