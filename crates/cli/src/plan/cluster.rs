//! The cluster that manifests describe.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use karpenter_api::convert::{self, Converted};
use karpenter_api::instance_types::Catalogue;
use karpenter_api::kinds::{NodeClaim, NodePool};
use karpenter_model::labels::LabelRules;
use karpenter_model::snapshot::{PoolOffer, Snapshot};
use karpenter_state::{Change, ClusterState};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::workloads;
use crate::manifests::Document;

/// What the manifests say, and what could not be understood.
pub(super) struct Cluster {
    state: ClusterState,
    instance_types: Arc<Vec<karpenter_model::instance_type::InstanceType>>,
    /// `file:line kind/name field: message`
    pub(super) problems: Vec<String>,
    /// How many objects of other kinds there were.
    pub(super) skipped: BTreeMap<String, usize>,
}

impl Cluster {
    pub(super) fn read(documents: &[Document], catalogue: &Catalogue) -> Self {
        let mut cluster = Self {
            state: ClusterState::default(),
            instance_types: Arc::new(catalogue.types.clone()),
            problems: Vec::new(),
            skipped: BTreeMap::new(),
        };
        for document in documents {
            cluster.add(document, &document.tree.to_value(), catalogue.policy.rules());
        }
        cluster
    }

    fn add(&mut self, document: &Document, object: &Value, rules: &LabelRules) {
        let text = |member: &str| object[member].as_str().unwrap_or_default();
        match (text("apiVersion"), text("kind")) {
            ("karpenter.sh/v1", "NodePool") => {
                if let Some(pool) = self.parse::<NodePool>(document, object) {
                    let mut view = self.checked(document, convert::pool(&pool, rules));
                    // Nobody has judged the pool yet; one that was read completely can be used.
                    view.ready = view.hash.is_some();
                    self.state.apply(Change::Pool(Arc::new(view)));
                }
            }
            ("karpenter.sh/v1", "NodeClaim") => {
                if let Some(claim) = self.parse::<NodeClaim>(document, object) {
                    let view = self.checked(document, convert::claim(&claim, rules));
                    self.state.apply(Change::Claim(Arc::new(view)));
                }
            }
            ("v1", "Node") => {
                if let Some(node) = self.parse(document, object) {
                    let view = self.checked(document, convert::node(&node));
                    self.state.apply(Change::Node(Arc::new(view)));
                }
            }
            ("apps/v1", "DaemonSet") => {
                if let Some(daemon) = self.parse(document, object) {
                    let view = self.checked(document, convert::daemon_set(&daemon, rules));
                    self.state.apply(Change::Daemon(Arc::new(view)));
                }
            }
            ("v1", "Namespace") => {
                let labels = serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default();
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                self.state.apply(Change::Namespace(name.to_owned(), labels));
            }
            ("v1", "List") => {
                for item in object["items"].as_array().into_iter().flatten() {
                    self.add(document, item, rules);
                }
            }
            // A plan takes every class as ready.
            (_, "KWOKNodeClass" | "EC2NodeClass") => {}
            (_, kind) => match workloads::pods(object) {
                Some(expanded) => self.add_pods(document, &expanded, rules),
                None => *self.skipped.entry(kind.to_owned()).or_default() += 1,
            },
        }
    }

    /// The template is read once, however many pods there are of it.
    fn add_pods(&mut self, document: &Document, expanded: &workloads::Expanded, rules: &LabelRules) {
        let Some(pod) = self.parse(document, &expanded.template) else { return };
        let view = self.checked(document, convert::pod(&pod, rules));
        for name in &expanded.names {
            let mut one = view.clone();
            one.id.name.clone_from(name);
            one.uid = format!("{}/{name}", one.id.namespace);
            self.state.apply(Change::Pod(Arc::new(one)));
        }
    }

    fn parse<K: DeserializeOwned>(&mut self, document: &Document, object: &Value) -> Option<K> {
        let parsed = serde_json::from_value(object.clone());
        parsed.map_err(|error| self.problem(document, object, error)).ok()
    }

    fn problem(&mut self, document: &Document, object: &Value, message: impl Display) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        self.problems.push(format!("{}:{} {kind}/{name}: {message}", document.file, document.tree.line));
    }

    fn checked<T>(&mut self, document: &Document, converted: Converted<T>) -> T {
        let lines =
            converted.problems.iter().map(|problem| format!("{}:{} {problem}", document.file, document.tree.line));
        self.problems.extend(lines);
        converted.view
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let offers = self.state.pools().into_iter().filter(|pool| pool.is_schedulable()).map(|pool| PoolOffer {
            usage: self.state.usage(&pool.name),
            instance_types: self.instance_types.clone(),
            pool,
        });
        let pools = offers.collect();
        let mut pending = self.state.pending_pods();
        // What was reported as a problem is not planned on a guess.
        let unplannable: BTreeSet<_> =
            pending.values().filter(|pod| pod.unplannable.is_some()).map(|pod| pod.id.clone()).collect();
        pending.retain(|id, _| !unplannable.contains(id));
        Snapshot {
            pools,
            nodes: self.state.nodes(),
            pending,
            daemons: self.state.daemons(),
            namespaces: self.state.namespaces().clone(),
            ..Snapshot::default()
        }
    }
}
