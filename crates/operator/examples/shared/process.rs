//! The controller in a process of its own, and what the kernel says about it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context as _, Result, bail};

pub(crate) struct Controller(Child);

impl Controller {
    /// The release build that lies beside us.
    pub(crate) fn start(kubeconfig: &Path, environment: &[(&str, &str)]) -> Result<Self> {
        let program = beside_us()?;
        let child = Command::new(&program)
            .env_clear()
            .env("KUBECONFIG", kubeconfig)
            .envs([
                ("CLOUD_PROVIDER", "kwok"),
                ("METRICS_PORT", "0"),
                ("HEALTH_PROBE_PORT", "0"),
                ("LOG_LEVEL", "error"),
            ])
            .envs(environment.iter().copied())
            .spawn()
            .with_context(|| format!("cannot run {}: build it first", program.display()))?;
        Ok(Self(child))
    }

    pub(crate) fn ensure_running(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            Some(status) => bail!("the controller ended: {status}"),
            None => Ok(()),
        }
    }

    /// Processor seconds so far.
    pub(crate) fn cpu(&self) -> Result<f64> {
        cpu(&self.0.id().to_string())
    }

    /// Megabytes.
    pub(crate) fn resident(&self) -> Result<f64> {
        self.status("VmRSS:")
    }

    pub(crate) fn peak(&self) -> Result<f64> {
        self.status("VmHWM:")
    }

    fn status(&self, field: &str) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)).context("status")?;
        let kib: f64 = line.split_whitespace().next().context("status")?.parse()?;
        Ok(kib * 1024.0 / 1_000_000.0)
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Processor seconds of a process; `self` is this one.
pub(crate) fn cpu(process: &str) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = stat.rsplit_once(')').context("stat")?.1.split_whitespace().collect();
    let ticks = |number: usize| -> Result<f64> { Ok(fields.get(number - 3).context("stat")?.parse()?) };
    Ok((ticks(14)? + ticks(15)?) / 100.0)
}

/// `target/release/examples/bench_*` and `target/release/karpenter-controller`.
fn beside_us() -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let folder = here.parent().and_then(std::path::Path::parent).context("no folder above ours")?;
    Ok(folder.join("karpenter-controller"))
}
