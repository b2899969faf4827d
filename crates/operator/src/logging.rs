//! JSON lines on standard output.

use karpenter_api::settings::LogLevel;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub(crate) fn start(level: LogLevel) {
    let level = match level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Error => LevelFilter::ERROR,
    };
    // Only what we say ourselves: the libraries below us log every request at debug level.
    let filter = tracing_subscriber::filter::Targets::new()
        .with_target("karpenter", level)
        .with_default(level.min(LevelFilter::WARN));
    let lines = tracing_subscriber::fmt::layer().json().flatten_event(true).with_span_list(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
}
