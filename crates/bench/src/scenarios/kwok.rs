//! The workloads of the target's end-to-end performance suite (`performance.md` 1.2).

use karpenter_model::labels;
use karpenter_model::pod::PodView;

use super::Scenario;
use super::parts::{GI, MI, Market, deployment, near, on_demand, scenario, spread, waiting};
use crate::dice::Dice;

/// Millicores, MiB and replicas of the thirty deployments.
const WIDE: [(i64, i64); 30] = [
    (240, 300),
    (450, 400),
    (650, 700),
    (900, 1024),
    (1400, 2048),
    (1900, 4096),
    (2400, 8192),
    (2800, 4096),
    (3300, 16384),
    (3700, 10240),
    (2300, 65536),
    (900, 30720),
    (1300, 32768),
    (2800, 32768),
    (1800, 30720),
    (1850, 20480),
    (3300, 30720),
    (3800, 300),
    (225, 500),
    (450, 750),
    (700, 1024),
    (900, 2048),
    (1300, 4096),
    (1800, 8192),
    (2400, 16384),
    (2800, 32768),
    (3400, 28672),
    (3800, 65536),
    (3300, 13312),
    (2800, 24576),
];

/// 500 small and 500 large pods.
pub fn basic(name: &'static str) -> Scenario {
    let mut ids = Dice::new(1);
    let small = waiting("small", 900, 3100 * MI, &mut ids);
    let large = waiting("large", 3500, 28 * GI, &mut ids);
    let mut pods = deployment("small", 500, &small, &mut ids);
    pods.extend(deployment("large", 500, &large, &mut ids));
    scenario(name, Market::kwok_below_32(), on_demand("default"), pods)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Constraints {
    /// All spread over zones; 1 to 3 also apart on hosts, 4 to 6 also spread over hosts.
    Topology,
    None,
}

fn wide_pods(constraints: Constraints) -> Vec<PodView> {
    let mut ids = Dice::new(2);
    let mut pods = Vec::new();
    for (index, (cpu, memory)) in WIDE.iter().enumerate() {
        let name = format!("wide-{}", index + 1);
        let mut template = waiting(&name, *cpu, memory * MI, &mut ids);
        if constraints == Constraints::Topology {
            let own = ("app", name.as_str());
            template.scheduling.spread.push(spread(labels::ZONE, own));
            match index {
                0..3 => template.scheduling.anti_affinity.push(near(labels::HOSTNAME, own)),
                3..6 => template.scheduling.spread.push(spread(labels::HOSTNAME, own)),
                _ => {}
            }
        }
        pods.extend(deployment(&name, if index < 20 { 35 } else { 30 }, &template, &mut ids));
    }
    pods
}

pub fn wide(name: &'static str) -> Scenario {
    scenario(name, Market::kwok_below_32(), on_demand("default"), wide_pods(Constraints::Topology))
}

pub fn wide_free(name: &'static str) -> Scenario {
    scenario(name, Market::kwok_below_32(), on_demand("default"), wide_pods(Constraints::None))
}

pub fn wide_7i(name: &'static str) -> Scenario {
    scenario(name, Market::ec2_7i(), on_demand("default"), wide_pods(Constraints::None))
}

pub fn wide_7i_small(name: &'static str) -> Scenario {
    scenario(name, Market::ec2_7i_small(), on_demand("default"), wide_pods(Constraints::None))
}

pub fn wide_ec2(name: &'static str) -> Scenario {
    scenario(name, Market::ec2_605(), on_demand("default"), wide_pods(Constraints::None))
}
