//! How many volumes a node can attach (AWS-312).

use super::TypeFacts;
use crate::class::NodeClass;
use crate::cloud::InstanceTypeInfo;
use crate::family::AmiFamily;

pub const EBS_DRIVER: &str = "ebs.csi.aws.com";

const NITRO_SLOTS: u32 = 28;
const XEN_SLOTS: u32 = 39;

/// Never below one, or no pod with a volume would ever be placed.
pub(super) fn limit(info: &InstanceTypeInfo, facts: &TypeFacts<'_>) -> u32 {
    if let Some(observed) = facts.observed_attachments {
        return observed;
    }
    let xen = info.hypervisor.as_deref() == Some("xen");
    let maximum = info.ebs_attachments.map_or(if xen { XEN_SLOTS } else { NITRO_SLOTS }, |limit| limit.maximum);
    let dedicated = info.ebs_attachments.is_some_and(|limit| limit.dedicated);
    let shared = if xen || dedicated { 0 } else { shared_slots(info, facts.class) };
    maximum.saturating_sub(block_devices(facts.class)).saturating_sub(shared).max(1)
}

/// The root device at least; the image of a class of its own has one.
fn block_devices(class: &NodeClass) -> u32 {
    let own = class.block_devices().len();
    let devices = match (own, class.family) {
        (0, AmiFamily::Custom) => 1,
        (0, family) => family.default_devices().len(),
        (own, _) => own,
    };
    count(devices.max(1))
}

fn shared_slots(info: &InstanceTypeInfo, class: &NodeClass) -> u32 {
    let interfaces = count(class.interfaces().len().max(1));
    let disks = info.storage.as_ref().filter(|storage| storage.nvme.as_deref() != Some("unsupported"));
    interfaces.saturating_add(disks.map_or(0, |storage| storage.disks))
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
