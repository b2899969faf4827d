//! What the API answers when it is asked for pods, in either form: pages of a list, and events of a watch.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use k8s_openapi::serde::Deserialize;
use kube::core::{Status, WatchEvent};

use super::pod_text::PodObject;
use super::pod_wire::WireReader;
use super::wire::{Fields, Malformed, unwrapped};

/// In which form an answer is; the server decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Json,
    Protobuf,
}

/// What cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("not the JSON that was expected")]
    Json(#[source] serde_json::Error),
    #[error("not the protobuf that was expected")]
    Protobuf(#[from] Malformed),
}

/// One event of a watch.
#[derive(Debug)]
pub enum PodEvent<'a> {
    Applied(PodObject<'a>),
    Gone(PodObject<'a>),
    /// Nothing has happened up to this version.
    Bookmark(Cow<'a, str>),
    Failed(Box<Status>),
}

/// Where a list goes on, and the version that it is of.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub rest: Option<String>,
    pub version: Option<String>,
}

impl Form {
    pub const PROTOBUF: &'static str = "application/vnd.kubernetes.protobuf";

    pub fn of(content_type: &[u8]) -> Self {
        if content_type.starts_with(Self::PROTOBUF.as_bytes()) { Self::Protobuf } else { Self::Json }
    }

    /// Hands over the pods of a page one by one.
    pub fn page(
        self,
        bytes: &[u8],
        reader: &mut WireReader,
        take: impl FnMut(&PodObject<'_>),
    ) -> Result<Page, Unreadable> {
        match self {
            Self::Json => json_page(bytes, take).map_err(Unreadable::Json),
            Self::Protobuf => Ok(wire_page(bytes, reader, take)?),
        }
    }

    /// An event, without what it is framed by.
    pub fn event<'a>(self, bytes: &'a [u8], reader: &mut WireReader) -> Result<PodEvent<'a>, Unreadable> {
        match self {
            Self::Json => json_event(bytes).map_err(Unreadable::Json),
            Self::Protobuf => Ok(wire_event(bytes, reader)?),
        }
    }

    /// What is said instead of an answer.
    pub fn status(self, bytes: &[u8]) -> Option<Status> {
        match self {
            Self::Json => serde_json::from_slice(bytes).ok(),
            Self::Protobuf => unwrapped(bytes).and_then(wire_status).ok(),
        }
    }
}

fn json_page(bytes: &[u8], mut take: impl FnMut(&PodObject<'_>)) -> Result<Page, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(crate = "k8s_openapi::serde")]
    struct List<'a> {
        #[serde(default)]
        metadata: ListMeta,
        #[serde(borrow)]
        items: Vec<PodObject<'a>>,
    }
    let List { metadata, items } = serde_json::from_slice(bytes)?;
    items.iter().for_each(&mut take);
    Ok(Page { rest: some(metadata.continue_), version: some(metadata.resource_version) })
}

fn json_event(bytes: &[u8]) -> Result<PodEvent<'_>, serde_json::Error> {
    match serde_json::from_slice(bytes) {
        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Ok(PodEvent::Applied(object)),
        Ok(WatchEvent::Deleted(object)) => Ok(PodEvent::Gone(object)),
        Ok(WatchEvent::Bookmark(mark)) => Ok(PodEvent::Bookmark(mark.metadata.resource_version.into())),
        Ok(WatchEvent::Error(status)) => Ok(PodEvent::Failed(status)),
        // A server that fails in between says so without the frame of an event.
        Err(error) => {
            let status: Option<Status> = serde_json::from_slice(bytes).ok();
            status.filter(|status| status.code != 0).map(|status| PodEvent::Failed(status.boxed())).ok_or(error)
        }
    }
}

fn wire_page(bytes: &[u8], reader: &mut WireReader, mut take: impl FnMut(&PodObject<'_>)) -> Result<Page, Malformed> {
    let mut page = Page::default();
    let mut fields = Fields(unwrapped(bytes)?);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => {
                let mut metadata = field.fields()?;
                while let Some(field) = metadata.next()? {
                    match field.number {
                        2 => page.version = some(Some(field.text()?.to_owned())),
                        3 => page.rest = some(Some(field.text()?.to_owned())),
                        _ => {}
                    }
                }
            }
            2 => take(&reader.pod(field.bytes()?)),
            _ => {}
        }
    }
    Ok(page)
}

fn wire_event<'a>(bytes: &'a [u8], reader: &mut WireReader) -> Result<PodEvent<'a>, Malformed> {
    let (mut type_, mut object): (&[u8], &[u8]) = (&[], &[]);
    let mut fields = Fields(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => type_ = field.bytes()?,
            2 => {
                let mut extension = field.fields()?;
                while let Some(field) = extension.next()? {
                    if field.number == 1 {
                        object = field.bytes()?;
                    }
                }
            }
            _ => {}
        }
    }
    let object = unwrapped(object)?;
    match type_ {
        b"ADDED" | b"MODIFIED" => Ok(PodEvent::Applied(reader.pod(object))),
        b"DELETED" => Ok(PodEvent::Gone(reader.pod(object))),
        b"BOOKMARK" => Ok(PodEvent::Bookmark(reader.pod(object).version)),
        b"ERROR" => Ok(PodEvent::Failed(Box::new(wire_status(object)?))),
        _ => Err(Malformed::Event),
    }
}

fn wire_status(bytes: &[u8]) -> Result<Status, Malformed> {
    let mut status = Status::failure("", "");
    let mut fields = Fields(bytes);
    while let Some(field) = fields.next()? {
        match field.number {
            3 => field.text()?.clone_into(&mut status.message),
            4 => field.text()?.clone_into(&mut status.reason),
            6 => status.code = u16::try_from(field.number()?).unwrap_or_default(),
            _ => {}
        }
    }
    Ok(status)
}

/// Empty is none.
fn some(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Cuts what a watch brings into events: lines of JSON, or protobuf with its length before it.
#[derive(Debug)]
pub struct Frames {
    form: Form,
    /// What has come; before `start` it is done with.
    bytes: Vec<u8>,
    start: usize,
}

impl Frames {
    /// Objects are stored in etcd, which takes a request of 1.5 MiB at most; in JSON they are longer, and an event may hold more than one form
    /// of it some day.
    const LONGEST: u32 = 64 << 20;

    pub fn new(form: Form) -> Self {
        Self { form, bytes: Vec::new(), start: 0 }
    }

    pub fn put(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next event that is complete.
    pub fn cut(&mut self) -> Result<Option<&[u8]>, Malformed> {
        let rest = self.bytes.get(self.start..).unwrap_or_default();
        let (skipped, length, end) = match self.form {
            Form::Json => {
                let Some(length) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
                (0, length, length + 1)
            }
            Form::Protobuf => {
                let Some(head) = rest.first_chunk::<4>() else { return Ok(None) };
                let length = u32::from_be_bytes(*head);
                if length > Self::LONGEST {
                    return Err(Malformed::Length(length));
                }
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if rest.len() - head.len() < length {
                    return Ok(None);
                }
                (head.len(), length, head.len() + length)
            }
        };
        let from = self.start + skipped;
        self.start += end;
        Ok(self.bytes.get(from..from + length))
    }

    pub fn form(&self) -> Form {
        self.form
    }
}

#[cfg(test)]
mod tests;
