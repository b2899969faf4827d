//! The pods of a machine: started when bound, ready after a while, ended when deleted or done.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use karpenter_model::duration::GoDuration;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::node::address;
use super::{Host, Kubelets};
use crate::cluster::{Cluster, Outcome, Queue, Requeue, key_of};

/// How long it takes at least until a pod is gone: time passes between any two things, also where nothing has to end. Without
/// it somebody who sees nodes late could place pods on a node that is drained, and would never come to see the taint.
const MOMENT: Duration = Duration::from_secs(1);

/// What is remembered of pods, by their uid.
#[derive(Debug, Default)]
struct Remembered {
    /// In which boot of its machine a pod's containers were started.
    boots: BTreeMap<String, String>,
    /// When pods were first seen to be on their way out.
    leaving: BTreeMap<String, Timestamp>,
}

type Started = Mutex<Remembered>;

fn lock(started: &Started) -> MutexGuard<'_, Remembered> {
    started.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) async fn run(kubelets: &Kubelets) {
    let queue = Arc::<Queue>::default();
    let fleet_queue = Arc::<Queue>::default();
    kubelets.fleet.wake(&fleet_queue);
    kubelets.cluster.wake_self::<Pod>(&queue);
    kubelets.cluster.wake::<Node>(&queue, |cluster, node| pods_on(cluster, &node.name_any()));
    kubelets
        .cluster
        .wake::<VolumeAttachment>(&queue, |cluster, attachment| pods_on(cluster, &attachment.spec.node_name));
    kubelets.cluster.synced().await;
    let (queue, started) = (&queue, &Started::default());
    tokio::join!(
        queue.work("kubelet-pods", |key| async move { reconcile(kubelets, started, &key).await }),
        // A machine that changed concerns all of its pods.
        fleet_queue.work("kubelet-fleet", |id| async move {
            if let Some(machine) = kubelets.fleet.get(&id) {
                for pod in kubelets.cluster.pods_on(&machine.node_name) {
                    queue.add(key_of(pod.as_ref()));
                }
            }
            Ok(Requeue::OnChange)
        }),
    );
}

/// Only pods that have something to wait for; nodes change often.
fn pods_on(cluster: &Cluster, node: &str) -> Vec<String> {
    let pods = cluster.pods_on(node);
    let settled = |pod: &Pod| phase(pod) == "Running" && is_ready(pod) && pod.metadata.deletion_timestamp.is_none();
    pods.iter().filter(|pod| !settled(pod)).map(|pod| key_of(pod.as_ref())).collect()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending")
}

fn is_ready(pod: &Pod) -> bool {
    crate::workloads::is_ready(pod)
}

async fn reconcile(kubelets: &Kubelets, started: &Started, key: &str) -> Outcome {
    let now = kubelets.cluster.now();
    let Some(pod) = kubelets.cluster.get::<Pod>(key) else { return Ok(Requeue::OnChange) };
    let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else { return Ok(Requeue::OnChange) };
    let Some(host) = kubelets.host(&node) else { return Ok(Requeue::OnChange) };
    if !host.is_up(now) {
        // A restart ends by itself; anything else is told by the fleet.
        let down = match &host {
            Host::Machine(machine) if machine.on => machine.down_until.and_then(|until| left(until, now)),
            _ => None,
        };
        return Ok(down.map_or(Requeue::OnChange, Requeue::After));
    }
    if kubelets.cluster.get::<Node>(&node).is_none() {
        return Ok(Requeue::OnChange);
    }
    if pod.metadata.deletion_timestamp.is_some() {
        return end(kubelets, started, &pod).await;
    }
    match phase(&pod) {
        "Pending" => start(kubelets, started, &host, &pod, &node).await,
        "Running" => run_on(kubelets, started, &host, &pod).await,
        _ => Ok(Requeue::OnChange),
    }
}

fn left(at: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(at.duration_since(now)).ok().filter(|left| !left.is_zero())
}

fn after(since: Timestamp, pause: Duration) -> Timestamp {
    since.checked_add(SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX)).unwrap_or(Timestamp::MAX)
}

