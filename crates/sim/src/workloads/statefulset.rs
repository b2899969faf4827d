//! Keeps the numbered pods of a StatefulSet, one after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, Volume};
use kube::ResourceExt as _;
use serde_json::json;

use super::deployment::differs;
use super::pods::{self, PodName, controller_key, pod_from, template_hash};
use crate::cluster::{Cluster, Outcome, Requeue, is_already_there};

const REVISION: &str = "controller-revision-hash";

pub(super) async fn run(cluster: &Cluster) {
    let queue = super::queue();
    cluster.wake_self::<StatefulSet>(&queue);
    cluster.wake::<Pod>(&queue, |_, pod| controller_key(pod, "StatefulSet").into_iter().collect());
    cluster.synced().await;
    queue.work("statefulset", |key| async move { reconcile(cluster, &key).await }).await;
}

/// What to do next; with ordered pods there is one thing at a time.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Create(i32),
    /// A finished pod, or one of an old revision, makes room for its successor.
    Remove(i32),
}

async fn reconcile(cluster: &Cluster, key: &str) -> Outcome {
    let Some(set) = cluster.get::<StatefulSet>(key) else { return Ok(Requeue::OnChange) };
    if set.metadata.deletion_timestamp.is_some() {
        return Ok(Requeue::OnChange);
    }
    let (Some(spec), Some(uid)) = (&set.spec, set.uid()) else { return Ok(Requeue::OnChange) };
    let revision = format!("{}-{}", set.name_any(), template_hash(&spec.template));
    let pods: BTreeMap<i32, Arc<Pod>> =
        cluster.pods_of(&uid).into_iter().filter_map(|pod| Some((ordinal(&pod)?, pod))).collect();
    for step in steps(spec, &revision, &pods) {
        match step {
            Step::Create(number) => create_pod(cluster, &set, spec, number, &revision).await?,
            Step::Remove(number) => {
                if let Some(pod) = pods.get(&number) {
                    cluster.delete(pod.as_ref(), None).await?;
                }
            }
        }
    }
    write_status(cluster, &set, spec, &revision).await
}

fn ordinal(pod: &Pod) -> Option<i32> {
    pod.name_any().rsplit_once('-')?.1.parse().ok()
}

fn steps(spec: &StatefulSetSpec, revision: &str, pods: &BTreeMap<i32, Arc<Pod>>) -> Vec<Step> {
    let first = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    let wanted = first..first + spec.replicas.unwrap_or(1);
    let one_by_one = spec.pod_management_policy.as_deref() != Some("Parallel");
    let mut steps = Vec::new();
    for number in wanted.clone() {
        match pods.get(&number) {
            None => steps.push(Step::Create(number)),
            Some(pod) if pods::is_finished(pod) && !pods::is_deleting(pod) => steps.push(Step::Remove(number)),
            Some(pod) if pods::is_deleting(pod) || !pods::is_ready(pod) => {
                // The next one waits for this one.
                if one_by_one {
                    return steps;
                }
                continue;
            }
            Some(_) => continue,
        }
        if one_by_one {
            return steps;
        }
    }
    // The highest numbers go first, and each one only when the one above it is gone.
    for (number, pod) in pods.iter().rev().filter(|(number, _)| !wanted.contains(number)) {
        if pods::is_deleting(pod) {
            if one_by_one {
                return steps;
            }
            continue;
        }
        steps.push(Step::Remove(*number));
        if one_by_one {
            return steps;
        }
    }
    if steps.is_empty() {
        steps.extend(outdated(spec, revision, pods, wanted));
    }
    steps
}

/// The highest pod of an old revision, once all above it are well.
fn outdated(
    spec: &StatefulSetSpec,
    revision: &str,
    pods: &BTreeMap<i32, Arc<Pod>>,
    wanted: std::ops::Range<i32>,
) -> Option<Step> {
    let strategy = spec.update_strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete") {
        return None;
    }
    let partition = strategy.and_then(|s| s.rolling_update.as_ref()?.partition).unwrap_or(0);
    for number in wanted.rev().filter(|number| *number >= partition) {
        let pod = pods.get(&number)?;
        if pod.labels().get(REVISION).map(String::as_str) != Some(revision) {
            return (!pods::is_deleting(pod)).then_some(Step::Remove(number));
        }
        if pods::is_deleting(pod) || !pods::is_ready(pod) {
            return None;
        }
    }
    None
}

