//! Writes events to the API. The same thing said again raises the count of the event that is there.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as ApiEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use super::{COMPONENT, Event, Subject};

/// Where events about objects of the whole cluster are.
const CLUSTER_NAMESPACE: &str = "default";
/// How many written events are remembered to raise their count.
const REMEMBERED: usize = 4096;
const ATTEMPTS: u32 = 4;

type Key = (Subject, String, String);

#[derive(Debug)]
struct Written {
    name: String,
    count: i32,
}

pub(super) struct Publisher {
    client: kube::Client,
    written: BTreeMap<Key, Written>,
    order: VecDeque<Key>,
}

impl Publisher {
    pub(super) fn new(client: kube::Client) -> Self {
        Self { client, written: BTreeMap::new(), order: VecDeque::new() }
    }

    /// Gives up after some attempts: an event is a courtesy.
    pub(super) async fn write(&mut self, at: Timestamp, event: &Event) {
        for attempt in 0..ATTEMPTS {
            match self.try_write(at, event).await {
                Ok(()) => return,
                Err(error) if is_passing(&error) => tokio::time::sleep(Duration::from_secs(1 << attempt)).await,
                Err(error) => {
                    tracing::debug!(reason = event.reason, object = event.subject.name, %error, "could not write an event");
                    return;
                }
            }
        }
    }

    async fn try_write(&mut self, at: Timestamp, event: &Event) -> Result<(), kube::Error> {
        let namespace = namespace(&event.subject).to_owned();
        let api: Api<ApiEvent> = Api::namespaced(self.client.clone(), &namespace);
        let key = (event.subject.clone(), event.reason.clone(), event.message.clone());
        if let Some(written) = self.written.get_mut(&key) {
            let again = json!({"count": written.count.saturating_add(1), "lastTimestamp": Time(at)});
            match api.patch(&written.name, &PatchParams::default(), &Patch::Merge(&again)).await {
                Ok(_) => {
                    written.count = written.count.saturating_add(1);
                    return Ok(());
                }
                // Events live for an hour only.
                Err(kube::Error::Api(status)) if status.is_not_found() => {
                    self.written.remove(&key);
                    self.order.retain(|known| *known != key);
                }
                Err(error) => return Err(error),
            }
        }
        let object = rendered(at, event, &namespace);
        let name = object.metadata.name.clone().unwrap_or_default();
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => {}
            // An earlier attempt came through although its answer did not.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(error),
        }
        self.order.push_back(key.clone());
        self.written.insert(key, Written { name, count: 1 });
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.written.remove(&oldest);
        }
        Ok(())
    }
}

fn is_passing(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        _ => true,
    }
}

fn namespace(subject: &Subject) -> &str {
    if subject.namespace.is_empty() { CLUSTER_NAMESPACE } else { &subject.namespace }
}

/// API-169: core/v1 with the component as source. The name is the object's with what tells events of one object apart.
fn rendered(at: Timestamp, event: &Event, namespace: &str) -> ApiEvent {
    let Subject { api_version, kind, name, uid, .. } = &event.subject;
    let text = format!("{kind}/{uid}/{}/{}/{}", event.reason, event.message, at.as_nanosecond());
    ApiEvent {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:016x}", fnv(text.as_bytes()))),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(api_version.clone()),
            kind: Some(kind.clone()),
            namespace: Some(event.subject.namespace.clone()).filter(|namespace| !namespace.is_empty()),
            name: Some(name.clone()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        },
        type_: Some(event.type_.to_string()),
        reason: Some(event.reason.clone()),
        message: Some(event.message.clone()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        reporting_component: COMPONENT.to_owned().into(),
        first_timestamp: Some(Time(at)),
        last_timestamp: Some(Time(at)),
        count: Some(1),
        ..ApiEvent::default()
    }
}

/// FNV-1a: only to tell names apart, and the same in every run.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
