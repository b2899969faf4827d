//! A cluster that has lived: nodes with room here and there.

use std::sync::Arc;

use karpenter_model::example;
use karpenter_model::labels;
use karpenter_model::node::NodeView;
use karpenter_model::pod::{PodPhase, PodView};
use karpenter_model::resources::Resources;
use karpenter_model::snapshot::ExistingNode;

use super::Scenario;
use super::parts::{Market, on_demand, scenario};
use super::synth;
use crate::dice::Dice;

const NODES: usize = 1000;
const WAITING: usize = 2000;

/// Nodes of a few types, filled from drawn deployments, half of the pods gone again; other drawn pods wait.
pub fn churned(name: &'static str) -> Scenario {
    let market = Market::ec2_7i();
    let mut dice = Dice::new(31);
    let types = ["m7i.2xlarge", "m7i.4xlarge", "r7i.2xlarge", "c7i.4xlarge"];
    let mut running = synth::deployments(700, 32).into_iter();
    let mut nodes = Vec::with_capacity(NODES);
    for number in 0..NODES {
        let wanted = dice.pick(&types);
        let Some(instance_type) = market.types.iter().find(|t| t.name == wanted) else { continue };
        let mut node = node(number, wanted, dice.pick(&["us-east-1a", "us-east-1b", "us-east-1c"]));
        node.capacity = instance_type.capacity.clone().into();
        node.allocatable = instance_type.allocatable().into();
        nodes.push(filled(node, &mut running, &mut dice));
    }
    let mut waiting = synth::deployments(120, 33);
    waiting.truncate(WAITING);
    let mut made = scenario(name, market, on_demand("default"), waiting);
    made.snapshot.nodes = nodes;
    made
}

fn node(number: usize, instance_type: &str, zone: &str) -> NodeView {
    let name = format!("node-{number:05}");
    let mut node = example::node(&name);
    node.ready = true;
    let labels = [
        (labels::HOSTNAME, name.as_str()),
        (labels::INSTANCE_TYPE, instance_type),
        (labels::ZONE, zone),
        (labels::CAPACITY_TYPE, labels::CAPACITY_TYPE_ON_DEMAND),
        (labels::NODEPOOL, "default"),
        (labels::ARCH, "amd64"),
        (labels::OS, "linux"),
    ];
    node.labels.extend(labels.map(|(key, value)| (key.to_owned(), value.to_owned())));
    node
}

/// First come, first served until one does not fit, then each pod stays with even chance.
fn filled(node: NodeView, pods: &mut impl Iterator<Item = PodView>, dice: &mut Dice) -> ExistingNode {
    let (mut used, mut stays, mut requested) = (Resources::new(), Vec::new(), Resources::new());
    for mut pod in pods.by_ref() {
        used.add(&pod.requests);
        if !used.fits(&node.allocatable) {
            break;
        }
        if dice.below(2) == 0 {
            continue;
        }
        pod.id.name = format!("old-{}", pod.id.name).into();
        pod.node_name = Some(node.name.as_str().into());
        pod.phase = PodPhase::Running;
        pod.unschedulable = false;
        requested.add(&pod.requests);
        stays.push(Arc::new(pod));
    }
    stays.sort_by(|a, b| a.id.cmp(&b.id));
    ExistingNode {
        node: Some(Arc::new(node)),
        requested: requested.into(),
        pods: stays.into(),
        ..ExistingNode::default()
    }
}
