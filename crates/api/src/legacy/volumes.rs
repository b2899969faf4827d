//! Block devices of older templates (API-335, API-339).

use karpenter_model::quantity::Quantity;

use super::findings::Report;
use crate::kinds::awsnodetemplate::TemplateBlockDeviceMapping;
use crate::kinds::ec2nodeclass::{BlockDevice, BlockDeviceMapping};
use crate::values::QuantityText;

const GIB: i64 = 1 << 30;
const SMALLEST: Quantity = Quantity::units(1_000_000_000);
const LARGEST: Quantity = Quantity::units(64_000_000_000_000);

pub(super) fn converted(
    given: Vec<TemplateBlockDeviceMapping>,
    field: &str,
    report: &mut Report<'_>,
) -> Vec<BlockDeviceMapping> {
    let mut devices = Vec::new();
    for (at, device) in given.into_iter().enumerate() {
        let field = format!("{field}[{at}]");
        if device.device_name.as_ref().is_none_or(String::is_empty) {
            report.error(format!("{field}.deviceName"), "is missing");
        }
        let Some(ebs) = device.ebs else {
            report.error(format!("{field}.ebs"), "is missing");
            continue;
        };
        let size_field = format!("{field}.ebs.volumeSize");
        let volume_size = match &ebs.volume_size {
            Some(size) => volume_size(size, &size_field, report),
            None if ebs.snapshot_id.is_some() => None,
            None => {
                report.error(size_field, "is missing; only a volume with snapshotID may leave it out");
                None
            }
        };
        let ebs = BlockDevice {
            delete_on_termination: ebs.delete_on_termination,
            encrypted: ebs.encrypted,
            iops: ebs.iops,
            kms_key_id: ebs.kms_key_id,
            snapshot_id: ebs.snapshot_id,
            throughput: ebs.throughput,
            volume_initialization_rate: None,
            volume_size,
            volume_type: ebs.volume_type,
        };
        devices.push(BlockDeviceMapping { device_name: device.device_name, ebs: Some(ebs), root_volume: None });
    }
    devices
}

/// The size as v1 admits it: whole Gi, G, Ti or T. Any other form is rounded up to Gi.
fn volume_size(given: &QuantityText, field: &str, report: &mut Report<'_>) -> Option<QuantityText> {
    let size = match given.parse() {
        Ok(size) => size,
        Err(error) => {
            report.error(field, error.to_string());
            return None;
        }
    };
    if size < SMALLEST || size > LARGEST {
        report.error(field, format!("{given} is not between 1G and 64T"));
        return None;
    }
    let text = given.to_string();
    let unit = ["Gi", "G", "Ti", "T"].into_iter().find_map(|unit| text.strip_suffix(unit));
    if unit.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit())) {
        return Some(QuantityText::Text(text));
    }
    let gib = size.value().saturating_add(GIB - 1) / GIB;
    if Quantity::bytes(gib.saturating_mul(GIB)) != size {
        report.warn(field, format!("{given} is not a whole number of Gi, which v1 requires; rounded up to {gib}Gi"));
    }
    Some(QuantityText::Text(format!("{gib}Gi")))
}
