//! A pod in protobuf, read in place: what is its own goes into fields, what nobody reads is stepped over, and the rest goes as it
//! is into the digest by which [`PodClasses`](super::pod_classes::PodClasses) finds what it already knows. It does what
//! `pod_text/copy.rs` does for JSON; the numbers are those of `generated.proto` in k8s.io/api and k8s.io/apimachinery.

mod form;

use std::borrow::Cow;

use k8s_openapi::api::core::v1::Pod;
use karpenter_api::names::annotations::{MANAGED_DELETION_COST, POD_DELETION_COST};

use super::pod_text::{Common, PodObject, PodText, digest, phase};
use super::wire::{Field, Fields, Malformed, entry};

/// Reads one pod after the other; what goes into the digest is gathered in a buffer that all of them use.
#[derive(Debug, Default)]
pub struct WireReader {
    common: Vec<u8>,
}

impl WireReader {
    /// Whatever is wrong with one pod, the others can be read.
    pub(super) fn pod<'a>(&mut self, bytes: &'a [u8]) -> PodObject<'a> {
        self.common.clear();
        let mut taking = Taking { common: &mut self.common, own: Own::default() };
        let taken = taking.pod(bytes);
        let own = taking.own;
        let [name, namespace, uid, version] = [own.name, own.namespace, own.uid, own.version].map(Cow::Borrowed);
        let content = taken.map(|()| own.text(&self.common, bytes)).map_err(|error| error.to_string());
        PodObject { name, namespace, uid, version, content }
    }
}

/// What is shared with others, in the form that everything is converted from.
pub(super) fn whole(bytes: &[u8], of_daemon_set: bool) -> Result<Pod, String> {
    let json = form::json(bytes, &form::POD).map_err(|error| error.to_string())?;
    let mut pod: Pod = serde_json::from_value(json).map_err(|error| error.to_string())?;
    // Each pod has its own, which are read beside what is shared.
    for key in [POD_DELETION_COST, MANAGED_DELETION_COST] {
        pod.metadata.annotations.as_mut().and_then(|annotations| annotations.remove(key));
    }
    if of_daemon_set && let Some(affinity) = pod.spec.as_mut().and_then(|spec| spec.affinity.as_mut()) {
        affinity.node_affinity = None;
    }
    Ok(pod)
}

/// What was found on the way through a pod.
#[derive(Default)]
struct Own<'a> {
    name: &'a str,
    namespace: &'a str,
    uid: &'a str,
    version: &'a str,
    text: PodText<'a>,
    scheduled: bool,
    is_ready: bool,
    of_daemon_set: bool,
    /// A volume whose claim is named after the pod.
    named_volumes: bool,
    node_affinity: &'a [u8],
}

