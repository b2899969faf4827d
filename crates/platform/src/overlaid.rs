//! A provider whose instance types have NodeOverlays laid over them (SCH-174 … SCH-179).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use async_trait::async_trait;
use karpenter_model::claim::ClaimView;
use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels;
use karpenter_model::overlay::{OverlayStore, Unevaluated};
use karpenter_model::pool::PoolView;
use karpenter_model::requirements::Requirement;
use karpenter_model::resources::Resources;

use crate::{
    CallError, CloudProvider, CreateError, DriftReason, Instance, InstanceError, InstanceTypesError, RebootError,
};

/// How many offerings are asked for one by one, in the order of their overlaid prices, before the cloud may choose. Each is
/// a call that a cloud without capacity refuses; a few are enough for what the overlays are about.
const TRIES: usize = 5;

/// The overlays in force: replaced as a whole, so that nobody sees half of them (SCH-173).
#[derive(Debug, Default)]
pub struct Overlays(RwLock<Arc<OverlayStore>>);

impl Overlays {
    pub fn publish(&self, store: OverlayStore) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(store);
    }

    pub fn in_force(&self) -> Arc<OverlayStore> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Wraps a provider outside of its measurements (API-204).
#[derive(Debug)]
pub struct Overlaid {
    inner: Arc<dyn CloudProvider>,
    overlays: Arc<Overlays>,
    /// What was made for each pool, so that the same question has the same answer, not an equal one.
    made: Mutex<BTreeMap<String, Made>>,
}

#[derive(Debug, Clone)]
struct Made {
    from: Arc<Vec<InstanceType>>,
    by: Arc<OverlayStore>,
    types: Arc<Vec<InstanceType>>,
}

/// An error of the provider, with the pool that it is about (V15-107).
#[derive(Debug, thiserror::Error)]
#[error("instance types of nodepool {pool}")]
struct OfPool {
    pool: String,
    #[source]
    source: crate::BoxError,
}

impl Overlaid {
    pub fn new(inner: Arc<dyn CloudProvider>, overlays: Arc<Overlays>) -> Self {
        Self { inner, overlays, made: Mutex::default() }
    }

    fn made(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Made>> {
        // No code that could panic runs under the lock.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn laid_over(&self, pool: &str, from: Arc<Vec<InstanceType>>) -> Result<Arc<Vec<InstanceType>>, Unevaluated> {
        let by = self.overlays.in_force();
        let same = |made: &&Made| Arc::ptr_eq(&made.from, &from) && Arc::ptr_eq(&made.by, &by);
        if let Some(known) = self.made().get(pool).filter(same) {
            return Ok(known.types.clone());
        }
        let types = by.apply_shared(pool, &from)?;
        self.made().insert(pool.to_owned(), Made { from, by, types: types.clone() });
        Ok(types)
    }

    /// The claim, narrowed to one offering at a time, cheapest first by the overlaid prices; none when no overlay is about
    /// any type that the claim names. The cloud knows only its own prices and would choose by those.
    fn choices(&self, claim: &ClaimView) -> Vec<ClaimView> {
        let Some(pool) = claim.pool.as_deref() else { return Vec::new() };
        let (Some(named), Some(made)) = (claim.requirements.get(labels::INSTANCE_TYPE), self.made().get(pool).cloned())
        else {
            return Vec::new();
        };
        let marks =
            made.by.marks(pool, made.types.iter().map(|known| known.name.as_str()).filter(|name| named.has(name)));
        if !marks.price && !marks.capacity {
            return Vec::new();
        }
        let mut offers: Vec<(Price, &str, ClaimView)> = Vec::new();
        for known in made.types.iter().filter(|known| named.has(&known.name)) {
            for offering in known.launchable_offerings(&claim.requirements, self.inner.label_rules()) {
                let room = known.allocatable_with(&offering.overrides);
                if claim.requests.fits(&room) {
                    let mut one = claim.clone();
                    one.requirements.replace(Requirement::any_of(labels::INSTANCE_TYPE, [known.name.as_str()]));
                    one.requirements.add_all(&offering.requirements);
                    // All of what is laid over, so that a cloud that makes nodes to order makes it.
                    for (name, amount) in made.by.capacity(pool, &known.name).iter() {
                        one.requests.set(name, amount);
                    }
                    offers.push((offering.price, &known.name, one));
                }
            }
        }
        offers.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
        offers.into_iter().take(TRIES).map(|(_, _, claim)| claim).collect()
    }

    /// With what overlays say that the type has (SCH-179).
    fn with_capacity(&self, claim: &ClaimView, mut instance: Instance) -> Instance {
        let (Some(pool), Some(known)) = (claim.pool.as_deref(), instance.labels.get(labels::INSTANCE_TYPE)) else {
            return instance;
        };
        let laid: Resources = self.overlays.in_force().capacity(pool, known);
        for (name, amount) in laid.iter() {
            instance.capacity.set(name, amount);
            instance.allocatable.set(name, amount);
        }
        instance
    }
}

fn of_pool(error: InstanceTypesError, pool: &PoolView) -> InstanceTypesError {
    match error {
        InstanceTypesError::Call(CallError { call, source }) => {
            CallError::new(call, OfPool { pool: pool.name.clone(), source }).into()
        }
        other => other,
    }
}

#[async_trait]
impl CloudProvider for Overlaid {
    async fn create(&self, claim: &ClaimView) -> Result<Instance, CreateError> {
        for choice in self.choices(claim) {
            match self.inner.create(&choice).await {
                // The next best is worth a try.
                Err(CreateError::InsufficientCapacity(_)) => {}
                Ok(instance) => return Ok(self.with_capacity(claim, instance)),
                Err(error) => return Err(error),
            }
        }
        self.inner.create(claim).await.map(|instance| self.with_capacity(claim, instance))
    }

    async fn delete(&self, claim: &ClaimView) -> Result<(), InstanceError> {
        self.inner.delete(claim).await
    }

    async fn get(&self, provider_id: &str) -> Result<Instance, InstanceError> {
        self.inner.get(provider_id).await
    }

    async fn find(&self, claim: &ClaimView) -> Result<Option<Instance>, CallError> {
        Ok(self.inner.find(claim).await?.map(|instance| self.with_capacity(claim, instance)))
    }

    async fn list(&self) -> Result<Vec<Instance>, CallError> {
        self.inner.list().await
    }

    async fn running(&self) -> Result<BTreeSet<String>, CallError> {
        self.inner.running().await
    }

    /// A pool that was not part of an evaluation yet has no types: what they cost is not known (API-95).
    async fn instance_types(&self, pool: &PoolView) -> Result<Arc<Vec<InstanceType>>, InstanceTypesError> {
        let known = self.inner.instance_types(pool).await.map_err(|error| of_pool(error, pool))?;
        self.laid_over(&pool.name, known).map_err(|Unevaluated(name)| InstanceTypesError::UnevaluatedNodePool(name))
    }

    async fn drift(&self, claim: &ClaimView) -> Result<Option<DriftReason>, InstanceError> {
        self.inner.drift(claim).await
    }

    async fn reboot(&self, claim: &ClaimView, operation_id: &str) -> Result<(), RebootError> {
        self.inner.reboot(claim, operation_id).await
    }

    async fn live(&self) {
        self.inner.live().await;
    }

    crate::same_facts_as!(inner);
}

#[cfg(test)]
mod tests;
