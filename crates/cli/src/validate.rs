//! `karpenter validate`

mod check;
mod metadata;
mod report;
mod runtime;
mod schemas;

use std::io::{Read, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;

use crate::manifests::{self, Document, Source};
use crate::{EXIT_FINDINGS, EXIT_UNREADABLE};
use check::{Checker, Previous};
use report::Report;
pub(crate) use report::one_line;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter validate -f nodepool.yaml
  karpenter validate -f manifests/ -f extra.yaml
  helm template ./chart | karpenter validate -f -
  karpenter validate -f new/ --previous old/    # also what may not change
  karpenter validate -f manifests/ -o json | jq '.findings[].message'

Each line of output is `FILE:LINE KIND/NAME FIELD: MESSAGE`.
Exit code: 0 all valid, 1 something is wrong, 2 wrong usage or unreadable input.")]
pub(crate) struct Args {
    /// Manifest, folder of manifests (*.yaml, *.yml, *.json, also below) or - for standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE|DIR|-", required = true)]
    files: Vec<PathBuf>,
    /// The same objects as they are stored now, so that rules about changes apply
    #[arg(long, value_name = "FILE|DIR")]
    previous: Vec<PathBuf>,
    /// How to print what was found
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// Treat warnings as errors
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

pub(crate) fn run(args: &Args, stdin: &mut dyn Read, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
    let (stored, mut errors) = manifests::load(&args.previous, stdin);
    let (documents, broken) = manifests::load(&args.files, stdin);
    errors.extend(broken);
    let mut report = examine(&documents, &stored, args.strict)?;
    report.errors = errors;
    match args.output {
        Format::Text => report.write_text(out, err)?,
        Format::Json => report.write_json(out)?,
    }
    Ok(exit_code(&report))
}

fn examine(documents: &[Document], stored: &[Document], strict: bool) -> Result<Report> {
    let checker = Checker::new()?;
    let previous = Previous::new(stored);
    let mut report = Report::default();
    for document in documents {
        match checker.check(document, &previous) {
            None => report.skipped += 1,
            Some(findings) => {
                report.checked += 1;
                report.findings.extend(findings);
            }
        }
    }
    if strict {
        report.findings.iter_mut().for_each(report::Finding::harden);
    }
    Ok(report)
}

fn exit_code(report: &Report) -> u8 {
    if !report.errors.is_empty() {
        EXIT_UNREADABLE
    } else if report.findings.iter().any(report::Finding::is_error) {
        EXIT_FINDINGS
    } else {
        0
    }
}

/// Validates arbitrary bytes as a manifest and forgets the result: whatever the input, this returns. For fuzzing.
pub fn fuzz_manifest(bytes: &[u8]) {
    let source = Source { name: "fuzz".to_owned(), text: String::from_utf8_lossy(bytes).into_owned() };
    let (documents, _) = manifests::parse(&source);
    // Each object is judged as new and as an update of itself.
    let reports = [examine(&documents, &[], false), examine(&documents, &documents, true)];
    for report in reports.into_iter().flatten() {
        // A sink never fails.
        let _ = report.write_text(&mut std::io::sink(), &mut std::io::sink());
        let _ = report.write_json(&mut std::io::sink());
    }
}
