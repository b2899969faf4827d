//! `karpenter-controller`: reads settings, wires provider and controllers together, runs until told to stop.

mod aws;
mod client;
mod endpoints;
mod fields;
mod logging;
mod memory_limit;
mod process;
mod start;
mod traces;
mod webhook;
mod wiring;

use std::process::ExitCode;

use karpenter_api::settings::{self, SettingsError};

use crate::traces::Traces;

/// See `docs/benchmarks-cluster.md` for what it saves.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|argument| argument == "--version") {
        print(concat!("karpenter-controller ", env!("CARGO_PKG_VERSION")));
        return ExitCode::SUCCESS;
    }
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("webhook") {
        return stand_in(arguments.next());
    }
    let environment = |name: &str| std::env::var(name).ok();
    match settings::parse(std::env::args().skip(1), &environment) {
        Ok(settings) => run(settings),
        Err(SettingsError::Help(text)) => {
            print(&text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            complain(&format!("{error}\nrun karpenter-controller --help for all settings"));
            ExitCode::from(2)
        }
    }
}

/// Where a chart of old has its webhook.
fn stand_in(port: Option<String>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let ended = runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(webhook::run(port)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(settings: settings::Settings) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            complain(&format!("could not start the runtime: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let traces = match observe(&settings, &runtime) {
        Ok(traces) => traces,
        Err(error) => {
            complain(&format!("{error:#}"));
            return ExitCode::from(2);
        }
    };
    let ended = runtime.block_on(wiring::run(settings));
    if let Some(traces) = traces {
        runtime.block_on(traces.stop());
    }
    // Nobody waits for a request that hangs.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the controller ended");
            ExitCode::FAILURE
        }
    }
}

/// Logs, and traces when somebody wants them.
fn observe(settings: &settings::Settings, runtime: &tokio::runtime::Runtime) -> anyhow::Result<Option<Traces>> {
    let _inside = runtime.enter();
    let (spans, traces) = traces::start(&settings.otel_exporter_otlp_endpoint)?.unzip();
    logging::start(settings.log_level, settings.log_format, &settings.log_output_paths, spans)?;
    Ok(traces)
}

#[expect(clippy::print_stdout, reason = "help goes to whoever asked for it")]
fn print(text: &str) {
    println!("{text}");
}

#[expect(clippy::print_stderr, reason = "there are no settings yet that say where logs go")]
fn complain(text: &str) {
    eprintln!("{text}");
}
