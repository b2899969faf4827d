//! The CloudProvider itself: what is known, whom it asks, and who asks it.
//!
//! Decisions are elsewhere in this crate. Here is what waits: `launching` launches, `existing` looks after what runs,
//! `listing` says what can be bought, `refreshing` keeps that up to date, `templates` and `groups` look after what launches
//! need. What several of them know is in [`facts`]; its lock is never held over a call.

mod attempts;
mod drifting;
mod existing;
mod facts;
mod groups;
mod launching;
mod listing;
mod partitions;
mod refreshing;
mod reports;
mod tagging;
mod templates;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use karpenter_api::kinds::EC2NodeClass;
use karpenter_api::names::{LabelPolicy, aws};
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::LabelRules;
use karpenter_model::pool::PoolView;
use karpenter_platform::{
    CallError, Clock, CloudProvider, CreateError, DriftReason, Instance, InstanceError, InstanceTypesError,
    NodeClassKind, RebootError, RegistrationHook, RepairPolicy, ReservationLabels,
};

use crate::batching::{CONCURRENT, DESCRIBE_INSTANCES, DESCRIBE_TAGGED, Executor, TERMINATE_INSTANCES};
use crate::class::NodeClass;
use crate::cloud::{ApiError, Ec2Reads, Ec2Writes, InstanceInfo, Lookups};
use crate::instance_types::Sizing;
use crate::instance_types::offerings::RESERVATION_LABELS;
use crate::launch::template_cache::TemplateCache;
use crate::repair::{RebootReason, RebootReasonError, repair_policies};
use crate::user_data::Cluster;
use facts::Facts;
use listing::Listing;

pub use facts::Observation;
pub use groups::GroupError;
pub use launching::CLAIM_UID_TAG;
pub use listing::ListingError;
pub use partitions::ClaimLabels;
pub use refreshing::{RefreshError, Refreshed};
pub use reports::{NoReports, Notice, OfferingRow, Reports, TypeRow};
pub use tagging::Tagged;

/// Through whom AWS is asked.
#[derive(Debug, Clone)]
pub struct Clients {
    pub reads: Arc<dyn Ec2Reads>,
    pub writes: Arc<dyn Ec2Writes>,
    pub lookups: Arc<dyn Lookups>,
}

/// What holds for the life of the process (§7).
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSettings {
    /// Without a service CIDR it is looked up when first needed.
    pub cluster: Cluster,
    /// The region, and what nodes leave for pods.
    pub sizing: Sizing,
    pub isolated_vpc: bool,
    /// The gate ReservedCapacity.
    pub reserved_capacity: bool,
    pub subnet_refresh_interval: SignedDuration,
    /// AWS-305.
    pub reboot_reasons: Vec<RebootReason>,
    /// The gate NodeClassCEL.
    pub kubelet_expressions: bool,
}

/// Objects of the cluster that the provider reads; whoever watches them fills it.
pub trait NodeClasses: Debug + Send + Sync {
    /// The class of this name, also while it is being deleted.
    fn get(&self, name: &str) -> Option<Arc<EC2NodeClass>>;
}

type Described = Result<Option<InstanceInfo>, ApiError>;
type Ended = Result<(), ApiError>;

#[derive(Debug)]
pub struct AwsProvider {
    clients: Clients,
    settings: ProviderSettings,
    clock: Arc<dyn Clock>,
    classes: Arc<dyn NodeClasses>,
    reports: Arc<dyn Reports>,
    policy: LabelPolicy,
    kinds: [NodeClassKind; 1],
    reservation_labels: ReservationLabels,
    repair_policies: Vec<RepairPolicy>,
    hooks: Vec<Arc<dyn RegistrationHook>>,
    describe: Executor<String, Described>,
    /// By the claim's UID.
    tagged: Executor<String, Described>,
    terminate: Executor<String, Ended>,
    /// Fleets that are asked for at the same time (AWS-194).
    fleets: tokio::sync::Semaphore,
    facts: Mutex<Facts>,
    listings: Mutex<BTreeMap<String, Listing>>,
    /// Held while the cluster is asked about: many launches at once need to know the same.
    asking_for_cluster: tokio::sync::Mutex<()>,
    /// Held while a template is looked for and made: one at a time (AWS-160).
    templates: tokio::sync::Mutex<TemplateCache>,
}

