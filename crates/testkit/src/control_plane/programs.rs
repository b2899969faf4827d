//! Where the programs of the control plane are.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow, bail};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Etcd,
    Apiserver,
    Scheduler,
    ControllerManager,
    Kwok,
    Kubectl,
}

impl Program {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Apiserver => "kube-apiserver",
            Self::Scheduler => "kube-scheduler",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kwok => "kwok",
            Self::Kubectl => "kubectl",
        }
    }
}

/// The folder that `tools/control-plane.sh` prints.
#[derive(Debug)]
pub(super) struct Programs(PathBuf);

impl Programs {
    pub(super) fn path(&self, program: Program) -> PathBuf {
        self.0.join(program.name())
    }

    pub(super) fn kwok_stages(&self) -> PathBuf {
        self.0.join("kwok-stages.yaml")
    }
}

/// Asks the script, once per process. It builds what is missing and reads `KARPENTER_CONTROL_PLANE` itself.
pub(super) fn find() -> Result<&'static Programs> {
    static FOUND: OnceLock<Result<Programs, String>> = OnceLock::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/control-plane.sh");
    FOUND
        .get_or_init(|| ask(&script).map_err(|e| format!("{e:#}")))
        .as_ref()
        .map_err(|e| anyhow!("no control plane to test on: {e}\nrun `make control-plane`, which says what is missing"))
}

fn ask(script: &Path) -> Result<Programs> {
    // Its stderr stays ours: a first build takes minutes and says what it does.
    let out = Command::new(script)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", script.display()))?;
    if !out.status.success() {
        bail!("{} failed with {}", script.display(), out.status);
    }
    let folder = String::from_utf8(out.stdout).context("the folder's name is not UTF-8")?;
    Ok(Programs(PathBuf::from(folder.trim_end())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_script_is_an_error_that_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("no-such-script");
        let text = format!("{:#}", ask(&missing).unwrap_err());
        assert!(text.contains("cannot run") && text.contains("no-such-script"), "{text}");
        let text = format!("{:#}", ask(Path::new("/bin/false")).unwrap_err());
        assert!(text.contains("/bin/false failed with exit status: 1"), "{text}");
    }
}
