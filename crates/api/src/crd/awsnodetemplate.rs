//! Legacy `karpenter.k8s.aws/v1alpha1` AWSNodeTemplate. Converted, or made part of the class of each Provisioner
//! that refers to it.

use super::fragments;
use super::manifest::{Crd, Resource, root};
use super::schema::{Schema, boolean, int64, list, map, object, string, undescribed};

pub(super) fn crd() -> Crd {
    Resource {
        group: "karpenter.k8s.aws",
        version: "v1alpha1",
        kind: "AWSNodeTemplate",
        plural: "awsnodetemplates",
        short_names: &[],
        category: "karpenter",
        namespaced: false,
        legacy: true,
        scale: None,
        columns: vec![],
    }
    .with_schema(
        root("AWSNodeTemplate is the predecessor of EC2NodeClass. It is part of the class of each Provisioner that refers to it.")
            .field("spec", spec())
            .field("status", status()),
    )
}

fn text_map(description: &str) -> Schema {
    map(description, undescribed(string("")))
}

fn spec() -> Schema {
    object("The AWS settings of nodes.")
        .field("amiFamily", string("Family of the machine image."))
        .field("amiSelector", text_map("Selects machine images by tag, id, name or owner."))
        .field("apiVersion", string("Not used."))
        .field("blockDeviceMappings", block_device_mappings())
        .field("context", string("Opaque value that EC2 fleet requests carry."))
        .field("detailedMonitoring", boolean("Whether instances send metrics each minute."))
        .field("instanceProfile", string("Instance profile of the instances."))
        .field("kind", string("Not used."))
        .field("launchTemplate", string("Name of a launch template of one's own. Cannot be converted."))
        .field(
            "metadataOptions",
            object("Access to the instance metadata service.")
                .field("httpEndpoint", string("Whether the service answers at all."))
                .field("httpProtocolIPv6", string("Whether the service answers over IPv6."))
                .field("httpPutResponseHopLimit", int64("How many network hops an answer may travel."))
                .field("httpTokens", string("Whether requests need a session token.")),
        )
        .field("securityGroupSelector", text_map("Selects security groups by tag or id."))
        .field("subnetSelector", text_map("Selects subnets by tag or id."))
        .field("tags", text_map("Tags for everything that is created in EC2."))
        .field("userData", string("User data for the instances."))
}

fn block_device_mappings() -> Schema {
    list(
        "Volumes of the instances.",
        object("A volume and the name under which the instance sees it.")
            .field("deviceName", string("Device name, as in `/dev/xvda`."))
            .field(
                "ebs",
                object("Settings of an EBS volume.")
                    .field("deleteOnTermination", boolean("Whether the volume goes with its instance."))
                    .field("encrypted", boolean("Whether the volume is encrypted."))
                    .field("iops", int64("Provisioned operations per second."))
                    .field("kmsKeyID", string("KMS key that encrypts the volume."))
                    .field("snapshotID", string("Snapshot that the volume starts from."))
                    .field("throughput", int64("Provisioned throughput in MiB/s."))
                    .field("volumeSize", fragments::quantity())
                    .field("volumeType", string("Type of the volume.")),
            ),
    )
}

fn status() -> Schema {
    let by_id = |description| {
        object(description).field("id", string("Id of the resource.")).field("name", string("Name of the resource."))
    };
    object("What the selectors resolved to.")
        .field(
            "amis",
            list(
                "Machine images.",
                by_id("A machine image.").field(
                    "requirements",
                    list(
                        "Constraints on the instance types that the image suits.",
                        object("A constraint on one node label.")
                            .required("key", string("The node label."))
                            .required("operator", string("How the label relates to `values`."))
                            .field(
                                "values",
                                list("The values that `operator` compares with.", undescribed(string(""))),
                            ),
                    ),
                ),
            ),
        )
        .field("conditions", super::provisioner::conditions())
        .field("securityGroups", list("Security groups.", by_id("A security group.")))
        .field(
            "subnets",
            list("Subnets.", by_id("A subnet.").field("zone", string("Availability zone of the subnet."))),
        )
}
