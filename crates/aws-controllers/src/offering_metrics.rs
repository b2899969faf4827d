//! What can be bought and for how much, for dashboards (AWS-236).

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use karpenter_aws::provider::{OfferingRow, TypeRow};
use karpenter_controllers::queue::ReconcileError;
use karpenter_model::pool::PoolView;

use crate::Aws;

/// Series that were told of the last time: type, or type, capacity type and zone.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<(BTreeSet<String>, BTreeSet<[String; 3]>)>);

pub(crate) async fn round(aws: &Aws) -> Result<(), ReconcileError> {
    let pools: Vec<PoolView> = aws.ctx.state().pools().iter().map(|pool| pool.as_ref().clone()).collect();
    let (types, offerings) = (aws.shared.type_rows(), aws.shared.offering_rows(&pools).await);
    let all = &aws.ctx.report.metrics.all;
    for TypeRow { instance_type, cores, memory_bytes } in &types {
        all.instance_type_cpu_cores.set([instance_type], number(*cores));
        all.instance_type_memory.set([instance_type], number(*memory_bytes));
    }
    for OfferingRow { instance_type, capacity_type, zone, available, price_per_hour } in &offerings {
        let labels = [instance_type.as_str(), capacity_type, zone];
        all.offering_available.set(labels, f64::from(u8::from(*available)));
        all.offering_price.set(labels, *price_per_hour);
    }
    let now = (
        types.into_iter().map(|row| row.instance_type).collect(),
        offerings.into_iter().map(|row| [row.instance_type, row.capacity_type, row.zone]).collect(),
    );
    // Nothing under the lock panics.
    let mut last = aws.series.0.lock().unwrap_or_else(PoisonError::into_inner);
    let before = std::mem::replace(&mut *last, now);
    for gone in before.0.difference(&last.0) {
        all.instance_type_cpu_cores.remove([gone]);
        all.instance_type_memory.remove([gone]);
    }
    for [instance_type, capacity_type, zone] in before.1.difference(&last.1) {
        all.offering_available.remove([instance_type, capacity_type, zone]);
        all.offering_price.remove([instance_type, capacity_type, zone]);
    }
    Ok(())
}

/// Cores and bytes stay far below what a float holds exactly.
#[expect(clippy::cast_precision_loss, reason = "no instance has 2^53 bytes of memory")]
fn number(amount: i64) -> f64 {
    amount as f64
}
