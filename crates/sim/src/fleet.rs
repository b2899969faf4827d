//! The machines that exist: what a cloud has launched and what kubelets run on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use karpenter_model::resources::Resources;
use karpenter_model::taints::Taint;

use crate::cluster::Queue;

/// What its kubelet says of a machine that is on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Health {
    #[default]
    Well,
    /// Reports `Ready=False` with this reason.
    NotReady(String),
    /// Reports nothing at all, and does nothing either.
    Silent,
}

/// A condition beyond those that every kubelet reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ailment {
    pub status: String,
    pub reason: String,
    pub since: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    pub provider_id: String,
    pub node_name: String,
    /// What the bootstrap gives the node: labels and taints of the claim, and what the launch resolved.
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub capacity: Resources,
    pub allocatable: Resources,
    /// When the kubelet first talks to the cluster.
    pub joins_at: Timestamp,
    /// A machine that is off never comes back.
    pub on: bool,
    pub boot_id: String,
    /// Restarting until then.
    pub down_until: Option<Timestamp>,
    pub health: Health,
    pub ailments: BTreeMap<String, Ailment>,
}

impl Machine {
    /// It is on, and something beyond what every kubelet reports is wrong.
    pub fn is_sick(&self) -> bool {
        self.on && self.ailments.values().any(|ailment| ailment.status != "False")
    }

    /// Nothing is wrong any more, and its kubelet says so: conditions do not go by themselves.
    pub fn heal(&mut self, now: Timestamp) {
        self.health = Health::Well;
        for ailment in self.ailments.values_mut().filter(|ailment| ailment.status != "False") {
            *ailment = Ailment { status: "False".to_owned(), reason: "Healed".to_owned(), since: now };
        }
    }

    pub(crate) fn is_up(&self, now: Timestamp) -> bool {
        self.on
            && self.health != Health::Silent
            && self.joins_at <= now
            && self.down_until.is_none_or(|until| until <= now)
    }
}

/// Shared by the cloud, which changes it, and the kubelets, which live on it.
#[derive(Debug, Default)]
pub struct Fleet {
    machines: Mutex<BTreeMap<String, Machine>>,
    listeners: Mutex<Vec<Arc<Queue>>>,
}

impl Fleet {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Machine>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get(&self, provider_id: &str) -> Option<Machine> {
        self.lock().get(provider_id).cloned()
    }

    pub fn by_node(&self, node: &str) -> Option<Machine> {
        self.lock().values().find(|machine| machine.node_name == node && machine.on).cloned()
    }

    /// All machines by provider id.
    pub fn all(&self) -> Vec<Machine> {
        self.lock().values().cloned().collect()
    }

    /// Whether there is such a machine.
    pub fn any(&self, of: impl Fn(&Machine) -> bool) -> bool {
        self.lock().values().any(of)
    }

    pub fn add(&self, machine: Machine) {
        let id = machine.provider_id.clone();
        self.lock().insert(id.clone(), machine);
        self.tell(&id);
    }

    pub fn remove(&self, provider_id: &str) {
        self.lock().remove(provider_id);
        self.tell(provider_id);
    }

    /// Changes a machine; says whether there is such a one.
    pub fn change(&self, provider_id: &str, change: impl FnOnce(&mut Machine)) -> bool {
        let found = self.lock().get_mut(provider_id).map(change).is_some();
        if found {
            self.tell(provider_id);
        }
        found
    }

    pub(crate) fn wake(&self, queue: &Arc<Queue>) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(queue.clone());
    }

    fn tell(&self, provider_id: &str) {
        for queue in self.listeners.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            queue.add(provider_id);
        }
    }
}
