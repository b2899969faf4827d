//! From a claim to an instance (§4.1).

use std::collections::{BTreeMap, BTreeSet};

use karpenter_api::hash::ec2_node_class_hash;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels;
use karpenter_platform::{CallError, CreateError, Instance};
use tracing::{debug, error, info};

use super::{AwsProvider, Notice};
use crate::batching::{CREATE_FLEET, hand_out};
use crate::class::NodeClass;
use crate::cloud::{ApiError, FleetAnswer, FleetInstance, InstanceInfo, Run};
use crate::family::AmiFamily;
use crate::instance_types::{Evaluated, PlacementGroup};
use crate::instances::{KnownShape, answer, launch_annotations};
use crate::launch::choice::{capacity_type, lacks_flexibility, tenancy};
use crate::launch::failures::{Attempt, Effect, FailedCall, effects, failed_call, launch_failures, no_instance};
use crate::launch::filters::filtered;
use crate::launch::fleet::{completed, fleet_request};
use crate::launch::readiness::readiness;
use crate::launch::templates::{LaunchFacts, Template, TemplateError, templates};
use crate::selection::subnets::ZonalSubnet;
use crate::user_data::{Cluster, UserDataError};

/// On every instance from its launch on: for whom it was launched. A process that starts after a crash finds it by this.
pub const CLAIM_UID_TAG: &str = "karpenter.k8s.aws/nodeclaim-uid";

/// Claims this much younger than our leadership may still have been launched by the one before us: clocks differ.
const CLOCKS_DIFFER: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);

/// States in which an instance can still serve its claim.
pub(super) const SERVING: [&str; 4] = ["pending", "running", "stopping", "stopped"];

/// How many names a line of the log has.
const NAMED: usize = 5;

/// All that was decided before EC2 is asked.
struct Launch<'a> {
    claim: &'a ClaimView,
    class: &'a NodeClass,
    group: Option<PlacementGroup>,
    cluster: Cluster,
    types: Vec<InstanceType>,
    capacity_type: &'static str,
    tenancy: &'static str,
    evaluated: BTreeMap<String, Evaluated>,
}

fn explained(reason: &str, message: impl Into<String>) -> CreateError {
    CreateError::Explained { reason: reason.to_owned(), message: message.into() }
}

impl AwsProvider {
    pub(super) async fn launch(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        let name = &claim.node_class.name;
        let Some(object) = self.living_object(name) else {
            self.reports.notice(Notice::NoClassForClaim(claim));
            return Err(CreateError::InsufficientCapacity(format!("EC2NodeClass {name} does not exist or is going")));
        };
        let class = NodeClass::read(&object)
            .map_err(|error| CreateError::NodeClassNotReady(format!("EC2NodeClass {name}: {error}")))?;
        readiness(&object, &class)?;
        if let Some(info) = self.launched_before(claim).await? {
            info!(nodeclaim = %claim.name, instance = %info.id, "found the instance that was launched for the nodeclaim");
            return self.told(claim, &class, &info).await;
        }
        let launch = self.decided(claim, &class).await?;
        let info = self.bought(&launch).await?;
        self.told(claim, &class, &info).await
    }

    /// The instance of an earlier attempt. EC2 is asked only where there could be one that this process does not remember.
    async fn launched_before(&self, claim: &ClaimView) -> Result<Option<InstanceInfo>, CallError> {
        let ask = {
            let facts = self.facts();
            let known = facts.attempts.instance(&claim.uid).and_then(|id| facts.instance(id));
            if let Some(known) = known.filter(|known| SERVING.contains(&known.info.state.as_str())) {
                return Ok(Some(known.info.clone()));
            }
            let ours = |since: jiff::Timestamp| claim.created_at.duration_since(since) >= CLOCKS_DIFFER;
            facts.attempts.is_open(&claim.uid) || !facts.leading_since.is_some_and(ours)
        };
        if ask { self.tagged_instance(claim).await } else { Ok(None) }
    }

    /// What EC2 shows with the claim's tag; the oldest, should there be several: the others are collected.
    pub(super) async fn tagged_instance(&self, claim: &ClaimView) -> Result<Option<InstanceInfo>, CallError> {
        let call = "DescribeInstances";
        let found = self.tagged.ask(claim.uid.clone()).await;
        let found = found.ok_or_else(|| CallError::new(call, "the answer got lost"))?;
        let first = found.map_err(|error| CallError::new(call, error))?;
        if let Some(info) = &first {
            let now = self.now();
            let mut facts = self.facts();
            facts.seen(info);
            facts.attempts.answered(&claim.uid, Some(&info.id), now);
        }
        Ok(first)
    }

