//! The API as a service: what `kube::Client::new` and a port take.

mod acting;
mod asked;
mod documents;
mod looking;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use jiff::Timestamp;
use tokio::sync::Notify;
use tower::Service;

pub use self::acting::Acting;
use self::documents::Documents;
pub use self::looking::Written;
use crate::clock::Clock;
use crate::faults::{Asked, Fault, Faults, Rule};
use crate::guard::Guard;
use crate::rbac::Identities;
use crate::request::{Query, Target, Verb};
use crate::resource::{Registry, ResourceType};
use crate::respond;
use crate::serve::accept::Form;
use crate::state::{Answer, Call, Content, State, storage};
use crate::status::Failure;
use crate::watch::{self, Body, Trouble, View};

/// The real server's bound of a request.
const MAX_BODY: usize = 3 * 1024 * 1024;

/// How an API starts.
#[derive(Clone)]
pub struct Options {
    pub clock: Clock,
    /// Of names and UIDs.
    pub seed: u64,
    /// Changes per kind that are remembered for watches and for reads of the past.
    pub history: usize,
    /// Whether `metadata.managedFields` is kept. Server-side apply needs it.
    pub managed_fields: bool,
    /// Whether dependents of deleted owners and contents of deleted namespaces go, at once. A bare kube-apiserver leaves
    /// that to kube-controller-manager.
    pub collector: bool,
    /// Whether roles are asked. Clients are who `identities` says.
    pub rbac: bool,
    pub identities: Identities,
    /// More requests than these at one instant are taken for a loop; see [`Api::hot_loop`].
    pub requests_per_instant: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Arc::new(Timestamp::now),
            seed: 0,
            history: 10_000,
            managed_fields: true,
            collector: true,
            rbac: false,
            identities: Identities::default(),
            requests_per_instant: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("seed", &self.seed).field("history", &self.history).finish_non_exhaustive()
    }
}

/// An API. Clones are the same one.
#[derive(Clone)]
pub struct Api {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    faults: Mutex<Faults>,
    guard: Mutex<Guard>,
    options: Options,
    stopped: Notify,
    requests: Mutex<BTreeMap<(Verb, String), u64>>,
    documents: Mutex<Documents>,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

/// A request failed without an answer.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What a lost connection looks like to a client.
#[derive(Debug)]
struct ConnectionLost;

impl std::fmt::Display for ConnectionLost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("connection closed before message completed")
    }
}

impl std::error::Error for ConnectionLost {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic elsewhere does not make the data wrong: every write is complete before anything else can fail.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Api {
    fn default() -> Self {
        Self::new(Options::default())
    }
}

impl Api {
    pub fn new(options: Options) -> Self {
        let now = (options.clock)();
        let state = State::new(options.seed, options.history, options.managed_fields, options.collector, now);
        Self {
            inner: Arc::new(Inner {
                state: Mutex::new(state),
                faults: Mutex::default(),
                guard: Mutex::new(Guard::new(options.requests_per_instant)),
                options,
                stopped: Notify::new(),
                requests: Mutex::default(),
                documents: Mutex::default(),
            }),
        }
    }

    /// The kinds that are served now.
    pub fn registry(&self) -> Registry {
        lock(&self.inner.state).registry.clone()
    }

    pub fn revision(&self) -> u64 {
        lock(&self.inner.state).store.revision()
    }

    /// Forgets the past: watches and pages from before get `410 Gone`.
    pub fn compact(&self) {
        lock(&self.inner.state).store.compact();
    }

    /// Deletes what has lost its owners; needed only without the collector, or after references to owners that never were.
    pub fn collect(&self) {
        let now = (self.inner.options.clock)();
        lock(&self.inner.state).collect_all(now);
    }

    /// Adds a fault; the number takes it away again.
    pub fn add_fault(&self, rule: Rule) -> u64 {
        lock(&self.inner.faults).add(rule)
    }

    pub fn remove_fault(&self, id: u64) {
        lock(&self.inner.faults).remove(id);
    }

    pub fn clear_faults(&self) {
        lock(&self.inner.faults).clear();
    }

    /// Waits until a request met [`Fault::StopBefore`] or [`Fault::StopAfter`].
    pub async fn stopped(&self) {
        self.inner.stopped.notified().await;
    }

    /// What went round, if more requests came at one instant than are allowed.
    pub fn hot_loop(&self) -> Option<String> {
        lock(&self.inner.guard).report().map(str::to_owned)
    }

    /// How often each verb was asked of each kind.
    pub fn requests(&self) -> BTreeMap<(Verb, String), u64> {
        lock(&self.inner.requests).clone()
    }

    /// How many watches of a kind are open.
    pub fn watches(&self, kind: &ResourceType) -> usize {
        lock(&self.inner.state).store.table(&storage(kind)).map_or(0, |table| table.watchers.len())
    }
}

impl<B> Service<Request<B>> for Api
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let api = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let bytes = match Limited::new(body, MAX_BODY).collect().await {
                Ok(collected) => Ok(collected.to_bytes()),
                Err(error) if error.is::<LengthLimitError>() => Err(Failure::new(
                    413,
                    "RequestEntityTooLarge",
                    format!("Request entity too large: limit is {MAX_BODY}"),
                )),
                Err(error) => return Err(error),
            };
            api.answer(parts, bytes).await
        })
    }
}

