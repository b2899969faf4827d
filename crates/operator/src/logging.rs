//! Log lines: one JSON object each, with the keys that existing log pipelines read (API-305), or in the columns of v0.5.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use karpenter_api::settings::{LogFormat, LogLevel};
use karpenter_platform::{Clock, SystemClock};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::fields::Fields;
use crate::traces::Spans;

pub(crate) const COMMIT: &str = match option_env!("KARPENTER_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Logs go to these places from now on: `stdout`, `stderr` or files. What is traced does not depend on what is logged.
pub(crate) fn start(level: LogLevel, format: LogFormat, paths: &[String], spans: Option<Spans>) -> Result<()> {
    let filter = match level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Error => LevelFilter::ERROR,
    };
    // Only what we say ourselves: the libraries below us log every request at debug level.
    let filter = tracing_subscriber::filter::Targets::new()
        .with_target("karpenter", filter)
        // It logs the errors that it also returns.
        .with_target("kube_client", LevelFilter::OFF)
        // They show requests in full, and return the errors that they log.
        .with_target(karpenter_aws_sdk::LOG_TARGETS, LevelFilter::OFF)
        .with_default(filter.min(LevelFilter::WARN));
    let outputs = paths.iter().map(|path| Output::open(path)).collect::<Result<Vec<_>>>()?;
    let callers = level == LogLevel::Debug;
    let lines = Lines { outputs: Mutex::new(outputs), sampler: Mutex::default(), format, callers };
    let traced = tracing_subscriber::filter::Targets::new().with_target("karpenter", LevelFilter::DEBUG);
    let spans = spans.map(|spans| spans.with_filter(traced));
    tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans).init();
    Ok(())
}

#[derive(Debug)]
enum Output {
    Stdout,
    Stderr,
    File(File),
}

impl Output {
    fn open(path: &str) -> Result<Self> {
        match path {
            "stdout" => Ok(Self::Stdout),
            "stderr" => Ok(Self::Stderr),
            path => {
                let file = OpenOptions::new().create(true).append(true).open(path);
                file.map(Self::File).with_context(|| format!("--log-output-paths: cannot write to {path}"))
            }
        }
    }

    /// There is nobody left to tell when logs cannot be written.
    fn write(&mut self, line: &str) {
        let _ = match self {
            Self::Stdout => std::io::stdout().lock().write_all(line.as_bytes()),
            Self::Stderr => std::io::stderr().lock().write_all(line.as_bytes()),
            Self::File(file) => file.write_all(line.as_bytes()),
        };
    }
}

/// The first hundred of one message in a second, then every hundredth.
#[derive(Debug, Default)]
struct Sampler {
    second: i64,
    counts: BTreeMap<(&'static str, String), u64>,
}

impl Sampler {
    fn wants(&mut self, now: Timestamp, level: Level, message: &str) -> bool {
        if self.second != now.as_second() {
            self.second = now.as_second();
            self.counts.clear();
        }
        let count = self.counts.entry((level.as_str(), message.to_owned())).or_default();
        *count += 1;
        *count <= 100 || count.is_multiple_of(100)
    }
}

#[derive(Debug)]
struct Lines {
    outputs: Mutex<Vec<Output>>,
    sampler: Mutex<Sampler>,
    format: LogFormat,
    /// Whether lines say where in the code they come from.
    callers: bool,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let (level, now) = (*event.metadata().level(), SystemClock.now());
        let mut fields = Fields::default();
        event.record(&mut fields);
        if !self.sampler.lock().unwrap_or_else(PoisonError::into_inner).wants(now, level, &fields.message) {
            return;
        }
        let spans = context.event_scope(event).into_iter().flat_map(tracing_subscriber::registry::Scope::from_root);
        let around: Vec<(&str, serde_json::Value)> = spans
            .filter_map(|span| span.extensions().get::<Fields>().map(|fields| fields.others.clone()))
            .flatten()
            .collect();
        let caller =
            self.callers.then(|| (event.metadata().file().unwrap_or_default(), event.metadata().line().unwrap_or(0)));
        let line = match self.format {
            LogFormat::Json => line(level, now, caller, &fields, &around),
            LogFormat::Legacy => columns(level, now, caller, &fields, &around),
        };
        for output in self.outputs.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            output.write(&line);
        }
    }
}

/// What the line itself says comes first; what its spans say is added unless it is said already.
fn line(
    level: Level,
    now: Timestamp,
    caller: Option<(&str, u32)>,
    fields: &Fields,
    around: &[(&str, serde_json::Value)],
) -> String {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let mut out = format!("{{\"level\":\"{level}\",\"time\":\"{}\",\"logger\":\"controller\"", time(now));
    // Writing to a string cannot fail.
    if let Some((file, number)) = caller {
        let _ = write!(out, ",\"caller\":{}", text(&format!("{file}:{number}")));
    }
    let _ = write!(out, ",\"message\":{},\"commit\":{}", text(&fields.message), text(COMMIT));
    let said = vec!["level", "time", "logger", "caller", "message", "commit"];
    add_rest(&mut out, said, fields.others.iter().chain(around), "");
    out
}

