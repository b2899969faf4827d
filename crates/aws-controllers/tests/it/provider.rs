//! The provider, as far as its controllers and the core's watches need one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_api::names::LabelPolicy;
use karpenter_aws::class::NodeClass;
use karpenter_aws::cloud::{
    ApiError, Ec2Reads as _, Ec2Writes as _, Filter, InstanceInfo, InstanceTypeInfo, Lookups as _, NetworkCard,
    NetworkInfo, ReservationInfo, SubnetInfo, TypeOffering,
};
use karpenter_aws::expressions;
use karpenter_aws::instance_types::catalogue::Catalogue;
use karpenter_aws::instance_types::offerings::Market;
use karpenter_aws::instance_types::{Evaluated, Programs, Sizing, expression_texts};
use karpenter_aws::launch::failures::Effect;
use karpenter_aws::launch::templates::Template;
use karpenter_aws::pricing::PriceBook;
use karpenter_aws::provider::{OfferingRow, TypeRow};
use karpenter_aws::unavailable::Unavailable;
use karpenter_aws::zonal_shift::{ShiftInfo, ShiftedZones};
use karpenter_aws_controllers::Shared;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels::LabelRules;
use karpenter_model::pool::PoolView;
use karpenter_model::quantity::Quantity;
use karpenter_platform::{
    BoxError, CallError, Clock, CloudProvider, CreateError, Instance, InstanceError, InstanceTypesError, NodeClassKind,
};

use super::account::Account;

pub(crate) const ZONES: [(&str, &str); 3] =
    [("test-zone-1a", "tstz1-1a"), ("test-zone-1b", "tstz1-1b"), ("test-zone-1c", "tstz1-1c")];

#[derive(Debug)]
pub(crate) struct Provider {
    account: Arc<Account>,
    clock: Arc<dyn Clock>,
    policy: LabelPolicy,
    kinds: [NodeClassKind; 1],
    catalogue: Catalogue,
    pub(crate) told: Mutex<Told>,
}

/// What the controllers have told it.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) subnets: BTreeMap<String, i64>,
    pub(crate) reservations: BTreeMap<String, u32>,
    pub(crate) refused: Vec<String>,
    pub(crate) shifted: ShiftedZones,
    pub(crate) observed: Vec<String>,
    pub(crate) leads: usize,
    pub(crate) overlay_prices: Vec<BTreeMap<String, Price>>,
    /// What it answers.
    pub(crate) types: Vec<TypeRow>,
    pub(crate) offerings: Vec<OfferingRow>,
}

fn known(name: &str, arch: &str) -> InstanceTypeInfo {
    InstanceTypeInfo {
        name: name.to_owned(),
        architectures: vec![arch.to_owned()],
        usage_classes: ["on-demand", "spot"].map(str::to_owned).to_vec(),
        hypervisor: Some("nitro".to_owned()),
        vcpus: 2,
        memory_mib: 8192,
        network: NetworkInfo {
            ipv4_per_interface: 10,
            cards: vec![NetworkCard { index: 0, maximum_interfaces: 3 }],
            ..NetworkInfo::default()
        },
        ..InstanceTypeInfo::default()
    }
}

fn sizing() -> Sizing {
    Sizing { region: "us-west-2".to_owned(), vm_memory_overhead_percent: 0.075, reserved_enis: 0 }
}

fn programs(class: &NodeClass) -> Programs {
    expressions::Cache::default().compiled(expression_texts(class).into_iter(), Timestamp::UNIX_EPOCH)
}

impl Provider {
    pub(crate) fn new(account: Arc<Account>, clock: Arc<dyn Clock>) -> Self {
        let mut catalogue = Catalogue::default();
        let types = [("c5.large", "x86_64"), ("m5.large", "x86_64"), ("m6g.large", "arm64")];
        catalogue.types_answered(types.map(|(name, arch)| known(name, arch)).to_vec());
        let sold = |zone: &str| types.map(|(name, _)| TypeOffering { instance_type: name.into(), zone: zone.into() });
        catalogue.offerings_answered(ZONES.iter().flat_map(|(zone, _)| sold(zone)).collect());
        let [group, version, kind, plural] =
            ["karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses"].map(ToOwned::to_owned);
        Self {
            account,
            clock,
            policy: LabelPolicy::aws(),
            kinds: [NodeClassKind { group, version, kind, plural }],
            catalogue,
            told: Mutex::default(),
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }
}

#[async_trait]
impl Shared for Provider {
    async fn service_cidr(&self) -> Result<Option<String>, ApiError> {
        Ok(self.account.cluster("cluster").await?.service_cidr)
    }

    async fn instance_types(&self, class: &NodeClass) -> Result<Arc<Vec<InstanceType>>, BoxError> {
        let (zones, prices, unavailable, shifted) =
            (self.catalogue.zones(), PriceBook::built_in("us-east-1"), Unavailable::default(), BTreeSet::new());
        let market = Market {
            zones,
            prices: &prices,
            overlay_prices: None,
            unavailable: &unavailable,
            shifted_zones: &shifted,
            reservations: None,
            now: self.now(),
        };
        Ok(Arc::new(self.catalogue.listing(class, &sizing(), None, &market, &|_| (None, None))?))
    }