    /// The instance as the claim is told of it, with the class's stamps.
    async fn told(&self, claim: &ClaimView, class: &NodeClass, info: &InstanceInfo) -> Result<Instance, CreateError> {
        let ca_bundle = self.settings.cluster.ca_bundle.as_deref().unwrap_or_default();
        let hash = ec2_node_class_hash(&class.spec, ca_bundle)
            .map_err(|error| CreateError::NodeClassNotReady(format!("EC2NodeClass {}: {error}", class.name)))?;
        let group = self.placement_group(class).await.ok().flatten();
        let types = self.listing(class, group.as_ref()).unwrap_or_default();
        let known = types.iter().find(|known| known.name == info.instance_type);
        let placement_group = group.as_ref().map(|group| group.id.as_str());
        let shape = known.map(|instance_type| KnownShape { class, instance_type, placement_group });
        let mut instance = answer(info, shape.as_ref(), self.settings.reserved_capacity);
        instance.annotations = launch_annotations(class, hash);
        debug!(nodeclaim = %claim.name, provider_id = %instance.provider_id, "resolved nodeclaim");
        Ok(instance)
    }

    /// Types, capacity type and tenancy, by what is known; EC2 is asked only for what a class needs of it.
    async fn decided<'a>(&self, claim: &'a ClaimView, class: &'a NodeClass) -> Result<Launch<'a>, CreateError> {
        let cluster = self.cluster_of(class).await?;
        let group = self.placement_group(class).await;
        let group = group.map_err(|error| CreateError::NodeClassNotReady(error.to_string()))?;
        let listed = self.listing(class, group.as_ref()).map_err(|error| {
            debug!(nodeclaim = %claim.name, nodeclass = %class.name, %error, "no instance types");
            explained("InstanceTypeResolutionFailed", "Error resolving instance types")
        })?;
        let types = self.worth_asking_for(claim, &listed)?;
        let rules = self.policy.rules();
        let capacity_type = capacity_type(&types, &claim.requirements, rules);
        if lacks_flexibility(types.len(), capacity_type, &claim.requirements) {
            error!(nodeclaim = %claim.name, instance_types = types.len(),
                "few instance types to choose from while on-demand stands in for spot; at least 5 are recommended");
        }
        let tenancy = tenancy(&claim.requirements);
        let evaluated = self.evaluated(class, &types);
        Ok(Launch { claim, class, group, cluster, types, capacity_type, tenancy, evaluated })
    }

    fn worth_asking_for(&self, claim: &ClaimView, listed: &[InstanceType]) -> Result<Vec<InstanceType>, CreateError> {
        // The first filter would drop the others, too; this one saves copies of all of them.
        let named = claim.requirements.get(labels::INSTANCE_TYPE);
        let named = |one: &&InstanceType| named.is_none_or(|named| named.has(&one.name));
        let types: Vec<InstanceType> = listed.iter().filter(named).cloned().collect();
        let left = filtered(types, claim, self.policy.rules())
            .map_err(|nothing| CreateError::InsufficientCapacity(nothing.to_string()))?;
        for (filter, rejected) in left.rejected.iter().filter(|(filter, _)| *filter != "compatible-available") {
            let names = &rejected[..rejected.len().min(NAMED)];
            info!(nodeclaim = %claim.name, filter, count = rejected.len(), instance_types = ?names, "filtered out instance types");
        }
        Ok(left.types)
    }

    /// AL2023 has to know the cluster's services; looked up once (AWS-177).
    async fn cluster_of(&self, class: &NodeClass) -> Result<Cluster, CreateError> {
        let mut cluster = self.settings.cluster.clone();
        if class.family == AmiFamily::Al2023 {
            cluster.service_cidr = self.service_cidr().await.map_err(|error| {
                if error.is_rate_limited() || error.server_fault || error.code.is_empty() {
                    return CreateError::Call(CallError::new("DescribeCluster", error));
                }
                CreateError::NodeClassNotReady(format!("EC2NodeClass {}: cluster CIDR: {error}", class.name))
            })?;
        }
        Ok(cluster)
    }

