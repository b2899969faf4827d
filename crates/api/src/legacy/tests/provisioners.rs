use super::*;

/// A Provisioner `p` with further members of its spec, which must not contain a class of its own.
fn provisioner(spec: &str) -> String {
    format!(
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {{ name: p }}\nspec: {{ providerRef: {{ name: t }}, {spec} }}\n"
    )
}

fn pool(spec: &str) -> Value {
    only(&convert_yaml(&provisioner(spec)), "NodePool")
}

/// API-345, API-315, API-319, API-320: consolidation and emptiness.
#[test]
fn consolidation() {
    for (spec, policy, after) in [
        ("consolidation: { enabled: false }, ttlSecondsAfterEmpty: 30", "WhenEmpty", "30s"),
        ("consolidation: {}, ttlSecondsAfterEmpty: 0", "WhenEmpty", "0s"),
        ("ttlSecondsAfterEmpty: 30", "WhenEmpty", "30s"),
        ("consolidation: { enabled: true }", "WhenEmptyOrUnderutilized", "0s"),
        ("", "WhenEmpty", "Never"),
        ("consolidation: { enabled: false }", "WhenEmpty", "Never"),
    ] {
        let disruption = json!({ "consolidationPolicy": policy, "consolidateAfter": after });
        assert_eq!(pool(spec)["spec"]["disruption"], disruption, "{spec}");
    }
    for ttl in [30, 0] {
        let spec = format!("consolidation: {{ enabled: true }}, ttlSecondsAfterEmpty: {ttl}");
        assert_eq!(
            errors(&provisioner(&spec)),
            ["Provisioner/p spec.ttlSecondsAfterEmpty: cannot be combined with consolidation.enabled"]
        );
        assert_eq!(convert_yaml(&provisioner(&spec)).documents, []);
    }
}

/// API-345, API-319, API-321: expiry is always written out.
#[test]
fn expiry() {
    for (spec, want) in
        [("ttlSecondsUntilExpired: 2592000", "2592000s"), ("", "Never"), ("ttlSecondsUntilExpired: 0", "0s")]
    {
        assert_eq!(pool(spec)["spec"]["template"]["spec"]["expireAfter"], want, "{spec}");
    }
    assert_eq!(NillableDurationText::from("2592000s").parse(), NillableDurationText::from("720h").parse());
    let warnings = warnings(&provisioner("ttlSecondsUntilExpired: 0"));
    assert!(
        warnings.contains(&"Provisioner/p spec.ttlSecondsUntilExpired: 0 lets every node expire at once".to_owned())
    );
}

/// API-322: semantics that changed are said.
#[test]
fn changed_semantics_are_warnings() {
    let budget = "Provisioner/p spec: v1 disrupts at most 10% of the nodes of a pool at once unless spec.disruption.budgets says more";
    let expiry =
        "Provisioner/p spec.ttlSecondsUntilExpired: expiry is forceful in v1: no replacement first, no budgets";
    let empty = "Provisioner/p spec.ttlSecondsAfterEmpty: v1 counts from the last pod that came or went, not from when the node was seen empty";
    assert_eq!(warnings(&provisioner("")), [budget]);
    assert_eq!(warnings(&provisioner("ttlSecondsUntilExpired: 60, ttlSecondsAfterEmpty: 60")), [empty, expiry, budget]);
}