/// What v0.5 wrote: time, level, logger and message, and what else there is as an object.
fn columns(
    level: Level,
    now: Timestamp,
    caller: Option<(&str, u32)>,
    fields: &Fields,
    around: &[(&str, serde_json::Value)],
) -> String {
    let own = fields.others.iter().find(|(name, _)| *name == "logger").and_then(|(_, logger)| logger.as_str());
    let all = fields.others.iter().chain(around);
    let reconciler = all.clone().find(|(name, _)| *name == "controller").and_then(|(_, name)| name.as_str());
    let logger = match (own, reconciler) {
        (Some(own), _) => own.to_owned(),
        (None, Some(name)) => format!("controller.{name}"),
        (None, None) => "controller".to_owned(),
    };
    let mut out = format!("{}\t{level}\t{logger}", time(now));
    // Writing to a string cannot fail.
    if let Some((file, number)) = caller {
        let _ = write!(out, "\t{file}:{number}");
    }
    let message = fields.message.replace(['\n', '\t'], " ");
    let _ = write!(out, "\t{message}\t{{\"commit\": {}", serde_json::Value::from(COMMIT));
    add_rest(&mut out, vec!["logger", "controller", "commit"], all, " ");
    out
}

/// The end of the object: what has not been said yet, each once, with a blank or without.
fn add_rest<'a>(
    out: &mut String,
    mut said: Vec<&'a str>,
    rest: impl Iterator<Item = &'a (&'a str, serde_json::Value)>,
    blank: &str,
) {
    for (name, value) in rest {
        if !said.contains(name) {
            said.push(name);
            // Writing to a string cannot fail.
            let _ = write!(out, ",{blank}{}:{blank}{value}", serde_json::Value::from(*name));
        }
    }
    out.push_str("}\n");
}

/// ISO 8601 with milliseconds.
fn time(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-305: keys and their forms; the caller only when asked for.
    #[test]
    fn a_line_is_one_object() {
        let now: Timestamp = "2026-01-02T03:04:05.678901Z".parse().unwrap();
        let said = Fields {
            message: "launched \"x\"\n".to_owned(),
            others: vec![("nodeclaim", "c1".into()), ("price", 0.5.into())],
        };
        let around = [("controller", "nodeclaim.lifecycle".into()), ("price", 1.into())];
        let line = line(Level::INFO, now, None, &said, &around);
        let want = r#"{"level":"INFO","time":"2026-01-02T03:04:05.678Z","logger":"controller","message":"launched \"x\"\n","commit":"unknown","nodeclaim":"c1","price":0.5,"controller":"nodeclaim.lifecycle"}"#;
        assert_eq!(line.trim_end(), want.replace("unknown", COMMIT));
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["controller"], "nodeclaim.lifecycle");
        let debug = super::line(Level::DEBUG, now, Some(("src/x.rs", 7)), &said, &[]);
        assert!(debug.contains(r#""level":"DEBUG""#) && debug.contains(r#""caller":"src/x.rs:7""#), "{debug}");
    }

    /// SEED-2-26, SEED-2-31: the columns of the tutorial; whoever did not choose a logger has the one of its controller.
    #[test]
    fn lines_of_old_have_columns() {
        let now: Timestamp = "2022-08-10T08:32:46.737Z".parse().unwrap();
        let said = Fields {
            message: "Bound 4 pod(s) to node ip-1".to_owned(),
            others: vec![("logger", "controller.provisioning".into()), ("provisioner", "default".into())],
        };
        let want = "2022-08-10T08:32:46.737Z\tINFO\tcontroller.provisioning\tBound 4 pod(s) to node ip-1\t{\"commit\": \"unknown\", \"provisioner\": \"default\"}\n";
        assert_eq!(columns(Level::INFO, now, None, &said, &[]), want.replace("unknown", COMMIT));
        let said = Fields { message: "a\nb".to_owned(), others: Vec::new() };
        let other = columns(Level::WARN, now, Some(("x.rs", 7)), &said, &[("controller", "nodepool.hash".into())]);
        assert!(other.contains("\tWARN\tcontroller.nodepool.hash\tx.rs:7\ta b\t{"), "{other}");
    }

    /// API-305: the first hundred of a message per second, then every hundredth.
    #[test]
    fn floods_are_thinned_out() {
        let mut sampler = Sampler::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let written = |sampler: &mut Sampler, second, count: usize| {
            (0..count).filter(|_| sampler.wants(at(second), Level::INFO, "again")).count()
        };
        assert_eq!(written(&mut sampler, 1, 1000), 109);
        assert!(sampler.wants(at(1), Level::INFO, "another"));
        assert!(sampler.wants(at(1), Level::ERROR, "again"));
        assert_eq!(written(&mut sampler, 2, 50), 50, "a new second");
    }
}
