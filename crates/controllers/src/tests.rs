//! One reconcile at a time, on an API in the process and with a cloud that does as it is told.

mod binary;
mod claims;
mod collecting;
mod commands;
mod deletion_costs;
mod desk;
mod disrupting;
mod drifts;
mod dying;
mod ending;
mod halves;
mod healing;
mod logs;
mod looping;
mod nodes;
mod odd;
mod pools;
mod provisioning;
mod registering;
mod repairing;
mod series;
mod spreading;
mod turns;
mod waking;
mod with_devices;

use k8s_openapi::api::core::v1::Node;
use karpenter_api::kinds::{NodeClaim, NodePool};
use kube::{Api, ResourceExt as _};
