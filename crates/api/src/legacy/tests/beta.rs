use super::*;

fn pool_yaml(spec: &str, disruption: &str) -> String {
    let reference = if spec.contains("nodeClassRef") { "" } else { "nodeClassRef: { name: c }, " };
    format!(
        "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {{ name: p }}\nspec:\n  template:\n    spec: {{ {reference}{spec} }}\n  disruption: {disruption}\n"
    )
}

fn pool(spec: &str, disruption: &str) -> Value {
    only(&convert_yaml(&pool_yaml(spec, disruption)), "NodePool")["spec"].clone()
}

/// API-341: disruption settings.
#[test]
fn disruption() {
    for (given, policy, after, expiry) in [
        (
            "{ consolidationPolicy: WhenUnderutilized, expireAfter: 24h }",
            "WhenEmptyOrUnderutilized",
            json!("0s"),
            json!("24h"),
        ),
        ("{}", "WhenEmptyOrUnderutilized", json!("0s"), json!(null)),
        (
            "{ consolidationPolicy: WhenEmpty, consolidateAfter: 30s, expireAfter: Never }",
            "WhenEmpty",
            json!("30s"),
            json!("Never"),
        ),
        (
            "{ consolidationPolicy: WhenUnderutilized, consolidateAfter: Never }",
            "WhenEmptyOrUnderutilized",
            json!("Never"),
            json!(null),
        ),
    ] {
        let spec = pool("", given);
        assert_eq!(spec["disruption"]["consolidationPolicy"], policy, "{given}");
        assert_eq!(spec["disruption"]["consolidateAfter"], after, "{given}");
        assert_eq!(spec["template"]["spec"]["expireAfter"], expiry, "{given}");
        assert_eq!(spec["disruption"].get("expireAfter"), None);
    }
    let budgets = pool("", "{ budgets: [{ nodes: 10% }, { nodes: '0', schedule: '@daily', duration: 1h }] }");
    assert_eq!(
        budgets["disruption"]["budgets"],
        json!([{ "nodes": "10%" }, { "nodes": "0", "schedule": "@daily", "duration": "1h" }])
    );
    for (given, want) in [
        (
            "{ consolidationPolicy: Sometimes }",
            "NodePool/p spec.disruption.consolidationPolicy: \"Sometimes\" is not one of WhenEmpty, WhenUnderutilized",
        ),
        (
            "{ expireAfter: soon }",
            "NodePool/p spec.disruption.expireAfter: \"soon\" is not a duration: expected numbers with units, such as 30s, 10m or 1h30m",
        ),
    ] {
        assert_eq!(errors(&pool_yaml("", given)), [want]);
    }
}

/// API-341: class references.
#[test]
fn class_references() {
    for (reference, group, kind) in [
        ("{ name: c }", "karpenter.k8s.aws", "EC2NodeClass"),
        ("{ name: c, apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass }", "karpenter.k8s.aws", "EC2NodeClass"),
        (
            "{ name: c, apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass }",
            "karpenter.kwok.sh",
            "KWOKNodeClass",
        ),
        ("{ name: c, apiVersion: '' }", "karpenter.k8s.aws", "EC2NodeClass"),
    ] {
        let spec = pool(&format!("nodeClassRef: {reference}"), "{}");
        assert_eq!(
            spec["template"]["spec"]["nodeClassRef"],
            json!({ "group": group, "kind": kind, "name": "c" }),
            "{reference}"
        );
    }
}

/// API-333: settings that sit in annotations are honoured and the annotations removed.
#[test]
fn compatibility_annotations() {
    let yaml = r#"
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: p
  annotations:
    compatibility.karpenter.sh/v1beta1-kubelet-conversion: '{"maxPods": 20, "systemReserved": {"cpu": "100m"}}'
    compatibility.karpenter.sh/v1beta1-nodeclass-reference: '{"name": "c", "kind": "EC2NodeClass", "apiVersion": "karpenter.k8s.aws/v1beta1"}'
spec: { template: { spec: { requirements: [] } } }
---
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: { name: c }
spec: { amiFamily: AL2023, role: r, subnetSelectorTerms: [{ id: subnet-1 }], securityGroupSelectorTerms: [{ id: sg-1 }] }
"#;
    let outcome = convert_yaml(yaml);
    let pool = only(&outcome, "NodePool");
    assert_eq!(pool["metadata"], json!({ "name": "p" }));
    assert_eq!(pool["spec"]["template"]["spec"]["nodeClassRef"]["name"], "c");
    let class = only(&outcome, "EC2NodeClass");
    assert_eq!(class["spec"]["kubelet"], json!({ "maxPods": 20, "systemReserved": { "cpu": "100m" } }));
    assert_eq!(class["spec"]["amiSelectorTerms"], json!([{ "alias": "al2023@latest" }]));
    let broken = yaml.replace("'{\"maxPods\"", "'{maxPods\"");
    assert!(errors(&broken)[0].starts_with(
        "NodePool/p metadata.annotations[compatibility.karpenter.sh/v1beta1-kubelet-conversion]: is not JSON"
    ));
}

