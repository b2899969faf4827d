//! Instances that are there: get, list, delete, reboot (§4.14, §14.3).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use karpenter_api::names::aws;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::InstanceType;
use karpenter_platform::{CallError, Instance, InstanceError, RebootError};
use tracing::info;

use super::launching::{CLAIM_UID_TAG, SERVING};
use super::{AwsProvider, Described, Ended};
use crate::batching::missing;
use crate::class::NodeClass;
use crate::cloud::{ApiError, Ec2Reads, Ec2Writes, Filter, InstanceInfo};
use crate::instances::{Deletion, EXISTING, KnownShape, answer, deletion, is_terminating, list_filters};
use crate::launch::tags;
use crate::provider_id::instance_id;
use crate::reboot::{reboot_error, rebootable};

const GET: &str = "DescribeInstances";
const TERMINATE: &str = "TerminateInstances";
/// Of those that a batch left open, at a time: five hundred that failed, perhaps because there was too much already, must not
/// become five hundred calls at once.
const SINGLE_CALLS: usize = 10;

/// What a class and its types are to instances, read once for many of them.
struct Shape {
    class: NodeClass,
    group: Option<String>,
    types: Arc<Vec<InstanceType>>,
}

impl Shape {
    fn of(&self, info: &InstanceInfo) -> Option<KnownShape<'_>> {
        // Lists are in the order of names.
        let at = self.types.binary_search_by(|known| known.name.as_str().cmp(&info.instance_type)).ok()?;
        let (class, instance_type) = (&self.class, &self.types[at]);
        Some(KnownShape { class, instance_type, placement_group: self.group.as_deref() })
    }
}

impl AwsProvider {
    /// From memory, unless it is not there; EC2 is asked past that by whoever has to be sure (AWS-199).
    pub(super) async fn known_instance(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        let id = instance_id(provider_id).map_err(|error| CallError::new(GET, error))?;
        let info = self.instance(id).await?;
        Ok(self.answered(&info).await)
    }

    pub(super) async fn instance(&self, id: &str) -> Result<InstanceInfo, InstanceError> {
        let known = self.facts().instance(id).map(|known| known.info.clone());
        match known {
            Some(info) => Ok(info),
            None => self.fresh_instance(id).await,
        }
    }

    /// As EC2 says now. In a zone that traffic is shifted away from EC2 is not asked, what is remembered has to do; and what
    /// was just launched is there although EC2 does not show it yet.
    pub(super) async fn fresh_instance(&self, id: &str) -> Result<InstanceInfo, InstanceError> {
        let now = self.now();
        let shifted = {
            let facts = self.facts();
            let known = facts.instance(id).filter(|known| facts.is_shifted(&known.info.zone, now));
            known.map(|known| known.info.clone())
        };
        if let Some(info) = shifted {
            return Ok(info);
        }
        let lost = || CallError::new(GET, "the answer got lost");
        let found = match self.describe.ask(id.to_owned()).await.ok_or_else(lost)? {
            Ok(found) => found,
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(CallError::new(GET, error).into()),
        };
        let found = found.filter(|info| EXISTING.contains(&info.state.as_str()));
        let now = self.now();
        let mut facts = self.facts();
        match found {
            Some(info) => {
                facts.seen(&info);
                Ok(info)
            }
            None => facts.not_shown(id, now).ok_or_else(|| InstanceError::NotFound(format!("instance {id}"))),
        }
    }

    /// The instance of a claim that was never told of it.
    pub(super) async fn instance_of(&self, claim: &ClaimView) -> Result<Option<InstanceInfo>, CallError> {
        let known = {
            let facts = self.facts();
            let known = facts.attempts.instance(&claim.uid).and_then(|id| facts.instance(id));
            known.map(|known| known.info.clone())
        };
        match known.filter(|info| !is_terminating(info)) {
            Some(info) => Ok(Some(info)),
            None => self.tagged_instance(claim).await,
        }
    }

    /// Every instance of this cluster, as EC2 says.
    pub async fn listed_instances(&self) -> Result<Vec<InstanceInfo>, CallError> {
        let found = self.clients.reads.instances(&list_filters(&self.settings.cluster.name)).await;
        let found = found.map_err(|error| CallError::new(GET, error))?;
        let now = self.now();
        self.facts().all_seen(&found, now);
        Ok(found)
    }

