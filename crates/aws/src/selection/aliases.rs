//! Aliases such as `al2023@latest`: public parameters that hold the ids of images (§2.2).

use karpenter_api::kinds::SelectorRequirement;
use karpenter_api::names::aws;
use karpenter_model::labels;

use crate::family::AmiFamily;

/// What an image of a family is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    Standard,
    Nvidia,
    Neuron,
    Windows(&'static str),
}

impl Variant {
    /// What the image asks of a type besides its architecture (AWS-45).
    pub fn requirements(self) -> Vec<SelectorRequirement> {
        let requirement = |key: &str, operator: &str, values: Option<&str>| SelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: values.map(|value| vec![value.to_owned()]),
        };
        match self {
            Self::Standard => vec![
                requirement(aws::INSTANCE_ACCELERATOR_COUNT, "DoesNotExist", None),
                requirement(aws::INSTANCE_GPU_COUNT, "DoesNotExist", None),
            ],
            Self::Nvidia => vec![requirement(aws::INSTANCE_GPU_COUNT, "Exists", None)],
            Self::Neuron => vec![requirement(aws::INSTANCE_ACCELERATOR_COUNT, "Exists", None)],
            Self::Windows(build) => vec![
                requirement(labels::OS, "In", Some("windows")),
                requirement(labels::WINDOWS_BUILD, "In", Some(build)),
            ],
        }
    }
}

/// A parameter to read, and what its image is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AliasParameter {
    pub name: String,
    pub variants: Vec<Variant>,
}

/// Why an alias cannot be resolved; trying again does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AliasError {
    #[error(
        "getting AMI queries, AL2 aliases are no longer supported on EKS 1.33+ (see https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html#kubernetes-1-33)"
    )]
    Al2Gone,
    #[error("getting AMI queries, Windows Server 2025 requires EKS version 1.35 or higher, current version: {0}")]
    Windows2025TooNew(String),
    #[error("{0:?} is not an alias")]
    Malformed(String),
}

/// The parameters of an alias for this version of Kubernetes, such as `1.32` (AWS-42, AWS-43).
pub fn alias_parameters(alias: &str, kubernetes: &str) -> Result<Vec<AliasParameter>, AliasError> {
    let malformed = || AliasError::Malformed(alias.to_owned());
    let (family, version) = alias.split_once('@').filter(|(_, version)| !version.is_empty()).ok_or_else(malformed)?;
    // A minor that is none skips the check (AWS-47).
    let minor = kubernetes.split_once('.').and_then(|(_, minor)| minor.parse::<u32>().ok());
    match family {
        "al2" if minor.is_some_and(|minor| minor >= 33) => Err(AliasError::Al2Gone),
        "windows2025" if minor.is_some_and(|minor| minor < 35) => {
            Err(AliasError::Windows2025TooNew(kubernetes.to_owned()))
        }
        "al2" => Ok(al2(kubernetes, version)),
        "al2023" => Ok(al2023(kubernetes, version)),
        "bottlerocket" => Ok(bottlerocket(kubernetes, version)),
        "windows2019" => Ok(windows("2019", AmiFamily::Windows2019, kubernetes)),
        "windows2022" => Ok(windows("2022", AmiFamily::Windows2022, kubernetes)),
        "windows2025" => Ok(windows("2025", AmiFamily::Windows2025, kubernetes)),
        _ => Err(malformed()),
    }
}

/// Whether what it holds changes, so that it has to be read again when its image is deprecated (AWS-59).
pub fn is_mutable(parameter: &str) -> bool {
    ["/recommended/", "/latest/", "ami-windows-latest"].iter().any(|part| parameter.contains(part))
}

const OPTIMIZED: &str = "/aws/service/eks/optimized-ami";

fn al2(kubernetes: &str, version: &str) -> Vec<AliasParameter> {
    let parameter = |suffix: &str, variants: &[Variant]| {
        let image = match version {
            "latest" => "recommended".to_owned(),
            pinned => format!("amazon-eks{suffix}-node-{kubernetes}-{pinned}"),
        };
        let name = format!("{OPTIMIZED}/{kubernetes}/amazon-linux-2{suffix}/{image}/image_id");
        AliasParameter { name, variants: variants.to_vec() }
    };
    vec![
        parameter("", &[Variant::Standard]),
        parameter("-arm64", &[Variant::Standard]),
        parameter("-gpu", &[Variant::Neuron, Variant::Nvidia]),
    ]
}

fn al2023(kubernetes: &str, version: &str) -> Vec<AliasParameter> {
    let parameter = |arch: &str, variant: Variant| {
        let kind = match variant {
            Variant::Nvidia => "nvidia",
            Variant::Neuron => "neuron",
            _ => "standard",
        };
        let image = match version {
            "latest" => "recommended".to_owned(),
            pinned => format!("amazon-eks-node-al2023-{arch}-{kind}-{kubernetes}-{pinned}"),
        };
        let name = format!("{OPTIMIZED}/{kubernetes}/amazon-linux-2023/{arch}/{kind}/{image}/image_id");
        AliasParameter { name, variants: vec![variant] }
    };
    vec![
        parameter("x86_64", Variant::Standard),
        parameter("x86_64", Variant::Nvidia),
        parameter("x86_64", Variant::Neuron),
        parameter("arm64", Variant::Standard),
        parameter("arm64", Variant::Nvidia),
    ]
}

fn bottlerocket(kubernetes: &str, version: &str) -> Vec<AliasParameter> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let parameter = |suffix: &str, arch: &str, variants: &[Variant]| AliasParameter {
        name: format!("/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{arch}/{version}/image_id"),
        variants: variants.to_vec(),
    };
    vec![
        parameter("", "x86_64", &[Variant::Standard, Variant::Neuron]),
        parameter("", "arm64", &[Variant::Standard]),
        parameter("-nvidia", "x86_64", &[Variant::Nvidia]),
        parameter("-nvidia", "arm64", &[Variant::Nvidia]),
    ]
}

fn windows(year: &str, family: AmiFamily, kubernetes: &str) -> Vec<AliasParameter> {
    let name = format!(
        "/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}/image_id"
    );
    let variants = family.windows_build().map(Variant::Windows).into_iter().collect();
    vec![AliasParameter { name, variants }]
}
