use serde_json::{Value, json};

use crate::{POOL, folder, karpenter};

const PROVISIONER: &str = "\
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: default
spec:
  requirements:
  - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
  kubeletConfiguration: {maxPods: 20, systemReserved: {cpu: 1}}
  limits: {resources: {cpu: 1000}}
  providerRef: {name: default}
  ttlSecondsAfterEmpty: 30
  ttlSecondsUntilExpired: 2592000
";

const TEMPLATE: &str = "\
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata:
  name: default
spec:
  subnetSelector: {karpenter.sh/discovery: my-cluster}
  securityGroupSelector: {aws-ids: 'sg-1, sg-2'}
  blockDeviceMappings:
  - deviceName: /dev/xvda
    ebs: {volumeSize: 102400Mi, volumeType: gp3, encrypted: true}
";

const BETA: &str = "\
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: beta}
spec:
  template:
    spec:
      nodeClassRef: {name: beta}
      requirements: []
      kubelet: {maxPods: 30}
  disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: Never}
---
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: beta}
spec:
  amiFamily: Bottlerocket
  role: role
  subnetSelectorTerms: [{id: subnet-1}]
  securityGroupSelectorTerms: [{id: sg-1}]
";

fn objects(yaml: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(yaml).unwrap()
}

/// Kind and name of each object.
fn names(yaml: &str) -> Vec<String> {
    let name = |object: &Value| {
        format!("{}/{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap())
    };
    objects(yaml).iter().map(name).collect()
}

/// API-309, API-318, API-345: two files, one output, and what a reader must know.
#[test]
fn files_are_converted_together() {
    let here = folder(&[("a.yaml", PROVISIONER), ("b.yaml", TEMPLATE)]);
    let run = karpenter(here.path(), &["convert", "-f", "a.yaml", "-f", "b.yaml"], b"");
    assert_eq!(run.code, 0, "{run:?}");
    insta::assert_snapshot!(run.out);
    insta::assert_snapshot!(run.err);
}

/// API-309: what comes out is what the API server takes, whatever the old kind.
#[test]
fn output_is_valid() {
    let all = [PROVISIONER, TEMPLATE, BETA].join("---\n");
    let inline = PROVISIONER.replace("name: default\nspec", "name: inline\nspec").replace(
        "providerRef: {name: default}",
        "provider: {subnetSelector: {a: '*'}, securityGroupSelector: {a: b}, amiFamily: Bottlerocket, instanceProfile: p}",
    );
    let input = format!("{all}---\n{inline}");
    let here = folder(&[]);
    let run = karpenter(here.path(), &["convert", "-f", "-", "--role", "KarpenterNodeRole"], input.as_bytes());
    assert_eq!(run.code, 0, "{}", run.err);
    assert_eq!(
        names(&run.out),
        [
            "NodePool/default",
            "EC2NodeClass/default",
            "NodePool/beta",
            "EC2NodeClass/beta",
            "EC2NodeClass/inline",
            "NodePool/inline"
        ]
    );
    let checked = karpenter(here.path(), &["validate", "-f", "-", "--strict"], run.out.as_bytes());
    assert_eq!((checked.code, checked.out.as_str()), (0, ""), "{}", checked.err);
    let again = karpenter(here.path(), &["convert", "-f", "-"], run.out.as_bytes());
    assert_eq!((again.code, again.out, again.err.as_str()), (0, run.out, ""), "converting twice changes nothing");
}

/// API-309: other kinds and v1 objects stay as they are.
#[test]
fn other_objects_pass_through() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: 'yes', b: \"x\\ny\"}\n";
    let input = format!("{POOL}---\n{secret}");
    let run = karpenter(folder(&[]).path(), &["convert", "-f", "-"], input.as_bytes());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(objects(&run.out), objects(&input));
}

/// API-325, API-326: workloads are brought along.
#[test]
fn workloads_are_renamed() {
    let input = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {annotations: {karpenter.sh/do-not-evict: 'true'}}
    spec: {nodeSelector: {karpenter.sh/provisioner-name: default}}
";
    let run = karpenter(folder(&[]).path(), &["convert", "-f", "-"], input.as_bytes());
    assert_eq!(run.code, 0);
    assert_eq!(
        run.err,
        "warning: (stdin):6 Deployment/web spec.template.metadata.annotations[karpenter.sh/do-not-evict]: is called karpenter.sh/do-not-disrupt in v1; renamed\n\
         warning: (stdin):7 Deployment/web spec.template.spec.nodeSelector[karpenter.sh/provisioner-name]: is called karpenter.sh/nodepool in v1; renamed\n"
    );
    let template = &objects(&run.out)[0]["spec"]["template"];
    assert_eq!(template["spec"]["nodeSelector"], json!({ "karpenter.sh/nodepool": "default" }));
}

