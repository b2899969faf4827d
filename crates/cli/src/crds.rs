//! `karpenter crds`

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use karpenter_api::crd::{self, Crd};

use crate::yaml;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter crds | kubectl apply --server-side -f -
  karpenter crds -o manifests/crds
  karpenter crds --legacy -o manifests/crds")]
pub(crate) struct Args {
    /// Write <plural>.<group>.yaml files into this folder (created if missing) instead of printing
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Also the v1alpha5 Provisioner and v1alpha1 AWSNodeTemplate, which are read only to convert them
    #[arg(long)]
    legacy: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
    let wanted: Vec<&Crd> = crd::definitions().iter().filter(|crd| args.legacy || !crd.legacy).collect();
    let Some(folder) = &args.output else {
        for crd in wanted {
            write!(out, "---\n{}", yaml(crd)?)?;
        }
        return Ok(0);
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot create folder {}", folder.display()))?;
    for crd in &wanted {
        let path = folder.join(format!("{}.yaml", crd.name()));
        fs::write(&path, yaml(crd)?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    writeln!(err, "wrote {} files to {}", wanted.len(), folder.display())?;
    Ok(0)
}

fn yaml(crd: &Crd) -> Result<String> {
    yaml::document(&crd.manifest).with_context(|| format!("cannot render {}", crd.name()))
}
