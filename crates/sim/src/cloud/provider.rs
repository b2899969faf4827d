//! The provider contract.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use karpenter_model::claim::{ClaimView, Status};
use karpenter_model::instance_type::{InstanceType, Offering};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pool::PoolView;
use karpenter_model::resources::Resources;
use karpenter_model::taints::Taint;
use karpenter_platform::{
    CallError, CloudProvider, CreateError, DriftReason, Instance, InstanceError, InstanceTypesError, NodeClassKind,
    RebootError, RepairAction, RepairPolicy, ReservationLabels,
};

use super::offers::{choices, resolved_labels};
use super::state::{OfferingKey, Record};
use super::{Cloud, PROVIDER_PREFIX, after, life};
use crate::chance::Chance;
use crate::fleet::{Health, Machine};

/// What becomes of one call.
enum Fate {
    Good,
    /// Everything is done, but the caller does not learn it.
    AnswerLost,
}

impl Cloud {
    fn call(&self, name: &'static str) -> Result<Fate, CallError> {
        let now = self.clock.now();
        let mut state = self.lock();
        let trouble = state.trouble;
        if !state.admit(now) || state.chance.happens(trouble.throttled) {
            return Err(CallError::new(name, "RequestLimitExceeded: too many calls"));
        }
        if state.chance.happens(trouble.failed) {
            return Err(CallError::new(name, "InternalError: the cloud is not well"));
        }
        Ok(if state.chance.happens(trouble.answer_lost) { Fate::AnswerLost } else { Fate::Good })
    }

    /// The machine that was launched for this claim, if it still runs.
    fn launched_for(&self, claim: &ClaimView) -> Option<Instance> {
        let state = self.lock();
        let record = state.records.get(state.by_claim.get(&claim.uid)?)?;
        record.gone_at.is_none().then(|| record.instance.clone())
    }

    /// The cheapest offering of which there is one left; sold out ones are not on offer for a while.
    fn pick(&self, claim: &ClaimView) -> Option<(InstanceType, Offering, OfferingKey)> {
        let types = self.on_offer();
        let until = after(self.clock.now(), self.settings.sold_out);
        let mut tried = BTreeSet::new();
        for (instance_type, offering) in choices(&types, claim, self.policy.rules()) {
            let key = OfferingKey::of(&instance_type.name, offering);
            let stock = self.stock(&key, offering);
            let mut state = self.lock();
            let trouble = state.trouble.no_capacity;
            let none_left = stock.is_some_and(|stock| state.used(&key) >= stock) || state.chance.happens(trouble);
            if !none_left {
                return Some((instance_type.clone(), offering.clone(), key));
            }
            if offering.reservation_capacity.is_none() {
                state.sell_out(key.clone(), until);
            }
            drop(state);
            if tried.insert(key.clone()) {
                self.note(&format!("sold out: {} {} {}", key.instance_type, key.zone, key.capacity_type));
            }
        }
        None
    }

    fn launch(
        &self,
        claim: &ClaimView,
        instance_type: &InstanceType,
        offering: &Offering,
        key: OfferingKey,
    ) -> Instance {
        let now = self.clock.now();
        let number = Chance::about(self.seed, &["machine", &claim.uid, &now.to_string()]).number();
        let id = format!("{PROVIDER_PREFIX}{}/i-{number:016x}", key.zone);
        let node_name = format!("i-{number:016x}.sim.internal");
        let labels = resolved_labels(claim, instance_type, offering);
        // What its type says nothing about is made to order.
        let made = |mut amounts: Resources| {
            for (name, amount) in claim.requests.iter().filter(|(name, _)| instance_type.capacity.get(name).is_none()) {
                amounts.set(name, amount);
            }
            amounts
        };
        let instance = Instance {
            provider_id: id.clone(),
            image_id: Some("image-1".to_owned()),
            labels: labels.clone(),
            annotations: BTreeMap::new(),
            capacity: made(instance_type.capacity_with(&offering.overrides)),
            allocatable: made(instance_type.allocatable_with(&offering.overrides)),
            terminating: false,
        };
        let mut taints = vec![Taint::unregistered()];
        karpenter_model::taints::merge(&mut taints, &claim.taints);
        karpenter_model::taints::merge(&mut taints, &claim.startup_taints);
        let mut node_labels = labels;
        node_labels.extend(claim.labels.to_map());
        self.fleet.add(Machine {
            provider_id: id.clone(),
            node_name,
            labels: node_labels,
            taints,
            capacity: instance.capacity.clone(),
            allocatable: instance.allocatable.clone(),
            joins_at: after(now, self.drawn(self.settings.registration, &["join", &claim.uid])),
            on: true,
            boot_id: format!("boot-{number:016x}"),
            down_until: None,
            health: Health::Well,
            ailments: BTreeMap::new(),
        });
        self.note(&format!(
            "launched {id} for {}: {} {} {} at {}",
            claim.name, key.instance_type, key.zone, key.capacity_type, offering.price
        ));
        let interrupted_at = self.end_of_spot_life(&id, &key, now);
        self.lock().take(Record {
            instance: instance.clone(),
            claim_uid: claim.uid.clone(),
            offering: key,
            price: offering.price,
            launched_at: now,
            gone_at: None,
            interrupted_at,
            announced: false,
            reboots: BTreeSet::new(),
        });
        self.due.add(id);
        instance
    }

