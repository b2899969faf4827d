//! Takes a pod apart while it is parsed: what is its own goes into fields, what nobody reads goes nowhere, the rest is copied.

use std::fmt;

use k8s_openapi::serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

#[derive(Debug, Default)]
pub(super) struct Copied {
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) created: Option<String>,
    pub(super) deleted: Option<String>,
    pub(super) node: Option<String>,
    pub(super) nominated: Option<String>,
    pub(super) phase: Option<String>,
    pub(super) started: Option<String>,
    pub(super) conditions: Vec<Condition>,
    pub(super) of_daemon_set: bool,
    /// A volume whose claim is named after the pod.
    pub(super) named_volumes: bool,
    pub(super) common: Vec<u8>,
    pub(super) node_affinity: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Condition {
    pub(super) type_: String,
    pub(super) status: String,
    pub(super) reason: Option<String>,
    pub(super) since: Option<String>,
}

pub(super) fn pod<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Copied, D::Error> {
    let mut copied = Copied::default();
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
enum Fate {
    Drop,
    Copy(Place),
    /// Kept as a text of its own.
    Own(fn(&mut Copied) -> &mut Option<String>),
    NodeAffinity,
    Conditions,
}

impl Place {
    /// A member that is not named here is copied: better a class too many than a pod in the wrong one.
    fn fate(self, key: &str) -> Fate {
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
            (Self::Meta, "namespace") => Own(|copied| &mut copied.namespace),
            (Self::Meta, "annotations") => Copy(Self::Annotations),
            (Self::Meta, "ownerReferences") => Copy(Self::Owners),
            // Other annotations, such as the pod's address, differ from pod to pod and mean nothing to us.
            (Self::Annotations, _) if key.contains("karpenter") || key.ends_with("/pod-deletion-cost") => {
                Copy(Self::Whole)
            }
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
struct Part<'c> {
    place: Place,
    into: &'c mut Copied,
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Part<'_> {
    fn put(&mut self, text: impl fmt::Display) {
        // Writing to memory does not fail.
        let _ = std::io::Write::write_fmt(&mut self.into.common, format_args!("{text}"));
    }

    fn member<'de, A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match self.place.fate(key) {
            Fate::Drop => {
                map.next_value::<IgnoredAny>()?;
            }
            Fate::Copy(place) => {
                self.key(key);
                map.next_value_seed(Part { place, into: &mut *self.into })?;
            }
            Fate::Own(field) => {
                let text = map.next_value_seed(Words)?;
                if key == "namespace" {
                    self.key(key);
                    string(&mut self.into.common, text.as_deref().unwrap_or_default());
                }
                *field(self.into) = text;
            }
            Fate::NodeAffinity => {
                let mut part = Copied::default();
                map.next_value_seed(Part { place: Place::Whole, into: &mut part })?;
                self.into.node_affinity = part.common;
            }
            Fate::Conditions => {
                let mut all: Vec<Condition> = map.next_value_seed(Conditions)?;
                // Whether a pod can be resized is decided once for what it asks (SCH-61).
                if let Some(at) = all.iter().position(|condition| condition.type_ == "PodResizePending") {
                    let Condition { type_, status, reason, .. } = all.swap_remove(at);
                    self.key("conditions");
                    let reason = reason.unwrap_or_default();
                    self.put(serde_json::json!([{"type": type_, "status": status, "reason": reason}]));
                }
                self.into.conditions = all;
            }
        }
        Ok(())
    }

    fn key(&mut self, key: &str) {
        if self.into.common.last() != Some(&b'{') {
            self.into.common.push(b',');
        }
        string(&mut self.into.common, key);
        self.into.common.push(b':');
    }
}

fn string(into: &mut Vec<u8>, text: &str) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(into, text);
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(mut self, value: bool) -> Result<(), E> {
        self.put(value);
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

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        string(&mut self.into.common, value);
        Ok(())
    }

    fn visit_unit<E>(mut self) -> Result<(), E> {
        self.put("null");
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
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
        self.put(']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let start = self.into.common.len();
        self.into.common.push(b'{');
        let mut plain = false;
        while let Some(key) = map.next_key::<String>()? {
            match (self.place, key.as_str()) {
                (Place::Volume, key) => {
                    plain |= PLAIN.contains(&key);
                    self.into.named_volumes |= key == "ephemeral";
                }
                (Place::Owner, "kind") => {
                    let kind = map.next_value_seed(Words)?.unwrap_or_default();
                    self.into.of_daemon_set |= kind == "DaemonSet";
                    self.key("kind");
                    string(&mut self.into.common, &kind);
                    continue;
                }
                _ => {}
            }
            self.member(&key, &mut map)?;
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
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<String>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Words {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, value: &str) -> Result<Option<String>, E> {
        Ok(Some(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Option<String>, E> {
        Ok(Some(value))
    }

    fn visit_unit<E>(self) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Option<String>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Option<String>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<String>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// The conditions of a pod, one after the other.
struct Conditions;

impl<'de> DeserializeSeed<'de> for Conditions {
    type Value = Vec<Condition>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Condition>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Conditions {
    type Value = Vec<Condition>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of conditions")
    }

    fn visit_unit<E>(self) -> Result<Vec<Condition>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Condition>, A::Error> {
        let mut all = Vec::new();
        while let Some(mut more) = list.next_element_seed(Conditions)? {
            all.append(&mut more);
        }
        Ok(all)
    }

    /// One of them.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Condition>, A::Error> {
        let mut one = Condition::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "type" => one.type_ = map.next_value_seed(Words)?.unwrap_or_default(),
                "status" => one.status = map.next_value_seed(Words)?.unwrap_or_default(),
                "reason" => one.reason = map.next_value_seed(Words)?,
                "lastTransitionTime" => one.since = map.next_value_seed(Words)?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(vec![one])
    }
}
