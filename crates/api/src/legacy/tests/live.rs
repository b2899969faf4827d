use super::*;
use crate::names::legacy::PROVISIONER_NAME;
use crate::validation;

/// The Provisioner of the CDK guide (SEED-1-28).
const BLUEPRINT: &str = r#"
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: { name: default, uid: "1" }
spec:
  requirements:
    - { key: node.kubernetes.io/instance-type, operator: In, values: [m5.2xlarge] }
    - { key: topology.kubernetes.io/zone, operator: In, values: [us-east-1c] }
    - { key: kubernetes.io/arch, operator: In, values: [arm64, amd64] }
    - { key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand] }
  provider:
    instanceProfile: nodes
    subnetSelector: { Name: blueprint-construct-dev/blueprint-construct-dev-vpc/PrivateSubnet1 }
    securityGroupSelector: { kubernetes.io/cluster/blueprint-construct-dev: owned }
  ttlSecondsAfterEmpty: 30
"#;

/// The Provisioner of the v0.5 tutorial (SEED-2-23).
const TUTORIAL: &str = r#"
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: { name: default, uid: "1" }
spec:
  requirements:
    - { key: karpenter.sh/capacity-type, operator: In, values: [spot] }
  limits: { resources: { cpu: 1000 } }
  provider:
    subnetSelector: { karpenter.sh/discovery: demo }
    securityGroupSelector: { karpenter.sh/discovery: demo }
    instanceProfile: KarpenterNodeInstanceProfile-demo
  ttlSecondsAfterEmpty: 30
"#;

fn installation(version: &str) -> Installation {
    Installation { default_instance_profile: None, kubernetes_version: version.to_owned() }
}

/// Serves the first document with the second as its template, in a cluster of 1.32.
fn served(yaml: &str) -> Translation {
    let all = documents(yaml);
    translate(&all[0], all.get(1), &installation("1.32"))
}

fn lines(translation: &Translation, severity: Severity) -> Vec<String> {
    let wanted = translation.findings.iter().filter(|finding| finding.severity == severity);
    wanted.map(|finding| format!("{} {}: {}", finding.object, finding.field, finding.message)).collect()
}

/// Pool and class as the API server would get them, both valid.
fn objects(translation: &Translation) -> (Value, Value) {
    assert_eq!(lines(translation, Severity::Error), [""; 0]);
    let (pool, class) = translation.objects.clone().unwrap();
    let problems = validation::node_pool(&pool.spec, &crate::names::LabelPolicy::aws()).errors;
    assert!(problems.is_empty(), "{problems:?}");
    (serde_json::to_value(pool).unwrap(), serde_json::to_value(class).unwrap())
}

fn requirements(pool: &Value) -> Vec<String> {
    let listed = pool["spec"]["template"]["spec"]["requirements"].as_array().unwrap().iter();
    listed
        .map(|one| format!("{} {} {}", one["key"].as_str().unwrap(), one["operator"].as_str().unwrap(), one["values"]))
        .collect()
}

/// AWS-257, SEED-1-28, SEED-1-42: four requirements, a profile, both selectors, half a minute.
#[test]
fn the_provisioner_of_the_cdk_guide() {
    let (pool, class) = objects(&served(BLUEPRINT));
    assert_eq!(
        requirements(&pool),
        [
            r#"node.kubernetes.io/instance-type In ["m5.2xlarge"]"#,
            r#"topology.kubernetes.io/zone In ["us-east-1c"]"#,
            r#"kubernetes.io/arch In ["arm64","amd64"]"#,
            r#"karpenter.sh/capacity-type In ["spot","on-demand"]"#,
            r#"kubernetes.io/os In ["linux"]"#,
        ]
    );
    assert_eq!(pool["spec"]["disruption"], json!({ "consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s" }));
    assert_eq!(pool["spec"]["template"]["spec"]["expireAfter"], "Never");
    let spec = &class["spec"];
    assert_eq!((&spec["instanceProfile"], &spec["role"]), (&json!("nodes"), &Value::Null));
    let subnet = json!({ "tags": { "Name": "blueprint-construct-dev/blueprint-construct-dev-vpc/PrivateSubnet1" } });
    assert_eq!(spec["subnetSelectorTerms"], json!([subnet]));
    let groups = json!([{ "tags": { "kubernetes.io/cluster/blueprint-construct-dev": "owned" } }]);
    assert_eq!(spec["securityGroupSelectorTerms"], groups);
    assert_eq!(spec["amiSelectorTerms"], json!([{ "alias": "al2@latest" }]));
}

