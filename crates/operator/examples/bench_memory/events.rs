//! From the bytes of a watch event to the updated index, in this process: what one event costs and which part of it is what.

use std::time::Instant;

use anyhow::{Context as _, Result};
use karpenter_controllers::watches::{PodClasses, PodObject};
use karpenter_model::labels::LabelRules;
use karpenter_state::{Change, ClusterState};
use kube::core::WatchEvent;

use crate::cluster::Cluster;
use crate::say;

const NODES: usize = 10_000;

pub(crate) fn measure(count: usize) -> Result<()> {
    let cluster = Cluster { nodes: NODES, pods: NODES * 30 };
    let (classes, rules) = (PodClasses::default(), LabelRules::core());
    let mut state = ClusterState::default();
    for number in 0..cluster.pods {
        let object: PodObject = serde_json::from_str(&cluster.pod(number, 0))?;
        let pod = classes.read(&object, &rules).map_err(anyhow::Error::msg)?;
        state.apply(Change::Pod(pod.view));
    }
    let lines: Vec<String> = (0..count)
        .map(|number| {
            let object = cluster.pod(number.wrapping_mul(7919) % cluster.pods, 1);
            format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}")
        })
        .collect();
    let bytes: usize = lines.iter().map(String::len).sum();
    let (mut decoding, mut classing, mut indexing) = (0.0, 0.0, 0.0);
    for line in &lines {
        let start = Instant::now();
        let event: WatchEvent<PodObject> = serde_json::from_str(line)?;
        let decoded = Instant::now();
        let WatchEvent::Modified(object) = event else { continue };
        let pod = classes.read(&object, &rules).map_err(anyhow::Error::msg)?;
        let classed = Instant::now();
        state.apply(Change::Pod(pod.view));
        let indexed = classed.elapsed();
        decoding += decoded.duration_since(start).as_secs_f64();
        classing += classed.duration_since(decoded).as_secs_f64();
        indexing += indexed.as_secs_f64();
    }
    let micros = |seconds: f64| seconds * 1e6 / f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let classes = u32::try_from(classes.len()).context("classes")?;
    say(&format!(
        "\n{count} events of {} bytes among {} pods of {classes} classes: {:.2} µs to decode, {:.2} µs to find the class, {:.2} µs to \
         update the index",
        bytes / count,
        cluster.pods,
        micros(decoding),
        micros(classing),
        micros(indexing),
    ));
    Ok(())
}
