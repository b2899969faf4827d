use super::*;

/// An AWSNodeTemplate `t` with further members; selectors of subnets and groups are there unless given.
fn template(spec: &str) -> String {
    let mut given = spec.to_owned();
    for (name, value) in [("subnetSelector", "{ a: b }"), ("securityGroupSelector", "{ a: b }")] {
        if !spec.contains(name) {
            given = format!("{given}, {name}: {value}");
        }
    }
    let given = given.trim_start_matches(", ");
    format!(
        "apiVersion: karpenter.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {{ name: t }}\nspec: {{ {given} }}\n"
    )
}

fn class(spec: &str) -> Value {
    only(&convert_yaml(&template(spec)), "EC2NodeClass")["spec"].clone()
}

/// API-335: families, aliases and images.
#[test]
fn families() {
    for (spec, family, terms) in [
        ("", json!(null), json!([{ "alias": "al2@latest" }])),
        ("amiFamily: AL2", json!(null), json!([{ "alias": "al2@latest" }])),
        ("amiFamily: AL2023", json!(null), json!([{ "alias": "al2023@latest" }])),
        ("amiFamily: Bottlerocket", json!(null), json!([{ "alias": "bottlerocket@latest" }])),
        ("amiFamily: Windows2019", json!(null), json!([{ "alias": "windows2019@latest" }])),
        ("amiFamily: Windows2022", json!(null), json!([{ "alias": "windows2022@latest" }])),
        ("amiFamily: Bottlerocket, amiSelector: { aws-ids: ami-1 }", json!("Bottlerocket"), json!([{ "id": "ami-1" }])),
        ("amiSelector: { aws-ids: ami-1 }", json!("AL2"), json!([{ "id": "ami-1" }])),
        ("amiFamily: Custom, amiSelector: { team: web }", json!("Custom"), json!([{ "tags": { "team": "web" } }])),
    ] {
        let class = class(spec);
        assert_eq!((&class["amiFamily"], &class["amiSelectorTerms"]), (&family, &terms), "{spec}");
        assert_eq!(class.get("blockDeviceMappings"), None);
    }
    for (spec, want) in [
        ("amiFamily: Custom", "spec.amiFamily: family Custom has no images of its own; select some"),
        ("amiFamily: Ubuntu", "spec.amiFamily: family Ubuntu has no images of its own; select some"),
        (
            "amiFamily: al2",
            "spec.amiFamily: \"al2\" is not one of AL2, AL2023, Bottlerocket, Windows2019, Windows2022, Ubuntu, Custom",
        ),
    ] {
        assert_eq!(errors(&template(spec)), [format!("AWSNodeTemplate/t {want}")]);
    }
}

/// API-335: Ubuntu becomes AL2 with the selected images and the root volume it always had.
#[test]
fn ubuntu() {
    let with_images = class("amiFamily: Ubuntu, amiSelector: { aws-ids: ami-1 }");
    assert_eq!(with_images["amiFamily"], "AL2");
    let root =
        json!([{ "deviceName": "/dev/sda1", "ebs": { "encrypted": true, "volumeSize": "20Gi", "volumeType": "gp3" } }]);
    assert_eq!(with_images["blockDeviceMappings"], root);
    let own = class(
        "amiFamily: Ubuntu, amiSelector: { aws-ids: ami-1 }, blockDeviceMappings: [{ deviceName: a, ebs: { volumeSize: 5Gi } }]",
    );
    assert_eq!(own["blockDeviceMappings"], json!([{ "deviceName": "a", "ebs": { "volumeSize": "5Gi" } }]));
}

