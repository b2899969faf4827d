//! Drawn deployments: sizes from a ladder, memory by ratio, replicas log-normal (`performance.md` 4).

use karpenter_model::pod::PodView;

use super::Scenario;
use super::parts::{GI, MI, Market, constrain, deployment, on_demand, scenario, waiting};
use crate::dice::Dice;

const MILLICORES: [i64; 10] = [50, 100, 200, 250, 500, 1000, 1500, 2000, 4000, 8000];

/// A pod with CPU from the ladder and 1 to 12 GiB of memory per CPU, in whole MiB.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "at most 96 GiB")]
fn template(dice: &mut Dice, ids: &mut Dice) -> PodView {
    let cpu = dice.pick(&MILLICORES);
    let ratio = 1.0 + 11.0 * dice.unit();
    let mebibytes = (cpu as f64 / 1000.0 * ratio * (GI / MI) as f64).round() as i64;
    waiting("drawn", cpu, mebibytes * MI, ids)
}

/// Log-normal with µ 3 and σ 1.1, at most 300, at least 1.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 300")]
fn replicas(dice: &mut Dice) -> usize {
    (3.0 + 1.1 * dice.normal()).exp().clamp(1.0, 300.0) as usize
}

/// The pods of `count` drawn deployments.
pub fn deployments(count: usize, seed: u64) -> Vec<PodView> {
    let (mut dice, mut ids) = (Dice::new(seed), Dice::new(seed + 1));
    let mut pods = Vec::new();
    for number in 0..count {
        let template = template(&mut dice, &mut ids);
        let replicas = replicas(&mut dice);
        pods.extend(deployment(&format!("synth-{number}"), replicas, &template, &mut ids));
    }
    pods
}

/// Pods that keep apart are few: a node for each of hundreds is not what anybody wants.
const MOST_APART: usize = 12;

/// The pods of one drawn deployment, with spread and anti-affinity terms of its own where its number says so.
pub(super) fn constrained(number: usize, dice: &mut Dice, ids: &mut Dice) -> Vec<PodView> {
    let app = format!("app-{number}");
    let mut template = template(dice, ids);
    constrain(&mut template, number, &app);
    let apart = template.scheduling.spread.len() > usize::from(number.is_multiple_of(3))
        || !template.scheduling.anti_affinity.is_empty();
    let replicas = replicas(dice);
    deployment(&app, if apart { replicas.min(MOST_APART) } else { replicas }, &template, ids)
}

pub fn synth_ec2(name: &'static str) -> Scenario {
    scenario(name, Market::ec2_605(), on_demand("default"), deployments(120, 120))
}

pub fn synth_7i(name: &'static str) -> Scenario {
    scenario(name, Market::ec2_7i(), on_demand("default"), deployments(120, 120))
}

pub fn synth_7i_small(name: &'static str) -> Scenario {
    scenario(name, Market::ec2_7i_small(), on_demand("default"), deployments(120, 120))
}

const MILLION: usize = 1_000_000;
const DEPLOYMENTS: usize = 2_000;

/// A million pods of 2,000 deployments that differ in size as drawn ones do.
pub fn million(name: &'static str) -> Scenario {
    let (mut dice, mut ids) = (Dice::new(7), Dice::new(8));
    let drawn: Vec<usize> = (0..DEPLOYMENTS).map(|_| replicas(&mut dice)).collect();
    let total: usize = drawn.iter().sum();
    let mut pods = Vec::with_capacity(MILLION);
    let mut before = 0;
    for (number, drawn) in drawn.into_iter().enumerate() {
        let template = template(&mut dice, &mut ids);
        before += drawn;
        let replicas = before * MILLION / total - pods.len();
        pods.extend(deployment(&format!("app-{number}"), replicas, &template, &mut ids));
    }
    scenario(name, Market::ec2(), on_demand("default"), pods)
}