impl Api {
    async fn answer(&self, parts: Parts, bytes: Result<Bytes, Failure>) -> Result<Response<Body>, BoxError> {
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let path = match Target::parse(parts.uri.path()) {
            Target::Resource(path) => path,
            Target::GroupVersion { .. } | Target::Other(_) => {
                let found = self.discovery(&parts);
                return Ok(found.unwrap_or_else(|| respond::failure(&Failure::unknown_path())));
            }
        };
        let call = match self.understand(&parts, &path, query) {
            Ok(call) => call,
            Err(failure) if parts.method == Method::HEAD => {
                return Ok(respond::response(failure.code, "application/json", respond::full(Bytes::new())));
            }
            Err(failure) => return Ok(respond::failure(&failure)),
        };
        if let Some(refused) = self.guarded(&call).await {
            return refused;
        }
        *lock(&self.inner.requests).entry((call.verb, call.kind.kind.clone())).or_default() += 1;
        let view = match asked::view(&parts.headers, &call.query) {
            Ok(view) => view,
            Err(failure) => return Ok(respond::failure(&failure)),
        };
        let asked = Asked { verb: call.verb, kind: &call.kind.kind, name: &call.name, subresource: &call.subresource };
        let faults = lock(&self.inner.faults).hit(&asked);
        let mut trouble = Trouble::default();
        for fault in &faults {
            match fault {
                Fault::Latency(time) => tokio::time::sleep(*time).await,
                Fault::RequestLost => return Err(ConnectionLost.into()),
                Fault::StopBefore => return self.stop().await,
                Fault::Error(failure) => return Ok(respond::failure(failure)),
                Fault::Conflict => return Ok(respond::failure(&Failure::stale(&call.kind, &call.name))),
                Fault::Expired if call.verb != Verb::Watch => {
                    return Ok(respond::failure(&Failure::expired(
                        "The resourceVersion for the provided list is too old.",
                    )));
                }
                Fault::Throttled { retry_after_seconds } => {
                    let message = "the server has received too many requests and has asked us to try again later";
                    return Ok(respond::failure(&Failure::too_many_requests(message, *retry_after_seconds)));
                }
                Fault::DropWatch { after_events } => trouble.drop_after = Some(*after_events),
                Fault::StaleWatch { late } => trouble.late = Some(*late),
                Fault::AnswerLost | Fault::StopAfter | Fault::Expired => {}
            }
        }
        let response = match bytes {
            Ok(bytes) => self.handle(&parts, call, bytes, view, trouble, &faults),
            Err(failure) => respond::failure(&failure),
        };
        for fault in &faults {
            match fault {
                Fault::AnswerLost => return Err(ConnectionLost.into()),
                Fault::StopAfter => return self.stop().await,
                _ => {}
            }
        }
        Ok(response)
    }

    /// Tells whoever waits, and never answers.
    async fn stop(&self) -> Result<Response<Body>, BoxError> {
        self.inner.stopped.notify_one();
        std::future::pending().await
    }

    /// A loop is told once what it is; from then on whoever asks for anything has to let time pass, so that somebody looks at
    /// the report soon.
    async fn guarded(&self, call: &Call) -> Option<Result<Response<Body>, BoxError>> {
        let told = lock(&self.inner.guard).report().is_some();
        if told {
            tokio::time::sleep(Duration::from_millis(100)).await;
            return None;
        }
        let mut guard = lock(&self.inner.guard);
        let what = || format!("{} {} {}", call.verb.name(), call.kind.kind, call.name);
        guard.exceeded(call.now, what).then(|| Err(guard.report().unwrap_or_default().to_owned().into()))
    }

    fn handle(
        &self,
        parts: &Parts,
        mut call: Call,
        bytes: Bytes,
        view: View,
        trouble: Trouble,
        faults: &[Fault],
    ) -> Response<Body> {
        let media = parts.headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let mut media_type = media.split(';').next().unwrap_or_default().trim().to_owned();
        if media_type.is_empty() && !media.is_empty() {
            // Said, but not understood.
            media.clone_into(&mut media_type);
        }
        call.content = Content { media_type, bytes };
        call.now = (self.inner.options.clock)();
        let mut state = lock(&self.inner.state);
        if self.inner.options.rbac
            && let Err(failure) = self.authorize(&state, parts, &mut call)
        {
            return respond::failure(&failure);
        }
        if !self.inner.options.rbac {
            self.allow(parts, &mut call);
        }
        let answer = state.handle(&call);
        let published = state.store.published();
        drop(state);
        let now = call.now;
        match answer {
            Err(failure) => respond::failure(&failure),
            Ok(Answer::Object { code, value, warnings }) => {
                let mut response = respond::json_response(code, respond::object(&call.kind, &value, view, now));
                respond::warn(&mut response, &warnings);
                response
            }
            Ok(Answer::Stored(entry)) => {
                let bytes = if view.form == Form::Whole && entry.is_plain(&call.kind) {
                    let mut out = BytesMut::with_capacity(entry.encoded().len() + 64);
                    entry.json(&call.kind, &mut out);
                    out.freeze()
                } else {
                    respond::object(&call.kind, &entry.requested(&call.kind), view, now)
                };
                respond::json_response(200, bytes)
            }
            Ok(Answer::List(_)) if matches!(view.form, Form::Metadata(_)) => {
                let kind = respond::go_type(&call.kind, "List");
                let message =
                    format!("you requested PartialObjectMetadata, but the requested object is a list ({kind})");
                respond::failure(&Failure::new(406, "NotAcceptable", message))
            }
            Ok(Answer::List(answer)) => respond::json_response(200, respond::list(&call.kind, &answer, view, now)),
            Ok(Answer::Watch(mut start)) => {
                if faults.iter().any(|fault| matches!(fault, Fault::Expired)) {
                    start.expired = Some(Failure::expired("too old resource version: 1 (2)"));
                }
                let body = watch::body(*start, view, trouble, Arc::clone(&self.inner.options.clock), published);
                respond::response(200, "application/json", body)
            }
        }
    }
}

#[cfg(test)]
mod tests;
