use super::*;
use crate::cloud::ImageInfo;
use crate::selection::aliases::{AliasError, AliasParameter, alias_parameters, is_mutable};
use crate::selection::images::{
    alias_query, image_of_parameter, image_queries, image_status, is_deprecated, term_parameters,
};

fn image(id: &str, architecture: &str, created: i64) -> ImageInfo {
    ImageInfo {
        id: id.to_owned(),
        name: format!("name-{id}"),
        architecture: architecture.to_owned(),
        created: Some(at(created)),
        deprecated: None,
    }
}

/// What an alias ends as when those parameters can be read that `readable` says, each holding an image of its own.
fn resolved(alias: &str, version: &str, readable: impl Fn(&str) -> bool) -> Vec<String> {
    let parameters = alias_parameters(alias, version).unwrap();
    let resolved: Vec<(AliasParameter, String)> = parameters
        .into_iter()
        .filter(|parameter| readable(&parameter.name))
        .enumerate()
        .map(|(at, parameter)| (parameter, format!("ami-{at}")))
        .collect();
    let Some((query, purposes)) = alias_query(&resolved) else { return Vec::new() };
    assert_eq!(query.owners, [] as [&str; 0]);
    let images: Vec<ImageInfo> = resolved
        .iter()
        .map(|(parameter, id)| image(id, if parameter.name.contains("arm64") { "arm64" } else { "x86_64" }, 0))
        .collect();
    let short = |one: &karpenter_api::kinds::SelectorRequirement| {
        let name = one.key.rsplit('/').next().unwrap_or_default();
        format!("{name} {} {}", one.operator, one.values.clone().unwrap_or_default().join(","))
    };
    let status = image_status(&images, &purposes, at(9));
    status
        .iter()
        .map(|one| one.requirements.iter().map(|r| short(r).trim().to_owned()).collect::<Vec<_>>().join("; "))
        .collect()
}

const STANDARD: &str = "instance-gpu-count DoesNotExist; instance-accelerator-count DoesNotExist";

fn standard(arch: &str) -> String {
    format!("arch In {arch}; {STANDARD}")
}

fn nvidia(arch: &str) -> String {
    format!("arch In {arch}; instance-gpu-count Exists")
}

fn neuron(arch: &str) -> String {
    format!("arch In {arch}; instance-accelerator-count Exists")
}

fn sorted(mut all: Vec<String>) -> Vec<String> {
    all.sort();
    all
}

/// AWS-42, AWS-45, AWS-55, AC-38, AC-39, AC-40, AC-41: what each family's alias stands for.
#[test]
fn families() {
    let all = |_: &str| true;
    let [amd, arm] = ["amd64", "arm64"];
    let want = vec![standard(amd), nvidia(amd), neuron(amd), standard(arm), nvidia(arm)];
    assert_eq!(sorted(resolved("al2023@latest", "1.33", all)), sorted(want.clone()));
    assert_eq!(sorted(resolved("bottlerocket@latest", "1.33", all)), sorted(want));
    let want = vec![standard(amd), standard(arm), neuron(amd), nvidia(amd)];
    assert_eq!(sorted(resolved("al2@latest", "1.32", all)), sorted(want));
    let windows = "os In windows; arch In amd64; windows-build In 10.0.20348";
    let mut parts: Vec<String> =
        resolved("windows2022@latest", "1.33", all)[0].split("; ").map(str::to_owned).collect();
    let mut wanted: Vec<&str> = windows.split("; ").collect();
    parts.sort();
    wanted.sort_unstable();
    assert_eq!(parts, wanted);
}

/// AWS-46, AC-42, AC-43: what cannot be read is left out; nothing at all is no answer.
#[test]
fn missing_parameters() {
    assert_eq!(resolved("al2@latest", "1.32", |name| !name.contains("gpu")).len(), 2);
    assert_eq!(resolved("bottlerocket@latest", "1.33", |name| !name.contains("-nvidia/arm64")).len(), 4);
    assert_eq!(resolved("al2023@latest", "1.33", |_| false), [] as [&str; 0]);
}