/// What the pod says about itself in an annotation.
fn told(pod: &Pod, what: &str) -> Option<Duration> {
    let text = pod.annotations().get(&format!("sim.karpenter.sh/{what}"))?;
    let duration: GoDuration = text.parse().ok()?;
    duration.as_signed().try_into().ok()
}

fn condition_time(pod: &Pod, type_: &str) -> Option<Timestamp> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == type_ && condition.status == "True")?;
    Some(condition.last_transition_time.as_ref()?.0)
}

/// Containers end by themselves after a while, and at the latest when the grace period does.
async fn end(kubelets: &Kubelets, started: &Started, pod: &Pod) -> Outcome {
    let cluster = &kubelets.cluster;
    let Some(deadline) = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0) else {
        return Ok(Requeue::OnChange);
    };
    let grace =
        Duration::from_secs(u64::try_from(pod.metadata.deletion_grace_period_seconds.unwrap_or(0)).unwrap_or(0));
    let asked = deadline.checked_sub(SignedDuration::try_from(grace).unwrap_or_default()).unwrap_or(deadline);
    let takes =
        told(pod, "stops-after").unwrap_or_else(|| kubelets.drawn(kubelets.pace.stop, &["stop", &pod.name_any()]));
    // Containers that never ran have nothing to end.
    let takes = if phase(pod) == "Running" { takes.min(grace) } else { Duration::ZERO };
    let (uid, now) = (pod.uid().unwrap_or_default(), cluster.now());
    // What the API says of when it was asked is in whole seconds.
    let seen = *lock(started).leaving.entry(uid.clone()).or_insert(now);
    if let Some(wait) = left(after(asked, takes).max(after(seen, MOMENT)), now) {
        return Ok(Requeue::After(wait));
    }
    lock(started).boots.remove(&uid);
    cluster.delete(pod, Some(0)).await?;
    lock(started).leaving.remove(&uid);
    Ok(Requeue::OnChange)
}

async fn start(kubelets: &Kubelets, started: &Started, host: &Host, pod: &Pod, node: &str) -> Outcome {
    let cluster = &kubelets.cluster;
    if !volumes_attached(cluster, pod, node) {
        // The attachment wakes us; the pause makes up for one that we have not seen.
        return Ok(Requeue::After(Duration::from_secs(5)));
    }
    let created = pod.metadata.creation_timestamp.as_ref().map_or(cluster.now(), |time| time.0);
    let bound = condition_time(pod, "PodScheduled").unwrap_or(created);
    let takes =
        told(pod, "starts-after").unwrap_or_else(|| kubelets.drawn(kubelets.pace.start, &["start", &pod.name_any()]));
    if let Some(wait) = left(after(bound, takes), cluster.now()) {
        return Ok(Requeue::After(wait));
    }
    lock(started).boots.insert(pod.uid().unwrap_or_default(), host.boot_id().to_owned());
    let ready = told(pod, "ready-after").is_none_or(|pause| pause.is_zero());
    let mut status = running(pod, cluster, ready, 0);
    status["hostIP"] = json!(address(node));
    status["hostIPs"] = json!([{"ip": address(node)}]);
    status["podIP"] = json!(address(&key_of(pod)));
    status["podIPs"] = json!([{"ip": address(&key_of(pod))}]);
    status["startTime"] = json!(cluster.time());
    cluster.patch_status(pod, status).await?;
    Ok(Requeue::OnChange)
}

/// Readiness, restarts and the end of pods that end.
async fn run_on(kubelets: &Kubelets, started: &Started, host: &Host, pod: &Pod) -> Outcome {
    let cluster = &kubelets.cluster;
    let now = cluster.now();
    let uid = pod.uid().unwrap_or_default();
    let boot = host.boot_id().to_owned();
    let before = lock(started).boots.insert(uid, boot.clone());
    let restarts = restarts(pod);
    if before.is_some_and(|before| before != boot) {
        cluster.patch_status(pod, running(pod, cluster, true, restarts + 1)).await?;
        return Ok(Requeue::OnChange);
    }
    let since = pod.status.as_ref().and_then(|status| status.start_time.as_ref()).map_or(now, |time| time.0);
    if !is_ready(pod) {
        match left(after(since, told(pod, "ready-after").unwrap_or_default()), now) {
            Some(wait) => return Ok(Requeue::After(wait)),
            None => drop(cluster.patch_status(pod, running(pod, cluster, true, restarts)).await?),
        }
    }
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
    if policy == "Always" {
        return Ok(Requeue::OnChange);
    }
    let runs = told(pod, "runs-for").unwrap_or(kubelets.pace.run);
    if let Some(wait) = left(after(since, runs), now) {
        return Ok(Requeue::After(wait));
    }
    let fails = pod.annotations().contains_key("sim.karpenter.sh/fails");
    cluster.patch_status(pod, ended(pod, cluster, if fails { "Failed" } else { "Succeeded" })).await?;
    Ok(Requeue::OnChange)
}

