//! The live benchmark's 960 pods, planned batch by batch as they come, and what is left of them after scaling in to 40 %.

use karpenter_model::labels;
use karpenter_model::pod::PodView;

use super::Scenario;
use super::parts::{MI, Market, deployment, near, open, scenario, spread, waiting};
use crate::dice::Dice;

#[derive(Clone, Copy)]
enum Wish {
    Plain,
    ZoneSpread,
    HostSpread,
    /// No two on one node.
    Apart,
}

/// Processors in thousandths, memory in MiB.
const DEPLOYMENTS: [(Wish, i64, i64); 10] = [
    (Wish::Plain, 240, 512),
    (Wish::ZoneSpread, 360, 768),
    (Wish::HostSpread, 480, 1024),
    (Wish::Apart, 640, 1024),
    (Wish::Plain, 800, 2048),
    (Wish::ZoneSpread, 1000, 2048),
    (Wish::HostSpread, 1300, 3072),
    (Wish::Plain, 1700, 4096),
    (Wish::ZoneSpread, 2200, 6144),
    (Wish::Plain, 2800, 8192),
];
const REPLICAS: usize = 96;
pub(super) const LEFT: usize = 38;

/// The pods of each deployment.
pub(super) fn deployments(ids: &mut Dice) -> Vec<Vec<PodView>> {
    let one = |(number, (wish, cpu, memory)): (usize, &(Wish, i64, i64))| {
        let name = format!("app-{number}");
        let own = ("app", name.as_str());
        let mut template = waiting(&name, *cpu, memory * MI, ids);
        match wish {
            Wish::Plain => {}
            Wish::ZoneSpread => template.scheduling.spread.push(spread(labels::ZONE, own)),
            Wish::HostSpread => template.scheduling.spread.push(spread(labels::HOSTNAME, own)),
            Wish::Apart => template.scheduling.anti_affinity.push(near(labels::HOSTNAME, own)),
        }
        deployment(&name, REPLICAS, &template, ids)
    };
    DEPLOYMENTS.iter().enumerate().map(one).collect()
}

/// All of them, as if they had come at once.
pub fn at_once(name: &'static str) -> Scenario {
    let pods = deployments(&mut Dice::new(1)).into_iter().flatten().collect();
    scenario(name, Market::kwok_linux_amd64_below_33(), open("default"), pods)
}