/// API-314, API-345, API-317, API-316, API-331: what was invalid before stays so.
#[test]
fn legacy_validation() {
    let plain = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: { name: p }\nspec: ";
    for (yaml, want) in [
        (provisioner("ttlSecondsUntilExpired: -1"), "spec.ttlSecondsUntilExpired: must not be negative"),
        (provisioner("ttlSecondsAfterEmpty: -1"), "spec.ttlSecondsAfterEmpty: must not be negative"),
        (
            provisioner("provider: { subnetSelector: { a: b }, securityGroupSelector: { a: b } }"),
            "spec.provider: cannot be combined with providerRef",
        ),
        (format!("{plain}{{}}"), "spec.providerRef: is required when there is no provider"),
        (
            format!("{plain}{{ providerRef: {{ kind: Other, name: t }} }}"),
            "spec.providerRef.kind: \"Other\" cannot be converted, only AWSNodeTemplate",
        ),
        (format!("{plain}{{ providerRef: {{}} }}"), "spec.providerRef.name: is missing"),
        (
            provisioner("ttlSecondsUntilExpired: 9223372036854775807"),
            "spec.ttlSecondsUntilExpired: duration \"9223372036854775807s\" is longer than about 292 years",
        ),
        (
            provisioner("labels: { foo.karpenter.sh: x }"),
            "spec.labels[foo.karpenter.sh]: label domain \"karpenter.sh\" is restricted in v1",
        ),
        (
            provisioner("requirements: [{ key: foo.karpenter.sh, operator: Exists }]"),
            "spec.requirements[0].key: label domain \"karpenter.sh\" is restricted in v1",
        ),
        (provisioner("taints: [{ key: a, effect: '' }]"), "spec.taints[0].effect: is missing"),
        (
            provisioner("kubeletConfiguration: { evictionHard: { memory.available: 1.234% } }"),
            "spec.kubeletConfiguration.evictionHard[memory.available]: \"1.234%\" is neither a percentage from 0% to 100% nor a quantity",
        ),
        (provisioner("weight: 101"), "spec.weight: must be between 1 and 100"),
        (
            provisioner("limits: { resources: { cpu: many } }"),
            "spec.limits.resources[cpu]: \"many\" is not a quantity: expected a number with an optional suffix such as m, k, M, G, Ki, Mi, Gi or e3",
        ),
        (
            provisioner("taints: [{ key: a, effect: NoSchedule }], startupTaints: [{ key: a, effect: NoSchedule }]"),
            "spec.startupTaints[0]: taint a:NoSchedule is given twice among taints and startupTaints",
        ),
        (
            provisioner("labels: { kubernetes.io/hostname: x }"),
            "spec.labels[kubernetes.io/hostname]: label \"kubernetes.io/hostname\" is restricted",
        ),
        (
            provisioner("labels: { example.kubernetes.io/x: v }"),
            "spec.labels[example.kubernetes.io/x]: label domain \"kubernetes.io\" is restricted",
        ),
        (provisioner("labels: { x.k8s.io/x: v }"), "spec.labels[x.k8s.io/x]: label domain \"k8s.io\" is restricted"),
        (
            provisioner("labels: { a: 'b c' }"),
            "spec.labels[a]: value \"b c\" must consist of letters, digits, '-', '_' and '.', beginning and ending with a letter or digit",
        ),
        (
            provisioner("requirements: [{ key: a, operator: Near }]"),
            "spec.requirements[0].operator: operator \"Near\" is not supported; use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte",
        ),
        (
            provisioner("kubeletConfiguration: { systemReserved: { gpu: 1 } }"),
            "spec.kubeletConfiguration.systemReserved[gpu]: is not one of cpu, memory, ephemeral-storage, pid",
        ),
        (
            provisioner("kubeletConfiguration: { kubeReserved: { cpu: -1 } }"),
            "spec.kubeletConfiguration.kubeReserved[cpu]: must not be negative",
        ),
        (
            provisioner("kubeletConfiguration: { evictionHard: { memory.free: 5% } }"),
            "spec.kubeletConfiguration.evictionHard[memory.free]: is not one of memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available",
        ),
        (
            provisioner("kubeletConfiguration: { evictionHard: { memory.available: 101% } }"),
            "spec.kubeletConfiguration.evictionHard[memory.available]: \"101%\" is neither a percentage from 0% to 100% nor a quantity",
        ),
        (
            provisioner("kubeletConfiguration: { evictionSoft: { memory.available: 5% } }"),
            "spec.kubeletConfiguration.evictionSoft[memory.available]: needs an evictionSoftGracePeriod",
        ),
        (
            provisioner("kubeletConfiguration: { evictionSoftGracePeriod: { memory.available: 1m } }"),
            "spec.kubeletConfiguration.evictionSoftGracePeriod[memory.available]: needs an evictionSoft threshold",
        ),
        (
            provisioner("kubeletConfiguration: { imageGCHighThresholdPercent: 50, imageGCLowThresholdPercent: 60 }"),
            "spec.kubeletConfiguration.imageGCLowThresholdPercent: must be below imageGCHighThresholdPercent in v1",
        ),
        (
            provisioner("kubeletConfiguration: { maxPods: -1 }"),
            "spec.kubeletConfiguration.maxPods: must not be negative",
        ),
    ] {
        assert_eq!(errors(&yaml), [format!("Provisioner/p {want}")], "{yaml}");
        assert_eq!(convert_yaml(&yaml).documents, [], "no output: {yaml}");
    }
    for label in [
        "node.kubernetes.io/x",
        "node-restriction.kubernetes.io/x",
        "kops.k8s.io/x",
        "topology.kubernetes.io/zone",
        "beta.kubernetes.io/arch",
        "team",
    ] {
        assert_eq!(errors(&provisioner(&format!("labels: {{ {label}: v }}"))), [""; 0], "{label}");
    }
}

