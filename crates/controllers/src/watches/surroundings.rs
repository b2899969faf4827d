//! What decides about pods and nodes without being one: DaemonSets, namespaces, disruption budgets.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::convert;
use karpenter_lifecycle::EvictionKey;
use karpenter_model::pdb::PdbView;
use karpenter_state::{Change, Source};
use kube::ResourceExt as _;

use super::{Follower, ObjectId, names};
use crate::context::Context;
use crate::eviction;

pub(super) struct Daemons<'a>(pub(super) &'a Context);

impl Follower for Daemons<'_> {
    type Object = DaemonSet;

    fn applied(&self, daemon: DaemonSet) {
        let converted = convert::daemon_set(&daemon, self.0.provider.label_rules());
        self.0.report.problems(&converted.problems);
        self.0.state().apply(Change::Daemon(Arc::new(converted.view)));
    }

    fn gone(&self, id: &ObjectId) {
        self.0.state().apply(Change::DaemonGone(id.clone()));
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        self.0.state().apply(Change::Listed(Source::Daemons, ids.iter().map(ToString::to_string).collect()));
        self.0.provision.nudge();
    }
}

pub(super) struct Namespaces<'a>(pub(super) &'a Context);

impl Follower for Namespaces<'_> {
    type Object = Namespace;

    fn applied(&self, namespace: Namespace) {
        let labels = namespace.metadata.labels.clone().unwrap_or_default();
        self.0.state().apply(Change::Namespace(namespace.name_any(), labels));
    }

    fn gone(&self, id: &ObjectId) {
        self.0.state().apply(Change::NamespaceGone(id.name.to_string()));
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        self.0.state().apply(Change::Listed(Source::Namespaces, names(ids)));
        self.0.provision.nudge();
    }
}

pub(super) struct Budgets<'a>(pub(super) &'a Context);

impl Budgets<'_> {
    /// Whoever was refused before need not wait for the end of a pause (Y10). As many as may go: a budget of a large workload changes all
    /// the time, and each of its pods that waits would ask each time.
    fn let_go(&self, budget: &PdbView) {
        let allowed = usize::try_from(budget.disruptions_allowed).unwrap_or(0);
        if allowed == 0 {
            return;
        }
        let asked = self.0.memory.asked_in(&budget.id.namespace);
        let state = self.0.state();
        let may_go = |key: &&EvictionKey| {
            state.pod(&key.id).is_some_and(|pod| {
                let concerned = |other: &PdbView| other.disruptions_allowed <= 0 && other.applies_to(&pod);
                budget.applies_to(&pod) && !state.pdbs().any(|other| concerned(other))
            })
        };
        let freed: Vec<String> = asked.iter().filter(may_go).take(allowed).map(eviction::name_of).collect();
        drop(state);
        self.0.queues.evictions.add_all(freed);
    }
}

impl Follower for Budgets<'_> {
    type Object = PodDisruptionBudget;

    fn applied(&self, budget: PodDisruptionBudget) {
        let converted = convert::pdb(&budget);
        self.0.report.problems(&converted.problems);
        let budget = Arc::new(converted.view);
        self.0.state().apply(Change::Pdb(budget.clone()));
        self.let_go(&budget);
    }

    fn gone(&self, id: &ObjectId) {
        self.0.state().apply(Change::PdbGone(id.clone()));
        let asked = self.0.memory.asked_in(&id.namespace);
        self.0.queues.evictions.add_all(asked.iter().map(eviction::name_of));
    }

    fn listed(&self, ids: BTreeSet<ObjectId>) {
        self.0.state().apply(Change::Listed(Source::Pdbs, ids.iter().map(ToString::to_string).collect()));
    }
}
