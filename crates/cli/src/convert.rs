//! `karpenter convert`

use std::io::{Read, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use karpenter_api::legacy::{self, Converted, Finding, Options, Severity};
use serde_json::{Value, json};

use crate::manifests::{self, Document};
use crate::validate::one_line;
use crate::{EXIT_FINDINGS, EXIT_UNREADABLE, yaml};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter convert -f provisioner.yaml > nodepool.yaml
  karpenter convert -f old/ --role KarpenterNodeRole-my-cluster > new.yaml
  kubectl get provisioners,awsnodetemplates -o yaml | karpenter convert -f -
  karpenter convert -f old/ | karpenter validate -f -

Provisioner, AWSNodeTemplate and the v1beta1 kinds become v1. Convert all files of a cluster together: kubelet settings
moved from pools to classes. In pods and workloads, labels, annotations and tolerations with a new name are renamed. All
other objects are printed as they are.

Each line on standard error is `FILE:LINE KIND/NAME FIELD: MESSAGE`, warnings after the word `warning:`.
Exit code: 0 all converted, 1 some object could not be converted, 2 wrong usage or unreadable input.")]
pub(crate) struct Args {
    /// Manifest, folder of manifests (*.yaml, *.yml, *.json, also below) or - for standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE|DIR|-", required = true)]
    files: Vec<PathBuf>,
    /// How to print the objects: documents in YAML, or one List in JSON
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    output: Format,
    /// Role of nodes whose class names neither a role nor an instance profile
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Do not write out the requirements (linux, amd64, on-demand, instance families) that Provisioners got by themselves
    #[arg(long)]
    no_requirement_defaults: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Yaml,
    Json,
}

pub(crate) fn run(args: &Args, stdin: &mut dyn Read, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
    let (documents, unreadable) = manifests::load(&args.files, stdin);
    let options =
        Options { role: args.role.clone(), requirement_defaults: !args.no_requirement_defaults, installation: None };
    let (documents, strays): (Vec<Document>, Vec<Document>) =
        documents.into_iter().partition(|document| document.tree.to_value().is_object());
    let objects: Vec<Value> = documents.iter().map(|document| document.tree.to_value()).collect();
    let outcome = legacy::convert(&objects, &options);
    write_objects(&outcome.documents, args.output, out)?;
    for error in &unreadable {
        writeln!(err, "error: {error}")?;
    }
    for stray in &strays {
        writeln!(err, "{}:{} not a Kubernetes object", stray.file, stray.tree.line)?;
    }
    for finding in &outcome.findings {
        let document = documents.get(finding.document);
        writeln!(err, "{}", one_line(&line(document, finding)))?;
    }
    Ok(if !unreadable.is_empty() {
        EXIT_UNREADABLE
    } else if outcome.has_errors() || !strays.is_empty() {
        EXIT_FINDINGS
    } else {
        0
    })
}

fn write_objects(objects: &[Converted], format: Format, out: &mut dyn Write) -> Result<()> {
    match format {
        Format::Yaml => {
            for Converted { object, .. } in objects {
                write!(out, "---\n{}", yaml::document(object)?)?;
            }
        }
        Format::Json => {
            let items: Vec<&Value> = objects.iter().map(|converted| &converted.object).collect();
            let list = json!({ "apiVersion": "v1", "kind": "List", "items": items });
            writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        }
    }
    Ok(())
}

/// Like the lines of `validate`.
fn line(document: Option<&Document>, finding: &Finding) -> String {
    let Finding { object, field, severity, message, .. } = finding;
    let place =
        document.map_or("?".to_owned(), |document| format!("{}:{}", document.file, document.tree.line_of_text(field)));
    let warning = if *severity == Severity::Warning { "warning: " } else { "" };
    let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
    format!("{warning}{place} {object} {field}{message}")
}