/// API-336, API-337, API-338, API-345: selectors become terms.
#[test]
fn selectors() {
    for (selector, want) in [
        ("{ aws-ids: 'subnet-1, subnet-2' }", json!([{ "id": "subnet-1" }, { "id": "subnet-2" }])),
        ("{ 'aws::ids': 'subnet-1' }", json!([{ "id": "subnet-1" }])),
        ("{ a: b, c: '*' }", json!([{ "tags": { "a": "b", "c": "*" } }])),
        ("{ a: 'b, c' }", json!([{ "tags": { "a": "b" } }, { "tags": { "a": "c" } }])),
        (
            "{ a: 'b,c', d: 'e,f' }",
            json!([{ "tags": { "a": "b", "d": "e" } }, { "tags": { "a": "b", "d": "f" } }, { "tags": { "a": "c", "d": "e" } }, { "tags": { "a": "c", "d": "f" } }]),
        ),
        ("{ 'aws::name': x }", json!([{ "tags": { "aws::name": "x" } }])),
    ] {
        assert_eq!(class(&format!("subnetSelector: {selector}"))["subnetSelectorTerms"], want, "{selector}");
    }
    let images = class("amiSelector: { 'aws::name': 'a,b', 'aws::owners': '1,amazon' }");
    let term = |name: &str, owner: &str| json!({ "name": name, "owner": owner });
    let want = json!([term("a", "1"), term("b", "1"), term("a", "amazon"), term("b", "amazon")]);
    assert_eq!(images["amiSelectorTerms"], want);
    assert_eq!(
        class("securityGroupSelector: { aws-ids: 'sg-1' }")["securityGroupSelectorTerms"],
        json!([{ "id": "sg-1" }])
    );
    assert_eq!(
        class("amiSelector: {}")["amiSelectorTerms"],
        json!([{ "alias": "al2@latest" }]),
        "an empty map gives no terms"
    );
}

/// API-335: role or profile, never both and never neither.
#[test]
fn identity() {
    let kept = class("instanceProfile: profile");
    assert_eq!((kept.get("role"), &kept["instanceProfile"]), (None, &json!("profile")));
    let given = class("");
    assert_eq!((&given["role"], given.get("instanceProfile")), (&json!("NodeRole"), None));
    let outcome = convert(&documents(&template("")), &Options::default());
    assert_eq!(only(&outcome, "EC2NodeClass")["spec"]["role"], "REPLACE-WITH-NODE-ROLE");
    let warnings = findings(&outcome, Severity::Warning);
    assert!(
        warnings.iter().any(|warning| warning.starts_with("AWSNodeTemplate/t spec.instanceProfile: is not set")),
        "{warnings:?}"
    );
}

/// API-335: the hop limit keeps its old default.
#[test]
fn metadata_options() {
    assert_eq!(class("")["metadataOptions"], json!({ "httpPutResponseHopLimit": 2 }));
    let given =
        "{ httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 3, httpTokens: optional }";
    let all = class(&format!("metadataOptions: {given}"));
    assert_eq!(all["metadataOptions"]["httpPutResponseHopLimit"], 3);
    let partial = warnings(&template("metadataOptions: { httpTokens: optional }"));
    assert!(partial.contains(
        &"AWSNodeTemplate/t spec.metadataOptions.httpPutResponseHopLimit: is not set; v1 fills 1".to_owned()
    ));
}

