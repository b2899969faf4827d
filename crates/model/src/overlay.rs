//! NodeOverlays: other prices and further resources, laid over the instance types of pools.
//!
//! [`evaluate`] judges all overlays together and says which are in force; [`OverlayStore::apply`] lays those of a pool over
//! its instance types. Types are copied, never changed.

mod price;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use price::{PriceChange, PriceChangeError};

use crate::instance_type::{InstanceType, Offering};
use crate::labels::{self, LabelRules};
use crate::pool::PoolView;
use crate::requirements::{Requirement, Requirements, Undefined};
use crate::resources::Resources;

/// A NodeOverlay as decisions see it.
#[derive(Debug, Clone, PartialEq)]
pub struct OverlayView {
    pub name: String,
    /// Heavier ones win; 0 when nothing is said.
    pub weight: i32,
    /// What it is laid over: pools, types and offerings; empty: all.
    pub requirements: Requirements,
    pub price: Option<PriceChange>,
    /// Resources that the types have besides their own.
    pub capacity: Resources,
    /// What the API server let pass but makes no sense (SCH-168).
    pub invalid: Option<String>,
}

/// What becomes of an overlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Accepted,
    /// It says something that makes no sense.
    Invalid(String),
    /// One of equal weight, evaluated before it, says something about the same thing.
    Conflict {
        with: String,
        pool: String,
        instance_type: String,
    },
}

/// A pool with what its cloud offers it, before any overlay.
#[derive(Debug, Clone, Copy)]
pub struct PoolTypes<'a> {
    pub pool: &'a PoolView,
    pub instance_types: &'a [InstanceType],
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evaluation {
    /// By the name of the overlay.
    pub verdicts: BTreeMap<String, Verdict>,
    pub store: OverlayStore,
}

/// The overlays in force, for the pools that were evaluated.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OverlayStore {
    pools: BTreeMap<String, BTreeMap<String, TypeOverlay>>,
}

/// The pool was not part of an evaluation yet, so nobody knows what its types cost (SCH-174).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node overlays have not been evaluated for nodepool {0}")]
pub struct Unevaluated(pub String);

/// What is laid over one type of one pool.
#[derive(Debug, Clone, Default, PartialEq)]
struct TypeOverlay {
    /// By offering. The heaviest price is in force, the lightest is what further ones are compared with.
    prices: BTreeMap<String, Layers<PriceChange>>,
    capacity: BTreeMap<String, Layers<crate::quantity::Quantity>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Layers<T> {
    in_force: T,
    last: (i32, String),
}

/// Judges all overlays against all pools, heaviest first, equal weights by name, later in the alphabet first (SCH-167).
/// One that conflicts anywhere is applied nowhere (SCH-172).
pub fn evaluate(overlays: &[OverlayView], pools: &[PoolTypes<'_>], rules: &LabelRules) -> Evaluation {
    let mut order: Vec<&OverlayView> = overlays.iter().collect();
    order.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));
    let mut evaluation = Evaluation::default();
    for pool in pools {
        evaluation.store.pools.entry(pool.pool.name.clone()).or_default();
    }
    for overlay in order {
        let verdict = match &overlay.invalid {
            Some(why) => Verdict::Invalid(why.clone()),
            None => evaluation.store.accept(overlay, pools, rules),
        };
        evaluation.verdicts.insert(overlay.name.clone(), verdict);
    }
    evaluation
}

/// What an overlay is about in one pool: a type, and the offerings of it that it selects.
struct Touched<'a> {
    pool: &'a str,
    instance_type: &'a str,
    offerings: Vec<String>,
}