fn requirements(pool: &Value) -> Vec<String> {
    let all = pool["spec"]["template"]["spec"]["requirements"].as_array().unwrap().iter();
    all.map(|one| format!("{} {} {}", one["key"].as_str().unwrap(), one["operator"].as_str().unwrap(), one["values"]))
        .collect()
}

/// API-345, API-323, API-324, API-347: requirements that the webhook added are written out.
#[test]
fn requirement_defaults() {
    let (os, arch, capacity) = (
        "kubernetes.io/os In [\"linux\"]",
        "kubernetes.io/arch In [\"amd64\"]",
        "karpenter.sh/capacity-type In [\"on-demand\"]",
    );
    let (category, generation) = (
        "karpenter.k8s.aws/instance-category In [\"c\",\"m\",\"r\"]",
        "karpenter.k8s.aws/instance-generation Gt [\"2\"]",
    );
    for (spec, want) in [
        ("", vec![os, arch, capacity, category, generation]),
        (
            "requirements: [{ key: karpenter.k8s.aws/instance-family, operator: In, values: [m5] }]",
            vec!["karpenter.k8s.aws/instance-family In [\"m5\"]", os, arch, capacity],
        ),
        (
            "requirements: [{ key: node.kubernetes.io/instance-type, operator: Exists }]",
            vec!["node.kubernetes.io/instance-type Exists null", os, arch, capacity],
        ),
        ("labels: { kubernetes.io/arch: arm64, karpenter.sh/capacity-type: spot }", vec![os, category, generation]),
        (
            "requirements: [{ key: beta.kubernetes.io/arch, operator: In, values: [arm64] }]",
            vec!["beta.kubernetes.io/arch In [\"arm64\"]", os, capacity, category, generation],
        ),
    ] {
        assert_eq!(requirements(&pool(spec)), want, "{spec}");
    }
    let off = Options { requirement_defaults: false, ..Options::default() };
    let outcome = convert(&documents(&provisioner("")), &off);
    assert_eq!(only(&outcome, "NodePool")["spec"]["template"]["spec"]["requirements"], json!([]));
}

