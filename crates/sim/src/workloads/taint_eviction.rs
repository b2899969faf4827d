//! Deletes pods from nodes with `NoExecute` taints, when their tolerations run out.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};

use super::pods;
use super::selection::tolerates;
use crate::cluster::{Cluster, Outcome, Requeue, key_of};

pub(super) async fn run(cluster: &Cluster) {
    let queue = super::queue();
    cluster.wake_self::<Pod>(&queue);
    cluster.wake::<Node>(&queue, |cluster, node| {
        let tainted = no_execute(node).next().is_some();
        let name = node.metadata.name.as_deref().unwrap_or_default();
        let pods = if tainted { cluster.pods_on(name) } else { vec![] };
        pods.iter().map(|pod| key_of(pod.as_ref())).collect()
    });
    cluster.synced().await;
    queue.work("taint-eviction", |key| async move { reconcile(cluster, &key).await }).await;
}

fn no_execute(node: &Node) -> impl Iterator<Item = &Taint> {
    node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).filter(|taint| taint.effect == "NoExecute")
}

async fn reconcile(cluster: &Cluster, key: &str) -> Outcome {
    let Some(pod) = cluster.get::<Pod>(key).filter(|pod| !pods::is_deleting(pod)) else { return Ok(Requeue::OnChange) };
    let Some(spec) = &pod.spec else { return Ok(Requeue::OnChange) };
    let Some(node) = spec.node_name.as_ref().and_then(|name| cluster.get::<Node>(name)) else {
        return Ok(Requeue::OnChange);
    };
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    match eviction(no_execute(&node), tolerations, cluster.now()) {
        Eviction::Never => Ok(Requeue::OnChange),
        Eviction::At(at) if at > cluster.now() => {
            let wait: Duration = at.duration_since(cluster.now()).try_into().unwrap_or_default();
            Ok(Requeue::After(wait))
        }
        Eviction::At(_) => {
            cluster.delete(pod.as_ref(), None).await?;
            Ok(Requeue::OnChange)
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Eviction {
    Never,
    At(Timestamp),
}

/// The shortest time that a matching toleration grants, from when its taint was put on.
fn eviction<'a>(taints: impl Iterator<Item = &'a Taint>, tolerations: &[Toleration], now: Timestamp) -> Eviction {
    let mut earliest: Option<Timestamp> = None;
    for taint in taints {
        let matching: Vec<&Toleration> = tolerations.iter().filter(|t| tolerates(t, taint)).collect();
        if matching.is_empty() {
            return Eviction::At(now);
        }
        let since = taint.time_added.as_ref().map_or(now, |time| time.0);
        if let Some(seconds) = matching.iter().filter_map(|toleration| toleration.toleration_seconds).min() {
            let end = since.checked_add(SignedDuration::from_secs(seconds.max(0))).unwrap_or(Timestamp::MAX);
            earliest = Some(earliest.map_or(end, |earliest| earliest.min(end)));
        }
    }
    earliest.map_or(Eviction::Never, Eviction::At)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_shortest_toleration_counts() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let taint = json!({"key": "k", "effect": "NoExecute", "timeAdded": "1970-01-01T00:00:10Z"});
        for (tolerations, want) in [
            (json!([]), Eviction::At(at(20))),
            (json!([{"key": "other", "operator": "Exists"}]), Eviction::At(at(20))),
            (json!([{"key": "k", "operator": "Exists"}]), Eviction::Never),
            (json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 300}]), Eviction::At(at(310))),
            (
                json!([{"operator": "Exists", "tolerationSeconds": 60}, {"key": "k", "operator": "Exists", "tolerationSeconds": 300}]),
                Eviction::At(at(70)),
            ),
        ] {
            let taint: Taint = serde_json::from_value(taint.clone()).unwrap();
            let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
            assert_eq!(eviction([&taint].into_iter(), &tolerations, at(20)), want);
        }
        assert_eq!(eviction([].into_iter(), &[], at(20)), Eviction::Never);
    }
}
