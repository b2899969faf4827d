//! Pods, of which there are more than of everything else together.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use karpenter_lifecycle::{EvictionKey, Seen, pod_event};
use karpenter_model::pod::PodView;
use karpenter_state::{ByName, Change, PodSet, Source};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Resource as _, ResourceExt as _};

use super::pod_text::PodObject;
use super::{ObjectId, Pauses, id};
use crate::context::Context;

/// Follows the pods for ever. Whatever is wrong with one of them is reported; the watch goes on.
pub(super) async fn follow_pods(ctx: Arc<Context>) {
    let pods = Pods(&ctx);
    let api: Api<PodObject> = Api::all(ctx.client.clone());
    let mut events = watch(api, watcher::Config::default()).backoff(Pauses::default()).boxed();
    // Known before a list, and not on it yet: nothing at the first list, so nothing is held twice.
    let mut unseen = PodSet::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => unseen = ctx.state().pods(),
            Ok(Event::InitApply(object)) => {
                unseen.remove(&id(&object));
                pods.found(&object);
            }
            Ok(Event::InitDone) => pods.listed(std::mem::take(&mut unseen)),
            Ok(Event::Apply(object)) => pods.applied(&object),
            Ok(Event::Delete(object)) => pods.gone(&id(&object)),
            Err(error) => ctx.report.watch_failed("Pod", &error),
        }
    }
}

struct Pods<'a>(&'a Context);

impl Pods<'_> {
    fn applied(&self, object: &PodObject) {
        let before = self.0.state().pod(&id(object));
        let before = before.filter(|before| before.uid == *object.meta().uid.as_deref().unwrap_or_default());
        self.saw(object, before.as_deref().map_or(Seen::New, Seen::Changed));
    }

    fn found(&self, object: &PodObject) {
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

    fn saw(&self, object: &PodObject, seen: Seen<'_>) {
        let ctx = self.0;
        let pod = match ctx.pod_classes.read(object, ctx.provider.label_rules()) {
            Ok(pod) => pod,
            Err(error) => return ctx.report.malformed_object("Pod", &object.name_any(), &error),
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
        let siblings = if is_news && ctx.batching.siblings { ctx.state().presume_refused(pod) } else { Vec::new() };
        for sibling in siblings {
            ctx.provision.trigger(&sibling.uid.to_string());
        }
        if ctx.state().expectations.claim_of(&pod.id).is_some() {
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
