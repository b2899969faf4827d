//! What consolidation looks at beyond what planning does.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use karpenter_api::convert;
use karpenter_disruption::candidates::PoolFacts;
use karpenter_disruption::fixpoint::{self, World};
use karpenter_disruption::look::Gates;
use karpenter_model::pdb::PdbView;
use karpenter_model::pod::{PodPhase, PodView};
use karpenter_model::snapshot::Snapshot;
use karpenter_solver::Options;
use karpenter_state::Change;

use super::super::workloads::namespace;
use super::{Cluster, Given};

impl Cluster<'_> {
    pub(super) fn add_budget(&mut self, given: &Given<'_>) {
        let Some(mut budget) = self.parse::<PodDisruptionBudget>(given) else { return };
        budget.metadata.namespace = Some(namespace(&given.object).to_owned());
        let converted = convert::pdb(&budget);
        self.note_problems(given, &converted, "");
        self.state.apply(Change::Pdb(Arc::new(converted.view)));
        if budget.status.is_none() {
            self.unjudged.push(budget);
        }
    }

    /// The cluster at rest: every node has been quiet for long enough.
    pub(in crate::plan) fn world(&self, now: Timestamp, gates: Gates, options: Options) -> World {
        let facts = self.state.pools().into_iter().map(|view| {
            let types = self.overlaid.get(&view.name).unwrap_or(&self.instance_types).clone();
            (view.name.clone(), PoolFacts { view, instance_types: Some(types) })
        });
        let pools: BTreeMap<String, PoolFacts> = facts.collect();
        let mut snapshot = self.snapshot();
        fixpoint::quiet(&mut snapshot, &pools);
        for node in &mut snapshot.nodes {
            for pod in node.pods.iter_mut() {
                // A pod that is given with its node and without a status runs there.
                if pod.phase == PodPhase::Pending {
                    Arc::make_mut(pod).phase = PodPhase::Running;
                }
            }
        }
        let budgets = self.state.pdbs().map(|known| self.judged(known, &snapshot)).collect();
        World { snapshot, pools, budgets, buffer_pods: BTreeMap::new(), now, gates, options }
    }

    /// With what the disruption controller would allow, where it has not said.
    fn judged(&self, known: &Arc<PdbView>, snapshot: &Snapshot) -> Arc<PdbView> {
        let same = |budget: &&PodDisruptionBudget| {
            budget.metadata.name.as_deref() == Some(&*known.id.name)
                && budget.metadata.namespace.as_deref() == Some(&*known.id.namespace)
        };
        let Some(budget) = self.unjudged.iter().find(same) else { return known.clone() };
        let pods = snapshot.nodes.iter().flat_map(|node| &node.pods).filter(|pod| known.applies_to(pod));
        let pods: Vec<&Arc<PodView>> = pods.filter(|pod| pod.is_active()).collect();
        let expected = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        let healthy = i64::try_from(pods.iter().filter(|pod| !pod.unready).count()).unwrap_or(i64::MAX);
        let spec = budget.spec.as_ref();
        let least = match (spec.and_then(|s| s.min_available.as_ref()), spec.and_then(|s| s.max_unavailable.as_ref())) {
            (Some(least), _) => amount(least, expected),
            (None, Some(most)) => expected - amount(most, expected),
            (None, None) => expected,
        };
        let allowed = i32::try_from((healthy - least).clamp(0, i64::from(i32::MAX))).unwrap_or(i32::MAX);
        Arc::new(PdbView { disruptions_allowed: allowed, ..PdbView::clone(known) })
    }
}

/// Percentages round up; what is none counts as all, so that nobody is evicted on a guess.
fn amount(value: &IntOrString, of: i64) -> i64 {
    match value {
        IntOrString::Int(number) => i64::from(*number),
        IntOrString::String(text) => {
            let percent: Option<i64> = text.strip_suffix('%').and_then(|text| text.parse().ok());
            percent.map_or(of, |percent| percent.saturating_mul(of).saturating_add(99) / 100)
        }
    }
}
