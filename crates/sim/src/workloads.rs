//! The parts of kube-controller-manager that nodes and pods notice.
//!
//! Each controller is a queue of keys, a few lines that say which changes concern which key, and a reconcile function.
//! What they leave out against the real ones: revisions are hashes on pods, not ControllerRevision objects; pods are
//! created without a slow start; Jobs know no pod failure policies, success policies or suspension.

mod attachments;
mod budgets;
mod daemonset;
mod deployment;
mod job;
mod node_lifecycle;
mod orphans;
mod pods;
mod protection;
mod replicaset;
mod selection;
mod statefulset;
mod taint_eviction;
mod volumes;

use std::sync::Arc;
use std::time::Duration;

use crate::cluster::{Cluster, Queue};

pub(crate) use self::pods::is_ready;

/// How patient the controllers are.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// A node whose lease is older than this is unreachable (kube-controller-manager: 50 s).
    pub heartbeat: Duration,
    /// How long a volume stays attached after its last pod left the node.
    pub detach: Duration,
    /// How long attaching and provisioning a volume takes.
    pub volume: Duration,
    /// How long a pod may stay bound to a node that does not exist (pod garbage collection: 40 s).
    pub orphan: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(50),
            detach: Duration::from_secs(6),
            volume: Duration::from_secs(3),
            orphan: Duration::from_secs(40),
        }
    }
}

/// Runs every controller until the future is dropped.
pub async fn run(cluster: Cluster, patience: Patience) {
    let cluster = &cluster;
    tokio::join!(
        deployment::run(cluster),
        replicaset::run(cluster),
        statefulset::run(cluster),
        daemonset::run(cluster),
        job::run(cluster),
        budgets::run(cluster),
        volumes::run(cluster, patience),
        protection::run(cluster),
        attachments::run(cluster, patience),
        node_lifecycle::run(cluster, patience),
        taint_eviction::run(cluster),
        orphans::run(cluster, patience),
    );
}

fn queue() -> Arc<Queue> {
    Arc::default()
}
