//! What the watches bring: conditions that change, finalizers that go, pods on their way (API-178, API-179).

use k8s_openapi::api::core::v1::Node;
use karpenter_api::conditions::Conditioned;
use karpenter_model::pod::{PodId, PodView};
use karpenter_platform::NodeClassKind;
use kube::core::DynamicObject;
use kube::{Resource, ResourceExt as _};
use serde_json::Value;

use super::{Observability, Report};
use crate::events::{Subject, catalogue};
use crate::metrics::{ConditionChange, ObservedCondition, ObservedObject};
use crate::watches::SeenPod;

/// A kind whose conditions are followed.
pub trait Observed: Resource<DynamicType = ()> {
    fn observed_conditions(&self) -> Vec<ObservedCondition<'_>>;
}

fn observed(condition: &karpenter_api::kinds::Condition) -> ObservedCondition<'_> {
    ObservedCondition {
        type_: &condition.type_,
        status: condition.status.as_str(),
        reason: &condition.reason,
        message: &condition.message,
        since: Some(condition.last_transition_time.0),
    }
}

macro_rules! observed {
    ($($kind:ty),+) => { $(impl Observed for $kind {
        fn observed_conditions(&self) -> Vec<ObservedCondition<'_>> {
            self.conditions().iter().map(observed).collect()
        }
    })+ };
}

observed!(karpenter_api::kinds::NodeClaim, karpenter_api::kinds::NodePool, karpenter_api::kinds::CapacityBuffer);

impl Observed for Node {
    fn observed_conditions(&self) -> Vec<ObservedCondition<'_>> {
        let conditions = self.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let observed = conditions.map(|condition| ObservedCondition {
            type_: &condition.type_,
            status: &condition.status,
            reason: condition.reason.as_deref().unwrap_or_default(),
            message: condition.message.as_deref().unwrap_or_default(),
            since: condition.last_transition_time.as_ref().map(|time| time.0),
        });
        observed.collect()
    }
}

fn raw(condition: &Value) -> ObservedCondition<'_> {
    let text = |member: &str| condition[member].as_str().unwrap_or_default();
    ObservedCondition {
        type_: text("type"),
        status: text("status"),
        reason: text("reason"),
        message: text("message"),
        since: text("lastTransitionTime").parse().ok(),
    }
}

fn class_subject(kind: &NodeClassKind, class: &DynamicObject) -> Subject {
    let api_version = format!("{}/{}", kind.group, kind.version);
    Subject::new(&api_version, &kind.kind, "", &class.name_any(), &class.uid().unwrap_or_default())
}

impl Report {
    /// An object is new or has changed.
    pub fn seen<K: Observed>(&self, object: &K) {
        let Some(tracker) = self.trackers.get(&*K::kind(&())) else { return };
        let (namespace, name, uid) =
            (object.namespace().unwrap_or_default(), object.name_any(), object.uid().unwrap_or_default());
        let observed = ObservedObject {
            namespace: &namespace,
            name: &name,
            uid: &uid,
            labels: object.labels(),
            finalizers: object.finalizers(),
            deleting_since: object.meta().deletion_timestamp.as_ref().map(|time| time.0),
            conditions: object.observed_conditions(),
        };
        let changes = tracker.seen(&observed, self.clock.now());
        self.tell(&Subject::of(object), &changes);
    }

    pub fn gone<K: Observed>(&self, object: &K) {
        let Some(tracker) = self.trackers.get(&*K::kind(&())) else { return };
        let namespace = object.namespace().unwrap_or_default();
        let changes = tracker.gone(&namespace, &object.name_any(), self.clock.now());
        self.tell(&Subject::of(object), &changes);
    }

    /// The same for node classes, whose kind only the provider knows.
    pub fn class_seen(&self, kind: &NodeClassKind, class: &DynamicObject) {
        let Some(tracker) = self.trackers.get(&kind.kind) else { return };
        let (name, uid) = (class.name_any(), class.uid().unwrap_or_default());
        let observed = ObservedObject {
            namespace: "",
            name: &name,
            uid: &uid,
            labels: class.labels(),
            finalizers: class.finalizers(),
            deleting_since: class.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            conditions: class.data["status"]["conditions"].as_array().into_iter().flatten().map(raw).collect(),
        };
        let changes = tracker.seen(&observed, self.clock.now());
        self.tell(&class_subject(kind, class), &changes);
    }

    pub fn class_gone(&self, kind: &NodeClassKind, class: &DynamicObject) {
        let Some(tracker) = self.trackers.get(&kind.kind) else { return };
        let changes = tracker.gone("", &class.name_any(), self.clock.now());
        self.tell(&class_subject(kind, class), &changes);
    }

    fn tell(&self, subject: &Subject, changes: &[ConditionChange]) {
        for change in changes {
            self.events.publish(catalogue::condition_change(subject, change));
        }
    }

    /// `before` is what was known under its name.
    pub fn pod_seen(&self, pod: &SeenPod, before: Option<&PodView>) {
        if self.observability == Observability::On {
            self.pods.seen(pod, before, self.clock.now());
        }
    }

    pub fn pod_gone(&self, id: &PodId) {
        self.pods.gone(id);
    }
}