impl<'a> Own<'a> {
    fn text(self, common: &[u8], pod: &'a [u8]) -> PodText<'a> {
        let Self { of_daemon_set, named_volumes, scheduled, .. } = self;
        let node_affinity = if of_daemon_set { &[] } else { self.node_affinity };
        PodText {
            digest: (!named_volumes).then(|| digest(common, node_affinity)),
            common: Common::Wire { pod, of_daemon_set },
            unjudged: !scheduled,
            ..self.text
        }
    }
}

struct Taking<'c, 'a> {
    /// What pods have in common. Messages of which a part is left out stand there as groups, so that their ends are known.
    common: &'c mut Vec<u8>,
    own: Own<'a>,
}

/// Volumes that nothing is decided by, as in JSON: hostPath, emptyDir, secret, downwardAPI, configMap, projected.
const PLAIN: [u32; 6] = [1, 2, 6, 16, 19, 26];
const EPHEMERAL: u32 = 29;

impl<'a> Taking<'_, 'a> {
    fn pod(&mut self, bytes: &'a [u8]) -> Result<(), Malformed> {
        let mut fields = Fields(bytes);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => self.metadata(&field)?,
                2 => self.spec(&field)?,
                3 => self.status(&field)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn keep(&mut self, field: &Field<'a>) {
        self.common.extend_from_slice(field.raw);
    }

    /// Goes through a part of which only some is kept.
    fn part(
        &mut self,
        part: &Field<'a>,
        mut take: impl FnMut(&mut Self, &Field<'a>) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        // The numbers of such fields are below 32, so begin and end fit into a byte each.
        let number = u8::try_from(part.number & 0x1f).unwrap_or_default() << 3;
        self.common.push(number | 3);
        let mut fields = part.fields()?;
        while let Some(field) = fields.next()? {
            take(self, &field)?;
        }
        self.common.push(number | 4);
        Ok(())
    }

    fn metadata(&mut self, metadata: &Field<'a>) -> Result<(), Malformed> {
        self.part(metadata, |taking, field| {
            match field.number {
                1 => taking.own.name = field.text()?,
                // Its own and common: two namespaces never share a class.
                3 => {
                    taking.own.namespace = field.text()?;
                    taking.keep(field);
                }
                5 => taking.own.uid = field.text()?,
                6 => taking.own.version = field.text()?,
                8 => taking.own.text.created = field.time()?,
                9 => taking.own.text.deleted = field.time()?,
                11 => taking.keep(field),
                12 => taking.annotation(field)?,
                13 => taking.owner(field)?,
                _ => {}
            }
            Ok(())
        })
    }

    /// Other annotations, such as the pod's address, differ from pod to pod and mean nothing to us.
    fn annotation(&mut self, field: &Field<'a>) -> Result<(), Malformed> {
        let (key, value) = entry(field)?;
        let value = || value.map_or(Ok(""), |value| value.text()).map(|text| Some(Cow::Borrowed(text)));
        match key {
            POD_DELETION_COST => self.own.text.deletion_cost = value()?,
            MANAGED_DELETION_COST => self.own.text.managed_cost = value()?,
            _ if key.contains("karpenter") => self.keep(field),
            _ => {}
        }
        Ok(())
    }

    fn owner(&mut self, owner: &Field<'a>) -> Result<(), Malformed> {
        self.keep(owner);
        let mut fields = owner.fields()?;
        while let Some(field) = fields.next()? {
            self.own.of_daemon_set |= field.number == 1 && field.bytes()? == b"DaemonSet";
        }
        Ok(())
    }

    fn spec(&mut self, spec: &Field<'a>) -> Result<(), Malformed> {
        self.part(spec, |taking, field| {
            match field.number {
                1 => taking.volume(field)?,
                2 | 20 => taking.container(field)?,
                10 => taking.own.text.node = name(field)?,
                18 => taking.affinity(field)?,
                // As in JSON: securityContext, imagePullSecrets, hostname, dnsConfig, ephemeralContainers.
                14 | 15 | 16 | 26 | 34 => {}
                _ => taking.keep(field),
            }
            Ok(())
        })
    }

    fn container(&mut self, container: &Field<'a>) -> Result<(), Malformed> {
        self.part(container, |taking, field| {
            // Image, command, arguments, folder, environment, mounts, probes, hooks, messages, security: nothing is decided by them.
            if !matches!(field.number, 2..=5 | 7 | 9..=15 | 19..=22) {
                taking.keep(field);
            }
            Ok(())
        })
    }

    /// The one with the pod's token has a random name.
    fn volume(&mut self, volume: &Field<'a>) -> Result<(), Malformed> {
        let mut plain = false;
        let mut fields = volume.fields()?;
        while let Some(field) = fields.next()? {
            if field.number != 2 {
                continue;
            }
            let mut sources = field.fields()?;
            while let Some(source) = sources.next()? {
                plain |= PLAIN.contains(&source.number);
                self.own.named_volumes |= source.number == EPHEMERAL;
            }
        }
        if !plain {
            self.keep(volume);
        }
        Ok(())
    }

    fn affinity(&mut self, affinity: &Field<'a>) -> Result<(), Malformed> {
        self.part(affinity, |taking, field| {
            match field.number {
                1 => taking.own.node_affinity = field.raw,
                _ => taking.keep(field),
            }
            Ok(())
        })
    }

    fn status(&mut self, status: &Field<'a>) -> Result<(), Malformed> {
        self.part(status, |taking, field| {
            match field.number {
                1 => taking.own.text.phase = phase(Some(field.text()?).filter(|phase| !phase.is_empty())),
                2 => taking.condition(field)?,
                7 => taking.own.text.started = field.time()?,
                8 | 10 => taking.container_status(field)?,
                11 => taking.own.text.nominated = name(field)?,
                15 => taking.keep(field),
                _ => {}
            }
            Ok(())
        })
    }

    /// Name, allocated resources and resources.
    fn container_status(&mut self, status: &Field<'a>) -> Result<(), Malformed> {
        self.part(status, |taking, field| {
            if matches!(field.number, 1 | 10 | 11) {
                taking.keep(field);
            }
            Ok(())
        })
    }

    /// The first of each type counts.
    fn condition(&mut self, condition: &Field<'a>) -> Result<(), Malformed> {
        let Condition { type_, status, reason, since } = Condition::read(condition)?;
        let Own { text, scheduled, is_ready, .. } = &mut self.own;
        match type_ {
            b"PodScheduled" if !*scheduled => {
                *scheduled = true;
                text.unschedulable = reason == b"Unschedulable";
                text.scheduled_at = since.map_or(Ok(None), |since| since.time())?;
            }
            b"Ready" if !*is_ready => {
                *is_ready = true;
                (text.ready, text.unready) = (status == b"True", status == b"False");
                text.ready_at = since.map_or(Ok(None), |since| since.time())?;
            }
            // Whether a pod can be resized is decided once for what it asks (SCH-61).
            b"PodResizePending" => self.part(condition, |taking, field| {
                if matches!(field.number, 1 | 2 | 5) {
                    taking.keep(field);
                }
                Ok(())
            })?,
            _ => {}
        }
        Ok(())
    }
}

#[derive(Default)]
struct Condition<'a> {
    type_: &'a [u8],
    status: &'a [u8],
    reason: &'a [u8],
    since: Option<Field<'a>>,
}

impl<'a> Condition<'a> {
    fn read(condition: &Field<'a>) -> Result<Self, Malformed> {
        let mut one = Self::default();
        let mut fields = condition.fields()?;
        while let Some(field) = fields.next()? {
            match field.number {
                1 => one.type_ = field.bytes()?,
                2 => one.status = field.bytes()?,
                4 => one.since = Some(field),
                5 => one.reason = field.bytes()?,
                _ => {}
            }
        }
        Ok(one)
    }
}

/// Texts that nobody has set are there, and empty.
fn name<'a>(field: &Field<'a>) -> Result<Option<Cow<'a, str>>, Malformed> {
    field.text().map(|text| Some(text).filter(|text| !text.is_empty()).map(Cow::Borrowed))
}
