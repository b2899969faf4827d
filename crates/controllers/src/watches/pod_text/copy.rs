//! Takes a pod apart while it is parsed: what is its own goes into fields, what nobody reads goes nowhere, the rest is copied.

use std::borrow::Cow;
use std::fmt;

use k8s_openapi::serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use karpenter_api::names::annotations::{MANAGED_DELETION_COST, POD_DELETION_COST};

#[derive(Debug, Default)]
pub(super) struct Copied<'de> {
    pub(super) name: Text<'de>,
    pub(super) namespace: Text<'de>,
    pub(super) uid: Text<'de>,
    pub(super) resource_version: Text<'de>,
    pub(super) created: Text<'de>,
    pub(super) deleted: Text<'de>,
    pub(super) node: Text<'de>,
    pub(super) nominated: Text<'de>,
    pub(super) phase: Text<'de>,
    pub(super) started: Text<'de>,
    /// What ReplicaSets are told about the pod, and what of that we said. It differs from node to node, so it is no part of what pods
    /// have in common.
    pub(super) deletion_cost: Text<'de>,
    pub(super) managed_cost: Text<'de>,
    pub(super) conditions: Vec<Condition<'de>>,
    pub(super) of_daemon_set: bool,
    /// A volume whose claim is named after the pod.
    pub(super) named_volumes: bool,
    pub(super) common: Vec<u8>,
    pub(super) node_affinity: Vec<u8>,
}

/// A part of what is parsed; only what had to be unescaped is a copy.
pub(in crate::watches) type Text<'de> = Option<Cow<'de, str>>;

#[derive(Debug, Default)]
pub(super) struct Condition<'de> {
    pub(super) type_: Cow<'de, str>,
    pub(super) status: Cow<'de, str>,
    pub(super) reason: Text<'de>,
    pub(super) since: Text<'de>,
}

/// What is left of most pods is shorter.
const COMMON: usize = 2048;

pub(super) fn pod<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Copied<'de>, D::Error> {
    let mut copied = Copied { common: Vec::with_capacity(COMMON), ..Copied::default() };
    Part { place: Place::Pod, into: &mut copied }.deserialize(deserializer)?;
    Ok(copied)
}

/// Any object without what nobody reads of it: who wrote which field, and the images of a node.
pub(in crate::watches) fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let mut copied = Copied::default();
    Part { place: Place::Object, into: &mut copied }.deserialize(deserializer)?;
    Ok(copied.common)
}

/// Where in a pod, or in an object of another kind, we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Object,
    ObjectMeta,
    ObjectStatus,
    Pod,
    Meta,
    Annotations,
    Owners,
    Owner,
    Spec,
    Containers,
    Container,
    Volumes,
    Volume,
    Affinity,
    Status,
    ContainerStatuses,
    ContainerStatus,
    /// Everything from here on is copied.
    Whole,
}

/// What becomes of a member.
#[derive(Clone, Copy)]
enum Fate<'de> {
    Drop,
    Copy(Place),
    /// Kept as a text of its own.
    Own(Field<'de>),
    /// Copied, and kept too.
    Namespace,
    OwnerKind,
    NodeAffinity,
    Conditions,
}

type Field<'de> = for<'c> fn(&'c mut Copied<'de>) -> &'c mut Text<'de>;

