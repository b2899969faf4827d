//! One metric with all its series.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::summary::{QUANTILES, Window};
use super::text;

/// How mature a metric is: what of it may change (API-186, V15-21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    Stable,
    Beta,
    Alpha,
    Deprecated,
}

impl fmt::Display for Stability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stable => "stable",
            Self::Beta => "beta",
            Self::Alpha => "alpha",
            Self::Deprecated => "deprecated",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// What a metric is, without its series.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    pub name: String,
    pub kind: Kind,
    /// Upper bounds, for histograms.
    pub buckets: &'static [f64],
    pub labels: Vec<String>,
    pub stability: Stability,
    pub help: String,
}

#[derive(Debug)]
enum Cell {
    Number(f64),
    /// Counts per bucket, not yet added up; what lies above the last bound is only in `count`.
    Histogram {
        counts: Box<[u64]>,
        sum: f64,
        count: u64,
    },
    Summary(Box<Window>),
}

#[derive(Debug)]
pub struct Family {
    description: Description,
    series: Mutex<BTreeMap<Vec<String>, Cell>>,
}

impl Family {
    pub fn new(description: Description) -> Arc<Self> {
        Arc::new(Self { description, series: Mutex::default() })
    }

    pub fn description(&self) -> &Description {
        &self.description
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, Cell>> {
        // Nothing under the lock panics.
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Values are given in the order of the description's labels; missing ones are empty.
    fn with_cell(&self, labels: &[&str], change: impl FnOnce(&mut Cell)) {
        let mut key: Vec<String> = labels.iter().map(ToString::to_string).collect();
        key.resize(self.description.labels.len(), String::new());
        let empty = || match self.description.kind {
            Kind::Counter | Kind::Gauge => Cell::Number(0.0),
            Kind::Histogram => {
                Cell::Histogram { counts: vec![0; self.description.buckets.len()].into(), sum: 0.0, count: 0 }
            }
            Kind::Summary => Cell::Summary(Box::default()),
        };
        change(self.lock().entry(key).or_insert_with(empty));
    }

    /// Makes the series exist, with nothing counted.
    pub fn touch(&self, labels: &[&str]) {
        self.with_cell(labels, |_| {});
    }

    pub fn add(&self, labels: &[&str], amount: f64) {
        self.with_cell(labels, |cell| {
            if let Cell::Number(number) = cell {
                *number += amount;
            }
        });
    }

    pub fn set(&self, labels: &[&str], value: f64) {
        self.with_cell(labels, |cell| {
            if let Cell::Number(number) = cell {
                *number = value;
            }
        });
    }

    /// `now` decides how long a summary remembers; a histogram remembers for ever.
    pub fn observe(&self, labels: &[&str], value: f64, now: Timestamp) {
        let bounds = self.description.buckets;
        self.with_cell(labels, |cell| match cell {
            Cell::Histogram { counts, sum, count } => {
                *sum += value;
                *count += 1;
                if let Some(place) = counts.get_mut(bounds.partition_point(|bound| *bound < value)) {
                    *place += 1;
                }
            }
            Cell::Summary(window) => window.observe(value, now),
            Cell::Number(_) => {}
        });
    }

    pub fn remove(&self, labels: &[&str]) {
        self.lock().retain(|key, _| !key.iter().map(String::as_str).eq(labels.iter().copied()));
    }

    /// Removes every series that has all of these label values.
    pub fn remove_where(&self, values: &[(&str, &str)]) {
        let place = |label: &str| self.description.labels.iter().position(|known| known == label);
        let wanted: Vec<(Option<usize>, &str)> = values.iter().map(|(label, value)| (place(label), *value)).collect();
        self.lock().retain(|key, _| {
            !wanted
                .iter()
                .all(|(place, value)| place.and_then(|place| key.get(place)).is_some_and(|have| have == value))
        });
    }

    pub fn clear(&self) {
        self.lock().clear();
    }

    /// The number in a counter or gauge, or how often a histogram or summary observed.
    pub fn value(&self, labels: &[&str]) -> Option<f64> {
        let key: Vec<String> = labels.iter().map(ToString::to_string).collect();
        self.lock().get(&key).map(|cell| match cell {
            Cell::Number(number) => *number,
            Cell::Histogram { count, .. } => text::number(*count),
            Cell::Summary(window) => text::number(window.count()),
        })
    }

    /// Appends the samples of all series.
    pub(super) fn render(&self, now: Timestamp, out: &mut String) {
        let Description { name, buckets, labels, .. } = &self.description;
        for (values, cell) in self.lock().iter() {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let mut sample = |suffix: &str, extra: Option<(&str, &str)>, value: f64| {
                text::sample(out, (name, suffix), labels, &values, extra, value);
            };
            match cell {
                Cell::Number(number) => sample("", None, *number),
                Cell::Histogram { counts, sum, count } => {
                    let mut below = 0;
                    for (bound, here) in buckets.iter().zip(counts) {
                        below += here;
                        sample("_bucket", Some(("le", &text::float(*bound))), text::number(below));
                    }
                    sample("_bucket", Some(("le", "+Inf")), text::number(*count));
                    sample("_sum", None, *sum);
                    sample("_count", None, text::number(*count));
                }
                Cell::Summary(window) => {
                    for (quantile, value) in QUANTILES.iter().zip(window.quantiles(now)) {
                        sample("", Some(("quantile", &text::float(*quantile))), value);
                    }
                    sample("_sum", None, window.sum());
                    sample("_count", None, text::number(window.count()));
                }
            }
        }
    }
}

/// A handle for metrics with `N` labels, so that a call with too few values does not compile.
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name<const N: usize>(Arc<Family>);

        impl<const N: usize> $name<N> {
            pub(super) const KIND: Kind = Kind::$name;

            pub(super) fn new(family: Arc<Family>) -> Self {
                Self(family)
            }

            pub fn family(&self) -> &Arc<Family> {
                &self.0
            }

            /// See [`Family::value`].
            pub fn value(&self, labels: [&str; N]) -> Option<f64> {
                self.0.value(&labels)
            }
        }
    };
}

handle!(
    /// Only ever grows.
    Counter
);
handle!(
    /// What is the case now.
    Gauge
);
handle!(
    /// How often a value lay below each bound.
    Histogram
);
handle!(
    /// Quantiles of the last ten minutes.
    Summary
);

impl<const N: usize> Counter<N> {
    pub fn increment(&self, labels: [&str; N]) {
        self.0.add(&labels, 1.0);
    }

    pub fn add(&self, labels: [&str; N], amount: u64) {
        self.0.add(&labels, text::number(amount));
    }
}

impl<const N: usize> Gauge<N> {
    pub fn set(&self, labels: [&str; N], value: f64) {
        self.0.set(&labels, value);
    }

    pub fn remove(&self, labels: [&str; N]) {
        self.0.remove(&labels);
    }

    /// See [`Family::remove_where`].
    pub fn remove_where(&self, values: &[(&str, &str)]) {
        self.0.remove_where(values);
    }
}

impl<const N: usize> Histogram<N> {
    pub fn observe(&self, labels: [&str; N], value: f64) {
        // The time matters to summaries only.
        self.0.observe(&labels, value, Timestamp::UNIX_EPOCH);
    }
}

impl<const N: usize> Summary<N> {
    pub fn observe(&self, labels: [&str; N], value: f64, now: Timestamp) {
        self.0.observe(&labels, value, now);
    }
}
