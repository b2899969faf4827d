//! Pods, of which there are more than of everything else together. They are asked for as protobuf, which takes a tenth of the time
//! that JSON takes to read; a server that has JSON only answers with that.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use http::header;
use http_body_util::BodyExt as _;
use karpenter_lifecycle::{EvictionKey, Seen, pod_event};
use karpenter_model::pod::PodView;
use karpenter_state::{ByName, Change, PodSet, Source};
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::{Request, Status};
use kube::runtime::utils::Backoff as _;
use kube::runtime::watcher::Error;

use super::pod_events::{Form, Frames, PodEvent, Unreadable};
use super::pod_text::PodObject;
use super::pod_wire::WireReader;
use super::{ObjectId, Pauses};
use crate::context::Context;

/// Follows the pods for ever. Whatever is wrong with one of them is reported; the watch goes on.
pub(super) async fn follow_pods(ctx: Arc<Context>) {
    let mut following = Following { pods: Pods(&ctx), reader: WireReader::default(), pauses: Pauses::default() };
    loop {
        let mut version = match following.list().await {
            Ok(version) => version,
            Err(error) => {
                following.pause(&error).await;
                continue;
            }
        };
        while let Next::Watch = following.watch(&mut version).await {}
    }
}

const PODS: &str = "/api/v1/pods";
/// As many as kube's own watches ask for at a time.
const PAGE: u32 = 500;
/// After so long the server ends a watch by itself; a connection that is silent for longer is dead.
const SILENCE: Duration = Duration::from_secs(295);

/// The server does not know any more what has happened since the version that was asked for.
const GONE: u16 = 410;

/// What to do when a watch has ended.
enum Next {
    Watch,
    /// What has happened meanwhile is not known any more.
    List,
}

struct Following<'a> {
    pods: Pods<'a>,
    reader: WireReader,
    pauses: Pauses,
}

impl Following<'_> {
    async fn pause(&mut self, error: &Error) {
        self.pods.0.report.watch_failed("Pod", error);
        if let Some(pause) = self.pauses.next() {
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads all pods and says of which version the list is.
    async fn list(&mut self) -> Result<String, Error> {
        // Known before a list, and not on it yet: nothing at the first list, so nothing is held twice.
        let mut unseen = self.pods.0.state().pods();
        let mut params = ListParams { limit: Some(PAGE), ..ListParams::default() };
        loop {
            let request = Request::new(PODS).list(&params).map_err(kube::Error::BuildRequest);
            let (form, body) = self.answer(request, Form::PROTOBUF).await.map_err(Error::InitialListFailed)?;
            let bytes = body.collect().await.map_err(Error::InitialListFailed)?.to_bytes();
            let pods = &self.pods;
            let page = form.page(&bytes, &mut self.reader, |object| {
                unseen.remove(&object.id());
                pods.found(object);
            });
            let page = page.map_err(|error| Error::InitialListFailed(kube::Error::Service(error.into())))?;
            self.pauses.reset();
            params.continue_token = page.rest;
            if params.continue_token.is_none() {
                let version = page.version.ok_or(Error::NoResourceVersion)?;
                self.pods.listed(unseen);
                return Ok(version);
            }
        }
    }

    /// Hears what happens to pods until the watch ends, and keeps the version up to date.
    async fn watch(&mut self, version: &mut String) -> Next {
        let request = Request::new(PODS).watch(&WatchParams::default(), version).map_err(kube::Error::BuildRequest);
        let (form, body) = match self.answer(request, &format!("{};stream=watch", Form::PROTOBUF)).await {
            Ok(answer) => answer,
            Err(error) => return self.after(&Error::WatchStartFailed(error)).await,
        };
        match self.hear(version, Frames::new(form), body.into_data_stream()).await {
            Ok(()) => Next::Watch,
            Err(error) => self.after(&error).await,
        }
    }

    /// What to do after a while when a watch has failed.
    async fn after(&mut self, error: &Error) -> Next {
        self.pause(error).await;
        let is_lost = match error {
            Error::WatchError(status) | Error::WatchStartFailed(kube::Error::Api(status)) => status.code == GONE,
            // Where the connection broke, all that it brought has been understood.
            Error::WatchStartFailed(_) | Error::WatchFailed(kube::Error::ReadEvents(_)) => false,
            _ => true,
        };
        if is_lost { Next::List } else { Next::Watch }
    }

    async fn hear<B: AsRef<[u8]>>(
        &mut self,
        version: &mut String,
        mut frames: Frames,
        mut body: impl Stream<Item = kube::Result<B>> + Unpin,
    ) -> Result<(), Error> {
        // A watch that ends or is silent for too long is started again; what it breaks off with is no event.
        while let Ok(Some(bytes)) = tokio::time::timeout(SILENCE, body.next()).await {
            let bytes =
                bytes.map_err(|error| Error::WatchFailed(kube::Error::ReadEvents(std::io::Error::other(error))))?;
            frames.put(bytes.as_ref());
            let form = frames.form();
            while let Some(frame) = frames.cut().map_err(unreadable)? {
                let event = form.event(frame, &mut self.reader).map_err(unreadable)?;
                let now = self.pods.heard(event)?;
                self.pauses.reset();
                version.clear();
                version.push_str(&now);
            }
        }
        Ok(())
    }

    /// The answer and its form; an error when the server has none.
    async fn answer(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::Error>,
        binary: &str,
    ) -> Result<(Form, Body), kube::Error> {
        let mut request = request?;
        let accept = format!("{binary}, application/json").try_into();
        let accept = accept.map_err(|error: header::InvalidHeaderValue| kube::Error::HttpError(error.into()))?;
        request.headers_mut().insert(header::ACCEPT, accept);
        // Each event of a watch would be compressed for itself, and a list comes from near.
        request.headers_mut().insert(header::ACCEPT_ENCODING, header::HeaderValue::from_static("identity"));
        let response = self.pods.0.client.send(request.map(Body::from)).await?;
        let form = Form::of(response.headers().get(header::CONTENT_TYPE).map_or(&[], |value| value.as_bytes()));
        let code = response.status();
        if code.is_success() {
            return Ok((form, response.into_body()));
        }
        let bytes = response.into_body().collect().await?.to_bytes();
        let status = form.status(&bytes).unwrap_or_else(|| {
            let text = String::from_utf8_lossy(&bytes);
            Status::failure(&text, code.canonical_reason().unwrap_or_default()).with_code(code.as_u16())
        });
        Err(kube::Error::Api(status.boxed()))
    }
}

fn unreadable(error: impl Into<Unreadable>) -> Error {
    Error::WatchFailed(kube::Error::Service(error.into().into()))
}

struct Pods<'a>(&'a Context);

