//! Bad input of each sort: a clear message, a code that is not 0, and everything else is still checked.

use crate::{BAD_CLASS, POOL, folder, karpenter};

/// The one line that says what is wrong with the only object that can be read.
const FOUND: &str = "KWOKNodeClass/broken spec.nodeRegistrationDelay: Invalid value: \"soon\": spec.nodeRegistrationDelay in body should match '^([0-9]+(s|m|h))+$'\n";

#[test]
fn unreadable_input_is_named_and_the_rest_is_checked() {
    let broken = format!("{POOL}---\nspec: [1, 2\n---\n{BAD_CLASS}");
    let here = folder(&[
        ("bad.yaml", BAD_CLASS),
        ("empty.yaml", ""),
        ("comment.yaml", "# nothing\n---\n"),
        ("broken.yaml", &broken),
        ("text.txt", "just: [words"),
        ("folder/readme.md", "hi"),
    ]);
    std::fs::write(here.path().join("binary.yaml"), b"\x7fELF\x00\x01").unwrap();
    std::fs::write(here.path().join("latin1.yaml"), b"a: b\nname: caf\xe9\n").unwrap();
    for (file, message) in [
        ("missing.yaml", "missing.yaml: cannot open: No such file or directory (os error 2)"),
        ("empty.yaml", "empty.yaml: no objects: the input is empty"),
        ("comment.yaml", "comment.yaml: no objects: the input is empty"),
        ("binary.yaml", "binary.yaml: not a text file"),
        ("latin1.yaml", "latin1.yaml:2: not valid UTF-8"),
        ("text.txt", "text.txt:1: not valid YAML: "),
        ("folder", "folder: the folder has no *.yaml, *.yml or *.json files"),
    ] {
        let run = karpenter(here.path(), &["validate", "-f", file, "-f", "bad.yaml"], b"");
        assert_eq!(run.code, 2, "{file}: {run:?}");
        assert_eq!(run.out, format!("bad.yaml:6 {FOUND}"), "{file}");
        assert!(run.err.starts_with(&format!("error: {message}")), "{file}: {}", run.err);
        assert!(run.err.ends_with("checked 1 object: 1 error, 1 input unreadable\n"), "{file}: {}", run.err);
    }
}

#[test]
fn one_broken_document_does_not_hide_its_neighbours() {
    let broken = format!("{POOL}---\nspec: [1, 2\n---\n{BAD_CLASS}");
    let here = folder(&[("broken.yaml", &broken)]);
    let run = karpenter(here.path(), &["validate", "-f", "broken.yaml"], b"");
    assert_eq!(run.code, 2);
    assert_eq!(run.out, format!("broken.yaml:19 {FOUND}"));
    assert!(run.err.starts_with("error: broken.yaml:12: not valid YAML: "), "{}", run.err);
    assert!(run.err.ends_with("checked 2 objects: 1 error, 1 input unreadable\n"), "{}", run.err);
}

#[test]
fn wrong_kinds_and_things_that_are_no_objects_are_findings() {
    for (text, want) in [
        (
            "apiVersion: karpenter.sh/v1\nkind: Pool\nmetadata: {name: a}\n",
            "f.yaml:2 Pool/a kind: no kind \"Pool\" in version \"karpenter.sh/v1\"\n",
        ),
        (
            "apiVersion: karpenter.sh/v1beta1\nkind: NodePool\nmetadata: {name: a}\n",
            "f.yaml:1 NodePool/a apiVersion: no kind \"NodePool\" in version \"karpenter.sh/v1beta1\", but in \"karpenter.sh/v1\"; `karpenter convert` can bring old manifests up to date\n",
        ),
        ("kind: NodePool\nmetadata: {name: a}\n", "f.yaml:1 NodePool/a apiVersion: Required value\n"),
        ("a: b\n", "f.yaml:1 ?/? apiVersion: Required value\nf.yaml:1 ?/? kind: Required value\n"),
        ("- a\n- b\n", "f.yaml:1 ?/? not a Kubernetes object\n"),
        ("hello\n", "f.yaml:1 ?/? not a Kubernetes object\n"),
        ("apiVersion: [v1]\nkind: 5\n", "f.yaml:1 ?/? apiVersion: Required value\nf.yaml:2 ?/? kind: Required value\n"),
    ] {
        let here = folder(&[("f.yaml", text)]);
        let run = karpenter(here.path(), &["validate", "-f", "f.yaml"], b"");
        assert_eq!((run.code, run.out.as_str()), (1, want), "{text}");
    }
}

#[test]
fn folders_are_read_in_order_and_other_kinds_are_counted() {
    let here = folder(&[
        ("m/b.yml", BAD_CLASS),
        ("m/a/z.yaml", BAD_CLASS),
        (
            "m/c.json",
            "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n  {\"apiVersion\": \"v1\", \"kind\": \"Pod\"},\n  {\"apiVersion\": \"karpenter.sh/v1\", \"kind\": \"NodeClaim\", \"metadata\": {\"name\": \"x\"}}]}",
        ),
        ("m/ignored.txt", "a: ["),
    ]);
    let run = karpenter(here.path(), &["validate", "-f", "m"], b"");
    assert_eq!(run.code, 1);
    assert_eq!(
        run.out,
        format!(
            "m/a/z.yaml:6 {FOUND}m/b.yml:6 {FOUND}m/c.json:3 NodeClaim/x spec: Required value\nm/c.json:3 NodeClaim/x some validation rules were not checked because the object was invalid; correct the existing errors to complete validation\n"
        )
    );
    assert_eq!(run.err, "checked 3 objects: 4 errors, skipped 1 object of other kinds\n");
}

#[test]
fn standard_input_is_a_file_called_dash() {
    let here = folder(&[]);
    let run = karpenter(here.path(), &["validate", "-f", "-"], BAD_CLASS.as_bytes());
    assert_eq!((run.code, run.out), (1, format!("(stdin):6 {FOUND}")));
    let run = karpenter(here.path(), &["validate", "-f", "-"], b"");
    assert_eq!((run.code, run.out.as_str()), (2, ""));
    assert_eq!(
        run.err,
        "error: (stdin): no objects: the input is empty\nchecked 0 objects: 0 errors, 1 input unreadable\n"
    );
}
