//! Runs a whole control plane until its standard input closes, and prints the path of its kubeconfig.
//!
//! `cargo run -p karpenter-testkit --bin control-plane`, then `kubectl --kubeconfig PATH …` in another terminal; Ctrl-C or
//! Ctrl-D ends it.

use std::io::{Read as _, Write as _};

use karpenter_testkit::ControlPlane;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = ControlPlane::builder().scheduler().controller_manager().kwok().start().await?;
    writeln!(std::io::stdout(), "{}", cluster.kubeconfig().display())?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
