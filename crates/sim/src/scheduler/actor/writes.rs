//! What the scheduler writes: bindings, conditions, events and the first step of binding volumes.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use tracing::debug;

use super::super::cluster::Key;
use super::super::decision::Placement;
use super::super::pod_info::nominated_node;
use super::super::preemption::Nomination;

/// The longest note an event may have.
const NOTE_LIMIT: usize = 1024;
/// That a pod is not placed is told again only after this long, whatever the words: kube-scheduler's events of one pod, reason and
/// action are one event, which counts how often. What the words are now is in the pod's condition.
const REPEAT: Duration = Duration::from_mins(30);

/// What is written about a pod that was not placed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused<'a> {
    pub(super) reason: &'static str,
    pub(super) message: &'a str,
    pub(super) nomination: &'a Nomination,
}

pub(super) struct Writes {
    client: Client,
    name: String,
    /// When it was last told that a pod waits, and of which reason.
    said: BTreeMap<Key, (&'static str, Timestamp)>,
    /// Makes names of events unique within an instant.
    events: u64,
}

impl Writes {
    pub(super) fn new(client: Client, name: &str) -> Self {
        Self { client, name: name.to_owned(), said: BTreeMap::new(), events: 0 }
    }

    pub(super) fn forget(&mut self, pod: &Key) {
        self.said.remove(pod);
    }

    pub(super) async fn bind(&mut self, pod: &Pod, node: &str, now: Timestamp) -> kube::Result<()> {
        let key = Key::of(&pod.metadata);
        let binding = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": key.name, "namespace": key.namespace, "uid": pod.metadata.uid},
            "target": {"kind": "Node", "name": node},
        });
        let answer: kube::Result<Value> =
            self.pods(&key).create_subresource("binding", &key.name, &PostParams::default(), &binding).await;
        answer?;
        self.said.remove(&key);
        let note = format!("Successfully assigned {key} to {node}");
        self.record(pod, "Normal", "Scheduled", "Binding", &note, now).await;
        Ok(())
    }

    /// Tells the pod's owner why it is not placed. A write that fails is made up for by the next attempt.
    pub(super) async fn refuse(&mut self, pod: &Pod, refused: &Refused<'_>, now: Timestamp) {
        let key = Key::of(&pod.metadata);
        let message = refused.message;
        let lately = |at: &Timestamp| Duration::try_from(now.duration_since(*at)).is_ok_and(|age| age < REPEAT);
        if !self.said.get(&key).is_some_and(|(said, at)| *said == refused.reason && lately(at)) {
            self.said.insert(key.clone(), (refused.reason, now));
            self.record(pod, "Warning", "FailedScheduling", "Scheduling", message, now).await;
        }
        if let Some(status) = refused_status(pod, refused, now) {
            self.patch_status(pod, status).await;
        }
    }

    pub(super) async fn clear_nomination(&self, pod: &Pod) {
        self.patch_status(pod, json!({"nominatedNodeName": null})).await;
    }

    /// Says why and deletes. One that cannot be deleted now is a victim again at the next attempt.
    pub(super) async fn preempt(&mut self, victim: &Pod, by: &Pod, node: &str, now: Timestamp) {
        let name = by.spec.as_ref().and_then(|s| s.scheduler_name.as_deref()).unwrap_or(&self.name);
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": format!("{name}: preempting to accommodate a higher priority pod"),
            "lastProbeTime": null,
            "lastTransitionTime": seconds(now),
            "observedGeneration": victim.metadata.generation,
        });
        self.patch_status(victim, json!({"conditions": [condition]})).await;
        let key = Key::of(&victim.metadata);
        let preconditions = Some(Preconditions { uid: victim.metadata.uid.clone(), resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        if let Err(error) = self.pods(&key).delete(&key.name, &params).await {
            debug!(pod = %key, %error, "not preempted");
            return;
        }
        let note = format!("Preempted by pod {} on node {node}", by.metadata.uid.as_deref().unwrap_or_default());
        self.record(victim, "Normal", "Preempted", "Preempting", &note, now).await;
    }

    async fn patch_status(&self, pod: &Pod, status: Value) {
        let key = Key::of(&pod.metadata);
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.metadata.uid}, "status": status}));
        if let Err(error) = self.pods(&key).patch_status(&key.name, &PatchParams::default(), &patch).await {
            debug!(pod = %key, %error, "status not written");
        }
    }

    /// Reserves the volumes that are there, and asks for the others where the pod will be.
    pub(super) async fn prepare_volumes(&self, pod: &Pod, placement: &Placement) -> kube::Result<()> {
        let namespace = pod.namespace().unwrap_or_default();
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &namespace);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let params = PatchParams::default();
        // As kube-scheduler does, so that others know before the pod is bound, which takes a while now.
        let nominated = Patch::Merge(json!({"status": {"nominatedNodeName": placement.node}}));
        self.pods(&Key::of(&pod.metadata)).patch_status(&pod.name_any(), &params, &nominated).await?;
        for (claim, volume) in &placement.volumes.bind {
            let claim = claims.get(&claim.name).await?;
            let patch = json!({
                "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
                "spec": {"claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": namespace,
                    "name": claim.name_any(),
                    "uid": claim.uid(),
                    "resourceVersion": claim.resource_version(),
                }},
            });
            volumes.patch(volume, &params, &Patch::Merge(patch)).await?;
        }
        for claim in &placement.volumes.provision {
            let patch = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": placement.node}}});
            claims.patch(&claim.name, &params, &Patch::Merge(patch)).await?;
        }
        Ok(())
    }

    /// An event that is not written is no reason to stop.
    async fn record(&mut self, pod: &Pod, kind: &str, reason: &str, action: &str, note: &str, now: Timestamp) {
        let key = Key::of(&pod.metadata);
        self.events += 1;
        let suffix = now.as_nanosecond() + i128::from(self.events);
        let event = json!({
            "metadata": {"name": format!("{}.{suffix:x}", key.name), "namespace": key.namespace},
            "eventTime": micro_time(now),
            "reportingComponent": self.name,
            "reportingInstance": format!("{}-sim", self.name),
            "action": action,
            "reason": reason,
            "type": kind,
            "message": truncated(note),
            "involvedObject": {
                "apiVersion": "v1",
                "kind": Pod::kind(&()),
                "namespace": key.namespace,
                "name": key.name,
                "uid": pod.metadata.uid,
                "resourceVersion": pod.metadata.resource_version,
            },
        });
        let api: Api<Event> = Api::namespaced(self.client.clone(), &key.namespace);
        let written = match serde_json::from_value::<Event>(event) {
            Ok(event) => api.create(&PostParams::default(), &event).await.map(drop),
            Err(error) => Err(kube::Error::SerdeError(error)),
        };
        if let Err(error) = written {
            debug!(pod = %key, %error, "event not written");
        }
    }

    fn pods(&self, key: &Key) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }
}

