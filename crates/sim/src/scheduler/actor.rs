//! The actor: watches, decides one pod after the other, writes what it decided.

mod refusals;
mod watches;
mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use karpenter_platform::Clock;
use kube::Client;
use tokio::time::sleep;
use tracing::debug;

use self::refusals::Refusals;
use self::watches::{KINDS, News, watch_all};
use self::writes::{Refused, Writes};
use super::cluster::{Cluster, Key};
use super::decision::{Decision, Placement, Unfit, decide};
use super::objects::Object;
use super::pod_info::{is_finished, node_of};
use super::preemption::{Nomination, Preemption, displaced};
use super::queue::Queue;

/// As kube-scheduler's default: after this long without its volumes a pod is tried again.
const VOLUME_LIMIT: Duration = Duration::from_mins(10);

/// Places the pods of one scheduler name.
pub struct Scheduler {
    client: Client,
    clock: Arc<dyn Clock>,
    writes: Writes,
    name: String,
    cluster: Cluster,
    queue: Queue,
    /// What each kind's watch has brought, to find what a new list no longer has.
    seen: BTreeMap<(usize, Key), Object>,
    /// Keys of a list that is under way.
    listing: BTreeMap<usize, BTreeSet<Key>>,
    listed: BTreeSet<usize>,
    /// Pods whose node is chosen and whose volumes are not there yet.
    waiting: BTreeMap<Key, Waiting>,
    refusals: Refusals,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("name", &self.name).field("queue", &self.queue).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone)]
struct Waiting {
    pod: Arc<Pod>,
    placement: Placement,
    until: Timestamp,
}

