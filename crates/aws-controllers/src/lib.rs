//! The reconcilers that AWS adds to the controllers of the core.
//!
//! Start with [`Aws`], what they all have at hand, and [`act`], which runs them. They are shells: what a class selects, what
//! a message means and which profile nobody needs is decided by the pure functions of `karpenter_aws`; what instances are
//! known to be refused, how many addresses are left and the like belongs to the provider, reached through [`Shared`].

mod class;
mod class_hash;
mod discovery;
mod interruption;
mod kept;
mod offering_metrics;
mod overlay_prices;
mod profiles;
mod provider;
mod report;
mod reservations;
mod rounds;
mod shared;
mod tagging;
mod version;
mod wakes;
mod zonal_shift;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use karpenter_api::conditions::{self, ConditionSet};
use karpenter_api::kinds::EC2NodeClass;
use karpenter_aws::cloud::{Ec2Reads, Ec2Writes, Iam, Lookups, Queue};
use karpenter_aws::kubelet_checks::Definition;
use karpenter_aws::user_data::Cluster;
use karpenter_controllers::queue::{self, Backoff, Work};
use karpenter_controllers::{Context, concurrency};
use kube::Api;
use kube::core::DynamicObject;

pub use shared::Shared;
pub use version::{VersionError, is_supported, kubernetes_version};
pub use wakes::Wakes;
pub use zonal_shift::{ZonalShiftError, zonal_shift_arn};

use class::Memory as ClassMemory;
use profiles::Profiles;
use rounds::rounds;

/// The account, as far as the controllers use it.
#[derive(Debug, Clone)]
pub struct Services {
    pub reads: Arc<dyn Ec2Reads>,
    pub writes: Arc<dyn Ec2Writes>,
    pub iam: Arc<dyn Iam>,
    pub lookups: Arc<dyn Lookups>,
    /// Interruptions; none when no queue is configured (AWS-214).
    pub queue: Option<Arc<dyn Queue>>,
}

/// What the controllers are told once, at the start (§7).
#[derive(Debug, Clone)]
pub struct Options {
    pub region: String,
    /// What new nodes are told; the range of service addresses is asked of the provider.
    pub cluster: Cluster,
    /// Such as `1.32`, as found at the start.
    pub kubernetes_version: String,
    pub isolated_vpc: bool,
    pub disable_dry_run: bool,
    /// Gate `ReservedCapacity`.
    pub reserved_capacity: bool,
    /// The version comes from EKS, not from the API server.
    pub eks_control_plane: bool,
    /// The cluster's ARN while zonal shifts are followed.
    pub zonal_shift: Option<String>,
    pub ami_refresh_interval: SignedDuration,
    pub subnet_refresh_interval: SignedDuration,
    /// What the API server lets classes say (§2.9).
    pub definition: Definition,
    /// Gate `NodeClassCEL`.
    pub kubelet_expressions: bool,
}

/// What every controller of AWS has at hand.
#[derive(Debug)]
pub struct Aws {
    pub ctx: Arc<Context>,
    pub services: Services,
    pub shared: Arc<dyn Shared>,
    pub options: Options,
    wakes: Arc<Wakes>,
    classes: ClassMemory,
    profiles: Profiles,
    /// The zones that pools were told of.
    shifts: zonal_shift::Announced,
    series: offering_metrics::Told,
    kubernetes: Mutex<String>,
    /// UIDs of claims that are being deleted this very moment.
    going: Mutex<BTreeSet<String>>,
}

impl Aws {
    /// Before the watches of `ctx` start, so that nothing they bring is missed.
    pub fn new(ctx: Arc<Context>, services: Services, shared: Arc<dyn Shared>, options: Options) -> Arc<Self> {
        let wakes = Arc::new(Wakes::default());
        ctx.listeners.add(wakes.clone());
        let kubernetes = Mutex::new(options.kubernetes_version.clone());
        Arc::new(Self {
            ctx,
            services,
            shared,
            options,
            wakes,
            classes: ClassMemory::default(),
            profiles: Profiles::default(),
            shifts: zonal_shift::Announced::default(),
            series: offering_metrics::Told::default(),
            kubernetes,
            going: Mutex::default(),
        })
    }

    fn now(&self) -> Timestamp {
        self.ctx.clock.now()
    }

    fn cluster_name(&self) -> &str {
        &self.options.cluster.name
    }

    /// In base64; part of the hash of a class (AWS-27).
    fn ca_bundle(&self) -> &str {
        self.options.cluster.ca_bundle.as_deref().unwrap_or_default()
    }

