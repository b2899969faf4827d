//! From the bytes of a watch event to the updated index, in this process: what one event costs and which part of it is what.

use anyhow::{Context as _, Result, bail, ensure};
use karpenter_controllers::watches::{Form, PodClasses, PodEvent, PodObject, WireReader};
use karpenter_model::labels::LabelRules;
use karpenter_state::{Change, ClusterState};
use karpenter_testkit::protobuf;

use crate::cluster::Cluster;
use crate::server::binary;
use crate::{process, say};

const NODES: usize = 10_000;

pub(crate) fn measure(count: usize) -> Result<()> {
    let cluster = Cluster { nodes: NODES, pods: NODES * 30 };
    both_are_one(cluster)?;
    for form in [Form::Json, Form::Protobuf] {
        measure_form(form, cluster, count)?;
    }
    Ok(())
}

/// An event as it comes, without what it is framed by.
fn event(form: Form, object: &str) -> Vec<u8> {
    match form {
        Form::Json => format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}").into_bytes(),
        Form::Protobuf => protobuf::event("MODIFIED", "Pod", &binary(object)).split_off(4),
    }
}

fn object<'a>(form: Form, bytes: &'a [u8], reader: &mut WireReader) -> Result<PodObject<'a>> {
    match form.event(bytes, reader)? {
        PodEvent::Applied(object) => Ok(object),
        other => bail!("unexpected: {other:?}"),
    }
}

/// What is measured is the same cluster in both forms.
fn both_are_one(cluster: Cluster) -> Result<()> {
    let (rules, mut reader) = (LabelRules::core(), WireReader::default());
    for number in (0..cluster.pods).step_by(997) {
        let read = |form: Form, reader: &mut WireReader| -> Result<_> {
            let bytes = event(form, &cluster.pod(number, 1));
            let seen = PodClasses::default().read(&object(form, &bytes, reader)?, &rules);
            Ok(seen.map_err(anyhow::Error::msg)?.view)
        };
        let (json, wire) = (read(Form::Json, &mut reader)?, read(Form::Protobuf, &mut reader)?);
        ensure!(json == wire, "{json:?} and {wire:?} differ");
    }
    Ok(())
}

fn measure_form(form: Form, cluster: Cluster, count: usize) -> Result<()> {
    let (classes, rules) = (PodClasses::default(), LabelRules::core());
    let (mut state, mut reader) = (ClusterState::default(), WireReader::default());
    for number in 0..cluster.pods {
        let bytes = event(form, &cluster.pod(number, 0));
        let pod = classes.read(&object(form, &bytes, &mut reader)?, &rules).map_err(anyhow::Error::msg)?;
        state.apply(Change::Pod(pod.view));
    }
    let events: Vec<Vec<u8>> =
        (0..count).map(|number| event(form, &cluster.pod(number.wrapping_mul(7919) % cluster.pods, 1))).collect();
    let bytes: usize = events.iter().map(Vec::len).sum();
    // By processor time: other work on the machine does not count.
    let start = process::cpu("self")?;
    let mut objects = Vec::with_capacity(count);
    for bytes in &events {
        objects.push(object(form, bytes, &mut reader)?);
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
        "\n{count} events of {} bytes of {form:?} among {} pods of {classes} classes: {:.2} µs to decode, {:.2} µs to find the class, \
         {:.2} µs to update the index",
        bytes / count,
        cluster.pods,
        micros(decoding),
        micros(classing),
        micros(indexing),
    ));
    Ok(())
}