/// API-339, API-345, API-335: what was invalid stays so, and what v1 cannot say is an error.
#[test]
fn legacy_validation() {
    for (spec, want) in [
        (
            "launchTemplate: x",
            "spec.launchTemplate: launch templates of one's own are not supported in v1; describe the nodes in the class instead",
        ),
        ("subnetSelector: {}", "spec.subnetSelector: is required"),
        ("securityGroupSelector: {}", "spec.securityGroupSelector: is required"),
        ("subnetSelector: { a: '' }", "spec.subnetSelector[a]: empty keys and values are not supported"),
        ("subnetSelector: { '': b }", "spec.subnetSelector[]: empty keys and values are not supported"),
        ("subnetSelector: { a: 'b,,c' }", "spec.subnetSelector[a]: empty keys and values are not supported"),
        (
            "subnetSelector: { aws-ids: vpc-1 }",
            "spec.subnetSelector[aws-ids]: \"vpc-1\" is not an id of the form subnet-0123abcd",
        ),
        (
            "securityGroupSelector: { aws-ids: 'sg-1,SG-2' }",
            "spec.securityGroupSelector[aws-ids]: \"SG-2\" is not an id of the form sg-0123abcd",
        ),
        (
            "amiSelector: { 'aws::ids': ami- }",
            "spec.amiSelector[aws::ids]: \"ami-\" is not an id of the form ami-0123abcd",
        ),
        ("subnetSelector: { aws-ids: subnet-1, a: b }", "spec.subnetSelector: ids cannot be combined with other keys"),
        (
            "metadataOptions: { httpEndpoint: maybe }",
            "spec.metadataOptions.httpEndpoint: \"maybe\" is not one of enabled, disabled",
        ),
        (
            "metadataOptions: { httpProtocolIPv6: maybe }",
            "spec.metadataOptions.httpProtocolIPv6: \"maybe\" is not one of enabled, disabled",
        ),
        (
            "metadataOptions: { httpTokens: maybe }",
            "spec.metadataOptions.httpTokens: \"maybe\" is not one of required, optional",
        ),
        (
            "metadataOptions: { httpPutResponseHopLimit: 65 }",
            "spec.metadataOptions.httpPutResponseHopLimit: must be between 1 and 64",
        ),
        ("blockDeviceMappings: [{ ebs: { volumeSize: 5Gi } }]", "spec.blockDeviceMappings[0].deviceName: is missing"),
        ("blockDeviceMappings: [{ deviceName: a }]", "spec.blockDeviceMappings[0].ebs: is missing"),
        (
            "blockDeviceMappings: [{ deviceName: a, ebs: {} }]",
            "spec.blockDeviceMappings[0].ebs.volumeSize: is missing; only a volume with snapshotID may leave it out",
        ),
        (
            "blockDeviceMappings: [{ deviceName: a, ebs: { volumeSize: 100M } }]",
            "spec.blockDeviceMappings[0].ebs.volumeSize: 100M is not between 1G and 64T",
        ),
        (
            "blockDeviceMappings: [{ deviceName: a, ebs: { volumeSize: 65T } }]",
            "spec.blockDeviceMappings[0].ebs.volumeSize: 65T is not between 1G and 64T",
        ),
        (
            "tags: { eks:eks-cluster-name: x }",
            "spec.tags[eks:eks-cluster-name]: is a tag that only the controller may set",
        ),
        (
            "amiSelector: { 'aws::owners': self }",
            "spec.amiSelector: owners alone select no images in v1; add a name, an id or a tag",
        ),
        (
            "subnetSelector: { a: '1,2,3,4,5,6', b: '1,2,3,4,5,6' }",
            "spec.subnetSelector: makes 36 terms, and v1 admits 30",
        ),
        (
            "blockDeviceMappings: [{ deviceName: a, ebs: { volumeSize: 5Gi, volumeType: gp9 } }]",
            "spec.blockDeviceMappings[0].ebs.volumeType: \"gp9\" is not one of standard, io1, io2, gp2, sc1, st1, gp3",
        ),
        ("tags: { '': x }", "spec.tags: empty tag keys are not supported"),
        (
            "tags: { karpenter.sh/provisioner-name: x }",
            "spec.tags[karpenter.sh/provisioner-name]: is a tag that only the controller may set",
        ),
        (
            "tags: { karpenter.sh/managed-by: x }",
            "spec.tags[karpenter.sh/managed-by]: is a tag that only the controller may set",
        ),
        (
            "tags: { kubernetes.io/cluster/c: x }",
            "spec.tags[kubernetes.io/cluster/c]: is a tag that only the controller may set",
        ),
    ] {
        assert_eq!(errors(&template(spec)), [format!("AWSNodeTemplate/t {want}")], "{spec}");
        assert_eq!(convert_yaml(&template(spec)).documents, []);
    }
}

/// API-335, AWS-10: sizes in the forms that v1 admits.
#[test]
fn volume_sizes() {
    for (size, want) in [
        ("20Gi", "20Gi"),
        ("20G", "20G"),
        ("2Ti", "2Ti"),
        ("18Ti", "18432Gi"),
        ("58Ti", "58Ti"),
        ("63999500M", "64000G"),
        ("0020Gi", "20Gi"),
        ("2T", "2T"),
        ("102400Mi", "100Gi"),
        ("107374182400", "100Gi"),
        ("1.5Gi", "2Gi"),
        ("1e9", "1Gi"),
    ] {
        let spec = format!("blockDeviceMappings: [{{ deviceName: a, ebs: {{ volumeSize: {size} }} }}]");
        assert_eq!(class(&spec)["blockDeviceMappings"][0]["ebs"]["volumeSize"], want, "{size}");
        let rounded = warnings(&template(&spec)).iter().any(|warning| warning.contains("rounded up"));
        assert_eq!(rounded, matches!(size, "1.5Gi" | "1e9" | "63999500M"), "{size}");
    }
    let snapshot = class("blockDeviceMappings: [{ deviceName: a, ebs: { snapshotID: snap-1 } }]");
    assert_eq!(snapshot["blockDeviceMappings"], json!([{ "deviceName": "a", "ebs": { "snapshotID": "snap-1" } }]));
}

/// API-318, API-334, API-335, API-340: the whole mapping on one object.
#[test]
fn whole_mapping() {
    let outcome = convert_yaml(
        include_str!("../../kinds/tests/awsnodetemplate.yaml").replace("  launchTemplate: mine\n", "").as_str(),
    );
    insta::assert_snapshot!(serde_saphyr::to_string(&only(&outcome, "EC2NodeClass")).unwrap());
    assert_eq!(findings(&outcome, Severity::Warning), [""; 0]);
}