/// AWS-46: two parameters with one image keep both purposes, in the project.
#[test]
fn one_image_for_two_purposes() {
    let parameters = alias_parameters("al2023@latest", "1.33").unwrap();
    let same: Vec<_> = parameters.into_iter().take(2).map(|one| (one, "ami-1".to_owned())).collect();
    let (query, purposes) = alias_query(&same).unwrap();
    assert_eq!(text(&query.filters), "image-id=ami-1 state=available");
    assert_eq!(image_status(&[image("ami-1", "x86_64", 0)], &purposes, at(1)).len(), 2);
}

/// AWS-42, AWS-43, AC-46: the names of parameters, moving and pinned.
#[test]
fn parameter_names() {
    let names = |alias, version| -> Vec<String> {
        alias_parameters(alias, version).unwrap().into_iter().map(|one| one.name).collect()
    };
    let eks = "/aws/service/eks/optimized-ami/1.31";
    let al2023 = names("al2023@latest", "1.31");
    assert_eq!(al2023[0], format!("{eks}/amazon-linux-2023/x86_64/standard/recommended/image_id"));
    assert_eq!(al2023[4], format!("{eks}/amazon-linux-2023/arm64/nvidia/recommended/image_id"));
    let pinned = &names("al2023@v20240625", "1.31")[1];
    assert_eq!(
        *pinned,
        format!("{eks}/amazon-linux-2023/x86_64/nvidia/amazon-eks-node-al2023-x86_64-nvidia-1.31-v20240625/image_id")
    );
    let al2 = names("al2@v20240625", "1.31");
    assert_eq!(al2[0], format!("{eks}/amazon-linux-2/amazon-eks-node-1.31-v20240625/image_id"));
    assert_eq!(al2[1], format!("{eks}/amazon-linux-2-arm64/amazon-eks-arm64-node-1.31-v20240625/image_id"));
    assert_eq!(al2[2], format!("{eks}/amazon-linux-2-gpu/amazon-eks-gpu-node-1.31-v20240625/image_id"));
    assert_eq!(names("al2@latest", "1.31")[2], format!("{eks}/amazon-linux-2-gpu/recommended/image_id"));
    let rocket = "/aws/service/bottlerocket/aws-k8s-1.31";
    assert_eq!(names("bottlerocket@v1.10.0", "1.31")[0], format!("{rocket}/x86_64/1.10.0/image_id"));
    assert_eq!(names("bottlerocket@1.10.0", "1.31")[1], format!("{rocket}/arm64/1.10.0/image_id"));
    assert_eq!(names("bottlerocket@latest", "1.31")[3], format!("{rocket}-nvidia/arm64/latest/image_id"));
    let windows = "/aws/service/ami-windows-latest/Windows_Server-2019-English-Core-EKS_Optimized-1.31/image_id";
    assert_eq!(names("windows2019@latest", "1.31"), [windows]);
    assert!(is_mutable(windows) && is_mutable(&al2023[0]) && !is_mutable(pinned) && !is_mutable(&al2[0]), "AC-54");
}

/// AWS-47, AC-44, AC-45: what a version of Kubernetes does not have.
#[test]
fn unsupported_aliases() {
    for (alias, version, want) in [
        ("al2@latest", "1.32", Ok(())),
        ("al2@latest", "1.33", Err(AliasError::Al2Gone)),
        ("al2@v20240625", "1.34", Err(AliasError::Al2Gone)),
        ("al2023@latest", "1.33", Ok(())),
        ("al2@latest", "odd", Ok(())),
        ("windows2025@latest", "1.34", Err(AliasError::Windows2025TooNew("1.34".to_owned()))),
        ("windows2025@latest", "1.35", Ok(())),
        ("ubuntu@latest", "1.35", Err(AliasError::Malformed("ubuntu@latest".to_owned()))),
        ("al2023@", "1.35", Err(AliasError::Malformed("al2023@".to_owned()))),
    ] {
        assert_eq!(alias_parameters(alias, version).map(|_| ()), want, "{alias} {version}");
    }
    assert!(
        AliasError::Al2Gone
            .to_string()
            .starts_with("getting AMI queries, AL2 aliases are no longer supported on EKS 1.33+")
    );
}