    pub(super) async fn answered(&self, info: &InstanceInfo) -> Instance {
        let shape = self.shape(info.tags.get(tags::NODE_CLASS).map(String::as_str).unwrap_or_default()).await;
        let known = shape.as_ref().and_then(|shape| shape.of(info));
        answer(info, known.as_ref(), self.settings.reserved_capacity)
    }

    pub(super) async fn all_answered(&self, infos: &[InstanceInfo]) -> Vec<Instance> {
        let class = |info: &InstanceInfo| info.tags.get(tags::NODE_CLASS).cloned().unwrap_or_default();
        let names: BTreeSet<String> = infos.iter().map(class).collect();
        let mut shapes = BTreeMap::new();
        for name in names {
            if let Some(shape) = self.shape(&name).await {
                shapes.insert(name, shape);
            }
        }
        let known = |info: &InstanceInfo| {
            let shape = shapes.get(&class(info)).and_then(|shape| shape.of(info));
            answer(info, shape.as_ref(), self.settings.reserved_capacity)
        };
        infos.iter().map(known).collect()
    }

    /// `None` where the class is gone or says too little: the instance is then told of without its type (AWS-293).
    async fn shape(&self, class: &str) -> Option<Shape> {
        let (_, class) = self.living_class(class)?;
        let group = self.placement_group(&class).await.ok()?;
        let types = self.listing(&class, group.as_ref()).ok()?;
        Some(Shape { class, group: group.map(|group| group.id), types })
    }

    /// AWS-200.
    pub(super) async fn end_instance(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        let provider_id = claim.provider_id.as_deref().unwrap_or_default();
        if provider_id.is_empty() {
            return Err(InstanceError::NotFound(format!("nodeclaim {} has no instance", claim.name)));
        }
        let id = instance_id(provider_id).map_err(|error| CallError::new(TERMINATE, error))?;
        let info = match self.fresh_instance(id).await {
            Ok(info) => info,
            Err(error) => return Err(self.noted_end(claim, error)),
        };
        let shifted = {
            let now = self.now();
            self.facts().is_shifted(&info.zone, now)
        };
        match deletion(&info, shifted) {
            Deletion::Nothing => Ok(()),
            Deletion::Refused => {
                let why = format!("traffic is shifted away from zone {} of instance {id}", info.zone);
                Err(CallError::new(TERMINATE, why).into())
            }
            Deletion::Terminate => {
                let ended = self.ended(&info).await;
                ended.map_err(|error| self.noted_end(claim, error))
            }
        }
    }

    /// Terminates an instance whether or not it has a claim.
    pub(super) async fn ended(&self, info: &InstanceInfo) -> Result<(), InstanceError> {
        let lost = || CallError::new(TERMINATE, "the answer got lost");
        let error = match self.terminate.ask(info.id.clone()).await.ok_or_else(lost)? {
            Ok(()) => {
                info!(instance = %info.id, "terminating instance");
                self.facts().ending(&info.id);
                return Ok(());
            }
            Err(error) => error,
        };
        if error.is_not_found() {
            let now = self.now();
            let early = self.facts().not_shown(&info.id, now);
            // One that EC2 does not show yet is asked for again until it is gone, as any other that is on its way out.
            return early.map(|_| ()).ok_or_else(|| InstanceError::NotFound(format!("instance {}", info.id)));
        }
        let zone_id = self.facts().zone_ids.get(&info.zone).cloned().unwrap_or_default();
        self.reports.termination_failed(&info.zone, &zone_id);
        Err(CallError::new(TERMINATE, error).into())
    }

    /// A place in its reservation is free again once EC2 does not know the instance any more (AWS-78).
    fn noted_end(&self, claim: &ClaimView, error: InstanceError) -> InstanceError {
        let reservation = claim.labels.get(aws::CAPACITY_RESERVATION_ID);
        if let (InstanceError::NotFound(_), Some(id)) = (&error, reservation) {
            self.facts().reservations.terminated(id);
        }
        error
    }