    /// Of the cluster's services; asked for until it is known.
    pub async fn service_cidr(&self) -> Result<Option<String>, ApiError> {
        let known = || self.settings.cluster.service_cidr.clone().or_else(|| self.facts().service_cidr.clone());
        if let Some(known) = known() {
            return Ok(Some(known));
        }
        let _one_at_a_time = self.asking_for_cluster.lock().await;
        if let Some(known) = known() {
            return Ok(Some(known));
        }
        let found = self.clients.lookups.cluster(&self.settings.cluster.name).await?.service_cidr;
        self.facts().service_cidr.clone_from(&found);
        Ok(found)
    }

    /// Asks EC2 for one instance and takes note of all that it says.
    async fn bought(&self, launch: &Launch<'_>) -> Result<InstanceInfo, CreateError> {
        let facts = self.launch_facts(launch);
        let templates = templates(&launch.types, &facts).map_err(|error| template_error(&error))?;
        let subnets = {
            let now = self.now();
            self.facts().addresses.take(launch.class.subnets(), &launch.types, launch.capacity_type, now)
        };
        let answer = self.asked(launch, &templates, &subnets).await;
        let used = answer.iter().flat_map(|answer| answer.instances.iter().map(|one| one.subnet_id.clone())).collect();
        {
            let now = self.now();
            self.facts().addresses.settle(&subnets, &used, now);
        }
        let answer = answer?;
        let attempt = Attempt {
            class: launch.class,
            capacity_type: launch.capacity_type,
            templates: &templates,
            placement_group: launch.group.as_ref(),
            partition: templates.first().and_then(|template| template.request.data.placement.partition),
        };
        self.note_refusals(launch.claim, &answer, &attempt);
        let (mut shares, surplus) = hand_out(answer, 1);
        for one in surplus {
            error!(nodeclaim = %launch.claim.name, instance = %one.id, "EC2 launched more than was asked for; it is collected");
        }
        let share = shares.pop().unwrap_or_else(|| Err(Vec::new()));
        let now = self.now();
        let mut known = self.facts();
        known.attempts.answered(&launch.claim.uid, share.as_ref().ok().map(|one| one.id.as_str()), now);
        let bought = share.map_err(|errors| no_instance(&errors))?;
        let template = templates.iter().find(|template| template.request.name == bought.template_name);
        let template = template.or(templates.first());
        let info = launched_info(&bought, template, launch, now);
        if let Some(id) = &info.reservation_id {
            known.reservations.launched(id, now);
        }
        known.launched(info.clone(), now);
        drop(known);
        info!(nodeclaim = %launch.claim.name, instance = %info.id, instance_type = %info.instance_type, zone = %info.zone,
            capacity_type = launch.capacity_type, "launched instance");
        Ok(info)
    }