    /// Drawn so that any minute is as likely as the next to be the last one.
    fn end_of_spot_life(&self, id: &str, key: &OfferingKey, now: Timestamp) -> Option<Timestamp> {
        let mean = self.settings.spot_life.filter(|_| key.capacity_type == labels::CAPACITY_TYPE_SPOT)?;
        let drawn = -(1.0 - Chance::about(self.seed, &["life", id]).fraction()).ln();
        let life = Duration::try_from_secs_f64(mean.as_secs_f64() * drawn).unwrap_or(mean);
        Some(after(after(now, self.settings.notice), life))
    }
}

#[async_trait]
impl CloudProvider for Cloud {
    fn name(&self) -> &'static str {
        "sim"
    }

    fn node_classes(&self) -> &[NodeClassKind] {
        &self.classes
    }

    fn label_rules(&self) -> &LabelRules {
        self.policy.rules()
    }

    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        tokio::time::sleep(self.drawn(self.settings.launch, &["launch", &claim.uid])).await;
        let fate = self.call("create")?;
        let instance = if let Some(instance) = self.launched_for(claim) {
            instance
        } else if let Some((instance_type, offering, key)) = self.pick(claim) {
            self.launch(claim, &instance_type, &offering, key)
        } else {
            let why = format!("nothing that nodeclaim {} could use is left", claim.name);
            return Err(CreateError::InsufficientCapacity(why));
        };
        match fate {
            Fate::Good => Ok(instance),
            Fate::AnswerLost => Err(CallError::new("create", "connection reset").into()),
        }
    }

    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        let id = claim.provider_id.clone().unwrap_or_default();
        let fate = self.call("delete")?;
        let gone_at = self.lock().records.get(&id).map(|record| record.gone_at);
        match gone_at {
            None => return Err(InstanceError::NotFound(id)),
            Some(Some(gone_at)) if gone_at <= self.clock.now() => return Err(InstanceError::NotFound(id)),
            Some(Some(_)) => {}
            Some(None) => {
                self.note(&format!("terminating {id}"));
                life::terminate(self, &id, self.drawn(self.settings.shutdown, &["shutdown", &id]));
            }
        }
        match fate {
            Fate::Good => Ok(()),
            Fate::AnswerLost => Err(CallError::new("delete", "connection reset").into()),
        }
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        self.call("get")?;
        let now = self.clock.now();
        let state = self.lock();
        let record = state.records.get(provider_id).filter(|record| record.gone_at.is_none_or(|at| at > now));
        let record = record.ok_or_else(|| InstanceError::NotFound(provider_id.to_owned()))?;
        Ok(Instance { terminating: record.gone_at.is_some(), ..record.instance.clone() })
    }

    async fn find(&self, claim: &ClaimView) -> Result<Option<Instance>, CallError> {
        self.call("find")?;
        let state = self.lock();
        let own = state.records.values().find(|record| record.claim_uid == claim.uid && record.gone_at.is_none());
        Ok(own.map(|record| record.instance.clone()))
    }

    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        self.call("list")?;
        // As it was a while ago.
        let lag = jiff::SignedDuration::try_from(self.settings.lag).unwrap_or_default();
        let then = self.clock.now().checked_sub(lag).unwrap_or(Timestamp::MIN);
        let state = self.lock();
        let known = state.records.values().filter(|record| record.launched_at <= then);
        let known = known.filter(|record| record.gone_at.is_none_or(|at| at > then));
        Ok(known.map(|r| Instance { terminating: r.gone_at.is_some(), ..r.instance.clone() }).collect())
    }

    async fn instance_types(&self, _pool: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        Ok(self.on_offer())
    }

    async fn drift(&self, claim: &ClaimView) -> Result<Option<DriftReason>, InstanceError> {
        let id = claim.provider_id.clone().unwrap_or_default();
        let state = self.lock();
        let known = state.records.get(&id).is_some_and(|record| record.gone_at.is_none());
        if known { Ok(state.drifted.get(&id).cloned()) } else { Err(InstanceError::NotFound(id)) }
    }

    fn repair_policies(&self) -> Vec<RepairPolicy> {
        let policy = |condition: (&str, Status), expression: &str, action| RepairPolicy {
            condition_type: condition.0.to_owned(),
            condition_status: condition.1,
            reason_expression: expression.to_owned(),
            toleration: Duration::from_mins(10),
            termination_grace_period: None,
            priority: 0,
            action,
        };
        vec![
            policy(("Ready", Status::False), "", RepairAction::ReplaceNode),
            policy(("Ready", Status::Unknown), ".*", RepairAction::ReplaceNode),
            policy(("KernelDeadlock", Status::True), ".*", RepairAction::RebootNode),
        ]
    }

    async fn reboot(&self, claim: &ClaimView, operation_id: &str) -> Result<(), RebootError> {
        let id = claim.provider_id.clone().unwrap_or_default();
        let fate = self.call("reboot")?;
        let fresh = {
            let mut state = self.lock();
            let record = state.records.get_mut(&id).filter(|record| record.gone_at.is_none());
            let record = record.ok_or_else(|| RebootError::NotFound(id.clone()))?;
            record.reboots.insert(operation_id.to_owned())
        };
        if fresh {
            let now = self.clock.now();
            let until = after(now, self.settings.reboot);
            let number = Chance::about(self.seed, &["boot", &id, operation_id]).number();
            self.fleet.change(&id, |machine| {
                machine.boot_id = format!("boot-{number:016x}");
                machine.down_until = Some(until);
                // What was wrong with the kernel is over.
                machine.heal(now);
            });
            self.note(&format!("rebooting {id}"));
        }
        match fate {
            Fate::Good => Ok(()),
            Fate::AnswerLost => Err(CallError::new("reboot", "connection reset").into()),
        }
    }

    fn reservation_labels(&self) -> Option<&ReservationLabels> {
        Some(&self.reservation_labels)
    }
}