impl Place {
    /// A member that is not named here is copied: better a class too many than a pod in the wrong one.
    fn fate<'de>(self, key: &str) -> Fate<'de> {
        use Fate::{Copy, Drop, Own};
        match (self, key) {
            (Self::Object, "metadata") => Copy(Self::ObjectMeta),
            (Self::Object, "status") => Copy(Self::ObjectStatus),
            (Self::Pod, "metadata") => Copy(Self::Meta),
            (Self::Pod, "spec") => Copy(Self::Spec),
            (Self::Pod, "status") => Copy(Self::Status),
            (Self::Meta, "name") => Own(|copied| &mut copied.name),
            (Self::Meta, "uid") => Own(|copied| &mut copied.uid),
            (Self::Meta, "resourceVersion") => Own(|copied| &mut copied.resource_version),
            (Self::Meta, "creationTimestamp") => Own(|copied| &mut copied.created),
            (Self::Meta, "deletionTimestamp") => Own(|copied| &mut copied.deleted),
            // Its own and common: two namespaces never share a class.
            (Self::Meta, "namespace") => Fate::Namespace,
            (Self::Owner, "kind") => Fate::OwnerKind,
            (Self::Meta, "annotations") => Copy(Self::Annotations),
            (Self::Meta, "ownerReferences") => Copy(Self::Owners),
            // Other annotations, such as the pod's address, differ from pod to pod and mean nothing to us.
            (Self::Annotations, POD_DELETION_COST) => Own(|copied| &mut copied.deletion_cost),
            (Self::Annotations, MANAGED_DELETION_COST) => Own(|copied| &mut copied.managed_cost),
            (Self::Annotations, _) if key.contains("karpenter") => Copy(Self::Whole),
            (Self::Owners, _) => Copy(Self::Owner),
            (Self::Spec, "nodeName") => Own(|copied| &mut copied.node),
            (Self::Spec, "containers" | "initContainers") => Copy(Self::Containers),
            (Self::Spec, "volumes") => Copy(Self::Volumes),
            (Self::Spec, "affinity") => Copy(Self::Affinity),
            (Self::Affinity, "nodeAffinity") => Fate::NodeAffinity,
            (Self::Status, "phase") => Own(|copied| &mut copied.phase),
            (Self::Status, "startTime") => Own(|copied| &mut copied.started),
            (Self::Status, "nominatedNodeName") => Own(|copied| &mut copied.nominated),
            (Self::Status, "conditions") => Fate::Conditions,
            (Self::Status, "containerStatuses" | "initContainerStatuses") => Copy(Self::ContainerStatuses),
            (Self::Meta, "labels")
            | (Self::Status, "resourceClaimStatuses")
            | (Self::ContainerStatus, "name" | "allocatedResources" | "resources") => Copy(Self::Whole),
            (Self::Pod | Self::Meta | Self::Annotations | Self::Status | Self::ContainerStatus, _)
            | (Self::ObjectMeta, "managedFields")
            | (Self::ObjectStatus, "images")
            | (Self::Spec, "ephemeralContainers" | "hostname" | "securityContext" | "dnsConfig" | "imagePullSecrets")
            | (
                Self::Container,
                "image"
                | "imagePullPolicy"
                | "command"
                | "args"
                | "env"
                | "envFrom"
                | "volumeMounts"
                | "volumeDevices"
                | "livenessProbe"
                | "readinessProbe"
                | "startupProbe"
                | "lifecycle"
                | "securityContext"
                | "workingDir"
                | "terminationMessagePath"
                | "terminationMessagePolicy",
            ) => Drop,
            _ => Copy(Self::Whole),
        }
    }

    /// Where the elements of a list are.
    fn element(self) -> Self {
        match self {
            Self::Owners => Self::Owner,
            Self::Containers => Self::Container,
            Self::Volumes => Self::Volume,
            Self::ContainerStatuses => Self::ContainerStatus,
            _ => Self::Whole,
        }
    }
}

/// Volumes that nothing is decided by; the one with the pod's token has a random name.
const PLAIN: [&str; 6] = ["configMap", "secret", "projected", "emptyDir", "downwardAPI", "hostPath"];

/// Copies one value as JSON.
struct Part<'c, 'de> {
    place: Place,
    into: &'c mut Copied<'de>,
}

impl<'de> DeserializeSeed<'de> for Part<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Part<'_, 'de> {
    fn put(&mut self, text: impl fmt::Display) {
        // Writing to memory does not fail.
        let _ = std::io::Write::write_fmt(&mut self.into.common, format_args!("{text}"));
    }

    fn member<A: MapAccess<'de>>(&mut self, fate: Fate<'de>, map: &mut A) -> Result<(), A::Error> {
        match fate {
            Fate::Drop => {
                map.next_value::<IgnoredAny>()?;
            }
            Fate::Copy(place) => map.next_value_seed(Part { place, into: &mut *self.into })?,
            Fate::Own(field) => *field(self.into) = map.next_value_seed(Words)?,
            Fate::Namespace => {
                let text = map.next_value_seed(Words)?;
                string(&mut self.into.common, text.as_deref().unwrap_or_default());
                self.into.namespace = text;
            }
            Fate::OwnerKind => {
                let kind = map.next_value_seed(Words)?.unwrap_or_default();
                self.into.of_daemon_set |= kind == "DaemonSet";
                string(&mut self.into.common, &kind);
            }
            Fate::NodeAffinity => {
                let mut part = Copied::default();
                map.next_value_seed(Part { place: Place::Whole, into: &mut part })?;
                self.into.node_affinity = part.common;
            }
            Fate::Conditions => {
                let mut all = Vec::new();
                map.next_value_seed(Conditions(&mut all))?;
                // Whether a pod can be resized is decided once for what it asks (SCH-61).
                if let Some(at) = all.iter().position(|condition| condition.type_ == "PodResizePending") {
                    let Condition { type_, status, reason, .. } = all.swap_remove(at);
                    key(&mut self.into.common, |common| string(common, "conditions"));
                    let reason = reason.unwrap_or_default();
                    self.put(serde_json::json!([{"type": type_, "status": status, "reason": reason}]));
                }
                self.into.conditions = all;
            }
        }
        Ok(())
    }
}

