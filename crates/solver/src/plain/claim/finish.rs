//! What a claim asks the cloud for once no more pods come.

use karpenter_model::instance_type::{InstanceType, Price};
use karpenter_model::labels::{self, LabelRules};
use karpenter_model::pod::PodId;
use karpenter_model::requirements::Requirement;
use karpenter_model::resources::Resources;

use super::{OpenClaim, Rules};
use crate::min_values;
use crate::options::MinValuesPolicy;
use crate::places::{AllPods, PodList};
use crate::plan::PlannedClaim;

impl OpenClaim<'_> {
    /// SCH-116, SCH-117, SCH-221; the pods without a node when the types kept do not meet the minimums.
    pub(crate) fn finish(mut self, rules: Rules<'_>, all: &AllPods) -> Result<PlannedClaim, Vec<PodId>> {
        self.requirements.remove(labels::HOSTNAME);
        self.take_reserved(rules.labels);
        self.requests.add(&self.least_overhead());
        let requirements = &self.requirements;
        let mut types: Vec<&InstanceType> = self.types().collect();
        types.sort_by_cached_key(|known| (known.cheapest_price(requirements, rules.labels), known.name.clone()));
        types.truncate(rules.options.max_instance_types);
        let strict = rules.options.min_values == MinValuesPolicy::Strict;
        if strict && !min_values::unmet(requirements, &types.iter().copied()).is_empty() {
            return Err(self.pods);
        }
        let price = types.first().map_or(Price::MAX, |known| known.cheapest_price(requirements, rules.labels));
        let capacity_types: Vec<&str> = types
            .iter()
            .flat_map(|known| known.launchable_offerings(requirements, rules.labels))
            .filter_map(|offering| offering.capacity_type())
            .collect();
        let given = rules.devices.and_then(|devices| devices.given(&self.hostname)).cloned().unwrap_or_default();
        let devices = given.into_iter().filter(|(name, _)| types.iter().any(|known| known.name == *name)).collect();
        let instance_types: Vec<String> = types.iter().map(|known| known.name.clone()).collect();
        let mut narrowed = requirements.clone();
        for key in [labels::REGISTERED, labels::INITIALIZED] {
            narrowed.remove(key);
        }
        narrowed.add(Requirement::any_of(labels::INSTANCE_TYPE, &instance_types));
        if !capacity_types.is_empty() {
            narrowed.add(Requirement::any_of(labels::CAPACITY_TYPE, capacity_types));
        }
        let pods =
            self.pods.iter().filter_map(|pod| all.binary_search_by(|known| known.id.cmp(pod)).ok()?.try_into().ok());
        Ok(PlannedClaim {
            pool: self.pool.clone(),
            requirements: narrowed.into(),
            instance_types: instance_types.into(),
            requests: self.requests,
            pods: PodList::new(all, pods.collect()),
            price,
            min_values_relaxed: self.min_values_relaxed,
            devices,
        })
    }

    /// A claim that holds reservations is launched from one of them (SCH-115).
    fn take_reserved(&mut self, rules: &LabelRules) {
        if let Some(key) = rules.reservation_key().filter(|_| !self.held.is_empty()) {
            let reserved = Requirement::any_of(labels::CAPACITY_TYPE, [labels::CAPACITY_TYPE_RESERVED]);
            self.requirements.replace(reserved);
            self.requirements.add(Requirement::any_of(key, self.held.iter().cloned()));
        }
    }

    /// What DaemonSets take on every type that is left: the smallest amount of what all parts name (SCH-75, Q30).
    fn least_overhead(&self) -> Resources {
        let mut parts = self.parts.iter().map(|part| &part.overhead);
        let Some(first) = parts.next() else { return Resources::new() };
        parts.fold(first.clone(), |least, overhead| {
            let common = least.iter().filter_map(|(name, amount)| Some((name, amount.min(overhead.get(name)?))));
            common.map(|(name, amount)| (name.to_owned(), amount)).collect()
        })
    }
}