impl AwsProvider {
    /// Knows nothing yet: see [`AwsProvider::discover`] and [`AwsProvider::run`].
    pub fn new(
        clients: Clients,
        settings: ProviderSettings,
        clock: Arc<dyn Clock>,
        classes: Arc<dyn NodeClasses>,
        reports: Arc<dyn Reports>,
    ) -> Result<Self, RebootReasonError> {
        let repair_policies = repair_policies(&settings.reboot_reasons)?;
        let (reads, writes) = (clients.reads.clone(), clients.writes.clone());
        let describe =
            Executor::new(DESCRIBE_INSTANCES, reports.clone(), move |ids| existing::describe(reads.clone(), ids));
        let reads = clients.reads.clone();
        let tagged = Executor::new(DESCRIBE_TAGGED, reports.clone(), move |uids| existing::tagged(reads.clone(), uids));
        let terminate =
            Executor::new(TERMINATE_INSTANCES, reports.clone(), move |ids| existing::terminate(writes.clone(), ids));
        Ok(Self {
            facts: Mutex::new(Facts::new(&settings.sizing.region)),
            clients,
            settings,
            clock,
            classes,
            reports,
            policy: LabelPolicy::aws(),
            kinds: [NodeClassKind {
                group: aws::GROUP.to_owned(),
                version: "v1".to_owned(),
                kind: aws::NODE_CLASS_KIND.to_owned(),
                plural: "ec2nodeclasses".to_owned(),
            }],
            reservation_labels: ReservationLabels {
                id: aws::CAPACITY_RESERVATION_ID.to_owned(),
                all: RESERVATION_LABELS.map(str::to_owned).to_vec(),
            },
            repair_policies,
            hooks: Vec::new(),
            describe,
            tagged,
            terminate,
            fleets: tokio::sync::Semaphore::new(CONCURRENT),
            listings: Mutex::default(),
            asking_for_cluster: tokio::sync::Mutex::default(),
            templates: tokio::sync::Mutex::default(),
        })
    }

    /// What manifests may say about labels on this provider.
    pub fn label_policy(&self) -> LabelPolicy {
        self.policy.clone()
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        // Nothing that could panic runs under the lock.
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn living_object(&self, name: &str) -> Option<Arc<EC2NodeClass>> {
        self.classes.get(name).filter(|object| object.metadata.deletion_timestamp.is_none())
    }

    /// A class that exists, stays and can be read (AWS-146).
    fn living_class(&self, name: &str) -> Option<(Arc<EC2NodeClass>, NodeClass)> {
        let object = self.living_object(name)?;
        let class = NodeClass::read(&object).ok()?;
        Some((object, class))
    }
}

#[async_trait]
impl CloudProvider for AwsProvider {
    fn name(&self) -> &'static str {
        "aws"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        &self.kinds
    }

    fn label_rules(&self) -> &LabelRules {
        self.policy.rules()
    }

    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        self.launch(claim).await
    }

    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        self.end_instance(claim).await
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        self.known_instance(provider_id).await
    }

    async fn find(&self, claim: &ClaimView) -> Result<Option<Instance>, CallError> {
        let Some(info) = self.instance_of(claim).await? else { return Ok(None) };
        Ok(Some(self.answered(&info).await))
    }

    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        let mut infos = self.listed_instances().await?;
        // A claim must not be taken for one without an instance because EC2 is late.
        let now = self.now();
        infos.extend(self.facts().unseen(now));
        Ok(self.all_answered(&infos).await)
    }

    async fn instance_types(&self, pool: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        self.types_of_pool(pool).await
    }

    async fn drift(&self, claim: &ClaimView) -> Result<Option<DriftReason>, InstanceError> {
        self.drift_of(claim).await
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        self.repair_policies.clone()
    }

    async fn reboot(&self, claim: &ClaimView, operation_id: &str) -> Result<(), RebootError> {
        self.reboot_instance(claim, operation_id).await
    }

    fn registration_hooks(&self) -> &[Arc<dyn RegistrationHook>] {
        &self.hooks
    }

    fn reservation_labels(&self) -> Option<&ReservationLabels> {
        self.settings.reserved_capacity.then_some(&self.reservation_labels)
    }
}

#[cfg(test)]
mod tests;
