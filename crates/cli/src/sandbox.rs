//! `karpenter sandbox`: a cluster in this process, for kubectl.

pub(crate) mod kubeconfig;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use karpenter_sim::cloud::{Range, Settings};
use karpenter_sim::sandbox::{DrivenClock, Served, Speed, drive, runtime};
use karpenter_sim::world::{Storm, World};
use karpenter_testkit::build::{PoolBuilder, node_pool};

use self::kubeconfig::Kubeconfig;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  karpenter sandbox                                  # then do in another terminal what it prints
  karpenter sandbox --speed 60x --port 8001          # an hour is a minute
  karpenter sandbox --faults --seed 7                # with storms; the same ones for the same seed
  karpenter sandbox --instance-types ec2 --no-autoscaler

What is real: the API as kubectl sees it, and the autoscaler's own controllers. What is simulated, on virtual time: the cloud
with its prices, stock and spot interruptions, kubelets, the scheduler, and the controllers of Deployments, ReplicaSets,
StatefulSets, DaemonSets, Jobs, disruption budgets and volumes. Pods run nothing.

There are a KWOKNodeClass and a NodePool named default. A Node with the annotation kwok.x-k8s.io/node: fake gets a kubelet.
A pod says how it behaves with annotations such as sim.karpenter.sh/runs-for: 90s (also starts-after, ready-after,
stops-after, fails).

Only this machine reaches the API, without TLS and without login. Ctrl-C ends everything; nothing is kept.
Exit code: 0 when ended by Ctrl-C or SIGTERM, 2 when it cannot start.")]
pub(crate) struct Args {
    /// Port of the API on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Where to write the kubeconfig; removed at the end. A file that something else made is never overwritten
    #[arg(long, value_name = "FILE", default_value = "sandbox.kubeconfig")]
    kubeconfig: PathBuf,
    /// How time goes: `60x` is an hour in a minute, `jump` leaps while something is under way and follows the wall clock at rest
    #[arg(long, default_value = "jump")]
    speed: Speed,
    /// What chance depends on: prices, stock, delays, names, faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Let things go wrong: every half hour a quarter of API errors, lost watches, sick nodes, spot interruptions, crashes
    #[arg(long)]
    faults: bool,
    /// What the cloud sells
    #[arg(long, value_enum, default_value_t = Types::Kwok)]
    instance_types: Types,
    /// Leave the autoscaler out: nodes are made by hand
    #[arg(long)]
    no_autoscaler: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Types {
    /// 144 made-up types in four zones
    Kwok,
    /// What EC2 sells in us-east-1
    Ec2,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
    runtime()?.block_on(live(args, out, err))
}

async fn live(args: &Args, out: &mut dyn Write, err: &mut dyn Write) -> Result<u8> {
    let range = match args.instance_types {
        Types::Kwok => Range::Kwok,
        Types::Ec2 => Range::Ec2,
    };
    let mut world = World::seeded(args.seed)
        .pool(default_pool())
        .cloud(Settings { range, ..Settings::default() })
        // What is found is told, not fatal.
        .without_checks();
    if args.no_autoscaler {
        world = world.without_autoscaler();
    }
    let world = Arc::new(world.start_with(DrivenClock::start()).await);
    let served = Served::start(world.api.clone(), SocketAddr::from((Ipv4Addr::LOCALHOST, args.port)))?;
    let interrupted = served.interrupted()?;
    let kubeconfig = Kubeconfig::write(&args.kubeconfig, &served.kubeconfig())?;
    let nodes = if args.no_autoscaler { "nodes are made by hand" } else { "the autoscaler is running" };
    writeln!(out, "A cluster is at {}, seed {}; {nodes}. Try, in another terminal:\n", served.url(), args.seed)?;
    suggest(&kubeconfig, out)?;
    if args.faults {
        tokio::spawn(weather(world.clone()));
    }
    drive(&world, args.speed, &interrupted, &mut |violation| {
        // Whoever does not read this any more may still use the cluster.
        let _ = writeln!(err, "{:.0} not as it must be: {violation}", world.clock.now());
    })
    .await;
    writeln!(out, "ended; nothing is left of the cluster")?;
    Ok(0)
}

pub(crate) fn default_pool() -> PoolBuilder {
    node_pool("default").consolidate_after("30s").requirement("kubernetes.io/os", "In", &["linux"]).requirement(
        "kubernetes.io/arch",
        "In",
        &["amd64"],
    )
}

/// A quarter of an hour of calm, a quarter of storm.
async fn weather(world: Arc<World>) {
    loop {
        tokio::time::sleep(Duration::from_mins(15)).await;
        world.storm(Storm::default()).await;
    }
}

/// What to try.
pub(crate) fn suggest(kubeconfig: &Kubeconfig, out: &mut dyn Write) -> Result<()> {
    let file = kubeconfig.path().display();
    writeln!(
        out,
        "  export KUBECONFIG={file}
  kubectl get nodepools,nodeclaims,nodes
  kubectl create deployment web --image=pause --replicas=5
  kubectl set resources deployment web --requests=cpu=1
  kubectl get nodeclaims -w
  kubectl get pods -o wide
  kubectl scale deployment web --replicas=50         # and back to 5: what is not needed any more goes
  kubectl delete nodeclaim --all --wait=false        # watch them drain, and their pods move

Ctrl-C ends it."
    )?;
    out.flush()?;
    Ok(())
}
