//! Runs the pods of a Job until enough have succeeded.
//!
//! Finished pods are counted once and for good by the protocol of the real controller: a finalizer holds each pod until
//! its uid is in the status, and only then is it let go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::pods::{self, PodName, controller_key, pod_from};
use crate::cluster::{Cluster, Outcome, Requeue};

const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

pub(super) async fn run(cluster: &Cluster) {
    let queue = super::queue();
    cluster.wake_self::<Job>(&queue);
    cluster.wake::<Pod>(&queue, |_, pod| controller_key(pod, "Job").into_iter().collect());
    cluster.synced().await;
    queue.work("job", |key| async move { reconcile(cluster, &key).await }).await;
}

async fn reconcile(cluster: &Cluster, key: &str) -> Outcome {
    let Some(job) = cluster.get::<Job>(key) else { return Ok(Requeue::OnChange) };
    let (Some(spec), Some(uid)) = (&job.spec, job.uid()) else { return Ok(Requeue::OnChange) };
    let all = cluster.pods_of(&uid);
    if job.metadata.deletion_timestamp.is_some() || finished(&job) {
        release(cluster, &all, |_| true).await?;
        return clean_up(cluster, &job, spec).await;
    }
    // From here on by the pods as they were counted: one that ends meanwhile is neither active nor counted.
    let job = count_finished(cluster, &job, &all).await?;
    let status = job.status.clone().unwrap_or_default();
    let active: Vec<Arc<Pod>> = all.iter().filter(|pod| pods::is_active(pod)).cloned().collect();
    let deadline = deadline(spec, &status, cluster);
    match verdict(spec, &status, deadline == Some(Duration::ZERO)) {
        Verdict::Complete => {
            finish(cluster, &job, &active, ("Complete", "SuccessCriteriaMet", "CompletionsReached")).await
        }
        Verdict::Failed(reason) => finish(cluster, &job, &active, ("Failed", "FailureTarget", reason)).await,
        Verdict::Run(wanted) => {
            let active = resize(cluster, &job, spec, &all, active, wanted).await?;
            write_active(cluster, &job, &active).await?;
            Ok(deadline.map_or(Requeue::OnChange, Requeue::After))
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// As many pods should be running.
    Run(usize),
    Complete,
    Failed(&'static str),
}

fn verdict(spec: &JobSpec, status: &JobStatus, too_late: bool) -> Verdict {
    let parallelism = spec.parallelism.unwrap_or(1);
    let (succeeded, failed) = (status.succeeded.unwrap_or(0), status.failed.unwrap_or(0));
    if failed > spec.backoff_limit.unwrap_or(6) {
        return Verdict::Failed("BackoffLimitExceeded");
    }
    if too_late {
        return Verdict::Failed("DeadlineExceeded");
    }
    let wanted = match spec.completions {
        Some(completions) if succeeded >= completions => return Verdict::Complete,
        Some(completions) => parallelism.min(completions - succeeded),
        // A work queue: when one has found it empty, no new ones start.
        None if succeeded > 0 && status.active.unwrap_or(0) == 0 => return Verdict::Complete,
        None if succeeded > 0 => 0,
        None => parallelism,
    };
    Verdict::Run(usize::try_from(wanted).unwrap_or(0))
}

fn finished(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|c| matches!(&*c.type_, "Complete" | "Failed") && c.status == "True")
}

fn deadline(spec: &JobSpec, status: &JobStatus, cluster: &Cluster) -> Option<Duration> {
    let started = status.start_time.as_ref()?.0;
    let ends = started.checked_add(SignedDuration::from_secs(spec.active_deadline_seconds?)).ok()?;
    Some(Duration::try_from(ends.duration_since(cluster.now())).unwrap_or(Duration::ZERO))
}

/// Adds finished pods to the counters, together with their uids, then lets the pods go.
async fn count_finished(cluster: &Cluster, job: &Arc<Job>, all: &[Arc<Pod>]) -> Result<Arc<Job>, kube::Error> {
    let status = job.status.clone().unwrap_or_default();
    let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let known: BTreeSet<String> =
        uncounted.succeeded.iter().flatten().chain(uncounted.failed.iter().flatten()).cloned().collect();
    let held = |pod: &&Arc<Pod>| pod.finalizers().iter().any(|finalizer| finalizer == TRACKING);
    let fresh: Vec<&Arc<Pod>> =
        all.iter().filter(held).filter(|pod| !known.contains(&pod.uid().unwrap_or_default())).collect();
    let uids = |counts: &dyn Fn(&Pod) -> bool| -> Vec<String> {
        fresh.iter().filter(|pod| counts(pod)).filter_map(|pod| pod.uid()).collect()
    };
    let succeeded = uids(&|pod| pods::phase(pod) == "Succeeded");
    // A pod that is taken away before its end has failed.
    let failed = uids(&|pod| pods::phase(pod) == "Failed" || pods::is_deleting(pod) && pods::phase(pod) != "Succeeded");
    let mut job = job.clone();
    if !succeeded.is_empty() || !failed.is_empty() {
        let plus = |count: Option<i32>, uids: &[String]| count.unwrap_or(0) + i32::try_from(uids.len()).unwrap_or(0);
        let patch = json!({
            "succeeded": plus(status.succeeded, &succeeded), "failed": plus(status.failed, &failed),
            "uncountedTerminatedPods": {"succeeded": succeeded, "failed": failed},
        });
        match cluster.patch_status(job.as_ref(), patch).await? {
            Some(patched) => job = patched,
            None => return Ok(job),
        }
    }
    let counted: BTreeSet<String> = known.into_iter().chain(succeeded).chain(failed).collect();
    if !counted.is_empty() {
        release(cluster, all, |pod| counted.contains(&pod.uid().unwrap_or_default())).await?;
        let none = json!({"uncountedTerminatedPods": {"succeeded": [], "failed": []}});
        if let Some(patched) = cluster.patch_status(job.as_ref(), none).await? {
            job = patched;
        }
    }
    Ok(job)
}

async fn release(cluster: &Cluster, all: &[Arc<Pod>], which: impl Fn(&Pod) -> bool) -> Result<(), kube::Error> {
    for pod in all.iter().filter(|pod| which(pod) && pod.finalizers().iter().any(|f| f == TRACKING)) {
        let rest: Vec<&String> = pod.finalizers().iter().filter(|finalizer| *finalizer != TRACKING).collect();
        cluster.patch(pod.as_ref(), json!({"metadata": {"finalizers": rest}})).await?;
    }
    Ok(())
}

/// Starts or stops pods until as many run as wanted.
async fn resize(
    cluster: &Cluster,
    job: &Job,
    spec: &JobSpec,
    all: &[Arc<Pod>],
    mut active: Vec<Arc<Pod>>,
    wanted: usize,
) -> Result<Vec<Arc<Pod>>, kube::Error> {
    if active.len() > wanted {
        active.sort_by_key(|pod| (pods::is_ready(pod), pod.name_any()));
        let surplus = active.len() - wanted;
        for pod in active.drain(..surplus) {
            cluster.delete(pod.as_ref(), None).await?;
        }
    }
    let mut indexes = free_indexes(spec, all).into_iter();
    while active.len() < wanted {
        let mut pod = pod_from(job, &spec.template, PodName::StartingWith(format!("{}-", job.name_any())));
        pod.metadata.finalizers.get_or_insert_default().push(TRACKING.to_owned());
        let labels = pod.metadata.labels.get_or_insert_default();
        for key in ["batch.kubernetes.io/job-name", "job-name"] {
            labels.insert(key.to_owned(), job.name_any());
        }
        if spec.completion_mode.as_deref() == Some("Indexed") {
            let Some(index) = indexes.next() else { break };
            labels.insert(INDEX.to_owned(), index.to_string());
            pod.metadata.annotations.get_or_insert_default().insert(INDEX.to_owned(), index.to_string());
        }
        active.push(cluster.create(&pod).await?);
    }
    Ok(active)
}

/// Indexes that no pod works on or has done. A succeeded pod that was deleted leaves its index to be done again.
fn free_indexes(spec: &JobSpec, all: &[Arc<Pod>]) -> Vec<i32> {
    let taken = |pod: &&Arc<Pod>| pods::is_active(pod) || pods::phase(pod) == "Succeeded";
    let taken: BTreeSet<i32> =
        all.iter().filter(taken).filter_map(|pod| pod.annotations().get(INDEX)?.parse().ok()).collect();
    (0..spec.completions.unwrap_or(0)).filter(|index| !taken.contains(index)).collect()
}

async fn write_active(cluster: &Cluster, job: &Job, active: &[Arc<Pod>]) -> Result<(), kube::Error> {
    let status = job.status.clone().unwrap_or_default();
    let count = i32::try_from(active.len()).unwrap_or(i32::MAX);
    let ready = i32::try_from(active.iter().filter(|pod| pods::is_ready(pod)).count()).unwrap_or(i32::MAX);
    if status.start_time.is_some() && status.active.unwrap_or(0) == count && status.ready.unwrap_or(0) == ready {
        return Ok(());
    }
    let start = status.start_time.unwrap_or_else(|| cluster.time());
    cluster.patch_status(job, json!({"active": count, "ready": ready, "startTime": start})).await?;
    Ok(())
}

async fn finish(
    cluster: &Cluster,
    job: &Job,
    active: &[Arc<Pod>],
    (end, early, reason): (&str, &str, &str),
) -> Outcome {
    for pod in active {
        cluster.delete(pod.as_ref(), None).await?;
    }
    release(cluster, active, |_| true).await?;
    let now = cluster.time();
    let condition = |type_: &str| -> Value {
        json!({
            "type": type_, "status": "True", "reason": reason, "message": reason,
            "lastTransitionTime": now, "lastProbeTime": now,
        })
    };
    let start = job.status.as_ref().and_then(|status| status.start_time.clone()).unwrap_or_else(|| now.clone());
    let mut status = json!({
        "active": 0, "ready": 0, "terminating": 0, "startTime": start,
        "conditions": [condition(early), condition(end)],
    });
    if end == "Complete" {
        status["completionTime"] = json!(now);
    }
    cluster.patch_status(job, status).await?;
    Ok(Requeue::OnChange)
}

/// A finished job may ask to be removed after a while.
async fn clean_up(cluster: &Cluster, job: &Job, spec: &JobSpec) -> Outcome {
    let Some(ttl) = spec.ttl_seconds_after_finished.filter(|_| finished(job)) else { return Ok(Requeue::OnChange) };
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ended = conditions.filter_map(|condition| condition.last_transition_time.as_ref()).map(|time| time.0).max();
    let due = ended.and_then(|ended| ended.checked_add(SignedDuration::from_secs(i64::from(ttl))).ok());
    let Some(due) = due else { return Ok(Requeue::OnChange) };
    match Duration::try_from(due.duration_since(cluster.now())) {
        Ok(left) if !left.is_zero() => Ok(Requeue::After(left)),
        _ => {
            cluster.delete(job, None).await?;
            Ok(Requeue::OnChange)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        for (spec, status, late, want) in [
            (json!({"parallelism": 3, "completions": 5}), json!({}), false, Verdict::Run(3)),
            (json!({"parallelism": 3, "completions": 5}), json!({"succeeded": 4}), false, Verdict::Run(1)),
            (json!({"parallelism": 3, "completions": 5}), json!({"succeeded": 5}), false, Verdict::Complete),
            (json!({"parallelism": 3}), json!({"active": 3}), false, Verdict::Run(3)),
            (json!({"parallelism": 3}), json!({"active": 2, "succeeded": 1}), false, Verdict::Run(0)),
            (json!({"parallelism": 3}), json!({"succeeded": 3}), false, Verdict::Complete),
            (json!({"completions": 1, "backoffLimit": 2}), json!({"failed": 2}), false, Verdict::Run(1)),
            (
                json!({"completions": 1, "backoffLimit": 2}),
                json!({"failed": 3}),
                false,
                Verdict::Failed("BackoffLimitExceeded"),
            ),
            (json!({"completions": 1}), json!({}), true, Verdict::Failed("DeadlineExceeded")),
        ] {
            let mut spec = spec;
            spec["template"] = json!({});
            let (spec, status) = (serde_json::from_value(spec).unwrap(), serde_json::from_value(status).unwrap());
            assert_eq!(verdict(&spec, &status, late), want);
        }
    }
}