/// AWS-9, AWS-49, AWS-50, AWS-51, AWS-52, AC-47, AC-48, AC-52, AC-53: all ids in one query, one for each other term.
#[test]
fn queries_of_terms() {
    let terms: Vec<karpenter_api::kinds::ec2nodeclass::AmiSelectorTerm> = terms(json!([
        {"id": "ami-1"},
        {"name": "n-*"},
        {"name": "m", "owner": "123456789012"},
        {"tags": {"a": "*"}},
        {"tags": {"a": "b"}, "owner": "self"},
        {"id": "ami-2", "ssmParameter": "/ignored"},
        {"ssmParameter": "/mine"},
    ]));
    assert_eq!(term_parameters(&terms), ["/mine"]);
    let queries: Vec<String> = image_queries(&terms, &["ami-3".to_owned()])
        .iter()
        .map(|one| format!("{} [{}]", text(&one.filters), one.owners.join(",")))
        .collect();
    assert_eq!(
        queries,
        [
            "image-id=ami-1,ami-2,ami-3 state=available []",
            "name=n-* state=available [self,amazon]",
            "name=m state=available [123456789012]",
            "tag-key=a state=available []",
            "tag:a=b state=available [self]",
        ]
    );
    assert_eq!((image_of_parameter("ami-1"), image_of_parameter("not-an-ami")), (Some("ami-1"), None));
    assert_eq!(image_queries(&[], &[]), []);
    let both = [image("ami-1", "x86_64", 1), image("ami-2", "arm64", 1)];
    assert_eq!(image_status(&both, &BTreeMap::new(), at(9)).len(), 2, "one for each architecture");
}

/// AWS-53, AWS-54, AWS-55, AC-49, AC-50: which of several, and their order.
#[test]
fn which_image() {
    let chosen = |images: &[ImageInfo]| -> Vec<String> {
        image_status(images, &BTreeMap::new(), at(100)).into_iter().map(|one| one.id).collect()
    };
    let deprecated = |image: ImageInfo| ImageInfo { deprecated: Some(at(100)), ..image };
    let [old, new] = [image("ami-old", "x86_64", 1), image("ami-new", "x86_64", 2)];
    assert_eq!(chosen(&[old.clone(), new.clone()]), ["ami-new"]);
    assert_eq!(chosen(&[old.clone(), deprecated(new.clone())]), ["ami-old"]);
    assert_eq!(chosen(&[deprecated(new.clone()), deprecated(old.clone())]), ["ami-new"]);
    assert_eq!(chosen(&[image("ami-a", "x86_64", 2), image("ami-b", "x86_64", 2)]), ["ami-b"], "the larger name");
    assert_eq!(chosen(&[image("ami-x", "riscv", 9), ImageInfo { created: None, ..new.clone() }, old]), ["ami-old"]);
    let later = ImageInfo { deprecated: Some(at(101)), ..new.clone() };
    assert!(!is_deprecated(&later, at(100)) && is_deprecated(&later, at(101)) && !is_deprecated(&new, at(999)));
    assert_eq!(image_status(&[deprecated(new)], &BTreeMap::new(), at(100))[0].deprecated, Some(true));
    assert_eq!(chosen(&[image("ami-1", "arm64", 1), image("ami-2", "x86_64", 3)]), ["ami-2", "ami-1"]);
    assert_eq!(chosen(&[image("ami-2", "arm64", 1), image("ami-1", "x86_64", 1)]), ["ami-1", "ami-2"], "by id");
}