/// `None` when the pod says so already. The time of the condition is that of its last change from or to "False".
fn refused_status(pod: &Pod, refused: &Refused<'_>, now: Timestamp) -> Option<Value> {
    let Refused { reason, message, nomination } = *refused;
    let conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let known = conditions.into_iter().find(|c| c.type_ == "PodScheduled");
    let same = known.is_some_and(|c| {
        c.status == "False" && c.reason.as_deref() == Some(reason) && c.message.as_deref() == Some(message)
    });
    let mut status = json!({});
    if !same {
        let since = known.filter(|c| c.status == "False").and_then(|c| c.last_transition_time.as_ref());
        status["conditions"] = json!([{
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": null,
            "lastTransitionTime": since.map_or_else(|| json!(seconds(now)), |t| json!(t)),
            "observedGeneration": pod.metadata.generation,
        }]);
    }
    match (nomination, nominated_node(pod)) {
        (Nomination::Clear, Some(_)) => status["nominatedNodeName"] = Value::Null,
        (Nomination::Set(p), meant) if meant != Some(&p.node) => status["nominatedNodeName"] = json!(p.node),
        _ => {}
    }
    status.as_object().is_some_and(|s| !s.is_empty()).then_some(status)
}

/// Objects carry whole seconds.
fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

fn micro_time(now: Timestamp) -> String {
    format!("{now:.6}")
}

fn truncated(note: &str) -> String {
    if note.len() <= NOTE_LIMIT {
        return note.to_owned();
    }
    let mut end = NOTE_LIMIT - 4;
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} ...", &note[..end])
}