/// API-325: keys that are gone.
#[test]
fn removed_keys_are_left_out() {
    let spec = "labels: { karpenter.sh/provisioner-name: x }, requirements: [{ key: karpenter.sh/provisioner-name, operator: Exists },
        { key: karpenter.k8s.aws/instance-pods, operator: Gt, values: ['3'] }, { key: node.kubernetes.io/instance-type, operator: Exists }]";
    let pool = pool(spec);
    assert_eq!(requirements(&pool)[0], "node.kubernetes.io/instance-type Exists null");
    assert_eq!(pool["spec"]["template"]["metadata"]["labels"], json!({}));
    let warnings = warnings(&provisioner(spec));
    for want in [
        "Provisioner/p spec.requirements[0].key: karpenter.sh/provisioner-name became karpenter.sh/nodepool, which a NodePool gives by itself; left out",
        "Provisioner/p spec.requirements[1].key: karpenter.k8s.aws/instance-pods has no successor in v1; left out",
        "Provisioner/p spec.labels[karpenter.sh/provisioner-name]: karpenter.sh/provisioner-name became karpenter.sh/nodepool, which a NodePool gives by itself; left out",
    ] {
        assert!(warnings.contains(&want.to_owned()), "{warnings:?}");
    }
}

/// API-313, API-318, API-319, API-326: the whole mapping on one object.
#[test]
fn whole_mapping() {
    let yaml = "
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: p
  uid: abc
  resourceVersion: '5'
  labels: { team: web }
  annotations: { owner: x, karpenter.sh/provisioner-hash: '1', karpenter.sh/do-not-consolidate: 'true' }
  finalizers: [example.com/keep]
spec:
  labels: { tier: web }
  annotations: { karpenter.sh/do-not-evict: 'true', note: n1, karpenter.sh/linked: z }
  taints: [{ key: example.com/special, value: 'true', effect: NoSchedule }]
  startupTaints: [{ key: example.com/boot, effect: NoExecute }]
  requirements: [{ key: karpenter.sh/capacity-type, operator: In, values: [spot] }]
  providerRef: { apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, name: t }
  limits: { resources: { cpu: 1000, memory: 1000Gi } }
  weight: 7
  ttlSecondsUntilExpired: 3600
  consolidation: { enabled: true }
  surprise: 1
status: { resources: { cpu: 1 } }
";
    let outcome = convert_yaml(yaml);
    insta::assert_snapshot!(serde_saphyr::to_string(&only(&outcome, "NodePool")).unwrap());
    insta::assert_snapshot!(outcome.findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
}

/// API-345: limits keep their form.
#[test]
fn limits_keep_their_form() {
    assert_eq!(pool("limits: { resources: { cpu: 1000 } }")["spec"]["limits"], json!({ "cpu": 1000 }));
    assert_eq!(pool("limits: {}")["spec"].get("limits"), None);
}

/// API-335, API-345, API-319: an inline provider becomes a class of the pool's name, with its kubelet settings.
#[test]
fn inline_provider() {
    let yaml = "
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: { name: p }
spec:
  kubeletConfiguration: { maxPods: 20 }
  provider:
    apiVersion: extensions.karpenter.sh/v1alpha1
    kind: AWS
    subnetSelector: { 'aws::ids': 'subnet-1, subnet-2' }
    securityGroupSelector: { karpenter.sh/discovery: c }
    instanceProfile: profile
    future: 1
";
    let outcome = convert_yaml(yaml);
    let class = only(&outcome, "EC2NodeClass");
    assert_eq!(class["metadata"], json!({ "name": "p" }));
    assert_eq!(class["spec"]["kubelet"], json!({ "maxPods": 20 }));
    assert_eq!(class["spec"]["subnetSelectorTerms"], json!([{ "id": "subnet-1" }, { "id": "subnet-2" }]));
    assert_eq!(class["spec"]["instanceProfile"], "profile");
    let reference = json!({ "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "p" });
    assert_eq!(only(&outcome, "NodePool")["spec"]["template"]["spec"]["nodeClassRef"], reference);
    assert!(warnings(yaml).contains(&"Provisioner/p spec.provider.future: unknown field, left out".to_owned()));

    let user_data = yaml.replace("future: 1", "userData: x");
    assert_eq!(errors(&user_data), ["Provisioner/p spec.provider.userData: is known to AWSNodeTemplate only"]);
}