impl Pods<'_> {
    /// Says of which version the pods are now.
    fn heard<'e>(&self, event: PodEvent<'e>) -> Result<Cow<'e, str>, Error> {
        let object = match event {
            PodEvent::Applied(object) => {
                self.applied(&object);
                object
            }
            PodEvent::Gone(object) => {
                self.gone(&object.id());
                object
            }
            PodEvent::Bookmark(version) => return Ok(version),
            PodEvent::Failed(status) => return Err(Error::WatchError(status)),
        };
        if object.version.is_empty() { Err(Error::NoResourceVersion) } else { Ok(object.version) }
    }

    fn applied(&self, object: &PodObject<'_>) {
        let before = self.0.state().pod(&object.id());
        let before = before.filter(|before| before.uid == *object.uid);
        self.saw(object, before.as_deref().map_or(Seen::New, Seen::Changed));
    }

    fn found(&self, object: &PodObject<'_>) {
        self.saw(object, Seen::Listed);
    }

    fn gone(&self, id: &ObjectId) {
        self.0.report.pod_gone(id);
        self.0.memory.deletion_costs().forget(id);
        let pod = self.0.state().pod(id);
        self.0.state().apply(Change::PodGone(id.clone()));
        if let Some(pod) = pod {
            self.0.memory.stop_asking(&EvictionKey::of(&pod));
            self.wake_terminating(&pod);
        }
    }

    fn listed(&self, unseen: PodSet) {
        let unseen: BTreeSet<ByName> = unseen.into_iter().collect();
        for pod in &unseen {
            self.gone(&pod.id);
        }
        self.0.state().apply(Change::Complete(Source::Pods));
        self.0.provision.nudge();
    }

    fn saw(&self, object: &PodObject<'_>, seen: Seen<'_>) {
        let ctx = self.0;
        let pod = match ctx.pod_classes.read(object, ctx.provider.label_rules()) {
            Ok(pod) => pod,
            Err(error) => return ctx.report.malformed_object("Pod", object.name(), &error),
        };
        let known = ctx.state().pod(&pod.view.id);
        ctx.report.pod_seen(&pod, known.as_deref());
        ctx.report.problems(&pod.problems);
        ctx.memory.deletion_costs().note(&pod, ctx.features.pod_deletion_cost);
        let view = pod.view;
        ctx.state().apply(Change::Pod(view.clone()));
        if view.is_provisionable() {
            self.waits(&view, known.as_deref().filter(|known| known.uid == view.uid));
        }
        if view.deleting_since.is_some() {
            ctx.memory.note_leaving(&EvictionKey::of(&view));
        }
        if let (Some(node), Some(at)) = (&view.node_name, pod_event(&view, seen, ctx.clock.now())) {
            ctx.memory.note_pod_event(node, at);
            ctx.queues.pod_events.add(node.as_str());
        }
        self.wake_terminating(&view);
    }

    /// A window stays open for who is new in it (SCH-6). Who was presumed to wait has been heard of, and who was promised a node has
    /// been planned for: kube-scheduler comes back to thousands of them while their nodes start, and others would wait for that.
    fn waits(&self, pod: &PodView, known: Option<&PodView>) {
        let ctx = self.0;
        let is_news = known.is_some_and(|known| known.unjudged);
        let presumes = is_news && ctx.batching.siblings;
        let siblings = if presumes { ctx.state().presume_refused(pod, ctx.clock.now()) } else { Vec::new() };
        for sibling in siblings {
            ctx.provision.trigger(&sibling.uid.to_string());
        }
        let mut state = ctx.state();
        if state.expectations.claim_of(&pod.id).is_some() {
            state.found_nothing(&pod.id, ctx.clock.now());
            ctx.provision.nudge();
        } else if !known.is_some_and(PodView::is_presumed_waiting) {
            ctx.provision.trigger(&pod.uid.to_string());
        }
    }

    /// A drain waits for its pods.
    fn wake_terminating(&self, pod: &PodView) {
        let Some(name) = pod.node_name.as_deref() else { return };
        if self.0.state().is_deleting_node(name) {
            self.0.queues.nodes.add(name);
        }
    }
}