impl Scheduler {
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self::named("default-scheduler", client, clock)
    }

    /// For pods with this `schedulerName`.
    pub fn named(name: &str, client: Client, clock: Arc<dyn Clock>) -> Self {
        Self {
            writes: Writes::new(client.clone(), name),
            client,
            clock,
            name: name.to_owned(),
            cluster: Cluster::default(),
            queue: Queue::default(),
            seen: BTreeMap::new(),
            listing: BTreeMap::new(),
            listed: BTreeSet::new(),
            waiting: BTreeMap::new(),
            refusals: Refusals::default(),
        }
    }

    /// Runs until the future is dropped.
    pub async fn run(mut self) {
        let mut news = watch_all(&self.client);
        loop {
            // Decide on all that is known by now.
            while let Some(Some(next)) = news.next().now_or_never() {
                self.hear(next);
            }
            if self.listed.len() == KINDS {
                self.finish_waiting().await;
                if let Some(pod) = self.queue.pop(self.clock.now()) {
                    self.place(pod).await;
                    continue;
                }
            }
            let timers = self.waiting.values().map(|w| w.until).chain(self.queue.next_due());
            let pause = timers.min().map(|at| at.duration_since(self.clock.now()));
            let pause = pause.map(|p| Duration::try_from(p).unwrap_or_default());
            tokio::select! {
                biased;
                next = news.next() => match next {
                    Some(next) => self.hear(next),
                    None => return,
                },
                () = async { sleep(pause.unwrap_or_default()).await }, if pause.is_some() => {}
            }
        }
    }

    fn hear(&mut self, news: News) {
        match news {
            News::ListBegins(kind) => _ = self.listing.insert(kind, BTreeSet::new()),
            News::Is(kind, key, object) => {
                if let Some(keys) = self.listing.get_mut(&kind) {
                    keys.insert(key.clone());
                }
                self.seen.insert((kind, key), object.clone());
                self.apply(object);
            }
            News::Gone(kind, key, object) => {
                self.seen.remove(&(kind, key));
                self.remove(object);
            }
            News::ListEnds(kind) => {
                let keys = self.listing.remove(&kind).unwrap_or_default();
                let of_kind = self.seen.keys().filter(|(k, key)| *k == kind && !keys.contains(key));
                let gone: Vec<_> = of_kind.cloned().collect();
                for object in gone.iter().filter_map(|key| self.seen.remove(key)).collect::<Vec<_>>() {
                    self.remove(object);
                }
                self.listed.insert(kind);
            }
        }
    }

    fn apply(&mut self, object: Object) {
        let now = self.clock.now();
        if let Object::Pod(pod) = &object {
            let key = Key::of(&pod.metadata);
            let ours = pod.spec.as_ref().and_then(|s| s.scheduler_name.as_deref()).unwrap_or("default-scheduler");
            let open = node_of(pod).is_none() && !is_finished(pod) && pod.metadata.deletion_timestamp.is_none();
            // One that waits for volumes has its node, though it does not show yet.
            let waits = self.waiting.get(&key).is_some_and(|w| w.pod.metadata.uid == pod.metadata.uid);
            if open && ours == self.name {
                if !waits {
                    self.queue.set(Arc::clone(pod), now);
                }
            } else {
                self.queue.remove(&key);
            }
        }
        if let Some(change) = self.cluster.apply(object) {
            self.queue.wake(change, now);
        }
    }

    fn remove(&mut self, object: Object) {
        if let Object::Pod(pod) = &object {
            let key = Key::of(&pod.metadata);
            self.queue.remove(&key);
            self.waiting.remove(&key);
            self.writes.forget(&key);
        }
        if let Some(change) = self.cluster.remove(object) {
            self.queue.wake(change, self.clock.now());
        }
    }

    fn decide(&mut self, pod: &Arc<Pod>) -> Decision {
        if let Some(unfit) = self.refusals.of(self.cluster.version, pod) {
            return Decision::Unschedulable(unfit);
        }
        let decision = decide(&self.cluster, pod);
        if let Decision::Unschedulable(unfit) = &decision {
            self.refusals.note(self.cluster.version, pod, unfit);
        }
        decision
    }

    async fn place(&mut self, pod: Arc<Pod>) {
        let key = Key::of(&pod.metadata);
        match self.decide(&pod) {
            Decision::Bind(placement) => {
                debug!(pod = %key, node = placement.node, "node chosen");
                self.assume(&pod, &placement.node);
                self.queue.remove(&key);
                if placement.volumes.is_empty() {
                    self.bind(pod, &placement.node).await;
                } else {
                    self.prepare_volumes(pod, placement).await;
                }
            }
            Decision::Unschedulable(Unfit { message, filters, nomination }) => {
                debug!(pod = %key, message, "no node");
                let now = self.clock.now();
                self.queue.set_waiting(&key, filters, now);
                self.nominate(&pod, &nomination);
                let refused = Refused { reason: "Unschedulable", message: &message, nomination: &nomination };
                self.writes.refuse(&pod, &refused, now).await;
                if let Nomination::Set(preemption) = &nomination {
                    self.make_room(&pod, preemption).await;
                }
            }
            Decision::Error(message) => self.fail(pod, &message).await,
        }
    }

    /// Others leave room for it from now on, whatever the API still says.
    fn nominate(&mut self, pod: &Pod, nomination: &Nomination) {
        let node = match nomination {
            Nomination::Keep => return,
            Nomination::Clear => None,
            Nomination::Set(preemption) => Some(preemption.node.clone()),
        };
        let mut meant = pod.clone();
        meant.status.get_or_insert_default().nominated_node_name = node;
        self.cluster.apply(meant);
    }

    /// Pods that matter less and are meant for the node look for another; those that are in the way are told to go.
    async fn make_room(&mut self, pod: &Pod, preemption: &Preemption) {
        for other in displaced(&self.cluster, pod, &preemption.node) {
            self.writes.clear_nomination(&other).await;
            self.nominate(&other, &Nomination::Clear);
        }
        let victims = preemption.victims.iter().filter_map(|key| self.cluster.pod(key));
        for victim in victims.collect::<Vec<_>>() {
            // Whose end is under way needs no second one.
            if victim.metadata.deletion_timestamp.is_none() {
                self.writes.preempt(&victim, pod, &preemption.node, self.clock.now()).await;
            }
        }
    }

    /// From now on the pod counts as being on the node, whatever the API still says.
    fn assume(&mut self, pod: &Pod, node: &str) {
        let mut assumed = pod.clone();
        assumed.spec.get_or_insert_default().node_name = Some(node.to_owned());
        if let Some(change) = self.cluster.apply(assumed) {
            self.queue.wake(change, self.clock.now());
        }
    }

    async fn bind(&mut self, pod: Arc<Pod>, node: &str) {
        let now = self.clock.now();
        match self.writes.bind(&pod, node, now).await {
            Ok(()) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                // Gone; the watch will say so, and may have done.
                let known = self.cluster.remove(Object::Pod(pod));
                if let Some(change) = known {
                    self.queue.wake(change, now);
                }
            }
            // On a node already: the watch was late and showed the pod as it had been. It will say where the pod is.
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => {
                let message = format!("binding rejected: {error}");
                self.fail(pod, &message).await;
            }
        }
    }

    async fn prepare_volumes(&mut self, pod: Arc<Pod>, placement: Placement) {
        match self.writes.prepare_volumes(&pod, &placement).await {
            Ok(()) => {
                let until = self.clock.now().saturating_add(VOLUME_LIMIT).unwrap_or(Timestamp::MAX);
                self.waiting.insert(Key::of(&pod.metadata), Waiting { pod, placement, until });
            }
            Err(error) => self.fail(pod, &format!("running PreBind plugin \"VolumeBinding\": {error}")).await,
        }
    }

    async fn finish_waiting(&mut self) {
        let now = self.clock.now();
        let is_done = |w: &Waiting| {
            let plan = &w.placement.volumes;
            let mut claims = plan.bind.iter().map(|(claim, _)| claim).chain(&plan.provision);
            claims.all(|claim| self.cluster.is_bound(claim))
        };
        let ready: Vec<_> = self.waiting.iter().filter(|(_, w)| is_done(w) || w.until <= now).collect();
        let ready: Vec<_> = ready.into_iter().map(|(key, w)| (key.clone(), is_done(w))).collect();
        for (key, done) in ready {
            let Some(Waiting { pod, placement, .. }) = self.waiting.remove(&key) else { continue };
            if done {
                self.bind(pod, &placement.node).await;
            } else {
                self.fail(pod, "binding volumes: context deadline exceeded").await;
            }
        }
    }

    /// Back into the queue, as the pod was before the attempt.
    async fn fail(&mut self, pod: Arc<Pod>, message: &str) {
        let (key, now) = (Key::of(&pod.metadata), self.clock.now());
        if let Some(change) = self.cluster.remove(Object::Pod(Arc::clone(&pod))) {
            self.queue.wake(change, now);
        }
        self.cluster.apply(Object::Pod(Arc::clone(&pod)));
        self.queue.set(Arc::clone(&pod), now);
        self.queue.set_failed(&key, now);
        let refused = Refused { reason: "SchedulerError", message, nomination: &Nomination::Clear };
        self.writes.refuse(&pod, &refused, now).await;
    }
}
