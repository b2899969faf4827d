//! Keeps a Deployment's ReplicaSets: one for its template, older ones on their way out.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::pods::{Rounding, controller_key, controller_ref, scaled, template_hash, with_label};
use crate::cluster::{Cluster, Outcome, Requeue, is_already_there};

const HASH: &str = "pod-template-hash";

pub(super) async fn run(cluster: &Cluster) {
    let queue = super::queue();
    cluster.wake_self::<Deployment>(&queue);
    cluster.wake::<ReplicaSet>(&queue, |_, set| controller_key(set, "Deployment").into_iter().collect());
    cluster.synced().await;
    queue.work("deployment", |key| async move { reconcile(cluster, &key).await }).await;
}

async fn reconcile(cluster: &Cluster, key: &str) -> Outcome {
    let Some(deployment) = cluster.get::<Deployment>(key) else { return Ok(Requeue::OnChange) };
    if deployment.metadata.deletion_timestamp.is_some() {
        return Ok(Requeue::OnChange);
    }
    let (Some(spec), Some(uid)) = (&deployment.spec, deployment.uid()) else { return Ok(Requeue::OnChange) };
    let mut sets = cluster.replica_sets_of(&uid);
    let newest = match sets.iter().position(|set| is_of(set, &spec.template)) {
        Some(index) => sets.remove(index),
        None if spec.paused == Some(true) => return write_status(cluster, &deployment, None, &sets).await,
        None => match create_set(cluster, &deployment, spec, &sets).await? {
            Some(created) => created,
            // Ours, but not seen yet: the watch will bring it.
            None => return Ok(Requeue::After(std::time::Duration::from_millis(100))),
        },
    };
    let mut newest = newest;
    let wanted = wanted_sizes(spec, &newest, &sets);
    for (set, size) in sets.iter_mut().chain([&mut newest]).zip(wanted) {
        if size != replicas(set)
            && let Some(scaled) = cluster.patch(set.as_ref(), json!({"spec": {"replicas": size}})).await?
        {
            *set = scaled;
        }
    }
    drop_history(cluster, spec, &sets).await?;
    write_status(cluster, &deployment, Some(&newest), &sets).await
}

fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn running(set: &ReplicaSet) -> i32 {
    set.status.as_ref().map_or(0, |status| status.replicas)
}

fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

/// Whether the set was made for this template: its own differs by the hash label only.
fn is_of(set: &ReplicaSet, template: &PodTemplateSpec) -> bool {
    let mut own = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    if let Some(labels) = own.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(HASH);
    }
    let (mut own, mut wanted) = (own, template.clone());
    for template in [&mut own, &mut wanted] {
        let metadata = template.metadata.get_or_insert_default();
        metadata.creation_timestamp = None;
        if metadata.labels.as_ref().is_some_and(std::collections::BTreeMap::is_empty) {
            metadata.labels = None;
        }
    }
    own == wanted
}