impl OverlayStore {
    fn accept(&mut self, overlay: &OverlayView, pools: &[PoolTypes<'_>], rules: &LabelRules) -> Verdict {
        let touched: Vec<Touched<'_>> = pools.iter().flat_map(|pool| selected(overlay, *pool, rules)).collect();
        for one in &touched {
            if let Some(with) = self.conflict(overlay, one) {
                let (pool, instance_type) = (one.pool.to_owned(), one.instance_type.to_owned());
                return Verdict::Conflict { with, pool, instance_type };
            }
        }
        for one in &touched {
            self.lay(overlay, one);
        }
        Verdict::Accepted
    }

    /// Who of equal weight got there first (SCH-170, SCH-171, Q19).
    fn conflict(&self, overlay: &OverlayView, touched: &Touched<'_>) -> Option<String> {
        let there = self.pools.get(touched.pool)?.get(touched.instance_type)?;
        let prices = touched.offerings.iter().filter_map(|offering| Some(&there.prices.get(offering)?.last));
        let prices = prices.filter(|_| overlay.price.is_some());
        let amounts = overlay.capacity.iter().filter_map(|(name, _)| Some(&there.capacity.get(name)?.last));
        prices.chain(amounts).find(|(weight, _)| *weight == overlay.weight).map(|(_, name)| name.clone())
    }

    fn lay(&mut self, overlay: &OverlayView, touched: &Touched<'_>) {
        let Some(pool) = self.pools.get_mut(touched.pool) else { return };
        let there = pool.entry(touched.instance_type.to_owned()).or_default();
        let last = (overlay.weight, overlay.name.clone());
        if let Some(price) = overlay.price {
            for offering in &touched.offerings {
                put(&mut there.prices, offering, price, &last);
            }
        }
        for (name, amount) in overlay.capacity.iter() {
            put(&mut there.capacity, name, amount, &last);
        }
    }

    /// The instance types of a pool with what is laid over them (SCH-175, SCH-177).
    pub fn apply(&self, pool: &str, instance_types: &[InstanceType]) -> Result<Vec<InstanceType>, Unevaluated> {
        let overlays = self.pools.get(pool).ok_or_else(|| Unevaluated(pool.to_owned()))?;
        let overlaid = |known: &InstanceType| match overlays.get(&known.name) {
            Some(overlay) => overlay.over(known),
            None => known.clone(),
        };
        Ok(instance_types.iter().map(overlaid).collect())
    }

    /// As [`Self::apply`]; the very same list when nothing is laid over any of it, so that whoever has compiled it need not
    /// do so again.
    pub fn apply_shared(
        &self,
        pool: &str,
        instance_types: &Arc<Vec<InstanceType>>,
    ) -> Result<Arc<Vec<InstanceType>>, Unevaluated> {
        let overlays = self.pools.get(pool).ok_or_else(|| Unevaluated(pool.to_owned()))?;
        if !instance_types.iter().any(|known| overlays.contains_key(&known.name)) {
            return Ok(instance_types.clone());
        }
        self.apply(pool, instance_types).map(Arc::new)
    }

    /// Whether the price of an offering of any of these types of a pool is laid over, and whether the capacity is: what
    /// the claim that names them is marked with (SCH-223).
    pub fn marks<'a>(&self, pool: &str, instance_types: impl IntoIterator<Item = &'a str>) -> Marks {
        let overlays = self.pools.get(pool);
        let touched = instance_types.into_iter().filter_map(|name| overlays?.get(name));
        touched.fold(Marks::default(), |marks, overlay| Marks {
            price: marks.price || !overlay.prices.is_empty(),
            capacity: marks.capacity || !overlay.capacity.is_empty(),
        })
    }

    /// What is laid over the capacity of a type.
    pub fn capacity(&self, pool: &str, instance_type: &str) -> Resources {
        let there = self.pools.get(pool).and_then(|pool| pool.get(instance_type));
        let layers = there.into_iter().flat_map(|overlay| &overlay.capacity);
        layers.map(|(name, layer)| (name.clone(), layer.in_force)).collect()
    }

    /// The pools that were evaluated.
    pub fn pools(&self) -> BTreeSet<&str> {
        self.pools.keys().map(String::as_str).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    pub price: bool,
    pub capacity: bool,
}

/// The first that comes is the heaviest and stays in force.
fn put<T: Copy>(layers: &mut BTreeMap<String, Layers<T>>, key: &str, value: T, last: &(i32, String)) {
    let layer = layers.entry(key.to_owned()).or_insert_with(|| Layers { in_force: value, last: last.clone() });
    layer.last = last.clone();
}

impl TypeOverlay {
    fn over(&self, known: &InstanceType) -> InstanceType {
        let mut overlaid = known.clone();
        for offering in &mut overlaid.offerings {
            if let Some(layer) = self.prices.get(&identity(offering)) {
                offering.price = layer.in_force.apply(offering.price);
            }
        }
        for (name, layer) in &self.capacity {
            overlaid.capacity.set(name.clone(), layer.in_force);
        }
        overlaid
    }
}

/// SCH-169. What the pool itself requires is not looked at: the types it leaves out cost as much as overlays say.
fn selected<'a>(overlay: &OverlayView, of: PoolTypes<'a>, rules: &LabelRules) -> Vec<Touched<'a>> {
    let class_label = of.pool.node_class.label_key();
    let template = of.pool.labels.iter().filter(|(key, _)| **key != class_label);
    let mut pool = Requirements::from_labels(rules, template);
    pool.replace(Requirement::any_of(labels::NODEPOOL, [of.pool.name.as_str()]));
    let touched = of.instance_types.iter().filter_map(|known| {
        let mut sort = pool.clone();
        sort.add_all(&known.requirements);
        if !sort.is_compatible(&overlay.requirements, Undefined::Denied) {
            return None;
        }
        let matched = known.offerings.iter().filter(|offering| offering.is_compatible(&overlay.requirements, rules));
        let offerings: Vec<String> = matched.map(identity).collect();
        (!offerings.is_empty()).then_some(Touched { pool: &of.pool.name, instance_type: &known.name, offerings })
    });
    touched.collect()
}

/// What tells the offerings of a type apart.
fn identity(offering: &Offering) -> String {
    let entries = offering.requirements.entries();
    let text =
        entries.iter().map(|entry| format!("{} {} {}", entry.key, entry.operator.as_str(), entry.values.join(",")));
    text.collect::<Vec<_>>().join(";")
}

#[cfg(test)]
mod tests;
