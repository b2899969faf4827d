//! `karpenter demo`: one deployment goes up and down, and nodes follow, as a timeline.

mod timeline;

use std::io::{IsTerminal as _, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use karpenter_sim::sandbox::{DrivenClock, Served, Speed, drive, runtime};
use karpenter_sim::world::{World, cpu};

use self::timeline::{Show, Timeline};
use crate::sandbox::kubeconfig::Kubeconfig;
use crate::sandbox::{default_pool, suggest};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter demo
  karpenter demo --seed 7          # other prices, delays and names
  karpenter demo --keep            # afterwards the API stays up for kubectl, until Ctrl-C

The autoscaler's own controllers run on a simulated cluster (see `karpenter sandbox --help`), on virtual time: what takes a
cluster some minutes takes seconds. Without a terminal it prints plain text and does not wait for readers.

Exit code: 0 when all went as it should, 1 when pods did not get their nodes or nodes did not go, 2 when it cannot start.")]
pub(crate) struct Args {
    /// What chance depends on: prices, delays, names
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave the API up for kubectl when the timeline is over
    #[arg(long)]
    keep: bool,
    /// Port of the API on 127.0.0.1, with --keep; 0 takes a free one
    #[arg(long, default_value_t = 0, requires = "keep")]
    port: u16,
    /// Where to write the kubeconfig, with --keep; removed at the end. A file that something else made is never overwritten
    #[arg(long, value_name = "FILE", default_value = "sandbox.kubeconfig", requires = "keep")]
    kubeconfig: PathBuf,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
    let show = if std::io::stdout().is_terminal() { Show::Live } else { Show::Plain };
    runtime()?.block_on(play(args, show, out, err))
}

/// Longer than any step takes in a calm cluster: batching 10 s, launch 4 s, joining 50 s, ready 10 s, empty for 30 s and looked
/// at twice, drain and shutdown 60 s.
const PATIENCE: Duration = Duration::from_mins(10);
async fn play(args: &Args, show: Show, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
    // All nodes may go at once: the demo is about nodes that follow pods, not about patience.
    let world = World::seeded(args.seed).pool(default_pool().budget("100%")).without_checks();
    // Only who uses the cluster afterwards needs today's date; without it a seed prints the same text on every day.
    let world = if args.keep { world.start_with(DrivenClock::start()).await } else { world.start().await };
    writeln!(
        out,
        "A cluster in this process, on virtual time, seed {}: the NodePool default (linux, amd64, spot or on-demand) and the
deployment inflate, whose pods ask for 1 CPU each. The controllers are the real ones.\n",
        args.seed
    )?;
    let mut timeline = Timeline::new(&world, show, out);
    world.deploy("inflate", 0, cpu("1")).await;
    for replicas in [5, 50] {
        timeline.chapter(&format!("scale inflate to {replicas}"))?;
        world.scale("inflate", replicas).await;
        timeline
            .until(PATIENCE, &|s| s.running == replicas as usize && s.pods == s.running && s.ready == s.nodes)
            .await?;
    }
    timeline.chapter("scale inflate to 0")?;
    world.scale("inflate", 0).await;
    timeline.until(PATIENCE, &|s| s.pods + s.leaving + s.nodes + s.machines + s.claims == 0).await?;
    timeline.end()?;
    if let Some(violation) = world.violations().first() {
        bail!("the cluster is not as it must be: {violation}");
    }
    if args.keep {
        keep(args, &world, out, err).await?;
    }
    Ok(0)
}

async fn keep(args: &Args, world: &World, out: &mut dyn Write, err: &mut dyn Write) -> Result<()> {
    let served = Served::start(world.api.clone(), SocketAddr::from((Ipv4Addr::LOCALHOST, args.port)))?;
    let interrupted = served.interrupted()?;
    let kubeconfig = Kubeconfig::write(&args.kubeconfig, &served.kubeconfig())?;
    writeln!(out, "\nThe cluster stays up at {}. Try, in another terminal:\n", served.url())?;
    suggest(&kubeconfig, out)?;
    drive(world, Speed::Jump, &interrupted, &mut |violation| {
        let _ = writeln!(err, "{:.0} not as it must be: {violation}", world.clock.now());
    })
    .await;
    writeln!(out, "ended; nothing is left of the cluster")?;
    Ok(())
}