/// API-314: an object that cannot be converted is named; the others are converted.
#[test]
fn one_bad_object_is_left_out() {
    let bad = PROVISIONER.replace("  name: default\nspec", "  name: bad\nspec").replace("30", "-30");
    let here = folder(&[("all.yaml", &format!("{bad}---\n{PROVISIONER}---\n{TEMPLATE}"))]);
    let run = karpenter(here.path(), &["convert", "-f", "."], b"");
    assert_eq!(run.code, 1);
    assert_eq!(names(&run.out), ["NodePool/default", "EC2NodeClass/default"]);
    let want = "./all.yaml:11 Provisioner/bad spec.ttlSecondsAfterEmpty: must not be negative\n";
    assert!(run.err.starts_with(want), "{}", run.err);
}

/// API-314: whatever is wrong is named at once, with its file, its line and its field, and nothing else is said about it.
#[test]
fn all_problems_are_named_with_their_lines() {
    let bad = PROVISIONER
        .replace("cpu: 1}", "cpu: [1]}")
        .replace("ttlSecondsAfterEmpty: 30", "ttlSecondsAfterEmpty: 30s")
        .replace("UntilExpired: 2592000", "UntilExpired: -1\n  weight: 101\n  labels: {example.com/a.b: 1}");
    let here = folder(&[("all.yaml", &format!("# A pool.\n{bad}---\n{TEMPLATE}"))]);
    let run = karpenter(here.path(), &["convert", "-f", "all.yaml"], b"");
    assert_eq!((run.code, names(&run.out)), (1, vec!["EC2NodeClass/default".to_owned()]));
    let said: Vec<&str> = run.err.lines().filter(|line| !line.starts_with("warning: ")).collect();
    for start in [
        "all.yaml:9 Provisioner/default spec.kubeletConfiguration.systemReserved.cpu: invalid type: list, expected ",
        "all.yaml:12 Provisioner/default spec.ttlSecondsAfterEmpty: invalid type: string \"30s\"",
        "all.yaml:13 Provisioner/default spec.ttlSecondsUntilExpired: must not be negative",
        "all.yaml:14 Provisioner/default spec.weight: must be between 1 and 100",
        "all.yaml:15 Provisioner/default spec.labels.example.com/a.b: invalid type: integer `1`",
    ] {
        assert_eq!(said.iter().filter(|line| line.starts_with(start)).count(), 1, "{start}\n{}", run.err);
    }
    assert_eq!(said.len(), 5, "{}", run.err);
}

/// Bad input of each sort: a clear message, code 2, and the rest is still converted.
#[test]
fn unreadable_input_is_named() {
    let broken = format!("{TEMPLATE}---\nspec: [1, 2\n");
    let here = folder(&[("good.yaml", POOL), ("empty.yaml", ""), ("broken.yaml", &broken), ("text.yaml", "hello\n")]);
    std::fs::write(here.path().join("binary.yaml"), b"\x7fELF\x00\x01").unwrap();
    for (file, objects, code, message) in [
        ("missing.yaml", 1, 2, "error: missing.yaml: cannot open: "),
        ("empty.yaml", 1, 2, "error: empty.yaml: no objects: the input is empty\n"),
        ("binary.yaml", 1, 2, "error: binary.yaml: not a text file\n"),
        ("broken.yaml", 2, 2, "error: broken.yaml:12: not valid YAML: "),
        ("text.yaml", 1, 1, "text.yaml:1 not a Kubernetes object\n"),
    ] {
        let run = karpenter(here.path(), &["convert", "-f", file, "-f", "good.yaml"], b"");
        assert_eq!((run.code, names(&run.out).len()), (code, objects), "{file}: {run:?}");
        assert!(run.err.starts_with(message), "{file}: {}", run.err);
    }
    let usage = karpenter(here.path(), &["convert"], b"");
    assert_eq!((usage.code, usage.out.as_str()), (2, ""));
    assert!(usage.err.contains("--filename"), "{}", usage.err);
}

/// API-323, API-335: the two switches, and JSON.
#[test]
fn options() {
    let here = folder(&[("p.yaml", PROVISIONER), ("t.yaml", TEMPLATE)]);
    let args =
        ["convert", "-f", "p.yaml", "-f", "t.yaml", "-o", "json", "--role", "Nodes", "--no-requirement-defaults"];
    let run = karpenter(here.path(), &args, b"");
    assert_eq!(run.code, 0);
    let list: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("v1"), &json!("List")));
    assert_eq!(list["items"][0]["spec"]["template"]["spec"]["requirements"].as_array().unwrap().len(), 1);
    assert_eq!(list["items"][1]["spec"]["role"], "Nodes");
    assert!(!run.err.contains("REPLACE-WITH-NODE-ROLE"), "{}", run.err);
    let again = karpenter(here.path(), &["convert", "-f", "-", "-o", "json"], run.out.as_bytes());
    assert_eq!(again.out, run.out, "lists are read too");
}

#[test]
fn help_has_examples() {
    let run = karpenter(folder(&[]).path(), &["convert", "--help"], b"");
    assert_eq!(run.code, 0);
    assert!(run.out.contains("karpenter convert -f old/ | karpenter validate -f -"), "{}", run.out);
}
