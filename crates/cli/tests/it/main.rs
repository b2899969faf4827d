//! The built binary, as a user meets it.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests, which clippy takes for product code

mod consolidate;
mod convert;
mod convert_laws;
mod crds;
mod demo;
mod docs;
mod fuzz;
mod input;
mod plan;
mod plan_inputs;
mod sandbox;
mod validate;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run of the binary left.
#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

/// Runs `karpenter` in `folder` with `input` on its standard input.
fn karpenter(folder: &Path, args: &[&str], input: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_karpenter"))
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that reads no input may end before this is written.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A folder with the given files.
fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
";

const BAD_CLASS: &str = "\
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata:
  name: broken
spec:
  nodeRegistrationDelay: soon
";