/// AWS-257, SEED-2-23, SEED-2-24, SEED-2-43: types are free, the rest is what Provisioners got by themselves; both objects are
/// called like the Provisioner and belong to it.
#[test]
fn the_provisioner_of_the_tutorial() {
    let (pool, class) = objects(&served(TUTORIAL));
    assert_eq!(
        requirements(&pool),
        [
            r#"karpenter.sh/capacity-type In ["spot"]"#,
            r#"kubernetes.io/os In ["linux"]"#,
            r#"kubernetes.io/arch In ["amd64"]"#,
        ]
    );
    assert_eq!(pool["spec"]["limits"], json!({ "cpu": 1000 }));
    assert_eq!(pool["spec"]["disruption"], json!({ "consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s" }));
    let reference = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" });
    assert_eq!(pool["spec"]["template"]["spec"]["nodeClassRef"], reference);
    assert_eq!(class["spec"]["instanceProfile"], "KarpenterNodeInstanceProfile-demo");
    for object in [&pool, &class] {
        assert_eq!(object["metadata"]["name"], "default");
        let owner = &object["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["uid"], &owner["controller"]),
            (&json!("Provisioner"), &json!("1"), &json!(true))
        );
    }
}

/// AWS-257: no capacity type means on-demand, no profile the default one, and without either the Provisioner is refused.
#[test]
fn what_is_left_out() {
    let bare = TUTORIAL
        .replace("instanceProfile: KarpenterNodeInstanceProfile-demo", "tags: { team: a }")
        .replace("[spot]", "[on-demand]");
    let bare =
        bare.replace("    - { key: karpenter.sh/capacity-type, operator: In, values: [on-demand] }\n", "    []\n");
    let all = documents(&bare);
    let refused = translate(&all[0], None, &installation("1.32"));
    assert_eq!(refused.objects, None);
    assert!(
        lines(&refused, Severity::Error)[0]
            .starts_with("Provisioner/default spec.provider.instanceProfile: is missing")
    );
    let with_default = Installation { default_instance_profile: Some("usual".to_owned()), ..installation("1.32") };
    let (pool, class) = objects(&translate(&all[0], None, &with_default));
    assert_eq!(class["spec"]["instanceProfile"], "usual");
    assert_eq!(class["spec"]["tags"], json!({ "team": "a" }));
    assert!(requirements(&pool).contains(&r#"karpenter.sh/capacity-type In ["on-demand"]"#.to_owned()));
}

/// AWS-257: AL2 where it is published, AL2023 with a warning where it is not.
#[test]
fn images_follow_the_version() {
    for (version, alias, warned) in [
        ("1.32", "al2@latest", false),
        ("1.33", "al2023@latest", true),
        ("1.35", "al2023@latest", true),
        ("", "al2@latest", false),
    ] {
        let translation = translate(&documents(TUTORIAL)[0], None, &installation(version));
        let (_, class) = objects(&translation);
        assert_eq!(class["spec"]["amiSelectorTerms"], json!([{ "alias": alias }]), "{version}");
        let said = lines(&translation, Severity::Warning);
        assert_eq!(said.iter().any(|line| line.contains("spec.provider.amiFamily")), warned, "{version}: {said:?}");
    }
}

/// AWS-256, AWS-257: a template is made part of the Provisioner's own class; what is wrong with it is said of it.
#[test]
fn templates() {
    let provisioner = r#"
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: { name: batch, uid: "2" }
spec: { providerRef: { name: shared }, consolidation: { enabled: true }, weight: 20, kubeletConfiguration: { maxPods: 20 } }
"#;
    let template = "
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: { name: shared }
spec: { subnetSelector: { a: '*' }, securityGroupSelector: { aws-ids: 'sg-1, sg-2' }, instanceProfile: p, amiFamily: Bottlerocket }
";
    let translation = served(&format!("{provisioner}---{template}"));
    let (pool, class) = objects(&translation);
    assert_eq!((&class["metadata"]["name"], &pool["spec"]["weight"]), (&json!("batch"), &json!(20)));
    assert_eq!(class["spec"]["kubelet"], json!({ "maxPods": 20 }));
    assert_eq!(class["spec"]["subnetSelectorTerms"], json!([{ "tags": { "a": "*" } }]));
    assert_eq!(class["spec"]["securityGroupSelectorTerms"], json!([{ "id": "sg-1" }, { "id": "sg-2" }]));
    assert_eq!(pool["spec"]["disruption"]["consolidationPolicy"], "WhenEmptyOrUnderutilized");

    let alone = served(provisioner);
    let said = ["Provisioner/batch spec.providerRef.name: there is no AWSNodeTemplate shared"];
    assert_eq!((alone.objects.is_none(), lines(&alone, Severity::Error)), (true, said.map(str::to_owned).to_vec()));

    let broken =
        served(&format!("{provisioner}---{}", template.replace("subnetSelector", "launchTemplate: x, subnet")));
    let said = lines(&broken, Severity::Error);
    assert!(
        said[0].starts_with("AWSNodeTemplate/shared spec.launchTemplate: launch templates of one's own"),
        "{said:?}"
    );
    assert_eq!(said[1], "AWSNodeTemplate/shared spec.subnetSelector: is required");
    assert_eq!(broken.objects, None);
}

/// AWS-257, SEED-1-15, SEED-1-29: what is refused, with its field.
#[test]
fn what_is_refused() {
    for (from, to, want) in [
        (
            "ttlSecondsAfterEmpty: 30",
            "{ ttlSecondsAfterEmpty: 30, consolidation: { enabled: true } }",
            "spec.ttlSecondsAfterEmpty: cannot be combined with consolidation.enabled",
        ),
        ("    subnetSelector: { karpenter.sh/discovery: demo }\n", "", "spec.provider.subnetSelector: is required"),
        (
            "    securityGroupSelector: { karpenter.sh/discovery: demo }\n",
            "",
            "spec.provider.securityGroupSelector: is required",
        ),
        (
            "name: default",
            &format!("name: {}", "a".repeat(64)),
            "metadata.name: has more than 63 characters, and nodes are labelled with it",
        ),
        ("cpu: 1000", "cpu: lots", "spec.limits.resources[cpu]: "),
    ] {
        let (from, to) = if to.starts_with('{') {
            (
                from,
                to.trim_matches(['{', '}', ' '])
                    .replace(", ", "\n  ")
                    .replace("consolidation: { enabled: true", "consolidation: { enabled: true }"),
            )
        } else {
            (from, to.to_owned())
        };
        let changed = TUTORIAL.replace(from, &to);
        assert_ne!(changed, TUTORIAL, "{want}");
        let translation = served(&changed);
        let said = lines(&translation, Severity::Error);
        assert!(translation.objects.is_none() && said.iter().any(|line| line.contains(want)), "{want}: {said:?}");
    }
}

/// AWS-258: what the Provisioner says about its own name holds, or can never hold.
#[test]
fn requirements_on_the_name() {
    for (operator, values, served_) in [
        ("In", "[default, other]", true),
        ("In", "[other]", false),
        ("NotIn", "[other]", true),
        ("NotIn", "[default]", false),
        ("Exists", "[]", true),
        ("DoesNotExist", "[]", false),
    ] {
        let more = format!(
            "requirements:\n    - {{ key: karpenter.sh/provisioner-name, operator: {operator}, values: {values} }}"
        );
        let translation = served(&TUTORIAL.replace("requirements:", &more));
        assert_eq!(translation.objects.is_some(), served_, "{operator} {values}: {:?}", translation.findings);
        let said = lines(&translation, Severity::Error);
        assert_eq!(said.iter().any(|line| line.contains("spec.requirements[0]")), !served_, "{said:?}");
        if let Some((pool, _)) = &translation.objects {
            let pool = serde_json::to_value(pool).unwrap();
            assert!(
                !requirements(&pool).iter().any(|one| one.contains("provisioner-name")),
                "the API server would refuse it"
            );
            assert!(!lines(&translation, Severity::Warning).iter().any(|line| line.contains("left out")));
        }
    }
}

/// AWS-258: who owns a pool is who its nodes are labelled with; any other owner is none.
#[test]
fn nodes_are_labelled_with_the_owner() {
    let (mut pool, _) = served(TUTORIAL).objects.unwrap();
    let rules = crate::names::LabelPolicy::aws();
    let label = |pool: &crate::kinds::NodePool| {
        let view = crate::convert::pool(pool, rules.rules()).view;
        let required = view.requirements.get(PROVISIONER_NAME).map(|one| one.has("default"));
        (view.labels.get(PROVISIONER_NAME).cloned(), required)
    };
    assert_eq!(label(&pool), (Some("default".to_owned()), Some(true)));
    pool.metadata.owner_references.as_mut().unwrap()[0].api_version = "example.org/v1".to_owned();
    assert_eq!(label(&pool), (None, None));
}
