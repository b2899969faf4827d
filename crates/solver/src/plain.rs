//! The planner written down plainly, on names and values: slow, and what the compiled one is compared with.

mod claim;
mod node;
mod pass;
mod relax;
mod template;
mod topology;

use karpenter_model::labels::LabelRules;
use karpenter_model::snapshot::Snapshot;

use crate::options::Options;
use crate::plan::Plan;

pub(crate) fn plan(snapshot: &Snapshot, rules: &LabelRules, options: &Options) -> Plan {
    pass::Pass::new(snapshot, rules, options).run(snapshot, &mut || false)
}
