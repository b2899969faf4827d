//! Kubelets for machines that do not exist: they register nodes, send heartbeats, run pods and end them.
//!
//! A kubelet runs for every machine of the [`Fleet`](crate::fleet::Fleet), and for every Node that is annotated
//! `kwok.x-k8s.io/node`, so that nodes can also be made by hand. Pods may say how they behave, with durations such as `90s`:
//! `sim.karpenter.sh/starts-after`, `ready-after`, `runs-for` (for pods that end), `stops-after` and, with any value, `fails`.

mod node;
mod pods;
mod removal;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;

use crate::chance::Chance;
use crate::cluster::Cluster;
use crate::fleet::{Fleet, Machine};

/// How quick kubelets are. Ranges are drawn from the seed, by the name of the thing.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Between two renewals of a lease. The real one takes 10 s; more is cheaper and changes nothing that is visible, as
    /// long as it stays below [`Patience::heartbeat`](crate::workloads::Patience).
    pub lease: Duration,
    /// A status is written when it changes, or after this long.
    pub status: Duration,
    /// From registration until the node is ready.
    pub ready: (Duration, Duration),
    /// From binding until containers run.
    pub start: (Duration, Duration),
    /// From deletion until containers have ended by themselves.
    pub stop: (Duration, Duration),
    /// How long pods run that are meant to end and do not say how long.
    pub run: Duration,
    /// How soon the Node of a machine that is gone is removed, once it is not ready (cloud-controller-manager: 5 s).
    pub removal: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        let range = |shortest: u64, longest: u64| (Duration::from_millis(shortest), Duration::from_millis(longest));
        Self {
            lease: Duration::from_secs(20),
            status: Duration::from_mins(5),
            ready: range(3_000, 10_000),
            start: range(500, 3_000),
            stop: range(200, 2_000),
            run: Duration::from_mins(1),
            removal: Duration::from_secs(5),
        }
    }
}

/// Every kubelet, and the part of the cloud controller that removes nodes of machines that are gone.
#[derive(Debug, Clone)]
pub struct Kubelets {
    pub(crate) cluster: Cluster,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) pace: Pace,
}

impl Kubelets {
    pub fn new(cluster: Cluster, fleet: Arc<Fleet>, pace: Pace) -> Self {
        Self { cluster, fleet, pace }
    }

    /// Runs until the future is dropped.
    pub async fn run(&self) {
        tokio::join!(node::run(self), pods::run(self), removal::run(self));
    }

    fn drawn(&self, range: (Duration, Duration), name: &[&str]) -> Duration {
        Chance::about(self.cluster.seed, name).between(range.0, range.1)
    }

    /// The machine behind a node; a node made by hand is its own.
    fn host(&self, node: &str) -> Option<Host> {
        if let Some(machine) = self.fleet.by_node(node) {
            return Some(Host::Machine(Box::new(machine)));
        }
        let node = self.cluster.get::<Node>(node)?;
        is_by_hand(&node).then_some(Host::ByHand)
    }
}

enum Host {
    Machine(Box<Machine>),
    ByHand,
}

impl Host {
    fn is_up(&self, now: jiff::Timestamp) -> bool {
        match self {
            Self::Machine(machine) => machine.is_up(now),
            Self::ByHand => true,
        }
    }

    fn boot_id(&self) -> &str {
        match self {
            Self::Machine(machine) => &machine.boot_id,
            Self::ByHand => "by-hand",
        }
    }
}

fn is_by_hand(node: &Node) -> bool {
    node.annotations().contains_key("kwok.x-k8s.io/node")
}
