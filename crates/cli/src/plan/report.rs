//! The plan as scripts read it.

use std::collections::BTreeMap;
use std::time::Duration;

use karpenter_model::buffer::BufferView;
use karpenter_model::instance_type::InstanceType;
use karpenter_model::labels::LabelRules;
use karpenter_model::pod::PodId;
use karpenter_model::resources::Resources;
use karpenter_model::snapshot::Snapshot;
use karpenter_solver::buffers::provisioning;
use karpenter_solver::{Placement, Plan, PlannedClaim};
use serde::Serialize;

use super::reasons::Reasons;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) nodes: Vec<NewNode>,
    pub(super) existing: Vec<ExistingPlace>,
    pub(super) unschedulable: Vec<Unschedulable>,
    pub(super) buffers: Vec<Kept>,
    pub(super) cost: Cost,
    pub(super) planner: &'static str,
    pub(super) work: Work,
    pub(super) timings: Timings,
    /// Rules that the plan breaks, found by somebody who did not make it; none, unless there is a defect.
    pub(super) violations: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewNode {
    pub(super) node_pool: String,
    /// Cheapest first.
    pub(super) instance_types: Vec<String>,
    /// What would be launched if the cheapest is to be had.
    pub(super) launch: Option<Launch>,
    pub(super) requests: BTreeMap<String, String>,
    pub(super) pods: Vec<String>,
    /// Why this is what would be launched.
    pub(super) why: Option<String>,
    /// Who made each of the pods, for people.
    #[serde(skip)]
    pub(super) makers: Vec<String>,
}

