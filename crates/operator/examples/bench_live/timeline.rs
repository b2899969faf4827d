//! Who took how long: what the API says about when things happened, and what each program of the control plane used.
//!
//! Read after the fact and from the kernel, so that looking does not slow down what is looked at.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use karpenter_api::kinds::NodeClaim;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};

use crate::process::cpu;

/// One line per kind of step: how many, and when the first, the middle and the last was, in seconds after `begun`. The API
/// rounds to seconds.
pub(crate) async fn steps(client: Client, begun: Timestamp) -> Result<Vec<String>> {
    let mut steps: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut note = |step: &str, at: Option<Timestamp>| {
        if let Some(at) = at {
            steps.entry(step.to_owned()).or_default().push(at.duration_since(begun).as_secs_f64());
        }
    };
    for pod in Api::<Pod>::default_namespaced(client.clone()).list(&ListParams::default()).await?.items {
        note("1 pod created", pod.creation_timestamp().map(|at| at.0));
        let status = pod.status.unwrap_or_default();
        let scheduled =
            status.conditions.iter().flatten().find(|one| one.type_ == "PodScheduled" && one.status == "True");
        note("7 pod bound", scheduled.and_then(|one| one.last_transition_time.as_ref()).map(|at| at.0));
        let running = status.container_statuses.iter().flatten().find_map(|one| one.state.as_ref()?.running.as_ref());
        note("8 pod runs", running.and_then(|one| one.started_at.as_ref()).map(|at| at.0));
    }
    let failed = ListParams::default().fields("reason=FailedScheduling");
    for event in Api::<Event>::default_namespaced(client.clone()).list(&failed).await?.items {
        let first = event.event_time.map(|at| at.0).or(event.first_timestamp.map(|at| at.0));
        note("2 pod found unschedulable", first);
    }
    for claim in Api::<NodeClaim>::all(client).list(&ListParams::default()).await?.items {
        note("3 claim created", claim.creation_timestamp().map(|at| at.0));
        for (step, type_) in [
            ("4 claim launched", "Launched"),
            ("5 claim registered", "Registered"),
            ("6 claim initialized", "Initialized"),
        ] {
            let mut conditions = claim.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let done = conditions.find(|one| one.type_ == type_ && one.is_true());
            note(step, done.map(|one| one.last_transition_time.0));
        }
    }
    let line = |(step, mut times): (String, Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        let at = |part: usize| times.get((times.len() - 1) * part / 10).copied().unwrap_or_default();
        let (first, tenth, half, ninetieth, last) = (at(0), at(1), at(5), at(9), at(10));
        format!("{step:<28}{:>5}  {first:>6.1}  {tenth:>6.1}  {half:>6.1}  {ninetieth:>6.1}  {last:>6.1}", times.len())
    };
    let head = "step                        count   first     10 %     half     90 %    last (s)".to_owned();
    Ok(std::iter::once(head).chain(steps.into_iter().map(line)).collect())
}

/// Processor seconds of each program that works in the folder, by name.
pub(crate) fn programs(folder: &Path) -> Result<BTreeMap<String, f64>> {
    let mut used = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        let Ok(line) = std::fs::read_to_string(entry.path().join("cmdline")) else { continue };
        let name = line.split('\0').next().and_then(|path| Path::new(path).file_name());
        let works_here = line.contains(&folder.display().to_string());
        if let Some(name) = name.filter(|_| works_here)
            && let Ok(seconds) = cpu(&pid)
        {
            *used.entry(name.to_string_lossy().into_owned()).or_default() += seconds;
        }
    }
    Ok(used)
}
