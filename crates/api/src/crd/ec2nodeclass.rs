//! `karpenter.k8s.aws/v1` EC2NodeClass.

mod kubelet;
mod network;
mod selectors;
mod status;
mod storage;

use serde_json::{Value, json};

use super::manifest::{AGE, Crd, READY, Resource, column, root, wide};
use super::schema::{Schema, boolean, int64, map, object, string, undescribed};

const GROUP: &str = "karpenter.k8s.aws";

/// Alias family and the AMI family that it stands for, with the article that the message needs.
const FAMILIES: &[(&str, &str, &str)] = &[
    ("al2", "an", "AL2"),
    ("al2023", "an", "AL2023"),
    ("bottlerocket", "a", "Bottlerocket"),
    ("windows2019", "a", "Windows2019"),
    ("windows2022", "a", "Windows2022"),
    ("windows2025", "a", "Windows2025"),
];

pub(super) fn crd() -> Crd {
    Resource {
        group: GROUP,
        version: "v1",
        kind: "EC2NodeClass",
        plural: "ec2nodeclasses",
        short_names: &["ec2nc", "ec2ncs"],
        category: "karpenter",
        namespaced: false,
        legacy: false,
        scale: None,
        columns: vec![column("Ready", "string", READY), AGE, wide("Role", "string", ".spec.role")],
    }
    .with_schema(
        root("EC2NodeClass holds the AWS settings of nodes: images, network, storage, identity and kubelet options.")
            .required("spec", spec())
            .field("status", status::status()),
    )
}

/// The same with `spec.kubelet` open: the API server checks nothing below it, the controller does (AWS-86 … AWS-101).
pub(super) fn open_kubelet() -> Value {
    let mut manifest = crd().manifest;
    let open = object(
        "Settings of the kubelet, as in KubeletConfiguration of kubelet.config.k8s.io/v1beta1. `maxPods` and the amounts in \
         `kubeReserved` and `systemReserved` may be expressions, if the gate NodeClassCEL is on.",
    );
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    if let Some(properties) = manifest.pointer_mut(spec) {
        properties["kubelet"] = Value::from(open.free_form());
    }
    manifest
}

fn spec() -> Schema {
    let spec = object("The AWS settings. Most changes drift the nodes that exist.")
        .field(
            "amiFamily",
            string(
                "Family of the machine image, which decides the form of user data and the default block devices. Required \
                 unless an alias in `amiSelectorTerms` names it; `Custom` leaves user data untouched.",
            )
            .one_of(&["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"]),
        )
        .required("amiSelectorTerms", selectors::amis())
        .field(
            "associatePublicIPAddress",
            boolean("Whether instances get a public IP address. Unset leaves it to the subnet."),
        )
        .field("blockDeviceMappings", storage::block_device_mappings())
        .field("capacityReservationSelectorTerms", selectors::capacity_reservations())
        .field("connectionTracking", network::connection_tracking())
        .field("context", string("Opaque value that EC2 fleet requests carry."))
        .field(
            "cpuOptions",
            object("CPU options of the instances.").field(
                "nestedVirtualization",
                string("Whether instances may run virtual machines themselves.").one_of(&["enabled", "disabled"]),
            ),
        )
        .field("detailedMonitoring", boolean("Whether instances send metrics each minute instead of every five."))
        .field(
            "instanceProfile",
            string("Instance profile of the instances. Exactly one of `role` and `instanceProfile` must be set.")
                .rule("instanceProfile cannot be empty", "self != ''"),
        )
        .field("instanceStorePolicy", storage::instance_store_policy())
        .field("ipPrefixCount", network::ip_prefix_count())
        .field("kubelet", kubelet::kubelet())
        .field("metadataOptions", metadata_options())
        .field("networkInterfaces", network::network_interfaces())
        .field("placementGroupSelector", selectors::placement_group())
        .field(
            "role",
            string(
                "IAM role of the instances; an instance profile for it is created and kept. Exactly one of `role` and \
                 `instanceProfile` must be set.",
            )
            .rule("role cannot be empty", "self != ''"),
        )
        .required("securityGroupSelectorTerms", selectors::security_groups())
        .required("subnetSelectorTerms", selectors::subnets())
        .field("tags", tags())
        .field(
            "userData",
            string("User data for the instances, in the form that the AMI family expects; it is merged with what makes a node join."),
        )
        .rule("must specify exactly one of ['role', 'instanceProfile']", "has(self.role) != has(self.instanceProfile)");
    ami_family_rules(spec)
}

fn ami_family_rules(spec: Schema) -> Schema {
    let spec = FAMILIES.iter().fold(spec, |spec, (alias, article, family)| {
        spec.rule(
            &format!("if set, amiFamily must be '{family}' or 'Custom' when using {article} {family} alias"),
            format!(
                "!has(self.amiFamily) || self.amiFamily in ['Custom', '{family}'] || \
                 !self.amiSelectorTerms.exists(x, has(x.alias) && x.alias.startsWith('{alias}@'))"
            ),
        )
    });
    spec.rule(
        "must specify amiFamily if amiSelectorTerms does not contain an alias",
        "has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))",
    )
}

fn metadata_options() -> Schema {
    object("Access to the instance metadata service.")
        .default(json!({
            "httpEndpoint": "enabled",
            "httpProtocolIPv6": "disabled",
            "httpPutResponseHopLimit": 1,
            "httpTokens": "required",
        }))
        .field(
            "httpEndpoint",
            string("Whether the service answers at all.").one_of(&["enabled", "disabled"]).default("enabled"),
        )
        .field(
            "httpProtocolIPv6",
            string("Whether the service answers over IPv6.").one_of(&["enabled", "disabled"]).default("disabled"),
        )
        .field(
            "httpPutResponseHopLimit",
            int64("How many network hops an answer may travel; 1 keeps pods without host network away from it.")
                .min(1)
                .max(64)
                .default(1),
        )
        .field(
            "httpTokens",
            string("Whether requests need a session token (IMDSv2).")
                .one_of(&["required", "optional"])
                .default("required"),
        )
}

fn tags() -> Schema {
    let tags = map("Tags for everything that is created in EC2 for the nodes.", undescribed(string("")))
        .rule("empty tag keys aren't supported", "self.all(k, k != '')");
    let exact = |tags: Schema, key: &str| {
        tags.rule(&format!("tag contains a restricted tag matching {key}"), format!("self.all(k, k != '{key}')"))
    };
    let tags = exact(tags, "eks:eks-cluster-name").rule(
        "tag contains a restricted tag matching kubernetes.io/cluster/",
        "self.all(k, !k.startsWith('kubernetes.io/cluster'))",
    );
    ["karpenter.sh/nodepool", "karpenter.sh/nodeclaim", "karpenter.k8s.aws/ec2nodeclass"].into_iter().fold(tags, exact)
}