/// API-325, API-326, API-341: the rest of a pool.
#[test]
fn whole_pool() {
    let yaml = "
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: { name: p, uid: abc, labels: { team: web }, annotations: { owner: x } }
spec:
  template:
    metadata: { labels: { tier: web }, annotations: { karpenter.sh/do-not-consolidate: 'true' } }
    spec:
      nodeClassRef: { apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: c }
      requirements:
        - { key: karpenter.k8s.aws/instance-family, operator: In, values: [c5, m5], minValues: 2 }
        - { key: karpenter.k8s.aws/instance-pods, operator: Gt, values: ['3'] }
      taints: [{ key: a, effect: NoSchedule }]
      startupTaints: [{ key: b, effect: NoSchedule }]
      kubelet: { maxPods: 20 }
  limits: { cpu: 100 }
  weight: 3
";
    let outcome = convert_yaml(yaml);
    insta::assert_snapshot!(serde_saphyr::to_string(&only(&outcome, "NodePool")).unwrap());
    insta::assert_snapshot!(outcome.findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
}

/// API-341, API-342, API-335: classes of v1beta1.
#[test]
fn classes() {
    let class = |spec: &str| {
        format!(
            "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nmetadata: {{ name: c }}\nspec: {{ subnetSelectorTerms: [{{ id: subnet-1 }}], securityGroupSelectorTerms: [{{ id: sg-1 }}], {spec} }}\n"
        )
    };
    let spec = |text: &str| only(&convert_yaml(&class(text)), "EC2NodeClass")["spec"].clone();
    let bottlerocket = spec("amiFamily: Bottlerocket, role: r, tags: { a: b, karpenter.sh/managed-by: c }");
    assert_eq!(bottlerocket["amiSelectorTerms"], json!([{ "alias": "bottlerocket@latest" }]));
    assert_eq!((bottlerocket.get("amiFamily"), &bottlerocket["role"]), (None, &json!("r")));
    assert_eq!(bottlerocket["tags"], json!({ "a": "b" }));
    assert_eq!(bottlerocket["metadataOptions"], json!({ "httpPutResponseHopLimit": 2 }));
    let custom = spec(
        "amiFamily: Custom, instanceProfile: x, amiSelectorTerms: [{ id: ami-1 }], metadataOptions: { httpTokens: optional, httpPutResponseHopLimit: 1 }",
    );
    assert_eq!((&custom["amiFamily"], &custom["amiSelectorTerms"]), (&json!("Custom"), &json!([{ "id": "ami-1" }])));
    assert_eq!(custom["metadataOptions"], json!({ "httpTokens": "optional", "httpPutResponseHopLimit": 1 }));
    assert_eq!(spec("amiFamily: AL2023")["role"], "NodeRole");
    assert_eq!(
        errors(&class("amiFamily: Custom, role: r")),
        ["EC2NodeClass/c spec.amiFamily: family Custom has no images of its own; select some"]
    );
    let ubuntu = spec("amiFamily: Ubuntu, role: r, amiSelectorTerms: [{ id: ami-1 }]");
    assert_eq!(
        (&ubuntu["amiFamily"], &ubuntu["blockDeviceMappings"][0]["deviceName"]),
        (&json!("AL2"), &json!("/dev/sda1"))
    );
}

/// API-341, API-54: claims take the expiry of their pool along.
#[test]
fn claims() {
    let claim = |pool: &str| {
        format!(
            "---\napiVersion: karpenter.sh/v1beta1\nkind: NodeClaim\nmetadata: {{ name: x, labels: {{ karpenter.sh/nodepool: {pool} }} }}\nspec: {{ nodeClassRef: {{ name: c }}, requirements: [], kubelet: {{ maxPods: 3 }}, resources: {{ requests: {{ cpu: 1 }} }} }}\nstatus: {{ nodeName: n }}\n"
        )
    };
    for (disruption, want) in [("{ expireAfter: 24h }", "24h"), ("{ expireAfter: Never }", "Never"), ("{}", "720h")] {
        let outcome = convert_yaml(&[pool_yaml("", disruption), claim("p")].concat());
        let claim = only(&outcome, "NodeClaim");
        assert_eq!(claim["spec"]["expireAfter"], want);
        assert_eq!(
            claim["spec"]["nodeClassRef"],
            json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "c" })
        );
        assert_eq!(claim["spec"]["resources"], json!({ "requests": { "cpu": 1 } }));
        assert_eq!((claim.get("status"), claim["spec"].get("kubelet")), (None, None));
    }
    assert_eq!(
        warnings(&claim("elsewhere")),
        [
            "NodeClaim/x spec.kubelet: belongs to the class in v1; left out",
            "NodeClaim/x spec.expireAfter: is taken from the pool, which is not among the inputs; v1 fills 720h",
        ]
    );
}
