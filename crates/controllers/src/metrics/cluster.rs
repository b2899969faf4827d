//! The series of the whole cluster, read off the state when somebody asks (API-184, API-190).

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use jiff::Timestamp;
use karpenter_api::kinds::NodePool;
use karpenter_model::resources::Resources;

use super::{Collector, Samples, node_series, pod_limits, pool_series, utilization};
use crate::context::Context;

#[derive(Debug)]
pub struct ClusterSeries(Weak<Context>);

impl ClusterSeries {
    /// Begins to tell about the cluster, unless that is switched off.
    pub fn follow(ctx: &Arc<Context>) {
        if ctx.report.is_observing() {
            ctx.report.metrics.add_collector(Arc::new(Self(Arc::downgrade(ctx))));
        }
    }
}

impl Collector for ClusterSeries {
    fn collect(&self, now: Timestamp, into: &mut Samples<'_>) {
        let Some(ctx) = self.0.upgrade() else { return };
        let metrics = &ctx.report.metrics;
        let (entries, pools, pods) = {
            let state = ctx.state();
            (state.nodes(), state.pools(), state.pods())
        };
        let count = f64::from(u32::try_from(entries.len()).unwrap_or(u32::MAX));
        into.add(metrics.all.cluster_state_node_count.family(), &[], count);
        utilization(&metrics.all, &entries, into);
        let usage = pod_limits(&pods);
        let none = super::NodeUsage::default();
        let mut by_name = BTreeMap::new();
        for entry in &entries {
            if let Some(node) = &entry.node {
                by_name.insert(node.name.as_str(), node.as_ref());
                node_series(&metrics.nodes, entry, usage.get(node.name.as_str()).unwrap_or(&none), now, into);
            }
        }
        ctx.report.pods().collect(&pods, &by_name, now, into);
        let costs = ctx.state().costs(&ctx.memory.prices());
        for pool in &pools {
            // A pool without nodes costs nothing, which is said too.
            let cost = costs.get(&pool.name).copied().unwrap_or_default();
            into.add(metrics.all.nodepools_cost.family(), &[&pool.name], cost);
            let status = ctx.pools.get(&pool.name).map(|pool| status_resources(&pool)).unwrap_or_default();
            pool_series(&metrics.all, &pool.name, &pool.limits, &status, into);
        }
    }
}

/// What cannot be read is left out: the status is our own writing.
fn status_resources(pool: &NodePool) -> Resources {
    let resources = pool.status.iter().flat_map(|status| status.resources.iter().flatten());
    resources.filter_map(|(name, amount)| Some((name.clone(), amount.parse().ok()?))).collect()
}
