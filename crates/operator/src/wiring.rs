//! Which provider, which client, which controllers, and who of the replicas runs them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::future::{self, FutureExt as _};
use karpenter_api::convert;
use karpenter_api::instance_types::Catalogue;
use karpenter_api::legacy::Installation;
use karpenter_api::names::LabelPolicy;
use karpenter_api::settings::{self, CloudProvider, ConsolidationSearch, LogFormat, PreferencePolicy, Settings};
use karpenter_aws_controllers::Aws;
use karpenter_controllers::leader::{Election, Ended, Fence, LeaseName};
use karpenter_controllers::{
    Batching, Context, Features, Gates, MinValuesPolicy, Observability, Options, Planner, PlanningOptions, Preferences,
    Reserved,
};
use karpenter_kwok::KwokProvider;
use karpenter_legacy::{Legacy, lines};
use karpenter_model::duration::GoDuration;
use karpenter_platform::{Clock, LegacyPolicies, SystemClock, legacy_differences};
use kube::{Client, Config};
use tokio::signal::unix::{SignalKind, signal};
use tracing::Instrument as _;

use crate::aws;
use crate::client::{self, LateMetrics, Rules};
use crate::endpoints::{self, Health};
use crate::memory_limit;
use crate::process::Process;
use crate::start::{check_kinds, check_permissions, check_repair};

/// Longer than any answer of a healthy API server, shorter than the patience of whoever looks at a pod that does not start.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs until a signal comes or the lease is lost.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let target = settings.memory_target_bytes();
    let warm = !settings.disable_controller_warmup;
    let span = tracing::info_span!("start", error = tracing::field::Empty);
    let started = Box::pin(start(settings).instrument(span.clone())).await;
    if let Err(error) = &started {
        span.record("error", format!("{error:#}"));
    }
    drop(span);
    let Started { context, election, more } = started?;
    memory_limit::watch(target, &context);
    let metrics = context.report.metrics.clone();
    let stop = told_to_stop()?;
    let ended = match election.map(|election| election.metrics(metrics)) {
        Some(election) if warm => {
            let leading = election.lead(beside(karpenter_controllers::act(context.clone()), more), stop);
            tokio::select! {
                biased;
                ended = leading => ended,
                () = karpenter_controllers::watch(context) => Ended::Done(()),
            }
        }
        Some(election) => election.lead(beside(karpenter_controllers::run(context), more), stop).await,
        None => alone(beside(karpenter_controllers::run(context), more), stop).await,
    };
    match ended {
        Ended::Stopped => {
            tracing::info!("told to stop");
            Ok(())
        }
        Ended::Lost => bail!("lost the lease, another replica takes over"),
        Ended::Done(()) => bail!("the controllers ended by themselves"),
    }
}

/// Everything is in place, and nothing has been done yet.
struct Started {
    context: Arc<Context>,
    election: Option<Election>,
    more: More,
}

/// What runs beside the controllers of the core.
#[derive(Debug, Default)]
struct More {
    aws: Option<Arc<Aws>>,
    legacy: Option<Arc<Legacy>>,
    /// Whoever says what v0.5 said.
    lines: Option<Arc<Context>>,
}

