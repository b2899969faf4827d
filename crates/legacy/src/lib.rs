//! Serves the objects of old where their definitions are installed (AWS-256 … AWS-258).
//!
//! Start with [`Legacy`] and [`act`]. A Provisioner owns one NodePool and one EC2NodeClass, both called like itself, and everything
//! else follows from those: whoever deletes the Provisioner has the API server's garbage collector delete them, and thereby their
//! nodes. What they say is decided by `karpenter_api::legacy`; what is wrong is told in the status of the old objects.

pub mod lines;
mod provisioner;
mod serving;
mod status;
mod template;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use karpenter_api::legacy::{Installation, template_name};
use karpenter_controllers::listeners::Listener;
use karpenter_controllers::objects::Objects;
use karpenter_controllers::queue::{self, Backoff, Queue, Work};
use karpenter_controllers::watches::follow_plain;
use karpenter_controllers::{Context, concurrency};
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;

/// What the cluster is like now.
pub type Ask = Box<dyn Fn() -> Installation + Send + Sync>;

/// What both controllers have at hand.
pub struct Legacy {
    ctx: Arc<Context>,
    installation: Ask,
    provisioners: Kind,
    templates: Kind,
    wakes: Arc<Wakes>,
    /// What each Provisioner's objects were last written from and as.
    written: Mutex<BTreeMap<String, provisioner::Written>>,
}

impl fmt::Debug for Legacy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Legacy").field("provisioners", &self.provisioners).finish_non_exhaustive()
    }
}

/// Objects of one kind, kept as they come: a field that makes no sense is told of, and does not hide its object.
#[derive(Debug)]
struct Kind {
    resource: ApiResource,
    objects: Objects<DynamicObject>,
    /// A list was complete, or there is no such kind.
    known: AtomicBool,
}

impl Kind {
    fn new(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: format!("{group}/{version}"),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Self { resource, objects: Objects::default(), known: AtomicBool::new(false) }
    }

    fn get(&self, name: &str) -> Option<(Arc<DynamicObject>, Value)> {
        let object = self.objects.get(name)?;
        // An object that came from JSON goes back to it.
        let value = serde_json::to_value(object.as_ref()).ok()?;
        Some((object, value))
    }
}

/// Names that are to be looked at.
#[derive(Debug, Default)]
struct Wakes {
    provisioners: Queue,
    templates: Queue,
}

impl Listener for Wakes {
    /// Called like their Provisioner; who has none is not found and costs nothing.
    fn class_changed(&self, name: &str) {
        self.provisioners.add(name);
    }

    fn pool_changed(&self, name: &str) {
        self.provisioners.add(name);
    }
}

impl Legacy {
    /// Before the watches of `ctx` start, so that nothing they bring is missed.
    pub fn new(ctx: Arc<Context>, installation: Ask) -> Arc<Self> {
        let wakes = Arc::new(Wakes::default());
        ctx.listeners.add(wakes.clone());
        Arc::new(Self {
            ctx,
            installation,
            provisioners: Kind::new("karpenter.sh", "v1alpha5", "Provisioner", "provisioners"),
            templates: Kind::new("karpenter.k8s.aws", "v1alpha1", "AWSNodeTemplate", "awsnodetemplates"),
            wakes,
            written: Mutex::default(),
        })
    }

    fn written(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, provisioner::Written>> {
        // Nothing under the lock panics.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that a translation is made from has been seen.
    fn is_known(&self) -> bool {
        let known = |kind: &Kind| kind.known.load(Ordering::Relaxed);
        known(&self.provisioners) && known(&self.templates) && self.ctx.state().unlisted().is_none()
    }

    /// Those that refer to the template, in order.
    fn users_of(&self, template: &str) -> Vec<String> {
        let refers = |name: &String| {
            self.provisioners.get(name).is_some_and(|(_, object)| template_name(&object) == Some(template))
        };
        self.provisioners.objects.names().into_iter().filter(refers).collect()
    }

    fn provisioner_changed(&self, name: Option<&str>) {
        let Some(name) = name else { return self.all_known(&self.provisioners) };
        self.wakes.provisioners.add(name);
        if let Some((_, object)) = self.provisioners.get(name)
            && let Some(template) = template_name(&object)
        {
            self.wakes.templates.add(template);
        }
    }

    fn template_changed(&self, name: Option<&str>) {
        let Some(name) = name else { return self.all_known(&self.templates) };
        self.wakes.templates.add(name);
        self.wakes.provisioners.add_all(self.users_of(name));
    }

    fn all_known(&self, kind: &Kind) {
        kind.known.store(true, Ordering::Relaxed);
        self.wakes.provisioners.add_all(self.provisioners.objects.names());
        self.wakes.templates.add_all(self.templates.objects.names());
    }
}

/// Runs until the future is dropped; does nothing for as long as the definitions are not installed. To be run beside
/// `karpenter_controllers::act`, by the leader.
pub fn act(legacy: Arc<Legacy>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        tokio::join!(
            async {
                serving::until_served(&legacy, &legacy.provisioners).await;
                let changed = |name: Option<&str>| legacy.provisioner_changed(name);
                follow_plain(&legacy.ctx, &legacy.provisioners.resource, &legacy.provisioners.objects, changed).await;
            },
            async {
                serving::until_served(&legacy, &legacy.templates).await;
                let changed = |name: Option<&str>| legacy.template_changed(name);
                follow_plain(&legacy.ctx, &legacy.templates.resource, &legacy.templates.objects, changed).await;
            },
            queue::run(work(&legacy, &legacy.wakes.provisioners, "provisioner.translation"), |name| {
                provisioner::reconcile(legacy.clone(), name)
            }),
            queue::run(work(&legacy, &legacy.wakes.templates, "awsnodetemplate.status"), |name| {
                template::reconcile(legacy.clone(), name)
            }),
        );
    })
}

fn work<'a>(legacy: &'a Legacy, queue: &'a Queue, controller: &'static str) -> Work<'a> {
    let workers = concurrency::workers(controller, legacy.ctx.cores);
    Work { queue, controller, backoff: Backoff::LIFECYCLE, workers, report: &legacy.ctx.report }
}
