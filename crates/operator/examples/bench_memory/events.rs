//! From the bytes of a watch event to the updated index, in this process: what one event costs and which part of it is what.

use anyhow::{Context as _, Result};
use karpenter_controllers::watches::{PodClasses, PodObject};
use karpenter_model::labels::LabelRules;
use karpenter_state::{Change, ClusterState};
use kube::core::WatchEvent;

use crate::cluster::Cluster;
use crate::{process, say};

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
    // By processor time: other work on the machine does not count.
    let start = process::cpu("self")?;
    let mut objects = Vec::with_capacity(count);
    for line in &lines {
        let event: WatchEvent<PodObject> = serde_json::from_str(line)?;
        if let WatchEvent::Modified(object) = event {
            objects.push(object);
        }
    }
    let decoded = process::cpu("self")?;
    let mut views = Vec::with_capacity(count);
    for object in &objects {
        views.push(classes.read(object, &rules).map_err(anyhow::Error::msg)?.view);
    }
    let classed = process::cpu("self")?;
    for view in views {
        state.apply(Change::Pod(view));
    }
    let (decoding, classing, indexing) = (decoded - start, classed - decoded, process::cpu("self")? - classed);
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