/// `None` when a set of that name is there already.
async fn create_set(
    cluster: &Cluster,
    deployment: &Deployment,
    spec: &DeploymentSpec,
    older: &[Arc<ReplicaSet>],
) -> Result<Option<Arc<ReplicaSet>>, kube::Error> {
    let hash = template_hash(&spec.template);
    let mut template = spec.template.clone();
    let metadata = template.metadata.get_or_insert_default();
    metadata.labels = Some(with_label(metadata.labels.take(), HASH, &hash));
    let labels = metadata.labels.clone();
    let mut selector = spec.selector.clone();
    selector.match_labels = Some(with_label(selector.match_labels.take(), HASH, &hash));
    let revision = older.iter().filter_map(|set| revision(set)).max().unwrap_or(0) + 1;
    // Alone it may have its size at once; beside others it grows as the strategy allows.
    let alone = older.iter().all(|set| replicas(set) == 0 && running(set) == 0);
    let set = ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name_any())),
            namespace: deployment.namespace(),
            labels,
            annotations: Some([(REVISION.to_owned(), revision.to_string())].into()),
            owner_references: Some(vec![controller_ref(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(if alone { spec.replicas.unwrap_or(1) } else { 0 }),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    };
    match cluster.create(&set).await {
        Ok(created) => Ok(Some(created)),
        Err(error) if is_already_there(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

const REVISION: &str = "deployment.kubernetes.io/revision";

fn revision(set: &ReplicaSet) -> Option<i64> {
    set.annotations().get(REVISION)?.parse().ok()
}

/// The sizes of the older sets and, last, of the newest one that the strategy allows now.
fn wanted_sizes(spec: &DeploymentSpec, newest: &ReplicaSet, older: &[Arc<ReplicaSet>]) -> Vec<i32> {
    let total = spec.replicas.unwrap_or(1);
    let strategy = spec.strategy.as_ref();
    if older.iter().all(|set| replicas(set) == 0 && running(set) == 0) {
        return older.iter().map(|_| 0).chain([total]).collect();
    }
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
        let gone = older.iter().all(|set| running(set) == 0);
        return older.iter().map(|_| 0).chain([if gone { total } else { replicas(newest) }]).collect();
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let surge = scaled(rolling.and_then(|r| r.max_surge.as_ref()), "25%", total, Rounding::Up);
    let mut missing = scaled(rolling.and_then(|r| r.max_unavailable.as_ref()), "25%", total, Rounding::Down);
    if surge == 0 && missing == 0 {
        missing = 1;
    }
    let old_size: i32 = older.iter().map(|set| replicas(set)).sum();
    let room = (total + surge - old_size - replicas(newest)).max(0);
    let newest_size = (replicas(newest) + room).min(total);
    if newest_size != replicas(newest) {
        return older.iter().map(|set| replicas(set)).chain([newest_size]).collect();
    }
    // One step at a time: old pods go only when the new set has grown as far as it may.
    let least = total - missing;
    let new_missing = replicas(newest) - available(newest);
    let mut spare = old_size + replicas(newest) - least - new_missing;
    let mut sizes: Vec<i32> = older.iter().map(|set| replicas(set)).collect();
    if spare > 0 {
        // Unavailable ones are no loss and go first.
        for (size, set) in sizes.iter_mut().zip(older) {
            let sick = (*size - available(set)).clamp(0, spare);
            *size -= sick;
            spare -= sick;
        }
        let all_available: i32 = older.iter().map(|set| available(set)).sum::<i32>() + available(newest);
        let mut healthy_spare = (all_available - least).max(0);
        for size in &mut sizes {
            let removed = healthy_spare.min(*size);
            *size -= removed;
            healthy_spare -= removed;
        }
    }
    sizes.into_iter().chain([newest_size]).collect()
}

async fn drop_history(cluster: &Cluster, spec: &DeploymentSpec, older: &[Arc<ReplicaSet>]) -> Result<(), kube::Error> {
    let keep = usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
    let mut done: Vec<_> = older.iter().filter(|set| replicas(set) == 0 && running(set) == 0).collect();
    done.sort_by_key(|set| revision(set));
    for set in done.iter().rev().skip(keep) {
        cluster.delete(set.as_ref(), None).await?;
    }
    Ok(())
}

async fn write_status(
    cluster: &Cluster,
    deployment: &Deployment,
    newest: Option<&Arc<ReplicaSet>>,
    older: &[Arc<ReplicaSet>],
) -> Outcome {
    let all = || older.iter().chain(newest);
    let total = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let replicas: i32 = all().map(|set| running(set)).sum();
    let ready: i32 = all().map(|set| set.status.as_ref().and_then(|s| s.ready_replicas).unwrap_or(0)).sum();
    let available: i32 = all().map(|set| available(set)).sum();
    let updated = newest.map_or(0, |set| running(set));
    let rolling = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref()?.rolling_update.as_ref());
    let missing = scaled(rolling.and_then(|r| r.max_unavailable.as_ref()), "25%", total, Rounding::Down);
    let enough = available >= total - missing;
    let complete = updated == total && available == total && replicas == total;
    let mut status = json!({
        "observedGeneration": deployment.metadata.generation,
        "replicas": replicas, "updatedReplicas": updated, "readyReplicas": ready, "availableReplicas": available,
        "unavailableReplicas": (total - available).max(0),
    });
    let conditions = [
        if enough {
            ("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("Available", "False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        },
        if complete {
            ("Progressing", "True", "NewReplicaSetAvailable", "ReplicaSet has successfully progressed.")
        } else {
            ("Progressing", "True", "ReplicaSetUpdated", "ReplicaSet is progressing.")
        },
    ];
    let known = serde_json::to_value(&deployment.status).unwrap_or_default();
    status["conditions"] = conditions.iter().map(|c| condition(&known, *c, cluster)).collect();
    if differs(&known, &status) {
        cluster.patch_status(deployment, status).await?;
    }
    Ok(Requeue::OnChange)
}

/// A condition keeps its times while it says the same.
fn condition(known: &Value, (type_, status, reason, message): (&str, &str, &str, &str), cluster: &Cluster) -> Value {
    let before = known["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == type_);
    let now = json!(cluster.time());
    let same = |member: &str, value: &str| before.is_some_and(|before| before[member] == value);
    let since = |unchanged: bool, member: &str| match before {
        Some(before) if unchanged => before[member].clone(),
        _ => now.clone(),
    };
    let (same_status, same_reason) = (same("status", status), same("reason", reason));
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since(same_status, "lastTransitionTime"),
        "lastUpdateTime": since(same_status && same_reason, "lastUpdateTime"),
    })
}

/// Whether writing `wanted` would change anything; a missing number is zero.
pub(super) fn differs(known: &Value, wanted: &Value) -> bool {
    let members = wanted.as_object().into_iter().flatten();
    members.into_iter().any(|(name, value)| match &known[name] {
        Value::Null => !(value.is_null() || value == &json!(0) || value == &json!([])),
        known => known != value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(replicas: i32, running: i32, available: i32) -> Arc<ReplicaSet> {
        let object = json!({
            "metadata": {"name": "s"},
            "spec": {"replicas": replicas, "selector": {}},
            "status": {"replicas": running, "availableReplicas": available},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn spec(replicas: i32, strategy: &Value) -> DeploymentSpec {
        let object = json!({"replicas": replicas, "selector": {}, "template": {}, "strategy": strategy});
        serde_json::from_value(object).unwrap()
    }

    /// A rollout never has more than the surge too many, nor more than the allowed number too few.
    #[test]
    fn rollouts_go_step_by_step() {
        let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
        let recreate = json!({"type": "Recreate"});
        for (name, strategy, newest, older, want) in [
            ("alone", &rolling, set(2, 2, 2), vec![], vec![4]),
            ("first the new ones", &rolling, set(0, 0, 0), vec![set(4, 4, 4)], vec![4, 1]),
            ("then one that may be missing", &rolling, set(1, 1, 0), vec![set(4, 4, 4)], vec![3, 1]),
            ("no further while none is ready", &rolling, set(2, 2, 0), vec![set(3, 3, 3)], vec![3, 2]),
            ("new ones ready", &rolling, set(2, 2, 2), vec![set(3, 3, 3)], vec![1, 2]),
            ("sick old ones go first", &rolling, set(1, 1, 1), vec![set(4, 4, 2)], vec![2, 1]),
            ("recreate waits", &recreate, set(0, 0, 0), vec![set(4, 4, 4)], vec![0, 0]),
            ("recreate still waits", &recreate, set(0, 0, 0), vec![set(0, 1, 0)], vec![0, 0]),
            ("recreate", &recreate, set(0, 0, 0), vec![set(0, 0, 0)], vec![0, 4]),
        ] {
            assert_eq!(wanted_sizes(&spec(4, strategy), &newest, &older), want, "{name}");
        }
    }
}
