//! What the pods of each node ask for, kept up to date by what was written since the last look: clusters of thousands of pods
//! are looked at all the time, and hardly any of them changes between two looks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use karpenter_apiserver::Written;
use serde_json::Value;

use super::amounts::{Amounts, allocatable, requests};
use super::{Violation, name};

#[derive(Debug, Default)]
pub(super) struct Loads {
    by_node: BTreeMap<String, Load>,
    /// Nodes whose pods have changed since the last look.
    changed: BTreeSet<String>,
    /// What each node offers, with the object that said so.
    offers: BTreeMap<String, (Arc<Value>, Amounts)>,
}

#[derive(Debug, Default)]
struct Load {
    /// All pods that are bound to the node, also those that have ended.
    pods: BTreeSet<String>,
    requested: Amounts,
}

fn node_of(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str()
}

fn has_ended(pod: &Value) -> bool {
    matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

fn key(pod: &Value) -> String {
    format!("{}/{}", pod["metadata"]["namespace"].as_str().unwrap_or_default(), name(pod))
}

impl Loads {
    /// Begins anew with these pods.
    pub(super) fn begin(&mut self, pods: &[Arc<Value>]) {
        *self = Self::default();
        for pod in pods {
            self.add(pod);
        }
    }

    pub(super) fn note(&mut self, written: &Written) {
        if let (Some(old), Some(new)) = (&written.old, &written.new)
            && node_of(old) == node_of(new)
            && has_ended(old) == has_ended(new)
            && old["spec"] == new["spec"]
        {
            return;
        }
        if let Some(old) = &written.old {
            self.take(old);
        }
        if let Some(new) = &written.new {
            self.add(new);
        }
    }

    fn add(&mut self, pod: &Value) {
        let Some(node) = node_of(pod) else { return };
        let load = self.by_node.entry(node.to_owned()).or_default();
        load.pods.insert(key(pod));
        if !has_ended(pod) {
            for (resource, amount) in requests(pod) {
                *load.requested.entry(resource).or_default() += amount;
            }
        }
        self.changed.insert(node.to_owned());
    }

    fn take(&mut self, pod: &Value) {
        let Some(node) = node_of(pod) else { return };
        let Some(load) = self.by_node.get_mut(node) else { return };
        load.pods.remove(&key(pod));
        if !has_ended(pod) {
            for (resource, amount) in requests(pod) {
                *load.requested.entry(resource).or_default() -= amount;
            }
        }
        if load.pods.is_empty() {
            self.by_node.remove(node);
        }
    }

    /// Nodes that have less than their pods ask for.
    pub(super) fn overfull(&mut self, nodes: &[Arc<Value>]) -> Vec<Violation> {
        let mut found = Vec::new();
        for node in nodes {
            let known = self.offers.get(name(node));
            if !known.is_some_and(|(object, _)| Arc::ptr_eq(object, node)) {
                let offer = allocatable(node);
                if known.is_none_or(|(_, known)| *known != offer) {
                    self.changed.insert(name(node).to_owned());
                }
                self.offers.insert(name(node).to_owned(), (node.clone(), offer));
            }
        }
        self.changed.retain(|node| {
            let (Some((_, offer)), Some(load)) = (self.offers.get(node), self.by_node.get(node)) else { return false };
            let mut sound = true;
            for (resource, requested) in &load.requested {
                let allocatable = offer.get(resource).copied().unwrap_or(0);
                if *requested > allocatable {
                    let (node, resource) = (node.clone(), resource.clone());
                    found.push(Violation::NodeOverfull { node, resource, requested: *requested, allocatable });
                    sound = false;
                }
            }
            // What is wrong stays wrong until somebody does something about it.
            !sound
        });
        if self.offers.len() > nodes.len() {
            let names: BTreeSet<&str> = nodes.iter().map(|node| name(node)).collect();
            self.offers.retain(|node, _| names.contains(node.as_str()));
        }
        found
    }

    /// Pods on nodes that are not there, with their node.
    pub(super) fn orphans(&self, nodes: &[Arc<Value>]) -> BTreeMap<String, String> {
        let names: BTreeSet<&str> = nodes.iter().map(|node| name(node)).collect();
        let without = self.by_node.iter().filter(|(node, _)| !names.contains(node.as_str()));
        let pod = |key: &String| key.split_once('/').map_or(key.as_str(), |(_, name)| name).to_owned();
        without.flat_map(|(node, load)| load.pods.iter().map(move |key| (pod(key), node.clone()))).collect()
    }
}
