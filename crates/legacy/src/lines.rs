//! The lines that v0.5 logged about instances and nodes, for who reads logs as its tutorials do (SEED-2-26 … SEED-2-31).
//!
//! They follow from what happens to nodes, whoever does it and why; today's own lines say more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use karpenter_controllers::Context;
use karpenter_model::duration::NillableDuration;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::pool::ConsolidationPolicy;
use karpenter_model::taints::Taint;

/// How often nodes are looked at.
const EVERY: Duration = Duration::from_secs(1);

const PROVISIONING: &str = "controller.provisioning";
const NODE: &str = "controller.node";
const TERMINATION: &str = "controller.termination";

/// What is to be known of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Seen {
    provisioner: String,
    instance: String,
    instance_type: String,
    zone: String,
    capacity_type: String,
    /// Without those that every node has.
    pods: usize,
    going: bool,
    /// How long it may be empty.
    ttl: Option<String>,
}

/// All nodes of ours, and how many pods wait for one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Facts {
    nodes: BTreeMap<String, Seen>,
    pending: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    logger: &'static str,
    message: String,
    provisioner: Option<String>,
    node: Option<String>,
}

impl Line {
    fn of_provisioner(message: String, provisioner: &str) -> Self {
        let provisioner = Some(provisioner.to_owned()).filter(|name| !name.is_empty());
        Self { logger: PROVISIONING, message, provisioner, node: None }
    }

    fn of_node(logger: &'static str, message: impl Into<String>, node: &str) -> Self {
        Self { logger, message: message.into(), provisioner: None, node: Some(node.to_owned()) }
    }
}

#[derive(Debug, Clone)]
struct Known {
    seen: Seen,
    bound: bool,
    /// For how many looks its pods have been as many.
    steady: u32,
    empty: bool,
    cordoned: bool,
}

/// Who waits for something else does not keep us from saying who has come. kube-scheduler may leave a pod alone for ten
/// seconds before it tries again.
const STEADY: u32 = 15;

impl Known {
    /// How many pods the node got, once all have come: when nobody waits, when their number stands, or when it falls.
    fn arrived(&mut self, seen: &Seen, pending: usize) -> Option<usize> {
        self.steady = if seen.pods == self.seen.pods { self.steady.saturating_add(1) } else { 0 };
        if self.bound {
            return None;
        }
        if seen.pods < self.seen.pods {
            return Some(self.seen.pods);
        }
        (seen.pods > 0 && (pending == 0 || self.steady >= STEADY)).then_some(seen.pods)
    }
}

/// What has been said so far.
#[derive(Debug, Default)]
struct Lines {
    /// Nothing is said of what was there before.
    started: bool,
    nodes: BTreeMap<String, Known>,
    pending: bool,
    /// Who launched last.
    provisioner: String,
}

impl Lines {
    fn look(&mut self, facts: &Facts) -> Vec<Line> {
        let mut out = Vec::new();
        for (name, seen) in &facts.nodes {
            self.node(name, seen, facts.pending, &mut out);
        }
        let gone: Vec<String> = self.nodes.keys().filter(|name| !facts.nodes.contains_key(*name)).cloned().collect();
        for name in gone {
            if let Some(known) = self.nodes.remove(&name) {
                going(&name, &known, &mut out);
                out.push(Line::of_node(TERMINATION, "Deleted node", &name));
            }
        }
        let unsaid = self.nodes.values().any(|known| !known.bound && known.seen.pods > 0);
        if facts.pending > 0 {
            self.pending = true;
        } else if self.pending && !unsaid {
            self.pending = false;
            out.push(Line::of_provisioner("Waiting for unschedulable pods".to_owned(), &self.provisioner));
        }
        if !std::mem::replace(&mut self.started, true) {
            out.clear();
        }
        out
    }

    fn node(&mut self, name: &str, seen: &Seen, pending: usize, out: &mut Vec<Line>) {
        let Some(known) = self.nodes.get_mut(name) else {
            let Seen { provisioner, instance, instance_type, zone, capacity_type, .. } = seen;
            let message = format!(
                "Launched instance: {instance}, hostname: {name}, type: {instance_type}, zone: {zone}, capacityType: {capacity_type}"
            );
            out.push(Line::of_provisioner(message, provisioner));
            self.provisioner.clone_from(provisioner);
            // Who was there before has been told of by somebody else.
            let before = !self.started;
            let (bound, cordoned) = (before && seen.pods > 0, before && seen.going);
            let known = Known { seen: seen.clone(), bound, steady: 0, empty: false, cordoned };
            self.nodes.insert(name.to_owned(), known);
            return;
        };
        if let Some(pods) = known.arrived(seen, pending) {
            known.bound = true;
            out.push(Line::of_provisioner(format!("Bound {pods} pod(s) to node {name}"), &seen.provisioner));
        }
        let empty = known.bound && seen.pods == 0 && seen.ttl.is_some();
        if empty != known.empty && !seen.going {
            known.empty = empty;
            let message = if empty { "Added TTL to empty node" } else { "Removed emptiness TTL from node" };
            out.push(Line::of_node(NODE, message, name));
        }
        known.seen = seen.clone();
        if seen.going && !known.cordoned {
            going(name, known, out);
            known.cordoned = true;
        }
    }
}

/// What is said of a node when it is known to go.
fn going(name: &str, known: &Known, out: &mut Vec<Line>) {
    if known.cordoned {
        return;
    }
    if let (true, Some(ttl)) = (known.empty, &known.seen.ttl) {
        out.push(Line::of_node(NODE, format!("Triggering termination after {ttl} for empty node"), name));
    }
    out.push(Line::of_node(TERMINATION, "Cordoned node", name));
}