    pub(super) async fn reboot_instance(&self, claim: &ClaimView, operation: &str) -> Result<(), RebootError> {
        let provider_id = claim.provider_id.as_deref().unwrap_or_default();
        let id = instance_id(provider_id).map_err(|error| RebootError::Failed(error.to_string()))?;
        let now = self.now();
        if self.facts().reboots.knows(operation, now) {
            return Ok(());
        }
        let info = self.fresh_instance(id).await.map_err(|error| match error {
            InstanceError::NotFound(which) => RebootError::NotFound(which),
            InstanceError::Call(error) => RebootError::Call(error),
        })?;
        let shifted = self.facts().is_shifted(&info.zone, now);
        rebootable(id, &info.state, shifted)?;
        self.clients.writes.reboot_instance(id).await.map_err(|error| reboot_error(id, error))?;
        info!(nodeclaim = %claim.name, instance = id, operation, "rebooting instance");
        let now = self.now();
        self.facts().reboots.accepted(operation, now);
        Ok(())
    }
}

/// One call for all; whatever it leaves open is asked for one by one (AWS-196).
pub(super) fn describe(reads: Arc<dyn Ec2Reads>, ids: Vec<String>) -> BoxFuture<'static, Vec<Described>> {
    async move {
        let known = index(reads.instances_by_id(&distinct(&ids)).await.unwrap_or_default());
        let open = missing(&ids, &known.keys().cloned().collect());
        let one = async |id: &str| {
            let id = id.to_owned();
            let found = reads.instances_by_id(std::slice::from_ref(&id)).await;
            let found = found.map(|found| found.into_iter().find(|info| info.id == id));
            (id, found)
        };
        // Of one alone the first answer is the answer.
        let mut single: BTreeMap<String, Described> = BTreeMap::new();
        for few in open.chunks(SINGLE_CALLS) {
            single.extend(join_all(few.iter().map(|id| one(id))).await);
        }
        let share = |id: &String| match known.get(id) {
            Some(info) => Ok(Some(info.clone())),
            None => single.get(id).cloned().unwrap_or(Ok(None)),
        };
        ids.iter().map(share).collect()
    }
    .boxed()
}

/// One call for many claims: after a change of leader every launch asks whether its predecessor has made it already. A failure is
/// everybody's, who then asks again later.
pub(super) fn tagged(reads: Arc<dyn Ec2Reads>, uids: Vec<String>) -> BoxFuture<'static, Vec<Described>> {
    async move {
        let own =
            [Filter::new(format!("tag:{CLAIM_UID_TAG}"), distinct(&uids)), Filter::new("instance-state-name", SERVING)];
        let mut found = match reads.instances(&own).await {
            Ok(found) => found,
            Err(error) => return uids.iter().map(|_| Err(error.clone())).collect(),
        };
        found.sort_by(|a, b| (a.launched, &a.id).cmp(&(b.launched, &b.id)));
        let first = |uid: &String| found.iter().find(|info| info.tags.get(CLAIM_UID_TAG) == Some(uid)).cloned();
        uids.iter().map(|uid| Ok(first(uid))).collect()
    }
    .boxed()
}

pub(super) fn terminate(writes: Arc<dyn Ec2Writes>, ids: Vec<String>) -> BoxFuture<'static, Vec<Ended>> {
    async move {
        let ending: BTreeSet<String> =
            writes.terminate_instances(&distinct(&ids)).await.unwrap_or_default().into_iter().collect();
        let open = missing(&ids, &ending);
        let one = async |id: &str| {
            let id = id.to_owned();
            let answer = writes.terminate_instances(std::slice::from_ref(&id)).await;
            let answer = answer.and_then(|ending| {
                let unsaid = || ApiError::new("", "EC2 does not say that the instance is terminating");
                if ending.contains(&id) { Ok(()) } else { Err(unsaid()) }
            });
            (id, answer)
        };
        let mut single: BTreeMap<String, Ended> = BTreeMap::new();
        for few in open.chunks(SINGLE_CALLS) {
            single.extend(join_all(few.iter().map(|id| one(id))).await);
        }
        ids.iter().map(|id| single.get(id).cloned().unwrap_or(Ok(()))).collect()
    }
    .boxed()
}

fn distinct(ids: &[String]) -> Vec<String> {
    ids.iter().collect::<BTreeSet<_>>().into_iter().cloned().collect()
}

fn index(infos: Vec<InstanceInfo>) -> BTreeMap<String, InstanceInfo> {
    infos.into_iter().map(|info| (info.id.clone(), info)).collect()
}