fn restarts(pod: &Pod) -> i32 {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.map(|status| status.restart_count).max().unwrap_or(0)
}

/// Every volume from a claim is there, and attached where it has to be.
fn volumes_attached(cluster: &Cluster, pod: &Pod, node: &str) -> bool {
    let namespace = pod.namespace().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let claims = volumes.filter_map(|volume| Some(&volume.persistent_volume_claim.as_ref()?.claim_name));
    claims.into_iter().all(|name| {
        let claim = cluster.get::<PersistentVolumeClaim>(&format!("{namespace}/{name}"));
        let volume = claim.and_then(|claim| claim.spec.as_ref()?.volume_name.clone());
        let Some(volume) = volume.and_then(|name| cluster.get::<PersistentVolume>(&name)) else { return false };
        let needs_attaching = volume.spec.as_ref().is_some_and(|spec| spec.csi.is_some());
        !needs_attaching
            || cluster.all::<VolumeAttachment>().iter().any(|attachment| {
                attachment.spec.node_name == node
                    && attachment.spec.source.persistent_volume_name.as_deref() == Some(&volume.name_any())
                    && attachment.status.as_ref().is_some_and(|status| status.attached)
            })
    })
}

/// Conditions keep the time of their last change.
fn conditions(pod: &Pod, cluster: &Cluster, wanted: &[(&str, bool)]) -> Value {
    let known = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let mut all: Vec<Value> = Vec::new();
    for (type_, holds) in wanted {
        let status = if *holds { "True" } else { "False" };
        let before = known.iter().find(|condition| condition.type_ == *type_ && condition.status == status);
        let since: Option<Time> = before.and_then(|before| before.last_transition_time.clone());
        all.push(json!({
            "type": type_, "status": status, "lastTransitionTime": since.unwrap_or_else(|| cluster.time()),
        }));
    }
    let others = known.iter().filter(|condition| !wanted.iter().any(|(type_, _)| *type_ == condition.type_));
    all.extend(others.map(|condition| json!(condition)));
    json!(all)
}

fn containers(pod: &Pod, state: &Value, ready: bool, restarts: i32) -> Value {
    let specs = pod.spec.iter().flat_map(|spec| spec.containers.iter());
    let statuses = specs.map(|container| {
        json!({
            "name": container.name, "image": container.image.as_deref().unwrap_or("none"), "imageID": "", "ready": ready,
            "started": ready, "restartCount": restarts, "state": state,
        })
    });
    statuses.collect()
}

fn running(pod: &Pod, cluster: &Cluster, ready: bool, restarts: i32) -> Value {
    let all = [
        ("PodReadyToStartContainers", true),
        ("Initialized", true),
        ("Ready", ready),
        ("ContainersReady", ready),
        ("PodScheduled", true),
    ];
    json!({
        "phase": "Running", "conditions": conditions(pod, cluster, &all),
        "containerStatuses": containers(pod, &json!({"running": {"startedAt": cluster.time()}}), ready, restarts),
    })
}

fn ended(pod: &Pod, cluster: &Cluster, phase: &str) -> Value {
    let all = [("Ready", false), ("ContainersReady", false)];
    let (code, reason) = if phase == "Failed" { (1, "Error") } else { (0, "Completed") };
    let state = json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": cluster.time()}});
    json!({
        "phase": phase, "conditions": conditions(pod, cluster, &all),
        "containerStatuses": containers(pod, &state, false, restarts(pod)),
    })
}
