use super::*;

fn deployment(pod: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{ name: web }}\nspec: {{ replicas: 1, template: {pod} }}\n"
    )
}

/// The pod template that comes out, and what was said with the common part cut off.
fn template(pod: &str) -> (Value, Vec<String>) {
    let outcome = convert_yaml(&deployment(pod));
    let said = findings(&outcome, Severity::Warning)
        .iter()
        .map(|text| text.replace("Deployment/web spec.template.", ""))
        .collect();
    (only(&outcome, "Deployment")["spec"]["template"].clone(), said)
}

/// API-325: selectors, affinities and topology keys.
#[test]
fn keys_are_renamed() {
    let (pod, said) = template(
        "{ spec: { nodeSelector: { karpenter.sh/provisioner-name: p, karpenter.k8s.aws/instance-pods: '10', a: b } } }",
    );
    assert_eq!(pod["spec"]["nodeSelector"], json!({ "karpenter.sh/nodepool": "p", "a": "b" }));
    assert_eq!(
        said,
        [
            "spec.nodeSelector[karpenter.sh/provisioner-name]: is called karpenter.sh/nodepool in v1; renamed",
            "spec.nodeSelector[karpenter.k8s.aws/instance-pods]: has no successor in v1; left out",
        ]
    );
    let (pod, said) = template(
        "{ spec: { affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [
            { matchExpressions: [{ key: karpenter.sh/provisioner-name, operator: In, values: [p] }, { key: karpenter.k8s.aws/instance-pods, operator: Gt, values: ['3'] }] },
            { matchExpressions: [{ key: karpenter.k8s.aws/instance-pods, operator: Exists }] } ] },
          preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, preference: { matchExpressions: [{ key: karpenter.k8s.aws/instance-pods, operator: Exists }] } }] } },
          topologySpreadConstraints: [{ maxSkew: 1, topologyKey: karpenter.sh/provisioner-name }] } }",
    );
    let affinity = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": "karpenter.sh/nodepool", "operator": "In", "values": ["p"] }] } ] } } });
    assert_eq!(pod["spec"]["affinity"], affinity);
    assert_eq!(
        pod["spec"]["topologySpreadConstraints"],
        json!([{ "maxSkew": 1, "topologyKey": "karpenter.sh/nodepool" }])
    );
    assert_eq!(said.len(), 5, "{said:?}");
    let (pod, _) = template(
        "{ spec: { affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [
            { matchExpressions: [{ key: karpenter.k8s.aws/instance-pods, operator: Exists }] } ] } } } } }",
    );
    assert_eq!(
        pod["spec"]["affinity"],
        json!({ "nodeAffinity": {} }),
        "no term left means no requirement, not one that nothing meets"
    );
}

/// API-326: annotations of pods.
#[test]
fn annotations_are_renamed() {
    let (pod, said) = template("{ metadata: { annotations: { karpenter.sh/do-not-evict: 'true', a: b } } }");
    assert_eq!(pod["metadata"]["annotations"], json!({ "karpenter.sh/do-not-disrupt": "true", "a": "b" }));
    assert_eq!(
        said,
        ["metadata.annotations[karpenter.sh/do-not-evict]: is called karpenter.sh/do-not-disrupt in v1; renamed"]
    );
    let (pod, said) = template("{ metadata: { annotations: { karpenter.sh/do-not-evict: 'false' } } }");
    assert_eq!(pod["metadata"]["annotations"], json!({}));
    assert_eq!(
        said,
        ["metadata.annotations[karpenter.sh/do-not-evict]: protects only with the value true, not \"false\"; left out"]
    );
    let node = "apiVersion: v1\nkind: Node\nmetadata: { name: n, annotations: { karpenter.sh/do-not-consolidate: 'true', karpenter.sh/emptiness-timestamp: t } }\n";
    let node = only(&convert_yaml(node), "Node");
    assert_eq!(node["metadata"]["annotations"], json!({ "karpenter.sh/do-not-disrupt": "true" }));
}

/// API-328: tolerations.
#[test]
fn tolerations_follow_the_taint() {
    let (pod, said) = template(
        "{ spec: { tolerations: [{ key: karpenter.sh/disruption, operator: Equal, value: disrupting, effect: NoSchedule }] } }",
    );
    assert_eq!(
        pod["spec"]["tolerations"],
        json!([{ "key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule" }])
    );
    assert_eq!(
        said,
        [
            "spec.tolerations[0]: karpenter.sh/disruption is called karpenter.sh/disrupted in v1 and has no value; renamed"
        ]
    );
    let (pod, said) =
        template("{ spec: { tolerations: [{ key: node.kubernetes.io/unschedulable, operator: Exists }] } }");
    assert_eq!(
        pod["spec"]["tolerations"],
        json!([{ "key": "node.kubernetes.io/unschedulable", "operator": "Exists" }, { "key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoSchedule" }])
    );
    assert_eq!(
        said,
        ["spec.tolerations[0]: nodes being drained carry karpenter.sh/disrupted in v1; a toleration of it was added"]
    );
}

/// API-325: every kind that describes pods, and no others.
#[test]
fn kinds_with_pods() {
    let pod = json!({ "spec": { "nodeSelector": { "karpenter.sh/provisioner-name": "p" } } });
    for (version, kind, path) in [
        ("v1", "Pod", ""),
        ("v1", "PodTemplate", "/template"),
        ("v1", "ReplicationController", "/spec/template"),
        ("apps/v1", "Deployment", "/spec/template"),
        ("apps/v1", "StatefulSet", "/spec/template"),
        ("apps/v1", "DaemonSet", "/spec/template"),
        ("apps/v1", "ReplicaSet", "/spec/template"),
        ("batch/v1", "Job", "/spec/template"),
        ("batch/v1", "CronJob", "/spec/jobTemplate/spec/template"),
    ] {
        let mut object = path
            .split('/')
            .skip(1)
            .collect::<Vec<_>>()
            .iter()
            .rev()
            .fold(pod.clone(), |inner, name| json!({ *name: inner }));
        object["apiVersion"] = json!(version);
        object["kind"] = json!(kind);
        let outcome = convert(&[object], &Options::default());
        let selector = outcome.documents[0].object.pointer(&format!("{path}/spec/nodeSelector")).cloned();
        assert_eq!(selector, Some(json!({ "karpenter.sh/nodepool": "p" })), "{kind}");
    }
    let other = json!({ "apiVersion": "example.com/v1", "kind": "Deployment", "spec": { "template": pod } });
    assert_eq!(convert(std::slice::from_ref(&other), &Options::default()).documents[0].object, other);
}
