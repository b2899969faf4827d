//! Which domains the pools could open.

use std::collections::{BTreeMap, BTreeSet};

use karpenter_model::requirements::{Operator, Requirements};
use karpenter_model::snapshot::Snapshot;
use karpenter_model::taints::{Taint, Toleration, first_untolerated};

/// By key and domain: the taints of the pools that provide it (SCH-126).
pub(super) struct Universe(BTreeMap<String, BTreeMap<String, Vec<Vec<Taint>>>>);

impl Universe {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let mut universe = Self(BTreeMap::new());
        for offer in &snapshot.pools {
            let pool = &offer.pool;
            universe.add(&pool.requirements, &pool.taints);
            for instance_type in offer.instance_types.iter() {
                let mut both = pool.requirements.clone();
                both.add_all(&instance_type.requirements);
                universe.add(&both, &pool.taints);
            }
        }
        universe
    }

    /// Only listed values are domains; what a `NotIn` leaves out is none (SCH-127).
    fn add(&mut self, requirements: &Requirements, taints: &[Taint]) {
        for requirement in requirements.iter().filter(|requirement| requirement.operator() == Operator::In) {
            if requirement.key() == karpenter_model::labels::NODEPOOL {
                continue;
            }
            let domains = self.0.entry(requirement.key().to_owned()).or_default();
            for value in requirement.values() {
                let lists = domains.entry(value.to_owned()).or_default();
                if !lists.iter().any(|known| known == taints) {
                    lists.push(taints.to_vec());
                }
            }
        }
    }

    pub(super) fn all(&self, key: &str) -> BTreeSet<String> {
        self.0.get(key).map(|domains| domains.keys().cloned().collect()).unwrap_or_default()
    }

    /// Domains of pools whose taints are tolerated (SCH-128).
    pub(super) fn tolerated(&self, key: &str, tolerations: &[Toleration]) -> BTreeSet<String> {
        let domains = self.0.get(key).into_iter().flatten();
        domains
            .filter(|(_, lists)| lists.iter().any(|taints| first_untolerated(taints, tolerations).is_none()))
            .map(|(domain, _)| domain.clone())
            .collect()
    }
}