/// Says the lines until the future is dropped.
pub async fn run(ctx: Arc<Context>) {
    let mut lines = Lines::default();
    loop {
        tokio::time::sleep(EVERY).await;
        if ctx.state().unlisted().is_some() {
            continue;
        }
        for Line { logger, message, provisioner, node } in lines.look(&facts(&ctx)) {
            // A field that is not there is left out.
            tracing::info!(logger, provisioner, node, "{message}");
        }
    }
}

fn facts(ctx: &Context) -> Facts {
    let names = ctx.nodes.names();
    let state = ctx.state();
    let ours = names.iter().filter_map(|name| state.node(name)).filter(|node| node.is_registered());
    let nodes = ours.filter_map(|node| {
        let pool = node.labels.get(labels::NODEPOOL)?;
        let pods = state.pods_on(&node.name).iter().filter(|pod| pod.is_reschedulable()).count();
        let ttl = state.pool(pool).filter(|pool| pool.consolidation_policy == ConsolidationPolicy::WhenEmpty);
        let ttl = ttl.and_then(|pool| match pool.consolidate_after {
            NillableDuration::After(after) => Some(after.to_string()),
            NillableDuration::Never => None,
        });
        Some((node.name.clone(), seen(node, pool, pods, ttl)))
    });
    Facts { nodes: nodes.collect(), pending: state.pending_pods().len() }
}

fn seen(node: &NodeView, pool: &str, pods: usize, ttl: Option<String>) -> Seen {
    let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
    let disrupted = Taint::disrupted();
    Seen {
        provisioner: pool.to_owned(),
        instance: node.provider_id.as_deref().and_then(|id| id.rsplit('/').next()).unwrap_or_default().to_owned(),
        instance_type: label(labels::INSTANCE_TYPE),
        zone: label(labels::ZONE),
        capacity_type: label(labels::CAPACITY_TYPE),
        pods,
        going: node.deleting_since.is_some() || node.taints.iter().any(|taint| taint.is_same(&disrupted)),
        ttl,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(pods: usize, going: bool) -> Seen {
        Seen {
            provisioner: "default".to_owned(),
            instance: "i-0d1406393eaee0b4c".to_owned(),
            instance_type: "t3.2xlarge".to_owned(),
            zone: "us-east-1c".to_owned(),
            capacity_type: "spot".to_owned(),
            pods,
            going,
            ttl: Some("30s".to_owned()),
        }
    }

    fn said(lines: &mut Lines, node: Option<Seen>, pending: usize) -> Vec<String> {
        let nodes = node.into_iter().map(|node| ("ip-1.ec2.internal".to_owned(), node)).collect();
        let text = |line: Line| {
            let about = line.provisioner.map(|name| format!("provisioner={name}"));
            let about = about.or(line.node.map(|name| format!("node={name}"))).unwrap_or_default();
            format!("{} {} {about}", line.logger, line.message)
        };
        lines.look(&Facts { nodes, pending }).into_iter().map(text).collect()
    }

    /// SEED-2-26, SEED-2-27, SEED-2-28, SEED-2-31, SEED-2-32: the tutorial's lines, in its order.
    #[test]
    fn the_life_of_a_node() {
        let mut lines = Lines::default();
        let mut told = Vec::new();
        for (node, pending) in [
            (None, 0),
            (None, 4),
            (Some(node(0, false)), 4),
            (Some(node(3, false)), 1),
            (Some(node(4, false)), 0),
            (Some(node(4, false)), 0),
            (Some(node(4, false)), 0),
            (Some(node(0, false)), 0),
            (Some(node(0, false)), 0),
            (Some(node(0, true)), 0),
            (None, 0),
            (None, 0),
        ] {
            told.extend(said(&mut lines, node, pending));
        }
        assert_eq!(
            told,
            [
                "controller.provisioning Launched instance: i-0d1406393eaee0b4c, hostname: ip-1.ec2.internal, type: t3.2xlarge, zone: us-east-1c, capacityType: spot provisioner=default",
                "controller.provisioning Bound 4 pod(s) to node ip-1.ec2.internal provisioner=default",
                "controller.provisioning Waiting for unschedulable pods provisioner=default",
                "controller.node Added TTL to empty node node=ip-1.ec2.internal",
                "controller.node Triggering termination after 30s for empty node node=ip-1.ec2.internal",
                "controller.termination Cordoned node node=ip-1.ec2.internal",
                "controller.termination Deleted node node=ip-1.ec2.internal",
            ]
        );
    }

    /// What was there before is not told of; what happens to it then is. A node that goes in one look is cordoned first.
    #[test]
    fn a_later_start() {
        let mut lines = Lines::default();
        assert_eq!(said(&mut lines, Some(node(2, false)), 0), [""; 0]);
        assert_eq!(
            said(&mut lines, Some(node(0, false)), 0),
            ["controller.node Added TTL to empty node node=ip-1.ec2.internal"]
        );
        assert_eq!(
            said(&mut lines, Some(node(1, false)), 0),
            ["controller.node Removed emptiness TTL from node node=ip-1.ec2.internal"]
        );
        assert_eq!(
            said(&mut lines, None, 0),
            [
                "controller.termination Cordoned node node=ip-1.ec2.internal",
                "controller.termination Deleted node node=ip-1.ec2.internal"
            ]
        );
    }
}