impl NewNode {
    fn price(&self) -> Option<f64> {
        Some(self.launch.as_ref()?.price_per_hour)
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Launch {
    pub(super) instance_type: String,
    pub(super) zone: String,
    pub(super) capacity_type: String,
    pub(super) price_per_hour: f64,
    /// What pods can have of it.
    pub(super) allocatable: BTreeMap<String, String>,
    /// Requests as percentages of that.
    pub(super) fill: BTreeMap<String, u32>,
}

#[derive(Debug, Serialize)]
pub(super) struct ExistingPlace {
    pub(super) node: String,
    pub(super) pods: Vec<String>,
    #[serde(skip)]
    pub(super) makers: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Unschedulable {
    pub(super) pod: String,
    pub(super) reasons: Vec<String>,
    #[serde(skip)]
    pub(super) maker: String,
}

/// What the plan means for a CapacityBuffer.
#[derive(Debug, Serialize)]
pub(super) struct Kept {
    pub(super) buffer: String,
    pub(super) replicas: u32,
    /// As the condition `Provisioning` would say.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cost {
    /// Of the new nodes.
    pub(super) per_hour: f64,
    /// No plan for the same pods can cost less; `null` when nobody looked.
    pub(super) lower_bound: Option<f64>,
    pub(super) bound_kind: Option<&'static str>,
    /// What the plan costs above the bound, as a share of the bound.
    pub(super) gap: Option<f64>,
    /// What resources are worth in this plan, per hour: the prices that the bound rests on.
    pub(super) dual_prices: Option<Prices>,
}

#[derive(Debug, Serialize)]
pub(super) struct Prices {
    #[serde(rename = "perCpu")]
    pub(super) cpu: f64,
    #[serde(rename = "perGib")]
    pub(super) gib: f64,
    #[serde(rename = "perPod")]
    pub(super) pod: f64,
}

/// How the plan came about.
#[derive(Debug, Serialize)]
pub(super) struct Work {
    /// Which part of the planner found it.
    pub(super) part: &'static str,
    /// Steps beyond those of the reference.
    pub(super) steps: u64,
}

/// In milliseconds.
#[derive(Debug, Default, Serialize)]
pub(super) struct Timings {
    #[serde(rename = "loadMs")]
    load: f64,
    /// Until the first pod was looked at.
    #[serde(rename = "compileMs")]
    compile: f64,
    #[serde(rename = "solveMs")]
    solve: f64,
}

impl Timings {
    /// `planned` is all that planning took, `compiled` the part of it before the first pod.
    pub(super) fn new(load: Duration, compiled: Duration, planned: Duration) -> Self {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        Self {
            load: milliseconds(load),
            compile: milliseconds(compiled),
            solve: milliseconds(planned.saturating_sub(compiled)),
        }
    }
}

impl Report {
    pub(super) fn new(snapshot: &Snapshot, plan: &Plan, rules: &LabelRules, buffers: &[BufferView]) -> Self {
        let mut reasons = Reasons::new(snapshot, plan, rules);
        let nodes: Vec<NewNode> =
            plan.claims.iter().map(|claim| new_node(snapshot, claim, rules, &mut reasons)).collect();
        let mut existing: BTreeMap<&str, ExistingPlace> = BTreeMap::new();
        for (pod, placement) in &plan.placed {
            if let Placement::Existing(node) = placement {
                let place = existing.entry(node).or_insert_with(|| ExistingPlace {
                    node: node.clone(),
                    pods: Vec::new(),
                    makers: Vec::new(),
                });
                place.pods.push(pod.to_string());
                place.makers.push(maker(snapshot, pod));
            }
        }
        let unschedulable = plan.unplaced.iter().map(|unplaced| {
            let maker = maker(snapshot, &unplaced.pod);
            Unschedulable { pod: unplaced.pod.to_string(), reasons: reasons.refusals(unplaced, &maker), maker }
        });
        let unschedulable = unschedulable.collect();
        let buffers = buffers.iter().map(|buffer| {
            let provisioning = provisioning(buffer, snapshot, plan);
            Kept {
                buffer: buffer.id.to_string(),
                replicas: buffer.desired.unwrap_or(0),
                reason: provisioning.condition().map_or("", |(_, reason)| reason),
                message: provisioning.message(),
            }
        });
        Self {
            // An empty sum of floats is minus zero.
            cost: Cost {
                per_hour: nodes.iter().filter_map(NewNode::price).sum::<f64>() + 0.0,
                lower_bound: plan.bound.as_ref().map(|bound| bound.per_hour + 0.0),
                bound_kind: plan.bound.as_ref().map(|bound| bound.kind.as_str()),
                gap: plan.gap(),
                dual_prices: plan.bound.as_ref().map(|bound| Prices {
                    cpu: bound.prices.per_cpu,
                    gib: bound.prices.per_gib,
                    pod: bound.prices.per_pod,
                }),
            },
            nodes,
            existing: existing.into_values().collect(),
            unschedulable,
            buffers: buffers.collect(),
            planner: plan.planner.as_str(),
            work: Work { part: plan.part.as_str(), steps: plan.steps },
            timings: Timings::default(),
            violations: Vec::new(),
        }
    }
}

fn new_node(snapshot: &Snapshot, claim: &PlannedClaim, rules: &LabelRules, reasons: &mut Reasons<'_>) -> NewNode {
    let offer = snapshot.pools.iter().find(|offer| offer.pool.name == claim.pool.name);
    let cheapest = claim.instance_types.first();
    let known = offer.zip(cheapest).and_then(|(offer, name)| offer.instance_types.iter().find(|t| t.name == *name));
    NewNode {
        node_pool: claim.pool.name.clone(),
        instance_types: claim.instance_types.to_vec(),
        launch: known.and_then(|known| launch(known, claim, rules)),
        requests: shown(&claim.requests),
        pods: claim.pods.iter().map(ToString::to_string).collect(),
        why: reasons.shape(claim),
        makers: claim.pods.iter().map(|pod| maker(snapshot, pod)).collect(),
    }
}

fn launch(known: &InstanceType, claim: &PlannedClaim, rules: &LabelRules) -> Option<Launch> {
    let offering = *known.launchable_offerings(&claim.requirements, rules).first()?;
    let allocatable = known.allocatable_with(&offering.overrides);
    let fill = claim.requests.iter().filter_map(|(name, amount)| {
        let available = allocatable.amount(name).as_f64();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a percentage of a plan that fits")]
        let percent = (amount.as_f64() / available * 100.0).round() as u32;
        (available > 0.0).then(|| (name.to_owned(), percent))
    });
    Some(Launch {
        instance_type: known.name.clone(),
        zone: offering.zone().unwrap_or_default().to_owned(),
        capacity_type: offering.capacity_type().unwrap_or_default().to_owned(),
        price_per_hour: offering.price.per_hour(),
        fill: fill.collect(),
        allocatable: shown(&allocatable),
    })
}

/// The workload that a pod is of, or the buffer that it stands for, else the pod itself.
fn maker(snapshot: &Snapshot, pod: &PodId) -> String {
    let known = snapshot.pending.get(pod);
    if let Some(buffer) = known.and_then(|pod| pod.buffer.as_ref()) {
        return format!("buffer {buffer}");
    }
    let controller = known.and_then(|pod| pod.controller.as_ref());
    controller.map_or_else(|| pod.to_string(), |controller| format!("{}/{}", pod.namespace, controller.name))
}

fn shown(resources: &Resources) -> BTreeMap<String, String> {
    resources.iter().map(|(name, amount)| (name.to_owned(), amount.to_string())).collect()
}
