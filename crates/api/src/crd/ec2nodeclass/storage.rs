//! Volumes of the instances.

use super::super::schema::{Schema, boolean, int32, int64, list, object, string};

/// Whole sizes with a suffix: 1–59000Gi, 1–64000G, 1–64T, and of the Ti sizes 1–9, two digits up to 57 that end in 0–7, and 58
/// (the gaps are in the target's pattern; a size accepted here must be accepted there).
const VOLUME_SIZE: &str = r"^(([1-9][0-9]{0,3}|[1-4][0-9]{4}|5[0-8][0-9]{3}|59000)Gi|([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-3][0-9]{3}|64000)G|([1-9]|[1-5][0-7]|58)Ti|([1-9]|[1-5][0-9]|6[0-4])T)$";

pub(super) fn block_device_mappings() -> Schema {
    list(
        "Volumes of the instances. Leaving the field out takes the defaults of the AMI family.",
        object("A volume and the name under which the instance sees it.")
            .field("deviceName", string("Device name, as in `/dev/xvda`."))
            .field("ebs", ebs())
            .field(
                "rootVolume",
                boolean("Whether this is the volume that holds the kubelet's data; its size becomes the node's ephemeral storage."),
            ),
    )
    .max_items(50)
    .rule(
        "must have only one blockDeviceMappings with rootVolume",
        "self.filter(x, has(x.rootVolume) && x.rootVolume).size() <= 1",
    )
}

fn ebs() -> Schema {
    object("Settings of an EBS volume.")
        .field("deleteOnTermination", boolean("Whether the volume goes with its instance."))
        .field("encrypted", boolean("Whether the volume is encrypted."))
        .field("iops", int64("Provisioned operations per second, for the volume types that take them."))
        .field("kmsKeyID", string("KMS key that encrypts the volume."))
        .field("snapshotID", string("Snapshot that the volume starts from."))
        .field("throughput", int64("Provisioned throughput in MiB/s, for the volume types that take it."))
        .field(
            "volumeInitializationRate",
            int32("Rate in MiB/s at which the snapshot is loaded onto the volume.").min(100).max(300),
        )
        .field(
            "volumeSize",
            string("Size of the volume: a whole number with the suffix Gi, G, Ti or T, as in `100Gi`.")
                .pattern(VOLUME_SIZE),
        )
        .field(
            "volumeType",
            string("Type of the volume.").one_of(&["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"]),
        )
        .rule("snapshotID or volumeSize must be defined", "has(self.snapshotID) || has(self.volumeSize)")
        .rule(
            "snapshotID must be set when volumeInitializationRate is set",
            "!has(self.volumeInitializationRate) || (has(self.snapshotID) && self.snapshotID != '')",
        )
}

pub(super) fn instance_store_policy() -> Schema {
    string("What to do with the instance's own disks: `RAID0` joins them and puts ephemeral storage on them.")
        .one_of(&["RAID0"])
}
