use serde_json::{Value, json};

use crate::{BAD_CLASS, POOL, folder, karpenter};

#[test]
fn a_valid_manifest_prints_nothing_and_succeeds() {
    let here = folder(&[("pool.yaml", POOL)]);
    let run = karpenter(here.path(), &["validate", "-f", "pool.yaml"], b"");
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", "checked 1 object: 0 errors\n"));
}

#[test]
fn lines_point_at_the_field_or_its_nearest_parent() {
    let text = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: Default_Pool
  labels:
    a b: c
  colour: red
spec:
  weight: 101
  typo: 1
  template:
    spec:
      nodeClassRef:
        group: karpenter.kwok.sh
        name: default
      requirements:
      - key: kubernetes.io/hostname
        operator: Is
";
    let here = folder(&[("pool.yaml", text)]);
    let run = karpenter(here.path(), &["validate", "-f", "pool.yaml"], b"");
    assert_eq!(run.code, 1);
    insta::assert_snapshot!(run.out, @r#"
    pool.yaml:4 NodePool/Default_Pool metadata.name: Invalid value: "Default_Pool": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character
    pool.yaml:6 NodePool/Default_Pool metadata.labels.a b: key must have a name of letters, digits, '-', '_' and '.' that begins and ends with a letter or digit
    pool.yaml:7 NodePool/Default_Pool metadata.colour: unknown field
    pool.yaml:9 NodePool/Default_Pool spec.weight: Invalid value: 101: spec.weight in body should be less than or equal to 100
    pool.yaml:10 NodePool/Default_Pool spec.typo: unknown field
    pool.yaml:13 NodePool/Default_Pool spec.template.spec.nodeClassRef.kind: Required value
    pool.yaml:18 NodePool/Default_Pool spec.template.spec.requirements[0].operator: Unsupported value: "Is": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"
    pool.yaml:1 NodePool/Default_Pool some validation rules were not checked because the object was invalid; correct the existing errors to complete validation
    "#);
}

/// API-36, API-42, API-70, API-10: rules that compare with the stored object apply only when it is given.
#[test]
fn previous_objects_bring_update_rules_into_play() {
    let changed = POOL
        .replace("kind: KWOKNodeClass", "kind: Other")
        .replace("spec:\n  template", "spec:\n  replicas: 2\n  template");
    let claim = "\
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: c}
spec:
  nodeClassRef: {group: g, kind: K, name: n}
  requirements: []
";
    let here = folder(&[
        ("old/a.yaml", POOL),
        ("old/b.yaml", claim),
        ("new/a.yaml", &changed),
        ("new/b.yaml", &claim.replace("name: n", "name: m")),
    ]);
    let run = karpenter(here.path(), &["validate", "-f", "new"], b"");
    assert_eq!((run.code, run.out.as_str()), (0, ""));
    let run = karpenter(here.path(), &["validate", "-f", "new", "--previous", "old"], b"");
    assert_eq!(run.code, 1);
    assert_eq!(
        run.out,
        "new/a.yaml:5 NodePool/default spec: Invalid value: Cannot transition NodePool between static (replicas set) and dynamic (replicas unset) provisioning modes
new/a.yaml:9 NodePool/default spec.template.spec.nodeClassRef: Invalid value: nodeClassRef.kind is immutable
new/b.yaml:4 NodeClaim/c spec: Invalid value: spec is immutable
"
    );
    let run = karpenter(here.path(), &["validate", "-f", "new", "--previous", "nowhere"], b"");
    assert_eq!(run.code, 2, "{run:?}");
}

#[test]
fn unchanged_invalid_values_are_tolerated_on_update() {
    let here = folder(&[
        ("old.yaml", BAD_CLASS),
        ("new.yaml", &BAD_CLASS.replace("  name: broken", "  name: broken\n  labels: {a: b}")),
    ]);
    let run = karpenter(here.path(), &["validate", "-f", "new.yaml", "--previous", "old.yaml"], b"");
    assert_eq!((run.code, run.out.as_str()), (0, ""));
}

#[test]
fn json_output_has_the_same_findings() {
    let here = folder(&[("a.yaml", BAD_CLASS), ("b.yaml", "a: [")]);
    let run = karpenter(here.path(), &["validate", "-f", "a.yaml", "-f", "b.yaml", "-o", "json"], b"");
    assert_eq!((run.code, run.err.as_str()), (2, ""));
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["checked"], 1);
    assert_eq!(report["skipped"], 0);
    assert_eq!(
        report["findings"],
        json!([{
            "severity": "error", "file": "a.yaml", "line": 6, "kind": "KWOKNodeClass", "name": "broken",
            "field": "spec.nodeRegistrationDelay",
            "message": "Invalid value: \"soon\": spec.nodeRegistrationDelay in body should match '^([0-9]+(s|m|h))+$'",
        }])
    );
    assert_eq!(report["errors"][0]["file"], "b.yaml");
}

/// API-22 (quirk), API-32, API-47, API-65, API-309: what the API server accepts and the controller questions is a warning.
#[test]
fn warnings_do_not_change_the_exit_code_unless_strict() {
    let pool = POOL
        .replace("      requirements:\n", "      taints:\n      - {key: a, effect: NoSchedule}\n      - {key: a, effect: NoSchedule}\n      requirements:\n")
        .replace("name: default\nspec:", "name: default\n  namespace: here\nspec:\n  disruption:\n    budgets:\n    - {nodes: \"1\", reasons: []}");
    let legacy = "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: p}\nspec: {}\n";
    let here = folder(&[("a.yaml", &pool), ("b.yaml", legacy)]);
    let run = karpenter(here.path(), &["validate", "-f", "a.yaml", "-f", "b.yaml"], b"");
    assert_eq!((run.code, run.err.as_str()), (0, "checked 2 objects: 0 errors, 4 warnings\n"));
    insta::assert_snapshot!(run.out, @r#"
    warning: a.yaml:5 NodePool/default metadata.namespace: NodePool objects have no namespace; this one is ignored
    warning: a.yaml:9 NodePool/default spec.disruption.budgets[0].reasons: an empty list of reasons is read as all of them, other readers may take it for none; leave it out to mean all
    warning: a.yaml:15 NodePool/default spec.template.spec.taints[1]: taint a:NoSchedule is given twice among taints and startupTaints
    warning: b.yaml:2 Provisioner/p kind: this kind is legacy and served on AWS only; `karpenter convert` turns it into current kinds
    "#);
    let run = karpenter(here.path(), &["validate", "--strict", "-f", "a.yaml", "-f", "b.yaml"], b"");
    assert_eq!((run.code, run.err.as_str()), (1, "checked 2 objects: 4 errors\n"));
}

#[test]
fn names_cannot_forge_lines_of_output() {
    let here = folder(&[(
        "a.yaml",
        "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: \"x\\nfake.yaml:1 \\e[31m\"}\n",
    )]);
    let run = karpenter(here.path(), &["validate", "-f", "a.yaml"], b"");
    assert!(run.out.lines().all(|line| line.starts_with("a.yaml:")), "{}", run.out);
    assert!(!run.out.contains('\u{1b}'));
}