/// API-332: one class per distinct pair of template and kubelet settings.
#[test]
fn kubelet_settings_split_classes() {
    let provisioner = |name: &str, kubelet: &str| {
        format!(
            "---\napiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {{ name: {name} }}\nspec: {{ providerRef: {{ name: t }}, kubeletConfiguration: {kubelet} }}\n"
        )
    };
    let yaml = [
        template(""),
        provisioner("a", "{ maxPods: 20 }"),
        provisioner("b", "{ maxPods: 30, containerRuntime: dockerd }"),
        provisioner("c", "{ maxPods: 20, containerRuntime: containerd }"),
        provisioner("d", "{}"),
    ]
    .concat();
    let outcome = convert_yaml(&yaml);
    assert_eq!(findings(&outcome, Severity::Error), [""; 0]);
    let lines: Vec<String> = outcome
        .documents
        .iter()
        .map(|Converted { object, .. }| {
            let name = object["metadata"]["name"].as_str().unwrap();
            match object["kind"].as_str().unwrap() {
                "NodePool" => format!(
                    "pool {name} -> {}",
                    object["spec"]["template"]["spec"]["nodeClassRef"]["name"].as_str().unwrap()
                ),
                _ => format!("class {name} {}", object["spec"]["kubelet"]["maxPods"]),
            }
        })
        .collect();
    assert_eq!(
        lines,
        [
            "class t 20",
            "class t-b 30",
            "class t-d null",
            "pool a -> t",
            "pool b -> t-b",
            "pool c -> t",
            "pool d -> t-d"
        ]
    );
    let warnings = findings(&outcome, Severity::Warning);
    assert!(
        warnings.contains(
            &"Provisioner/b spec.kubeletConfiguration.containerRuntime: dockerd cannot be chosen any more; left out"
                .to_owned()
        )
    );
    assert!(warnings.contains(&"Provisioner/b spec.kubeletConfiguration: differs from that of another pool with class t; moved to class t-b".to_owned()));
}

/// API-329, API-330: every kubelet setting keeps its name but the container runtime, which goes.
#[test]
fn kubelet_settings_keep_their_names() {
    let provisioner = &documents(include_str!("../../kinds/tests/provisioner.yaml"))[0];
    let mut given = provisioner["spec"]["kubeletConfiguration"].clone();
    let mut inline =
        json!({ "apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": { "name": "p" } });
    inline["spec"] = json!({ "kubeletConfiguration": given, "providerRef": { "name": "t" } });
    let class = documents(&template(""));
    let outcome = convert(&[class[0].clone(), inline], &Options::default());
    given.as_object_mut().unwrap().remove("containerRuntime");
    assert_eq!(given.as_object().unwrap().len(), 12);
    // Reserved resources are text in v1.
    given["systemReserved"]["cpu"] = json!("1");
    assert_eq!(only(&outcome, "EC2NodeClass")["spec"]["kubelet"], given);
}

/// API-332: settings for a class that is not there are not lost silently; names never collide.
#[test]
fn classes_elsewhere_and_names() {
    let yaml = "
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: { name: p }
spec: { providerRef: { name: elsewhere }, kubeletConfiguration: { maxPods: 20 } }
";
    let warning = "Provisioner/p spec.kubeletConfiguration: belongs to the class in v1, and elsewhere is not among the inputs; set it there";
    assert!(warnings(yaml).contains(&warning.to_owned()), "{:?}", warnings(yaml));

    let inline = |name: &str| {
        format!(
            "---\napiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {{ name: {name} }}\nspec: {{ provider: {{ subnetSelector: {{ a: b }}, securityGroupSelector: {{ a: b }} }} }}\n"
        )
    };
    let outcome = convert_yaml(&[template(""), inline("t"), inline("t-2")].concat());
    let names: Vec<_> = outcome
        .documents
        .iter()
        .filter(|c| c.object["kind"] == "EC2NodeClass")
        .map(|c| c.object["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["t", "t-2", "t-2-2"]);
    let long = "x".repeat(70);
    let outcome = convert_yaml(&[inline(&long), inline(&format!("{long}y"))].concat());
    let names: Vec<_> = outcome
        .documents
        .iter()
        .filter(|c| c.object["kind"] == "EC2NodeClass")
        .map(|c| c.object["metadata"]["name"].as_str().unwrap().len())
        .collect();
    assert_eq!(names, [63, 63]);
}