async fn create_pod(
    cluster: &Cluster,
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    number: i32,
    revision: &str,
) -> Result<(), kube::Error> {
    let name = format!("{}-{number}", set.name_any());
    let mut pod = pod_from(set, &spec.template, PodName::Exactly(name.clone()));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.extend(
        [
            ("statefulset.kubernetes.io/pod-name", name.clone()),
            ("apps.kubernetes.io/pod-index", number.to_string()),
            (REVISION, revision.to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname = Some(name.clone());
    pod_spec.subdomain.clone_from(&spec.service_name);
    let volumes = pod_spec.volumes.get_or_insert_default();
    for template in spec.volume_claim_templates.iter().flatten() {
        let claim = claim_for(set, template, &name);
        volumes.retain(|volume| volume.name != template.name_any());
        volumes.push(Volume {
            name: template.name_any(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.name_any(),
                read_only: None,
            }),
            ..Volume::default()
        });
        match cluster.create(&claim).await {
            Err(error) if !is_already_there(&error) => return Err(error),
            _ => {}
        }
    }
    match cluster.create(&pod).await {
        Err(error) if !is_already_there(&error) => Err(error),
        _ => Ok(()),
    }
}

/// Outlives the pod and the set, unless somebody asks for its end.
fn claim_for(set: &StatefulSet, template: &PersistentVolumeClaim, pod: &str) -> PersistentVolumeClaim {
    let mut claim = template.clone();
    claim.metadata.name = Some(format!("{}-{pod}", template.name_any()));
    claim.metadata.namespace = set.namespace();
    let selector = set.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone()).unwrap_or_default();
    claim.metadata.labels.get_or_insert_default().extend(selector);
    claim.status = None;
    claim
}

async fn write_status(cluster: &Cluster, set: &StatefulSet, spec: &StatefulSetSpec, revision: &str) -> Outcome {
    let uid = set.uid().unwrap_or_default();
    let all: Vec<Arc<Pod>> = cluster.pods_of(&uid).into_iter().filter(|pod| !pods::is_finished(pod)).collect();
    let active: Vec<Arc<Pod>> = all.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
    let (ready, available, next) =
        super::replicaset::readiness(&active, spec.min_ready_seconds.unwrap_or(0), cluster.now());
    let updated = active.iter().filter(|pod| pod.labels().get(REVISION).is_some_and(|r| r == revision)).count();
    let done = updated == active.len() && i32::try_from(updated).ok() == spec.replicas.or(Some(1));
    let before = set.status.as_ref().and_then(|status| status.current_revision.clone());
    let current = before.filter(|_| !done).unwrap_or_else(|| revision.to_owned());
    let status = json!({
        "observedGeneration": set.metadata.generation, "replicas": all.len(), "readyReplicas": ready,
        "availableReplicas": available, "currentReplicas": active.len() - updated + if done { updated } else { 0 },
        "updatedReplicas": updated, "currentRevision": current, "updateRevision": revision, "collisionCount": 0,
    });
    if differs(&serde_json::to_value(&set.status).unwrap_or_default(), &status) {
        cluster.patch_status(set, status).await?;
    }
    Ok(next.map_or(Requeue::OnChange, Requeue::After))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `0+` is ready, `0-` is not, `0x` is being deleted, `0!` failed, `0~` is ready and of an old revision.
    fn pods(text: &str) -> BTreeMap<i32, Arc<Pod>> {
        text.split_whitespace()
            .map(|entry| {
                let (number, state) = entry.split_at(entry.len() - 1);
                let (ready, phase) = match state {
                    "+" | "~" => ("True", "Running"),
                    "!" => ("False", "Failed"),
                    _ => ("False", "Running"),
                };
                let revision = if state == "~" { "old" } else { "new" };
                let mut pod = json!({
                    "metadata": {"name": format!("s-{number}"), "labels": {REVISION: revision}},
                    "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]},
                });
                if state == "x" {
                    pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                }
                (number.parse().unwrap(), Arc::new(serde_json::from_value(pod).unwrap()))
            })
            .collect()
    }

    #[test]
    fn one_thing_at_a_time() {
        use Step::{Create, Remove};
        let set = |replicas: i32, more: serde_json::Value| -> StatefulSetSpec {
            let mut spec = json!({"replicas": replicas, "selector": {}, "template": {}, "serviceName": "s"});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            serde_json::from_value(spec).unwrap()
        };
        let ordered = json!({});
        let parallel = json!({"podManagementPolicy": "Parallel"});
        let by_hand = json!({"updateStrategy": {"type": "OnDelete"}});
        let partly = json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}});
        for (replicas, more, there, want) in [
            (3, &ordered, "", vec![Create(0)]),
            (3, &ordered, "0-", vec![]),
            (3, &ordered, "0+", vec![Create(1)]),
            (3, &ordered, "0+ 2+", vec![Create(1)]),
            (3, &ordered, "0! 1+ 2+", vec![Remove(0)]),
            (3, &parallel, "1-", vec![Create(0), Create(2)]),
            (1, &ordered, "0+ 1+ 2+", vec![Remove(2)]),
            (1, &ordered, "0+ 1+ 2x", vec![]),
            (1, &parallel, "0+ 1+ 2+", vec![Remove(2), Remove(1)]),
            (3, &ordered, "0~ 1~ 2~", vec![Remove(2)]),
            (3, &ordered, "0~ 1~ 2-", vec![]),
            (3, &ordered, "0~ 1~ 2+", vec![Remove(1)]),
            (3, &by_hand, "0~ 1~ 2~", vec![]),
            (3, &partly, "0~ 1~ 2+", vec![]),
        ] {
            assert_eq!(steps(&set(replicas, more.clone()), "new", &pods(there)), want, "{there:?} of {replicas}");
        }
    }
}
