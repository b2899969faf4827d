//! A compiled snapshot that follows the cluster one node at a time, where only what runs on nodes has changed.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use karpenter_model::pod::PodView;
use karpenter_model::scheduling::PodScheduling;
use karpenter_model::snapshot::{ExistingNode, Snapshot};

use super::nodes::{Node, Reading};
use super::{Around, Compiled, SPARE};

impl Compiled {
    /// Beside nodes nothing has changed, and nobody waits.
    pub(crate) fn is_about(&self, snapshot: &Snapshot) -> bool {
        let known = |offer: &karpenter_model::snapshot::PoolOffer| {
            self.pools.iter().any(|pool| Arc::ptr_eq(&pool.view, &offer.pool))
        };
        self.pods.waiting == 0
            && snapshot.pending.is_empty()
            && snapshot.devices.is_none()
            && snapshot.reservation_credits.is_empty()
            && self.around.is_same(&Around::of(snapshot))
            && snapshot.pools.iter().all(known)
            && self.namespaces == snapshot.namespaces
    }

    /// Most of what is kept is gone from the cluster, which has so many pods that might move.
    pub(crate) fn is_stale(&self, residents: usize) -> bool {
        let alive = 4 * residents + 2 * self.nodes.len();
        self.pods.kept() + self.algebra.req_count() > 4 * alive + SPARE || self.pods.all.len() > 2 * residents + SPARE
    }

    /// A node as it is now, with its pods that might move. `None` where more than its pods has changed, or they ask about
    /// something that nobody asked about before: then all has to be compiled anew.
    pub(crate) fn reread(
        &mut self,
        at: usize,
        source: &ExistingNode,
        (residents, before): (&[Arc<PodView>], Range<usize>),
        going: &BTreeSet<&str>,
        snapshot: &Snapshot,
    ) -> Option<(Node, Range<usize>)> {
        let as_read = (self.pods.labels_read(), self.names.len());
        let kinds = self.pods.kinds.len();
        let range = self.pods.add_residents(residents, before, going, &mut self.names);
        if self.pods.kinds[kinds..].iter().any(|kind| asks_for_places(&kind.example.scheduling)) {
            return None;
        }
        let known = &self.nodes[at].source;
        for pod in source.pods.iter().filter(|pod| !has(&known.pods, pod)) {
            let terms = &pod.scheduling.anti_affinity;
            self.pods.read_terms(terms.iter());
            if terms.iter().any(|term| !self.keys.contains(&term.key)) {
                return None;
            }
        }
        let mut reading = Reading {
            snapshot,
            algebra: &mut self.algebra,
            names: &mut self.names,
            taints: &mut self.taints,
            pods: &mut self.pods,
            keys: &self.keys,
        };
        let known = &self.nodes[at];
        let alike = same_views(&known.source, source)
            && (known.source.marked, known.source.leaving, known.source.held_up)
                == (source.marked, source.leaving, source.held_up)
            && known.source.volume_limits == source.volume_limits
            && snapshot.daemons.is_empty();
        let node = if alike { known.with_other_pods(source, &mut reading) } else { Node::new(source, &mut reading) };
        self.work.nodes += 1;
        let labels = |node: &Node| node.source.node.as_ref().map(|node| node.labels.clone());
        let same = as_read == (self.pods.labels_read(), self.names.len())
            && (&known.name, &known.hostname, known.req, known.taints)
                == (&node.name, &node.hostname, node.req, node.taints)
            && (known.going, known.initialized) == (false, node.initialized)
            && !node.going
            && known.source.unsettled == node.source.unsettled
            && (alike
                || known.source.pool() == node.source.pool()
                    && known.source.capacity() == node.source.capacity()
                    && labels(known) == labels(&node));
        same.then_some((node, range))
    }
}

pub(crate) fn has(pods: &[Arc<PodView>], pod: &Arc<PodView>) -> bool {
    pods.iter().any(|known| Arc::ptr_eq(known, pod))
}

/// Both halves are the same objects.
pub(crate) fn same_views(a: &ExistingNode, b: &ExistingNode) -> bool {
    fn same<T>(a: Option<&Arc<T>>, b: Option<&Arc<T>>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        }
    }
    same(a.node.as_ref(), b.node.as_ref()) && same(a.claim.as_ref(), b.claim.as_ref())
}

/// It asks for labels, or about other pods.
fn asks_for_places(scheduling: &PodScheduling) -> bool {
    !scheduling.node_selector.is_empty()
        || !scheduling.required_terms.is_empty()
        || !scheduling.preferred_terms.is_empty()
        || !scheduling.spread.is_empty()
        || !scheduling.affinity.is_empty()
        || !scheduling.anti_affinity.is_empty()
        || !scheduling.preferred_affinity.is_empty()
        || !scheduling.preferred_anti_affinity.is_empty()
        || !scheduling.volumes.alternatives.is_empty()
}