/// Decides about a member by its key, and copies the key if the member is to be copied.
struct Key<'c, 'de> {
    place: Place,
    into: &'c mut Copied<'de>,
    /// The volume is one of those that nothing is decided by.
    plain: &'c mut bool,
}

impl<'de> Key<'_, 'de> {
    fn decide(self, text: &str, write: impl FnOnce(&mut Vec<u8>)) -> Fate<'de> {
        if self.place == Place::Volume {
            *self.plain |= PLAIN.contains(&text);
            self.into.named_volumes |= text == "ephemeral";
        }
        let fate = self.place.fate(text);
        if matches!(fate, Fate::Copy(_) | Fate::Namespace | Fate::OwnerKind) {
            key(&mut self.into.common, write);
        }
        fate
    }
}

impl<'de> DeserializeSeed<'de> for Key<'_, 'de> {
    type Value = Fate<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Fate<'de>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key<'_, 'de> {
    type Value = Fate<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Fate<'de>, E> {
        Ok(self.decide(text, |common| plain_string(common, text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Fate<'de>, E> {
        Ok(self.decide(text, |common| string(common, text)))
    }
}

fn key(common: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if common.last() != Some(&b'{') {
        common.push(b',');
    }
    write(common);
    common.push(b':');
}

fn string(into: &mut Vec<u8>, text: &str) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(into, text);
}

/// A text that stood in JSON as it is, so nothing in it needs to be escaped.
fn plain_string(into: &mut Vec<u8>, text: &str) {
    into.push(b'"');
    into.extend_from_slice(text.as_bytes());
    into.push(b'"');
}

impl<'de> Visitor<'de> for Part<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.into.common.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn visit_i64<E>(mut self, value: i64) -> Result<(), E> {
        self.put(value);
        Ok(())
    }

    fn visit_u64<E>(mut self, value: u64) -> Result<(), E> {
        self.put(value);
        Ok(())
    }

    fn visit_f64<E: k8s_openapi::serde::de::Error>(self, value: f64) -> Result<(), E> {
        serde_json::to_writer(&mut self.into.common, &value).map_err(E::custom)
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<(), E> {
        plain_string(&mut self.into.common, value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        string(&mut self.into.common, value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.into.common.extend_from_slice(b"null");
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let place = self.place.element();
        self.into.common.push(b'[');
        let first = self.into.common.len();
        loop {
            let before = self.into.common.len();
            if before > first {
                self.into.common.push(b',');
            }
            let start = self.into.common.len();
            let next = list.next_element_seed(Part { place, into: &mut *self.into })?;
            // Nothing more, or nothing left of it.
            if next.is_none() || self.into.common.len() == start {
                self.into.common.truncate(before);
            }
            if next.is_none() {
                break;
            }
        }
        self.into.common.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let start = self.into.common.len();
        self.into.common.push(b'{');
        let mut plain = false;
        loop {
            let key = Key { place: self.place, into: &mut *self.into, plain: &mut plain };
            let Some(fate) = map.next_key_seed(key)? else { break };
            self.member(fate, &mut map)?;
        }
        if plain {
            self.into.common.truncate(start);
        } else {
            self.into.common.push(b'}');
        }
        Ok(())
    }
}

/// A text; anything else is none.
struct Words;

impl<'de> DeserializeSeed<'de> for Words {
    type Value = Text<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Text<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Words {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Text<'de>, E> {
        Ok(Some(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Text<'de>, E> {
        Ok(Some(Cow::Owned(value.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Text<'de>, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Text<'de>, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Text<'de>, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Text<'de>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Text<'de>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Text<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// The conditions of a pod, one after the other.
struct Conditions<'c, 'de>(&'c mut Vec<Condition<'de>>);

impl<'de> DeserializeSeed<'de> for Conditions<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Conditions<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of conditions")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Conditions(&mut *self.0))?.is_some() {}
        Ok(())
    }

    /// One of them.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut one = Condition::default();
        while let Some(key) = map.next_key_seed(Words)? {
            match key.as_deref().unwrap_or_default() {
                "type" => one.type_ = map.next_value_seed(Words)?.unwrap_or_default(),
                "status" => one.status = map.next_value_seed(Words)?.unwrap_or_default(),
                "reason" => one.reason = map.next_value_seed(Words)?,
                "lastTransitionTime" => one.since = map.next_value_seed(Words)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.0.push(one);
        Ok(())
    }
}