/// Serves, and checks that there is something to work on.
async fn start(settings: Settings) -> Result<Started> {
    let metrics_port = endpoints::listen("metrics-port", settings.metrics_port).await?;
    let probe_port = endpoints::listen("health-probe-port", settings.health_probe_port).await?;
    let config = client::config().await?;
    let lease = LeaseName {
        namespace: Some(settings.leader_election_namespace.clone())
            .filter(|namespace| !namespace.is_empty())
            .unwrap_or_else(|| config.default_namespace.clone()),
        name: settings.leader_election_name.clone(),
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    // Neither limited nor fenced: for the lease, for probes, and for what is asked before there is anything to do.
    let own = Client::try_from(config.clone()).context("the client cannot be set up")?;
    let url = config.cluster_url.to_string();
    let election = (!settings.disable_leader_election)
        .then(|| Election::new(own.clone(), lease.clone(), identity(), clock.clone()));
    let acting = election.as_ref().map_or_else(Fence::open, Election::fence);
    let late = LateMetrics::default();
    let rules = Rules {
        per_second: settings.kube_client_qps,
        burst: settings.kube_client_burst,
        fence: acting.clone(),
        metrics: late.clone(),
    };
    let client = rules.client(config.clone())?;
    let chosen = choose(&settings, &own, &config, client.clone(), clock.clone()).await?;
    let context = context(client, clock, &settings, &chosen)?;
    let aws = chosen.aws.as_ref().map(|aws| aws.controllers(&context, &settings));
    let more = More {
        legacy: aws.as_ref().map(|aws| legacy(&context, aws, &settings)),
        lines: (settings.log_format == LogFormat::Legacy).then(|| context.clone()),
        aws,
    };
    check_cluster(&own, &url, &context, &settings, &lease).await?;
    let metrics = context.report.metrics.clone();
    metrics.add_collector(Arc::new(Process(Arc::downgrade(&metrics))));
    // Set once, here.
    let _ = late.set(metrics.clone());
    endpoints::serve("metrics", metrics_port, endpoints::metrics(context.clone(), settings.enable_profiling));
    endpoints::serve("probes", probe_port, endpoints::probes(Health { client: own, context: context.clone(), acting }));
    Ok(Started { context, election, more })
}

/// Provisioners, where there are any (AWS-257).
fn legacy(context: &Arc<Context>, aws: &Arc<Aws>, settings: &Settings) -> Arc<Legacy> {
    let profile = Some(settings.aws.default_instance_profile.clone()).filter(|profile| !profile.is_empty());
    let aws = aws.clone();
    let installation = move || Installation {
        default_instance_profile: profile.clone(),
        kubernetes_version: aws.kubernetes_version(),
    };
    Legacy::new(context.clone(), Box::new(installation))
}

/// The controllers of the core, and beside them those of the provider and of old.
async fn beside(controllers: impl Future<Output = ()>, more: More) {
    let aws = more.aws.map_or_else(|| future::pending().boxed(), karpenter_aws_controllers::act);
    let legacy = more.legacy.map_or_else(|| future::pending().boxed(), karpenter_legacy::act);
    let lines = more.lines.map_or_else(|| future::pending().boxed(), |context| lines::run(context).boxed());
    tokio::select! {
        biased;
        () = controllers => {}
        () = aws => {}
        () = legacy => {}
        () = lines => {}
    }
}

async fn alone(work: impl Future<Output = ()>, stop: impl Future<Output = ()>) -> Ended<()> {
    tokio::select! {
        biased;
        () = stop => Ended::Stopped,
        () = work => Ended::Done(()),
    }
}

fn told_to_stop() -> Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for signals")?;
    Ok(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Says everything that is wrong with the cluster before anything is done in it.
async fn check_cluster(
    client: &Client,
    url: &str,
    context: &Context,
    settings: &Settings,
    lease: &LeaseName,
) -> Result<()> {
    let version = tokio::time::timeout(PATIENCE, client.apiserver_version())
        .await
        .with_context(|| format!("the API server at {url} does not answer"))?
        .with_context(|| format!("cannot talk to the API server at {url}"))?;
    tracing::info!(kubernetes = %version.git_version, provider = ?settings.cloud_provider, "starting");
    if !settings.scheduler.default_constraints.is_empty() {
        // V15-15.
        tracing::info!(constraints = ?settings.scheduler.default_constraints, "pods without spread constraints get these");
    }
    check_kinds(client, context.provider.node_classes()).await?;
    check_permissions(client, settings, &lease.namespace).await
}

/// The provider that the settings ask for.
struct Chosen {
    provider: Arc<dyn karpenter_platform::CloudProvider>,
    policy: LabelPolicy,
    aws: Option<aws::Started>,
}

async fn choose(
    settings: &Settings,
    own: &Client,
    config: &Config,
    client: Client,
    clock: Arc<dyn Clock>,
) -> Result<Chosen> {
    Ok(match settings.cloud_provider {
        CloudProvider::Kwok => {
            let provider = kwok_provider(client, settings)?;
            Chosen { policy: provider.label_policy(), provider: Arc::new(provider), aws: None }
        }
        CloudProvider::Aws => {
            let aws = aws::start(settings, own, config, clock).await?;
            Chosen { policy: aws.provider.label_policy(), provider: aws.provider.clone(), aws: Some(aws) }
        }
    })
}

fn context(client: Client, clock: Arc<dyn Clock>, settings: &Settings, chosen: &Chosen) -> Result<Arc<Context>> {
    let provider = &chosen.provider;
    check_repair(settings, &provider.repair_policies())?;
    if settings.legacy_node_repair {
        // V15-51: said at the start, not when a node is sick.
        LegacyPolicies::compile(&provider.repair_policies())
            .context("an expression of the provider's repair policies makes no sense")?;
        for difference in legacy_differences(&provider.repair_policies()) {
            tracing::warn!(difference, "legacy node repair reads a repair policy differently");
        }
    }
    let options = Options {
        policy: chosen.policy.clone(),
        batching: Batching {
            idle: std_duration(settings.batch_idle_duration),
            longest: std_duration(settings.batch_max_duration),
            siblings: settings.batch_siblings,
        },
        planning: planning_options(settings),
        cores: cores(settings),
        observability: if settings.disable_cluster_state_observability {
            Observability::Off
        } else {
            Observability::On
        },
        features: Features {
            static_capacity: settings.feature_gates.static_capacity,
            node_overlays: settings.feature_gates.node_overlay,
            capacity_buffers: settings.feature_gates.capacity_buffer,
            dynamic_resources: !settings.ignore_dra_requests,
            default_spread: convert::default_spread(&settings.scheduler.default_constraints, provider.label_rules()),
            repair: settings.feature_gates.node_repair && !settings.legacy_node_repair,
            legacy_repair: settings.feature_gates.node_repair && settings.legacy_node_repair,
            terminate_first_repair: settings.feature_gates.terminate_first_repair,
            pod_deletion_cost: settings.feature_gates.pod_deletion_cost_management,
            disruption: Gates {
                spot_to_spot: settings.feature_gates.spot_to_spot_consolidation,
                terminate_first_drift: settings.feature_gates.terminate_first_drift,
                specified_search: settings.consolidation_search == ConsolidationSearch::Prefix,
            },
            ..Features::default()
        },
    };
    Ok(Arc::new(Context::new(client, provider.clone(), clock, options)))
}

/// Names this process among the replicas: the pod's name, and something that a restarted container has not.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let unique = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    format!("{}_{}", host.trim(), unique.trim())
}

/// Processor cores that the process was given, rounded up (API-308).
fn cores(settings: &Settings) -> u32 {
    u32::try_from(settings.cpu_requests_millicores.saturating_add(999) / 1000).unwrap_or(1).max(1)
}

fn planning_options(settings: &Settings) -> PlanningOptions {
    PlanningOptions {
        preferences: match settings.preference_policy {
            PreferencePolicy::Respect => Preferences::Respect,
            PreferencePolicy::Ignore => Preferences::Ignore,
        },
        min_values: match settings.min_values_policy {
            settings::MinValuesPolicy::Strict => MinValuesPolicy::Strict,
            settings::MinValuesPolicy::BestEffort => MinValuesPolicy::BestEffort,
        },
        reserved: if settings.feature_gates.reserved_capacity { Reserved::Strict } else { Reserved::Untracked },
        planner: match settings.planner {
            settings::Planner::Best => Planner::Best,
            settings::Planner::Reference => Planner::Reference,
        },
        workers: usize::try_from(cores(settings)).unwrap_or(1),
        ..PlanningOptions::thorough()
    }
}

fn kwok_provider(client: Client, settings: &Settings) -> Result<KwokProvider> {
    let path = &settings.kwok.instance_types_file_path;
    let catalogue = if path.is_empty() { Catalogue::built_in() } else { Catalogue::from_file(Path::new(path)) };
    Ok(KwokProvider::new(client, catalogue.context("no instance types for the kwok provider")?))
}

/// A negative duration is no time at all.
fn std_duration(duration: GoDuration) -> Duration {
    duration.as_signed().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SCH-21, API-308: passes for pending pods keep reserved capacity for whoever was promised it, share their work among as
    /// many threads as there are cores, and follow the configured policies.
    #[test]
    fn planning_follows_the_settings() {
        let planning = |environment: &[(&str, &str)]| {
            let given = |name: &str| environment.iter().find(|(known, _)| *known == name);
            let given = |name: &str| given(name).map(|(_, value)| (*value).to_owned());
            let args = ["--cloud-provider=kwok".to_owned()].into_iter();
            planning_options(&settings::parse(args, &given).unwrap())
        };
        let plain = planning(&[("CPU_REQUESTS", "1000")]);
        assert_eq!(
            (plain.preferences, plain.min_values, plain.reserved, plain.planner, plain.workers),
            (Preferences::Respect, MinValuesPolicy::Strict, Reserved::Strict, Planner::Best, 1)
        );
        for (millicores, workers) in [("1", 1), ("999", 1), ("1001", 2), ("4000", 4)] {
            assert_eq!(planning(&[("CPU_REQUESTS", millicores)]).workers, workers, "{millicores}");
        }
        let other = planning(&[
            ("PREFERENCE_POLICY", "Ignore"),
            ("MIN_VALUES_POLICY", "BestEffort"),
            ("PLANNER", "Reference"),
            ("FEATURE_GATES", "ReservedCapacity=false"),
        ]);
        assert_eq!(
            (other.preferences, other.min_values, other.reserved, other.planner),
            (Preferences::Ignore, MinValuesPolicy::BestEffort, Reserved::Untracked, Planner::Reference)
        );
    }
}