    fn evaluated(&self, class: &NodeClass, types: &[InstanceType]) -> BTreeMap<String, Evaluated> {
        self.catalogue.evaluated(class, &sizing(), &programs(class), types)
    }

    fn expressions_hold(&self, class: &NodeClass) -> Option<Result<(), String>> {
        self.catalogue.expressions_hold(class, &sizing(), &programs(class))
    }

    async fn ensure_template(&self, _: &str, template: &Template) -> Result<(), ApiError> {
        match self.account.launch_template(&template.request.name).await {
            Ok(_) => Ok(()),
            Err(_) => self.account.create_launch_template(&template.request).await.map(|_| ()),
        }
    }

    async fn delete_class_templates(&self, class: &str) -> Result<(), CallError> {
        let failed = |error: ApiError| CallError::new("DeleteLaunchTemplate", error);
        let own = [Filter::new("tag:karpenter.k8s.aws/ec2nodeclass", [class])];
        for template in self.account.launch_templates(&own).await.map_err(failed)? {
            self.account.delete_launch_template(&template.id).await.map_err(failed)?;
        }
        Ok(())
    }

    async fn lead(&self) -> Result<(), CallError> {
        self.told.lock().unwrap().leads += 1;
        Ok(())
    }

    async fn run(&self) {
        std::future::pending::<()>().await;
    }

    fn subnets_described(&self, subnets: &[SubnetInfo]) {
        let free = subnets.iter().map(|one| (one.id.clone(), one.free_addresses));
        self.told.lock().unwrap().subnets.extend(free);
    }

    fn reservations_described(&self, reservations: &[ReservationInfo]) {
        let left = reservations.iter().map(|one| (one.id.clone(), one.available));
        self.told.lock().unwrap().reservations.extend(left);
    }

    fn refused(&self, effect: &Effect) {
        let text = match effect {
            Effect::Offering(key) => key.to_string(),
            other => format!("{other:?}"),
        };
        self.told.lock().unwrap().refused.push(text);
    }

    fn zonal_shifts_described(&self, shifts: &[ShiftInfo]) -> BTreeSet<String> {
        let mut told = self.told.lock().unwrap();
        told.shifted.answered(shifts);
        told.shifted.now(self.now())
    }

    async fn listed_instances(&self) -> Result<Vec<InstanceInfo>, CallError> {
        self.account.instances(&[]).await.map_err(|error| CallError::new("DescribeInstances", error))
    }

    async fn tag_instance(&self, claim: &ClaimView) -> Result<bool, CallError> {
        let id = claim.provider_id.as_deref().and_then(|id| id.rsplit('/').next()).unwrap_or_default().to_owned();
        let failed = |error: ApiError| CallError::new("CreateTags", error);
        let found = self.account.instances_by_id(std::slice::from_ref(&id)).await.map_err(failed)?;
        let Some(found) = found.first() else { return Ok(false) };
        let lacking = karpenter_aws::upkeep::missing_tags(claim, found, "cluster");
        if !lacking.is_empty() {
            self.account.create_tags(&id, &lacking).await.map_err(failed)?;
        }
        Ok(true)
    }

    fn type_rows(&self) -> Vec<TypeRow> {
        self.told.lock().unwrap().types.clone()
    }

    async fn offering_rows(&self, _: &[PoolView]) -> Vec<OfferingRow> {
        self.told.lock().unwrap().offerings.clone()
    }

    fn overlay_prices_read(&self, prices: BTreeMap<String, Price>) {
        self.told.lock().unwrap().overlay_prices.push(prices);
    }

    fn memory_seen(&self, class: &NodeClass, instance_type: &str, memory: Quantity) {
        self.told.lock().unwrap().observed.push(format!("{} {instance_type} {}", class.name, memory.value()));
    }

    fn attachments_seen(&self, class: &NodeClass, instance_type: &str, limit: u32) {
        self.told.lock().unwrap().observed.push(format!("{} {instance_type} {limit} volumes", class.name));
    }
}

/// Nothing of it is used but the names: the core's controllers do not run.
#[derive(Debug)]
pub(crate) struct Names(pub(crate) Arc<Provider>);

#[async_trait]
impl CloudProvider for Names {
    fn name(&self) -> &'static str {
        "aws"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        &self.0.kinds
    }

    fn label_rules(&self) -> &LabelRules {
        self.0.policy.rules()
    }

    async fn create(&self, _: &ClaimView) -> Result<Instance, CreateError> {
        Err(CreateError::InsufficientCapacity("none".to_owned()))
    }

    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        Err(InstanceError::NotFound(claim.name.clone()))
    }

    async fn get(&self, id: &str) -> Result<Instance, InstanceError> {
        Err(InstanceError::NotFound(id.to_owned()))
    }

    async fn find(&self, _: &ClaimView) -> Result<Option<Instance>, CallError> {
        Ok(None)
    }

    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        Ok(Vec::new())
    }

    async fn instance_types(&self, _: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        Ok(Arc::default())
    }
}
