//! AWSNodeTemplate and the inline `provider` become an EC2NodeClass (API-334 … API-340).

use std::collections::BTreeMap;

use serde_json::Value;

use super::classes::ClassDraft;
use super::findings::Report;
use super::{Options, metadata, selectors, typed, volumes};
use crate::kinds::awsnodetemplate::AWSNodeTemplateSpec;
use crate::kinds::ec2nodeclass::{AmiSelectorTerm, BlockDevice, BlockDeviceMapping, EC2NodeClassSpec, MetadataOptions};
use crate::names::legacy::{CLUSTER_NAME_TAG, MANAGED_BY, PROVISIONER_NAME};
use crate::names::{aws, labels};

/// Families that have an alias, so that no images need to be listed.
const ALIASES: [&str; 5] = ["AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022"];

/// Written where nobody said which role nodes have; no role can be called that.
pub(super) const PLACEHOLDER_ROLE: &str = "REPLACE-WITH-NODE-ROLE";

/// Tags that the controller sets, in any version.
const RESERVED_TAGS: [&str; 6] =
    [PROVISIONER_NAME, MANAGED_BY, CLUSTER_NAME_TAG, labels::NODEPOOL, "karpenter.sh/nodeclaim", aws::NODE_CLASS_LABEL];

/// Hops that metadata requests could take when a template said nothing.
const HOP_LIMIT: i64 = 2;

pub(super) fn read(object: &Value, options: &Options, report: &mut Report<'_>) -> Option<ClassDraft> {
    let metadata = metadata::kept(object, report)?;
    let spec: AWSNodeTemplateSpec = typed(&object["spec"], "spec", report)?;
    let spec = class_spec(spec, "spec", options, report);
    report.unless_failed(ClassDraft { metadata, spec })
}

/// A class with the same meaning. Problems are reported below `field`.
pub(super) fn class_spec(
    given: AWSNodeTemplateSpec,
    field: &str,
    options: &Options,
    report: &mut Report<'_>,
) -> EC2NodeClassSpec {
    if given.launch_template.is_some() {
        let message = "launch templates of one's own are not supported in v1; describe the nodes in the class instead";
        report.error(format!("{field}.launchTemplate"), message);
    }
    check_tags(given.tags.as_ref(), &format!("{field}.tags"), report);
    let images = given.ami_selector.unwrap_or_default();
    let terms = selectors::images(&images, &format!("{field}.amiSelector"), report);
    let devices = given.block_device_mappings;
    let devices = devices.map(|devices| volumes::converted(devices, &format!("{field}.blockDeviceMappings"), report));
    let (ami_family, ami_selector_terms, block_device_mappings) =
        family(given.ami_family.as_deref(), terms, devices, field, options, report);
    let (role, instance_profile) = identity(given.instance_profile, field, options, report);
    let required = |map: Option<BTreeMap<String, String>>, name: &str, report: &mut Report<'_>| {
        let map = map.unwrap_or_default();
        if map.is_empty() {
            report.error(format!("{field}.{name}"), "is required");
        }
        map
    };
    let subnets = required(given.subnet_selector, "subnetSelector", report);
    let groups = required(given.security_group_selector, "securityGroupSelector", report);
    EC2NodeClassSpec {
        subnet_selector_terms: selectors::subnets(&subnets, &format!("{field}.subnetSelector"), report),
        security_group_selector_terms: selectors::security_groups(
            &groups,
            &format!("{field}.securityGroupSelector"),
            report,
        ),
        ami_selector_terms,
        ami_family,
        user_data: given.user_data,
        role,
        instance_profile,
        tags: given.tags,
        block_device_mappings,
        detailed_monitoring: given.detailed_monitoring,
        metadata_options: Some(metadata_options(given.metadata_options, &format!("{field}.metadataOptions"), report)),
        context: given.context,
        ..EC2NodeClassSpec::default()
    }
}

type Family = (Option<String>, Vec<AmiSelectorTerm>, Option<Vec<BlockDeviceMapping>>);