    fn launch_facts<'a>(&'a self, launch: &'a Launch<'a>) -> LaunchFacts<'a> {
        LaunchFacts {
            class: launch.class,
            cluster: &launch.cluster,
            region: &self.settings.sizing.region,
            claim: launch.claim,
            capacity_type: launch.capacity_type,
            tenancy: launch.tenancy,
            placement_group: launch.group.as_ref(),
            reserved_capacity: self.settings.reserved_capacity,
            evaluated: &launch.evaluated,
            rules: self.policy.rules(),
        }
    }

    /// Templates, then the fleet; once more if a template has vanished in between (AWS-162).
    ///
    /// Equal requests of several claims are not sent as one: see `docs/decisions/0010-one-fleet-per-claim.md`.
    async fn asked(
        &self,
        launch: &Launch<'_>,
        templates: &[Template],
        subnets: &BTreeMap<String, ZonalSubnet>,
    ) -> Result<FleetAnswer, CreateError> {
        let claim = launch.claim;
        let by_zone = subnets.iter().map(|(zone, subnet)| (zone.clone(), subnet.id.clone())).collect();
        let request = fleet_request(templates, &by_zone, &self.launch_facts(launch));
        let mut request = request.map_err(|error| explained("LaunchFailed", error.to_string()))?;
        for specification in &mut request.tags {
            specification.tags.insert(CLAIM_UID_TAG.to_owned(), claim.uid.clone());
        }
        self.ensure_templates(&launch.class.name, templates).await?;
        let mut vanished = false;
        loop {
            let token = {
                let now = self.now();
                self.facts().attempts.begins(&claim.uid, now)
            };
            let answer = {
                // The semaphore is never closed; without a permit there would only be more at once.
                let _permit = self.fleets.acquire().await.ok();
                self.reports.batch_sent(CREATE_FLEET.name, 1, jiff::SignedDuration::ZERO);
                self.clients.writes.create_fleet(&request, &token, Run::Real).await
            };
            let error = match answer {
                Ok(answer) => return Ok(completed(answer, &request)),
                Err(error) => error,
            };
            self.note_failure(claim, &error);
            if error.is_template_not_found() && !vanished {
                vanished = true;
                self.forget_templates(templates).await;
                self.ensure_templates(&launch.class.name, templates).await?;
                continue;
            }
            let call = if error.is_template_not_found() { FailedCall::TemplatesGone } else { FailedCall::Fleet };
            debug!(nodeclaim = %claim.name, %error, "CreateFleet failed");
            return Err(failed_call(call, &error));
        }
    }

    /// Whether a request that failed as a whole may have launched something all the same.
    fn note_failure(&self, claim: &ClaimView, error: &ApiError) {
        let now = self.now();
        let mut facts = self.facts();
        if error.code == "IdempotentParameterMismatch" {
            facts.attempts.token_was_used(&claim.uid, now);
        } else if !error.code.is_empty() && !error.server_fault {
            facts.attempts.refused(&claim.uid, now);
        }
    }

    /// Also those beside a successful launch (AWS-188).
    fn note_refusals(&self, claim: &ClaimView, answer: &FleetAnswer, attempt: &Attempt<'_>) {
        for failure in launch_failures(&answer.errors, attempt) {
            self.reports.launch_failed(&failure);
        }
        for effect in effects(&answer.errors, attempt) {
            debug!(nodeclaim = %claim.name, ?effect, "EC2 refused");
            match effect {
                Effect::SpotRoleMissing => self.reports.notice(Notice::SpotRoleMissing(claim)),
                effect => self.refused(&effect),
            }
        }
    }

    /// Something is not worth another try for a while: EC2 has refused it, or takes it back.
    pub fn refused(&self, effect: &Effect) {
        let now = self.now();
        let mut facts = self.facts();
        match effect {
            Effect::Offering(key) => facts.unavailable.mark_offering(key.clone(), now),
            Effect::CapacityType(capacity_type) => facts.unavailable.mark_capacity_type(capacity_type, now),
            Effect::Subnet(subnet) => {
                facts.addresses.exhausted(subnet, now);
                facts.unavailable.mark_subnet(subnet, now);
            }
            Effect::Reservation(id) => facts.reservations.exhausted(id),
            // Only its claim is told.
            Effect::SpotRoleMissing => {}
        }
    }
}

/// Nothing was sent. A class that lacks what user data needs is not ready (AWS-192).
fn template_error(error: &TemplateError) -> CreateError {
    match error {
        TemplateError::UserData(UserDataError::NoServiceCidr) => CreateError::NodeClassNotReady(error.to_string()),
        _ => explained("LaunchFailed", format!("Error getting launch template configs: {error}")),
    }
}

/// The instance as far as the request and its answer say; EC2 is not asked again, it may not show it yet.
fn launched_info(
    bought: &FleetInstance,
    template: Option<&Template>,
    launch: &Launch<'_>,
    now: jiff::Timestamp,
) -> InstanceInfo {
    let data = template.map(|template| &template.request.data);
    let spot = launch.capacity_type == labels::CAPACITY_TYPE_SPOT;
    let reservation = template.and_then(|template| template.reservation.as_ref());
    let mut tags = template.map(|template| template.request.tags.clone()).unwrap_or_default();
    tags.insert(CLAIM_UID_TAG.to_owned(), launch.claim.uid.clone());
    let groups = launch.class.status.security_groups.iter().flatten().map(|group| group.id.clone());
    let is_efa = |kind: &Option<String>| kind.as_deref().is_some_and(|kind| kind.starts_with("efa"));
    InstanceInfo {
        id: bought.id.clone(),
        state: "pending".to_owned(),
        image_id: data.map(|data| data.image_id.clone()).unwrap_or_default(),
        instance_type: bought.instance_type.clone(),
        zone: bought.zone.clone(),
        subnet_id: bought.subnet_id.clone(),
        security_groups: groups.collect::<BTreeSet<String>>(),
        launched: Some(now),
        tags,
        // Its name is not known yet, only that there is one.
        spot_request_id: spot.then(String::new),
        reservation_id: reservation.map(|one| one.id.clone()),
        reservation_preference: data.and_then(|data| data.reservation.as_ref()).map(|one| one.preference.to_owned()),
        lifecycle: data.and_then(|data| data.market).map(str::to_owned),
        tenancy: Some(launch.tenancy.to_owned()),
        has_efa: data.is_some_and(|data| data.interfaces.iter().any(|interface| is_efa(&interface.kind))),
        partition: data.and_then(|data| data.placement.partition),
    }
}
