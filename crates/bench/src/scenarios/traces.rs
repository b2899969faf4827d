//! Pods of a production GPU cluster (`data/openb.csv` says where they are from).

use karpenter_model::pod::PodView;
use karpenter_model::quantity::Quantity;

use super::Scenario;
use super::parts::{MI, Market, on_demand, scenario, waiting};
use crate::dice::Dice;

const SHAPES: &str = include_str!("../../data/openb.csv");

#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub cpu_milli: i64,
    pub memory_mib: i64,
    pub gpus: i64,
    /// Thousandths of each GPU.
    pub gpu_milli: i64,
    pub pods: usize,
}

/// What the pods ask for, and how many ask for the same.
pub fn shapes() -> Vec<Shape> {
    let rows = SHAPES.lines().filter(|line| !line.starts_with('#'));
    rows.filter_map(|line| {
        let mut numbers = line.split(',').map(|field| field.parse::<i64>().ok());
        let mut next = || numbers.next().flatten();
        let (cpu_milli, memory_mib, gpus, gpu_milli) = (next()?, next()?, next()?, next()?);
        Some(Shape { cpu_milli, memory_mib, gpus, gpu_milli, pods: usize::try_from(next()?).ok()? })
    })
    .collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gpus {
    /// Only pods that ask for none.
    Without,
    /// All pods, as if they asked for none.
    Dropped,
    /// All pods; a part of one counts as one.
    Whole,
}

fn pods(gpus: Gpus) -> Vec<PodView> {
    let mut ids = Dice::new(3);
    let mut pods = Vec::new();
    for shape in shapes().into_iter().filter(|shape| gpus != Gpus::Without || shape.gpus == 0) {
        for _ in 0..shape.pods {
            let mut pod =
                waiting(&format!("openb-{:04}", pods.len()), shape.cpu_milli, shape.memory_mib * MI, &mut ids);
            if gpus == Gpus::Whole && shape.gpus > 0 {
                pod.requests.set("nvidia.com/gpu", Quantity::units(shape.gpus));
            }
            pods.push(pod);
        }
    }
    pods
}

pub fn cpu_7i(name: &'static str) -> Scenario {
    scenario(name, Market::ec2_7i(), on_demand("default"), pods(Gpus::Without))
}

pub fn cpu_ec2(name: &'static str) -> Scenario {
    scenario(name, Market::ec2_605(), on_demand("default"), pods(Gpus::Without))
}

pub fn all_ec2(name: &'static str) -> Scenario {
    scenario(name, Market::ec2_605(), on_demand("default"), pods(Gpus::Dropped))
}

pub fn gpu(name: &'static str) -> Scenario {
    scenario(name, Market::ec2(), on_demand("default"), pods(Gpus::Whole))
}
