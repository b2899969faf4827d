//! The body of a watch: events as lines of JSON, as they come.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::{Value, json};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::serve::accept::Form;
use crate::state::{WatchStart, as_requested};
use crate::status::Failure;
use crate::store::{Delivery, Entry, encode};
use crate::table;

/// What every answer's body is.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Quiet watches say about this often how far they are, as on the server.
const BOOKMARK_EVERY: Duration = Duration::from_mins(1);

/// This long before a watch ends it says for the last time how far it is.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// How events are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub(crate) form: Form,
    pub(crate) include: table::IncludeObject,
}

/// What goes wrong with this watch, if anything.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Trouble {
    /// Ends after so many events.
    pub(crate) drop_after: Option<usize>,
    /// Events come late.
    pub(crate) late: Option<Duration>,
}

struct Stream {
    start: WatchStart,
    view: View,
    trouble: Trouble,
    clock: Clock,
    /// Of the store, for bookmarks.
    revision: Arc<AtomicU64>,
    phase: Phase,
    ends: Instant,
    next_bookmark: Instant,
    sent: usize,
    columns: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Present(usize),
    InitialEnd,
    Missed(usize),
    Live,
    Over,
}

/// Turns a registered watch into a body.
pub(crate) fn body(start: WatchStart, view: View, trouble: Trouble, clock: Clock, revision: Arc<AtomicU64>) -> Body {
    let now = Instant::now();
    let stream = Stream {
        ends: now + Duration::from_secs(start.timeout_seconds),
        next_bookmark: next_bookmark(now, now + Duration::from_secs(start.timeout_seconds)),
        start,
        view,
        trouble,
        clock,
        revision,
        phase: Phase::Present(0),
        sent: 0,
        columns: true,
    };
    let frames = stream::unfold(stream, |mut stream| async move {
        let line = stream.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(line)), stream))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Once a minute, and shortly before the end.
fn next_bookmark(now: Instant, ends: Instant) -> Instant {
    let last = ends.checked_sub(LAST_BOOKMARK).filter(|last| *last > now).unwrap_or(ends);
    last.min(now + BOOKMARK_EVERY)
}

impl Stream {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(failure) = self.start.expired.take() {
            self.phase = Phase::Over;
            return Some(error_line(&failure));
        }
        if self.trouble.drop_after.is_some_and(|limit| self.sent >= limit) {
            return None;
        }
        loop {
            match self.phase {
                Phase::Over => return None,
                Phase::Present(at) => {
                    let Some(entry) = self.start.present.get(at).cloned() else {
                        self.start.present = Vec::new();
                        self.phase = Phase::InitialEnd;
                        continue;
                    };
                    self.phase = Phase::Present(at + 1);
                    return Some(self.event("ADDED", &entry, None));
                }
                Phase::InitialEnd => {
                    self.phase = Phase::Missed(0);
                    if self.start.marks_initial_end {
                        return Some(self.bookmark(self.start.revision, true));
                    }
                }
                Phase::Missed(at) => {
                    let Some(delivery) = self.start.missed.get(at).cloned() else {
                        self.start.missed = Vec::new();
                        self.phase = Phase::Live;
                        continue;
                    };
                    self.phase = Phase::Missed(at + 1);
                    return Some(self.delivered(&delivery));
                }
                Phase::Live => return self.live().await,
            }
        }
    }

    async fn live(&mut self) -> Option<Bytes> {
        loop {
            let until = if self.start.bookmarks { self.ends.min(self.next_bookmark) } else { self.ends };
            let received = tokio::select! {
                biased;
                received = self.start.receiver.recv() => Some(received?),
                () = tokio::time::sleep_until(until) => None,
            };
            if let Some(delivery) = received {
                // A watch that began in the future leaves out what is before.
                if delivery.change.revision <= self.start.revision {
                    continue;
                }
                self.delay(&delivery).await;
                return Some(self.delivered(&delivery));
            }
            if Instant::now() >= self.ends {
                self.phase = Phase::Over;
                return None;
            }
            self.next_bookmark = next_bookmark(Instant::now(), self.ends);
            // Read before the queue is looked at: whatever is of this revision is in the queue by now.
            let revision = self.revision.load(Ordering::SeqCst);
            match self.start.receiver.try_recv() {
                Ok(delivery) => return Some(self.delivered(&delivery)),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => return Some(self.bookmark(revision.max(self.start.revision), false)),
            }
        }
    }

    async fn delay(&self, delivery: &Delivery) {
        let Some(late) = self.trouble.late else { return };
        let age = (self.clock)().duration_since(delivery.change.at);
        let age = Duration::try_from(age).unwrap_or_default();
        tokio::time::sleep(late.saturating_sub(age)).await;
    }

    fn delivered(&mut self, delivery: &Delivery) -> Bytes {
        let revision = delivery.left_selection().then_some(delivery.change.revision);
        self.event(delivery.event.name(), &Arc::clone(delivery.shown()), revision)
    }

    /// `revision` takes the place of the object's own.
    fn event(&mut self, event: &str, entry: &Entry, revision: Option<u64>) -> Bytes {
        self.sent += 1;
        let plain = self.view.form == Form::Whole && revision.is_none();
        if plain && entry.is_plain(&self.start.kind) {
            let mut line = BytesMut::with_capacity(entry.encoded().len() + 128);
            open_line(event, &mut line);
            entry.json(&self.start.kind, &mut line);
            line.put_slice(b"}\n");
            return line.freeze();
        }
        let mut value = as_requested(&self.start.kind, &entry.value);
        if let Some(revision) = revision {
            let mut changed = (*value).clone();
            changed["metadata"]["resourceVersion"] = json!(revision.to_string());
            value = Arc::new(changed);
        }
        let shown = self.show(&value);
        line(event, &encode(&shown))
    }

    fn show(&mut self, value: &Arc<Value>) -> Value {
        match self.view.form {
            Form::Whole => (**value).clone(),
            Form::Table(version) => {
                let metadata = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
                let options = table::Options { include: self.view.include, columns: self.columns, now: (self.clock)() };
                self.columns = false;
                let mut table = table::render(&self.start.kind, std::slice::from_ref(value), &metadata, options);
                table["apiVersion"] = json!(format!("meta.k8s.io/{version}"));
                table
            }
            Form::Metadata(version) | Form::MetadataList(version) => {
                let mut partial = table::partial_object(value);
                partial["apiVersion"] = json!(format!("meta.k8s.io/{version}"));
                partial
            }
        }
    }

    fn bookmark(&mut self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let kind = &self.start.kind;
        let object = Arc::new(json!({"kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata}));
        let shown = match self.view.form {
            Form::Table(_) | Form::Whole => (*object).clone(),
            Form::Metadata(_) | Form::MetadataList(_) => self.show(&object),
        };
        line("BOOKMARK", &encode(&shown))
    }
}

fn line(event: &str, object: &Bytes) -> Bytes {
    let mut line = BytesMut::with_capacity(object.len() + event.len() + 24);
    open_line(event, &mut line);
    line.put_slice(object);
    line.put_slice(b"}\n");
    line.freeze()
}

fn open_line(event: &str, line: &mut BytesMut) {
    line.put_slice(b"{\"type\":\"");
    line.put_slice(event.as_bytes());
    line.put_slice(b"\",\"object\":");
}

fn error_line(failure: &Failure) -> Bytes {
    line("ERROR", &encode(&failure.json()))
}

impl Entry {
    /// Whether the object has the same fields in this version.
    pub(crate) fn is_plain(&self, kind: &crate::resource::ResourceType) -> bool {
        kind.crd || !crate::state::differs(kind, &self.value)
    }
}
