//! What decides about pods and nodes without being one: DaemonSets, namespaces, disruption budgets.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use karpenter_api::convert;
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

impl Follower for Budgets<'_> {
    type Object = PodDisruptionBudget;

    fn applied(&self, budget: PodDisruptionBudget) {
        let converted = convert::pdb(&budget);
        self.0.report.problems(&converted.problems);
        let (namespace, allowed) = (converted.view.id.namespace.clone(), converted.view.disruptions_allowed);
        self.0.state().apply(Change::Pdb(Arc::new(converted.view)));
        // Whoever was refused before need not wait for the end of a pause (Y10).
        if allowed > 0 {
            let asked = self.0.memory.asked_in(&namespace);
            self.0.queues.evictions.add_all(asked.iter().map(eviction::name_of));
        }
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
