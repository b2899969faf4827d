//! Which provider, which client, which controllers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use karpenter_api::instance_types::Catalogue;
use karpenter_api::settings::{self, CloudProvider, PreferencePolicy, Settings};
use karpenter_controllers::{
    Batching, Context, Features, MinValuesPolicy, Observability, Options, PlanningOptions, Preferences,
};
use karpenter_kwok::KwokProvider;
use karpenter_model::duration::GoDuration;
use karpenter_platform::SystemClock;
use tokio::signal::unix::{SignalKind, signal};

/// Runs until a signal comes.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let client = kube::Client::try_default()
        .await
        .context("no cluster to work on: run in a cluster, or point KUBECONFIG at one")?;
    let version = client.apiserver_version().await.context("the API server does not answer")?;
    tracing::info!(kubernetes = %version.git_version, provider = ?settings.cloud_provider, "starting");

    let provider = match settings.cloud_provider {
        CloudProvider::Kwok => kwok_provider(client.clone(), &settings)?,
        CloudProvider::Aws => bail!("this build has no AWS provider yet; set CLOUD_PROVIDER=kwok"),
    };
    let options = Options {
        policy: provider.label_policy(),
        batching: Batching {
            idle: std_duration(settings.batch_idle_duration),
            longest: std_duration(settings.batch_max_duration),
        },
        planning: planning_options(&settings),
        workers: WORKERS,
        observability: if settings.disable_cluster_state_observability {
            Observability::Off
        } else {
            Observability::On
        },
        features: Features {
            static_capacity: settings.feature_gates.static_capacity,
            dynamic_resources: !settings.ignore_dra_requests,
            ..Features::default()
        },
    };
    let context = Arc::new(Context::new(client, Arc::new(provider), Arc::new(SystemClock), options));
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = karpenter_controllers::run(context) => bail!("the controllers ended by themselves"),
    }
    tracing::info!("told to stop");
    Ok(())
}

/// Reconciles are waits for the API server, not work: this many at once is the least any controller is specified to
/// have (API-307).
const WORKERS: usize = 100;

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
        ..PlanningOptions::default()
    }
}

fn kwok_provider(client: kube::Client, settings: &Settings) -> Result<KwokProvider> {
    let path = &settings.kwok.instance_types_file_path;
    let catalogue = if path.is_empty() { Catalogue::built_in() } else { Catalogue::from_file(Path::new(path)) };
    Ok(KwokProvider::new(client, catalogue.context("no instance types for the kwok provider")?))
}

/// A negative duration is no time at all.
fn std_duration(duration: GoDuration) -> Duration {
    duration.as_signed().try_into().unwrap_or_default()
}
