//! Storage objects as decisions see them.

use std::collections::{BTreeMap, BTreeSet};

use crate::pod::PodId;
use crate::requirements::Requirements;

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeClaimView {
    pub id: PodId,
    pub deleting: bool,
    /// The volume it was bound to is gone.
    pub lost: bool,
    /// The volume it is, or will be, bound to.
    pub volume: Option<String>,
    /// The controller of volumes has finished binding it.
    pub bind_completed: bool,
    /// `None`: not said; the empty name means that nothing shall be provisioned.
    pub class: Option<String>,
}

/// What a volume is made of, as far as it matters for where it can be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSource {
    Csi {
        driver: String,
    },
    /// Of the time before drivers; attached by the driver that took its place.
    AwsEbs,
    /// A disk or a folder of one node; the data is lost with the node, so a new one may be anywhere.
    Local,
    Other,
}

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeView {
    pub name: String,
    pub deleting: bool,
    pub source: VolumeSource,
    /// Terms of required node affinity that have expressions; any of them suffices. Empty: attached anywhere.
    pub terms: Vec<Requirements>,
    /// What could not be read of them.
    pub unreadable: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClassView {
    pub name: String,
    pub provisioner: String,
    /// Volumes are made before anybody needs them, wherever that is.
    pub immediate: bool,
    /// Allowed topologies; any of them suffices. Empty: anywhere.
    pub terms: Vec<Requirements>,
    /// Keys of them as they were written.
    pub topology_keys: BTreeSet<String>,
}

/// What the drivers of a node have reported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CsiNodeView {
    pub name: String,
    /// How many volumes each can attach; `None`: as many as one likes (V15-103).
    pub limits: BTreeMap<String, Option<u32>>,
}

/// A volume that is, or is about to be, attached to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttachmentView {
    pub name: String,
    pub node: String,
    /// `None` for volumes that are written into the pod.
    pub volume: Option<String>,
}

/// What a provider cannot work with (SCH-152). Empty unless the provider says so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnsupportedVolumes {
    pub provisioners: BTreeSet<String>,
    pub topology_keys: BTreeSet<String>,
}

/// The drivers that took the place of what was built into Kubernetes once (SCH-157).
const MIGRATED: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", EBS_DRIVER),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
];

const EBS_DRIVER: &str = "ebs.csi.aws.com";

impl VolumeView {
    /// The CSI driver that attaches it, if any does.
    pub fn driver(&self) -> Option<&str> {
        match &self.source {
            VolumeSource::Csi { driver } => Some(driver),
            VolumeSource::AwsEbs => Some(EBS_DRIVER),
            VolumeSource::Local | VolumeSource::Other => None,
        }
    }
}

impl StorageClassView {
    /// The CSI driver that makes and attaches its volumes.
    pub fn driver(&self) -> &str {
        let migrated = MIGRATED.iter().find(|(old, _)| *old == self.provisioner);
        migrated.map_or(self.provisioner.as_str(), |(_, driver)| driver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(provisioner: &str) -> StorageClassView {
        StorageClassView {
            name: "c".to_owned(),
            provisioner: provisioner.to_owned(),
            immediate: false,
            terms: Vec::new(),
            topology_keys: BTreeSet::new(),
        }
    }

    /// SCH-157: names from before the drivers are translated, all others are drivers.
    #[test]
    fn drivers_of_classes() {
        for (provisioner, driver) in [
            ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
            ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
            ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
            ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
            ("kubernetes.io/azure-file", "file.csi.azure.com"),
            ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
            ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
            ("example.csi", "example.csi"),
        ] {
            assert_eq!(class(provisioner).driver(), driver);
        }
    }

    /// SCH-157: of volumes, only those of drivers and the old EBS ones have one.
    #[test]
    fn drivers_of_volumes() {
        for (source, driver) in [
            (VolumeSource::Csi { driver: "d".to_owned() }, Some("d")),
            (VolumeSource::AwsEbs, Some("ebs.csi.aws.com")),
            (VolumeSource::Local, None),
            (VolumeSource::Other, None),
        ] {
            let volume =
                VolumeView { name: "v".to_owned(), deleting: false, source, terms: Vec::new(), unreadable: None };
            assert_eq!(volume.driver(), driver);
        }
    }
}