    /// The version that images are looked for, such as `1.32`.
    pub fn kubernetes_version(&self) -> String {
        // Nothing under the lock panics.
        self.kubernetes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn classes_api(&self) -> Api<EC2NodeClass> {
        Api::all(self.ctx.client.clone())
    }

    /// The class as the API last had it. One that cannot be read is reported and not looked at.
    fn class(&self, name: &str) -> Option<EC2NodeClass> {
        let stored = self.ctx.node_classes.get(name)?;
        let decoded = serde_json::to_value(stored.as_ref()).and_then(serde_json::from_value);
        decoded.map_err(|error| self.ctx.report.malformed_object("EC2NodeClass", name, &error.to_string())).ok()
    }

    /// All of them, by name.
    fn all_classes(&self) -> Vec<EC2NodeClass> {
        self.ctx.node_classes.names().iter().filter_map(|name| self.class(name)).collect()
    }

    /// Takes note of a class that the API answered with.
    fn note_class(&self, class: &EC2NodeClass) {
        let plain: Result<DynamicObject, _> = serde_json::to_value(class).and_then(serde_json::from_value);
        if let Ok(plain) = plain {
            self.ctx.node_classes.put(&plain);
        }
    }

    /// AWS-17.
    fn condition_set(&self) -> ConditionSet {
        if self.options.reserved_capacity {
            conditions::EC2_NODE_CLASS_WITH_RESERVATIONS
        } else {
            conditions::EC2_NODE_CLASS
        }
    }
}

/// Runs every controller of AWS until the future is dropped. To be run beside `karpenter_controllers::act`, by the leader.
pub fn act(aws: Arc<Aws>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        tokio::join!(
            of_classes(&aws),
            of_claims(&aws),
            of_reservations(&aws),
            of_the_account(&aws),
            interruption::run(aws.clone()),
            interruption::status::run(aws.clone()),
            of_overlays(&aws),
            provider(&aws),
        );
    })
}

/// The provider takes over from its predecessor, and then looks after itself.
async fn provider(aws: &Aws) {
    let mut failures = 0_u32;
    while let Err(error) = aws.shared.lead().await {
        failures = failures.saturating_add(1);
        aws.ctx.report.loop_failed("launchtemplate.hydration", &error);
        tokio::time::sleep(Backoff::LIFECYCLE.after(failures)).await;
    }
    aws.shared.run().await;
}

fn work<'a>(aws: &'a Aws, queue: &'a queue::Queue, controller: &'static str) -> Work<'a> {
    let workers = concurrency::workers(controller, aws.ctx.cores);
    Work { queue, controller, backoff: Backoff::LIFECYCLE, workers, report: &aws.ctx.report }
}

async fn of_classes(aws: &Arc<Aws>) {
    tokio::join!(
        queue::run(work(aws, &aws.wakes.classes, "nodeclass"), |name| class::reconcile(aws.clone(), name)),
        queue::run(work(aws, &aws.wakes.hashes, "nodeclass.hash"), |name| class_hash::reconcile(aws.clone(), name)),
    );
}

async fn of_claims(aws: &Arc<Aws>) {
    tokio::join!(
        queue::run(work(aws, &aws.wakes.tags, "nodeclaim.tagging"), |name| tagging::reconcile(aws.clone(), name)),
        queue::run(work(aws, &aws.wakes.nodes, "providers.instancetype.capacity"), |name| {
            discovery::reconcile(aws.clone(), name)
        }),
    );
}

/// Behind a gate (AWS-17).
async fn of_reservations(aws: &Arc<Aws>) {
    if aws.options.reserved_capacity {
        tokio::join!(
            rounds(aws.clone(), "capacityreservation.capacitytype", MINUTE, |aws| {
                async move { reservations::relabel(&aws).await }.boxed()
            }),
            rounds(aws.clone(), "capacityreservation.expiration", MINUTE, |aws| {
                async move { reservations::expire(&aws).await }.boxed()
            }),
        );
    }
}

/// Behind a gate, too.
async fn of_overlays(aws: &Arc<Aws>) {
    if aws.ctx.overlays.is_some() {
        rounds(aws.clone(), "providers.pricing.overlays", MINUTE * 5, |aws| {
            async move { overlay_prices::round(&aws).await }.boxed()
        })
        .await;
    }
}

const MINUTE: Duration = Duration::from_mins(1);

/// What of the account is looked at now and then.
async fn of_the_account(aws: &Arc<Aws>) {
    tokio::join!(
        of_profiles(aws),
        rounds(aws.clone(), "providers.ssm.invalidation", MINUTE * 30, |aws| {
            async move { class::invalidate_parameters(&aws).await }.boxed()
        }),
        rounds(aws.clone(), "providers.version", MINUTE * 5, |aws| {
            async move { version::refresh(&aws).await }.boxed()
        }),
        rounds(aws.clone(), "cloudprovider.metrics", MINUTE, |aws| {
            async move { offering_metrics::round(&aws).await }.boxed()
        }),
        rounds(aws.clone(), "zonalshift", Duration::from_secs(30), |aws| {
            async move { zonal_shift::round(&aws).await }.boxed()
        }),
    );
}

/// Without a way to IAM there is nothing to collect (AWS-75).
async fn of_profiles(aws: &Arc<Aws>) {
    if !aws.options.isolated_vpc {
        // What a predecessor protected is not known any more, so everything gets its time first.
        tokio::time::sleep(MINUTE * 30).await;
        rounds(aws.clone(), "instanceprofile.garbagecollection", MINUTE * 30, |aws| {
            async move { profiles::collect(&aws).await }.boxed()
        })
        .await;
    }
}
