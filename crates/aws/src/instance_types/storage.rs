//! What pods can write to (AWS-121).

use karpenter_model::quantity::Quantity;

use crate::class::{ClassError, NodeClass};
use crate::cloud::InstanceTypeInfo;
use crate::family::AmiFamily;

const GI: i64 = 1 << 30;
const GB: i64 = 1_000_000_000;

/// The first of these that applies: joined disks, the root volume, what the family writes to, the family's default.
pub(super) fn ephemeral_storage(info: &InstanceTypeInfo, class: &NodeClass) -> Result<Quantity, ClassError> {
    if let Some(storage) = info.storage.as_ref().filter(|_| class.joins_disks()) {
        return Ok(Quantity::units(storage.total_gb.saturating_mul(GB)));
    }
    let default = Quantity::bytes(class.family.default_storage_gib() * GI);
    let devices = class.block_devices();
    if let Some(at) = devices.iter().position(|device| device.root_volume == Some(true))
        && let Some(size) = class.volume_size(at)?
    {
        return Ok(size);
    }
    let written_to = match class.family {
        AmiFamily::Custom => devices.len().checked_sub(1),
        family => devices.iter().position(|device| device.device_name.as_deref() == family.ephemeral_device()),
    };
    Ok(written_to.map(|at| class.volume_size(at)).transpose()?.flatten().unwrap_or(default))
}