/// Family, image terms and block devices of v1 (API-335). An unset family was AL2.
pub(super) fn family(
    family: Option<&str>,
    terms: Vec<AmiSelectorTerm>,
    devices: Option<Vec<BlockDeviceMapping>>,
    field: &str,
    options: &Options,
    report: &mut Report<'_>,
) -> Family {
    let family = family.unwrap_or("AL2");
    let family_field = format!("{field}.amiFamily");
    match family {
        "Custom" | "Ubuntu" if terms.is_empty() => {
            report.error(family_field, format!("family {family} has no images of its own; select some"));
            (None, terms, devices)
        }
        "Ubuntu" => {
            report.warn(family_field, "v1 has no family Ubuntu; converted to AL2 with the selected images");
            (Some("AL2".to_owned()), terms, devices.or_else(|| Some(vec![ubuntu_root_volume()])))
        }
        known if terms.is_empty() && ALIASES.contains(&known) => {
            let alias = match &options.installation {
                Some(installation) if known == "AL2" && !installation.has_al2() => {
                    let version = &installation.kubernetes_version;
                    report.warn(
                        family_field,
                        format!("there are no AL2 images for Kubernetes {version}; nodes get AL2023"),
                    );
                    "AL2023"
                }
                Some(_) => known,
                None => {
                    if known == "AL2" {
                        let message = "AL2 images end with Kubernetes 1.32; later clusters need al2023@latest";
                        report.warn(family_field, message);
                    }
                    known
                }
            };
            let alias = Some(format!("{}@latest", alias.to_lowercase()));
            (None, vec![AmiSelectorTerm { alias, ..AmiSelectorTerm::default() }], devices)
        }
        known if known == "Custom" || ALIASES.contains(&known) => (Some(known.to_owned()), terms, devices),
        unknown => {
            let known = ALIASES.join(", ");
            report.error(family_field, format!("{unknown:?} is not one of {known}, Ubuntu, Custom"));
            (None, terms, devices)
        }
    }
}

/// What the family Ubuntu did by itself.
fn ubuntu_root_volume() -> BlockDeviceMapping {
    let ebs = BlockDevice {
        encrypted: Some(true),
        volume_type: Some("gp3".to_owned()),
        volume_size: Some("20Gi".into()),
        ..BlockDevice::default()
    };
    BlockDeviceMapping { device_name: Some("/dev/sda1".to_owned()), ebs: Some(ebs), root_volume: None }
}

/// Role and instance profile, of which v1 wants exactly one.
fn identity(
    profile: Option<String>,
    field: &str,
    options: &Options,
    report: &mut Report<'_>,
) -> (Option<String>, Option<String>) {
    if let Some(profile) = profile.filter(|profile| !profile.is_empty()) {
        return (None, Some(profile));
    }
    if let Some(installation) = &options.installation {
        if installation.default_instance_profile.is_none() {
            let message = "is missing, and the installation has no default: name a profile here or in settings.defaultInstanceProfile";
            report.error(format!("{field}.instanceProfile"), message);
        }
        return (None, installation.default_instance_profile.clone());
    }
    let role = options.role.clone().unwrap_or_else(|| {
        let message = format!(
            "is not set, so the cluster-wide profile was used; v1 has none: replace the role {PLACEHOLDER_ROLE}"
        );
        report.warn(format!("{field}.instanceProfile"), message);
        PLACEHOLDER_ROLE.to_owned()
    });
    (Some(role), None)
}

/// Options as given; the hop limit is written out, because its default went from 2 to 1.
fn metadata_options(given: Option<MetadataOptions>, field: &str, report: &mut Report<'_>) -> MetadataOptions {
    let Some(given) = given else {
        return MetadataOptions { http_put_response_hop_limit: Some(HOP_LIMIT), ..MetadataOptions::default() };
    };
    let switch = ["enabled", "disabled"].as_slice();
    for (name, value, allowed, default) in [
        ("httpEndpoint", &given.http_endpoint, switch, "enabled"),
        ("httpProtocolIPv6", &given.http_protocol_ipv6, switch, "disabled"),
        ("httpTokens", &given.http_tokens, &["required", "optional"], "required"),
    ] {
        let field = format!("{field}.{name}");
        match value {
            Some(value) if allowed.contains(&value.as_str()) => {}
            Some(value) => report.error(field, format!("{value:?} is not one of {}", allowed.join(", "))),
            None => report.warn(field, format!("is not set; v1 fills {default}")),
        }
    }
    match given.http_put_response_hop_limit {
        Some(1..=64) => {}
        Some(_) => report.error(format!("{field}.httpPutResponseHopLimit"), "must be between 1 and 64"),
        None => report.warn(format!("{field}.httpPutResponseHopLimit"), "is not set; v1 fills 1"),
    }
    given
}

fn check_tags(tags: Option<&BTreeMap<String, String>>, field: &str, report: &mut Report<'_>) {
    for key in tags.into_iter().flatten().map(|(key, _)| key) {
        if key.is_empty() {
            report.error(field, "empty tag keys are not supported");
        } else if RESERVED_TAGS.contains(&key.as_str()) || key.starts_with("kubernetes.io/cluster") {
            report.error(format!("{field}[{key}]"), "is a tag that only the controller may set");
        }
    }
}
