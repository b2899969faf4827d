//! Zones that traffic is shifted away from: the provider and the pools are told (§6.3).

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use karpenter_api::kinds::EC2NodeClass;
use karpenter_api::names::aws::ZONE_ID;
use karpenter_aws::cloud::{ApiError, Lookups};
use karpenter_controllers::events::{EventType, Subject};
use karpenter_controllers::queue::ReconcileError;
use karpenter_model::labels::ZONE;
use karpenter_model::pool::PoolView;
use kube::ResourceExt as _;

use crate::Aws;
use crate::report::event;

#[derive(Debug, thiserror::Error)]
pub enum ZonalShiftError {
    #[error("eks:DescribeCluster failed for cluster {cluster:?}")]
    Cluster {
        cluster: String,
        #[source]
        source: ApiError,
    },
    #[error("arc-zonal-shift:GetManagedResource failed for {arn:?}; is the cluster registered for zonal shifts?")]
    Resource {
        arn: String,
        #[source]
        source: ApiError,
    },
}

/// The cluster's ARN, once it is known to take part in zonal shifts; otherwise the process should not start (AWS-225).
pub async fn zonal_shift_arn(lookups: &dyn Lookups, cluster: &str) -> Result<String, ZonalShiftError> {
    let failed = |source| ZonalShiftError::Cluster { cluster: cluster.to_owned(), source };
    let arn = lookups.cluster(cluster).await.map_err(failed)?.arn;
    match lookups.zonal_shifts(&arn).await {
        Ok(_) => Ok(arn),
        Err(source) => Err(ZonalShiftError::Resource { arn, source }),
    }
}

/// What pools have been told.
#[derive(Debug, Default)]
pub(crate) struct Announced(Mutex<BTreeSet<String>>);

pub(crate) async fn round(aws: &Aws) -> Result<(), ReconcileError> {
    let Some(arn) = &aws.options.zonal_shift else { return Ok(()) };
    let failed = |source| ZonalShiftError::Resource { arn: arn.clone(), source };
    let shifts = aws.services.lookups.zonal_shifts(arn).await.map_err(failed)?;
    let now = aws.shared.zonal_shifts_described(&shifts);
    // Nothing under the lock panics.
    let before = std::mem::replace(&mut *aws.shifts.0.lock().unwrap_or_else(PoisonError::into_inner), now.clone());
    for zone in now.difference(&before) {
        tracing::warn!(zone_id = zone, "traffic is shifted away from a zone");
        let message = format!("Zonal shift away from {zone} is active, nothing is launched there");
        tell(aws, zone, EventType::Warning, "ZonalShiftActive", &message);
    }
    for zone in before.difference(&now) {
        tracing::info!(zone_id = zone, "traffic is not shifted away from a zone any more");
        tell(aws, zone, EventType::Normal, "ZonalShiftCleared", &format!("Zonal shift away from {zone} is over"));
    }
    Ok(())
}

fn tell(aws: &Aws, zone: &str, type_: EventType, reason: &str, message: &str) {
    let classes = aws.all_classes();
    for pool in aws.ctx.state().pools() {
        let class = classes.iter().find(|class| class.name_any() == pool.node_class.name);
        if class.is_some_and(|class| could_use(&pool, class, zone)) {
            let mut event = event(&Subject::pool(&pool.name, &pool.uid), type_, reason, message);
            event.dedupe.push(zone.to_owned());
            aws.ctx.report.events.publish(event);
        }
    }
}

/// Its class has a subnet there, and the pool does not keep to other zones (AWS-228).
fn could_use(pool: &PoolView, class: &EC2NodeClass, zone_id: &str) -> bool {
    let allows = |key: &str, value: &str| pool.requirements.get(key).is_none_or(|asked| asked.has(value));
    let subnets = class.status.iter().flat_map(|status| status.subnets.iter().flatten());
    let mut there = subnets.filter(|subnet| subnet.zone_id.as_deref() == Some(zone_id));
    allows(ZONE_ID, zone_id) && there.any(|subnet| allows(ZONE, &subnet.zone))
}
