//! Whether much of the cluster has just changed and will be quiet in a moment.
//!
//! When a workload shrinks, its nodes become quiet one after the other. Whoever decides about the first of them alone moves pods to
//! nodes that would have gone as well a moment later. Whoever waits for that moment decides once, about all of them. The same goes for
//! nodes that are kept for pods: after a large command most of the nodes that stay receive some, and whoever decides about the few others
//! meanwhile gives up small nodes where large ones could go.

use jiff::{SignedDuration, Timestamp};
use karpenter_model::snapshot::ExistingNode;

use crate::consolidatable::{Consolidatable, consolidatable};
use crate::look::Look;

/// So soon a node is quiet that is worth waiting for.
const SOON: SignedDuration = SignedDuration::from_secs(10);
/// Fewer do not make a difference.
const LEAST: usize = 8;
/// Of those that may go already, so many make it worth it: one in so many.
const SHARE: usize = 4;

/// So many nodes will soon be quiet that a decision now would be one about a part of them only.
pub fn is_worth_waiting(look: &Look<'_>) -> bool {
    let (mut quiet, mut soon) = (0, 0);
    for node in look.snapshot.nodes.iter().filter(|node| node.stays()) {
        let Some(claim) = node.claim.as_ref() else { continue };
        if node.nominated_until.is_some_and(|until| look.facts.now < until) {
            soon += 1;
            continue;
        }
        let pool = node.pool().and_then(|pool| look.facts.pools.get(pool)).map(|pool| &*pool.view);
        match consolidatable(claim, pool, look.facts.now) {
            Consolidatable::Yes => quiet += 1,
            Consolidatable::No { again: Some(end) } if is_soon(look.facts.now, end) => soon += 1,
            Consolidatable::No { .. } | Consolidatable::Untouched => {}
        }
    }
    quiet > 0 && soon >= LEAST && soon * SHARE >= quiet
}

/// When the next node becomes free to go on which a pod was expected until then. Nothing happens in the cluster at that moment, so that
/// whoever waits for news would miss it.
pub fn next_to_be_free(look: &Look<'_>) -> Option<Timestamp> {
    let stay = look.snapshot.nodes.iter().filter(|node| node.stays() && node.claim.is_some());
    stay.filter_map(|node| node.nominated_until).filter(|until| look.facts.now < *until).min()
}

/// Nobody is on the way from one node to another, or to the first: no pod is without a node, none has to leave its own, and no node is still
/// to come.
pub fn is_everybody_there(nodes: &[ExistingNode], has_unbound_pods: bool) -> bool {
    let is_coming = |node: &ExistingNode| node.claim.as_ref().is_some_and(|claim| claim.provider_id.is_none());
    !has_unbound_pods && nodes.iter().all(|node| node.stays() && !is_coming(node))
}

fn is_soon(now: Timestamp, end: Timestamp) -> bool {
    end.duration_since(now) <= SOON
}

#[cfg(test)]
mod tests {
    use karpenter_model::duration::{GoDuration, NillableDuration};

    use super::*;
    use crate::testing::{Cluster, instance_type, running, time};

    /// Of 40 nodes of a pool that waits for 30 s, so many were last used so many seconds ago, the others long ago.
    fn cluster(count: usize, ago: i64) -> Cluster {
        let after = NillableDuration::After(GoDuration::from_secs(30));
        let mut cluster =
            Cluster::new([instance_type("m", 4, 1.0, &[])]).pool("p", |pool| pool.consolidate_after = after);
        for at in 0..40 {
            let name = format!("n{at:02}");
            cluster = cluster.node(&name, "p", "m", [running(&format!("pod-{at}"), 1)]);
            let last = if at < count { 10_000 - ago } else { 1 };
            cluster = cluster.claim(&name, |claim| claim.last_pod_event = Some(time(last)));
        }
        cluster
    }

    /// DIS-15: the first on which nobody is expected any longer.
    #[test]
    fn the_next_node_that_may_go() {
        let free = |expected: &[(usize, i64)]| {
            let mut cluster = cluster(0, 0);
            for (at, until) in expected {
                cluster.snapshot.nodes[*at].nominated_until = Some(time(*until));
            }
            next_to_be_free(&cluster.look())
        };
        assert_eq!(free(&[]), None, "all are free");
        assert_eq!(free(&[(0, 10_025), (1, 10_007)]), Some(time(10_007)));
        assert_eq!(free(&[(0, 9_999), (1, 10_000)]), None, "nobody is expected any more");
    }

    /// DIS-15: a pod without a node, a node that goes and one that is still to come each have somebody on the way.
    #[test]
    fn somebody_may_be_on_the_way() {
        let there = |cluster: &Cluster, unbound: bool| is_everybody_there(&cluster.snapshot.nodes, unbound);
        assert!(there(&cluster(0, 0), false));
        assert!(!there(&cluster(0, 0), true), "a pod without a node");
        let mut goes = cluster(0, 0);
        goes.snapshot.nodes[3].marked = true;
        assert!(!there(&goes, false), "pods of a node that goes");
        assert!(!there(&cluster(0, 0).claim("n03", |claim| claim.provider_id = None), false), "a node is to come");
    }

    /// DIS-15: nodes that are kept for pods will be free, too.
    #[test]
    fn decisions_wait_for_many_nodes_that_are_kept_for_pods() {
        for (count, until, want) in [(7, 10_001, false), (8, 10_001, true), (30, 10_000, false), (40, 10_001, false)] {
            let mut cluster = cluster(0, 0);
            for node in &mut cluster.snapshot.nodes[..count] {
                node.nominated_until = Some(time(until));
            }
            assert_eq!(is_worth_waiting(&cluster.look()), want, "{count} until {until}");
        }
    }

    #[test]
    fn decisions_wait_for_many_nodes_that_are_quiet_soon() {
        for (count, ago, want, why) in [
            (0, 25, false, "all are quiet"),
            (7, 25, false, "few"),
            (8, 25, true, "a quarter of those that may go already"),
            (39, 25, true, "nearly all"),
            (40, 25, false, "nobody may go yet, so there is nothing to decide"),
            (20, 20, true, "just soon enough"),
            (20, 19, false, "not soon"),
            (20, 30, false, "quiet by now"),
        ] {
            assert_eq!(is_worth_waiting(&cluster(count, ago).look()), want, "{why}");
        }
    }
}
