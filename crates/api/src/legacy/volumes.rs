//! Block devices of older templates (API-335, API-339).

use karpenter_model::quantity::Quantity;

use super::findings::Report;
use crate::kinds::awsnodetemplate::TemplateBlockDeviceMapping;
use crate::kinds::ec2nodeclass::{BlockDevice, BlockDeviceMapping};
use crate::values::QuantityText;

const TYPES: [&str; 7] = ["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"];

const GIB: i64 = 1 << 30;
const GB: i64 = 1_000_000_000;
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
        if let Some(kind) = ebs.volume_type.as_deref().filter(|kind| !TYPES.contains(kind)) {
            report.error(format!("{field}.ebs.volumeType"), format!("{kind:?} is not one of {}", TYPES.join(", ")));
        }
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

/// The size as v1 admits it. Any other form becomes Gi, or G where those do not reach, rounded up.
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
    if is_admitted(&text) {
        return Some(QuantityText::Text(text));
    }
    let (unit, bytes) = if size <= Quantity::bytes(59_000 * GIB) { ("Gi", GIB) } else { ("G", GB) };
    let count = size.value().saturating_add(bytes - 1) / bytes;
    if Quantity::units(count.saturating_mul(bytes)) != size {
        report.warn(
            field,
            format!("{given} is no whole number of Gi or G, which v1 requires; rounded up to {count}{unit}"),
        );
    }
    Some(QuantityText::Text(format!("{count}{unit}")))
}

/// Whole numbers in the ranges of the schema; its pattern leaves out Ti that end in 8 or 9 (AWS-10).
fn is_admitted(text: &str) -> bool {
    let Some(end) = text.find(|character: char| !character.is_ascii_digit()) else { return false };
    let (number, unit) = text.split_at(end);
    let Ok(count) = number.parse::<i64>() else { return false };
    let in_range = match unit {
        "Gi" => (1..=59_000).contains(&count),
        "G" => (1..=64_000).contains(&count),
        "Ti" => (1..=9).contains(&count) || (10..=57).contains(&count) && count % 10 <= 7 || count == 58,
        "T" => (1..=64).contains(&count),
        _ => false,
    };
    in_range && !number.starts_with('0')
}
