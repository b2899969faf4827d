use std::fs;

use crate::{folder, karpenter};

#[test]
fn crds_are_printed_as_yaml_documents() {
    let here = folder(&[]);
    for (args, want) in [(&["crds"][..], 6), (&["crds", "--legacy"][..], 8)] {
        let run = karpenter(here.path(), args, b"");
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&run.out).unwrap();
        assert_eq!(documents.len(), want, "{args:?}");
        assert!(documents.iter().all(|d| d["kind"] == "CustomResourceDefinition"));
    }
}

#[test]
fn crds_go_into_a_folder_one_file_each() {
    let here = folder(&[]);
    let run = karpenter(here.path(), &["crds", "-o", "a/b"], b"");
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, "", "wrote 6 files to a/b\n"));
    let mut names: Vec<_> =
        fs::read_dir(here.path().join("a/b")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(
        names,
        [
            "capacitybuffers.autoscaling.x-k8s.io.yaml",
            "ec2nodeclasses.karpenter.k8s.aws.yaml",
            "kwoknodeclasses.karpenter.kwok.sh.yaml",
            "nodeclaims.karpenter.sh.yaml",
            "nodeoverlays.karpenter.sh.yaml",
            "nodepools.karpenter.sh.yaml",
        ]
    );
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let here = folder(&[("file", "")]);
    let run = karpenter(here.path(), &["crds", "-o", "file/x"], b"");
    assert_eq!(run.code, 2);
    assert!(run.err.starts_with("error: cannot create folder file/x: "), "{}", run.err);
}

#[test]
fn help_shows_examples_and_wrong_usage_is_code_2() {
    let here = folder(&[]);
    for command in ["crds", "validate"] {
        let run = karpenter(here.path(), &[command, "--help"], b"");
        assert_eq!(run.code, 0);
        assert!(run.out.contains(&format!("Examples:\n  karpenter {command}")), "{}", run.out);
    }
    for args in [&[][..], &["nonsense"], &["validate"], &["validate", "-f", "x", "-o", "xml"]] {
        assert_eq!(karpenter(here.path(), args, b"").code, 2, "{args:?}");
    }
}
