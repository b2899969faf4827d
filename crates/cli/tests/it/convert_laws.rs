//! Whatever is converted without an error is valid in v1.

use clap::Parser;
use karpenter_cli::Cli;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

fn run(args: &[&str], input: &str) -> (u8, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let cli = Cli::parse_from(std::iter::once("karpenter").chain(args.iter().copied()));
    let code = cli.run(&mut input.as_bytes(), &mut out, &mut err).unwrap();
    (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

/// An object with some of the members; each member has a few typical and a few odd values.
fn some_of(members: &[(&str, Vec<Value>)]) -> impl Strategy<Value = Value> + use<> {
    let members: Vec<_> = members
        .iter()
        .map(|(name, values)| {
            let name = (*name).to_owned();
            prop::option::of(select(values.clone())).prop_map(move |value| value.map(|value| (name.clone(), value)))
        })
        .collect();
    members.prop_map(|members| Value::Object(members.into_iter().flatten().collect::<Map<_, _>>()))
}

fn provisioner() -> impl Strategy<Value = Value> {
    let kubelet = vec![
        json!({ "maxPods": 20 }),
        json!({ "maxPods": 30, "kubeReserved": { "cpu": "100m", "memory": 1024 } }),
        json!({ "evictionHard": { "memory.available": "5%" }, "evictionSoft": { "memory.available": "10%" }, "evictionSoftGracePeriod": { "memory.available": "1m30s" } }),
        json!({ "evictionHard": { "memory.available": "12.345%" } }),
        json!({ "systemReserved": { "cpu": "1e2" } }),
        json!({ "evictionSoft": { "memory.available": "1Gi" }, "evictionSoftGracePeriod": { "memory.available": "1.5h" } }),
        json!({ "imageGCHighThresholdPercent": 70, "imageGCLowThresholdPercent": 70 }),
    ];
    some_of(&[
        (
            "labels",
            vec![
                json!({ "team": "web" }),
                json!({ "kubernetes.io/arch": "arm64" }),
                json!({ "node.kubernetes.io/x": "" }),
                json!({ "karpenter.k8s.aws/instance-family": "m5" }),
                json!({ "karpenter.k8s.aws/other": "x" }),
                json!({ "foo.karpenter.sh": "x" }),
                json!({ "notkarpenter.sh/x": "y" }),
            ],
        ),
        ("annotations", vec![json!({ "a": "b" }), json!({ "karpenter.sh/do-not-evict": "true" })]),
        (
            "taints",
            vec![
                json!([{ "key": "a", "effect": "NoSchedule" }]),
                json!([{ "key": "a", "value": "", "effect": "NoSchedule" }]),
                json!([{ "key": "a", "effect": "" }]),
                json!([]),
            ],
        ),
        (
            "startupTaints",
            vec![
                json!([{ "key": "b", "value": "c", "effect": "NoExecute" }]),
                json!([{ "key": "a", "effect": "NoSchedule" }]),
            ],
        ),
        (
            "requirements",
            vec![
                json!([]),
                json!([{ "key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "on-demand"] }]),
                json!([{ "key": "karpenter.k8s.aws/instance-cpu", "operator": "Gt", "values": ["0"] }]),
                json!([{ "key": "team", "operator": "DoesNotExist" }]),
                json!([{ "key": "team", "operator": "NotIn" }]),
                json!([{ "key": "foo.karpenter.sh", "operator": "Exists" }]),
                json!([{ "key": "xkarpenter.k8s.aws/y", "operator": "Exists" }]),
                json!([{ "key": "karpenter.k8s.aws/instance-pods", "operator": "Gt", "values": ["1"] }]),
                json!([{ "key": "team", "operator": "In", "values": [] }]),
                json!([{ "key": "team", "operator": "Gt", "values": ["+3"] }]),
            ],
        ),
        ("kubeletConfiguration", kubelet),
        (
            "limits",
            vec![
                json!({}),
                json!({ "resources": { "cpu": 1000, "memory": "1Ti" } }),
                json!({ "resources": { "cpu": 1.5 } }),
            ],
        ),
        ("weight", vec![json!(1), json!(100), json!(0), json!(101)]),
        ("ttlSecondsAfterEmpty", vec![json!(0), json!(30)]),
        ("ttlSecondsUntilExpired", vec![json!(0), json!(2_592_000), json!(i64::MAX)]),
        ("consolidation", vec![json!({}), json!({ "enabled": true })]),
    ])
}

fn template() -> impl Strategy<Value = Value> {
    let device = |ebs: Value| json!([{ "deviceName": "/dev/xvda", "ebs": ebs }]);
    some_of(&[
        (
            "amiFamily",
            ["AL2", "AL2023", "Bottlerocket", "Windows2022", "Ubuntu", "Custom"].into_iter().map(Value::from).collect(),
        ),
        (
            "amiSelector",
            vec![
                json!({ "aws::ids": "ami-1,ami-2" }),
                json!({ "aws::name": "a,b", "aws::owners": "self" }),
                json!({ "aws::owners": "self" }),
                json!({ "team": "web" }),
                json!({ "a": "1,2,3", "b": "1,2,3", "c": "1,2,3,4" }),
            ],
        ),
        ("userData", vec![json!(""), json!("#!/bin/sh\nexit 0\n")]),
        ("detailedMonitoring", vec![json!(true)]),
        ("context", vec![json!("ctx")]),
        ("instanceProfile", vec![json!("profile"), json!("")]),
        (
            "subnetSelector",
            vec![json!({ "a": "*" }), json!({ "aws-ids": "subnet-1, subnet-2" }), json!({ "a": "b", "c": "d,e" })],
        ),
        ("securityGroupSelector", vec![json!({ "a": "b" }), json!({ "aws::ids": "sg-1" })]),
        (
            "tags",
            vec![
                json!({ "team": "web" }),
                json!({ "Name": "x" }),
                json!({ "karpenter.sh/nodepool": "x" }),
                json!({ "eks:eks-cluster-name": "x" }),
                json!({}),
            ],
        ),
        (
            "metadataOptions",
            vec![
                json!({}),
                json!({ "httpTokens": "optional" }),
                json!({ "httpEndpoint": "enabled", "httpPutResponseHopLimit": 64 }),
            ],
        ),
        (
            "blockDeviceMappings",
            vec![
                json!([]),
                device(json!({ "volumeSize": "20Gi", "volumeType": "gp3" })),
                device(json!({ "volumeSize": 107_374_182_400_i64 })),
                device(json!({ "volumeSize": "58Ti" })),
                device(json!({ "volumeSize": "18Ti" })),
                device(json!({ "volumeSize": "64T" })),
                device(json!({ "volumeSize": "0020Gi" })),
                device(json!({ "snapshotID": "snap-1" })),
                device(json!({ "volumeSize": "20Gi", "volumeType": "gp9" })),
            ],
        ),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// API-309, API-319, API-335: an object that comes out without an error passes the API server's checks.
    #[test]
    fn what_is_converted_is_valid(pool in provisioner(), spec in template(), inline in any::<bool>()) {
        let object = |version: &str, kind: &str, spec: Value| json!({ "apiVersion": version, "kind": kind, "metadata": { "name": "x" }, "spec": spec });
        let mut pool = pool;
        let mut objects = Vec::new();
        if inline {
            pool["provider"] = spec;
        } else {
            pool["providerRef"] = json!({ "name": "x" });
            objects.push(object("karpenter.k8s.aws/v1alpha1", "AWSNodeTemplate", spec));
        }
        objects.push(object("karpenter.sh/v1alpha5", "Provisioner", pool));
        let input = json!({ "apiVersion": "v1", "kind": "List", "items": objects }).to_string();
        let (code, out, err) = run(&["convert", "-f", "-", "--role", "r"], &input);
        prop_assert!(code <= 1, "{}", err);
        if !out.is_empty() {
            let (code, findings, _) = run(&["validate", "-f", "-", "--strict"], &out);
            prop_assert_eq!(code, 0, "{}\n{}\n{}", findings, out, err);
        }
    }
}
