//! Calls to AWS in metrics (AWS-237). The first ones are made before there are metrics, which are made with the provider; they are
//! kept until then, so that none is missing when metrics are first served.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use karpenter_aws::cloud::{Call, CallObserver};
use karpenter_controllers::metrics::Metrics;

/// A start makes some dozens of calls, most of them pages of what EC2 sells; ten times as many for retries. The rest is not counted.
const KEPT: usize = 2_000;

#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<Counting>);

#[derive(Debug)]
enum Counting {
    Later(Vec<Told>),
    In(Arc<Metrics>),
}

impl Default for Counting {
    fn default() -> Self {
        Self::Later(Vec::new())
    }
}

/// What an observer was told.
#[derive(Debug)]
struct Told {
    service: String,
    operation: String,
    status: String,
    took: Duration,
    /// `None` of an attempt.
    retries: Option<u32>,
}

impl Calls {
    /// From now on, and what was kept.
    pub(crate) fn count_in(&self, metrics: Arc<Metrics>) {
        let mut counting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Counting::Later(kept) = &*counting {
            for told in kept {
                told.count(&metrics);
            }
        }
        *counting = Counting::In(metrics);
    }

    fn told(&self, call: &Call<'_>, retries: Option<u32>) {
        let told = Told {
            service: call.service.to_owned(),
            operation: call.operation.to_owned(),
            status: call.status.map_or_else(|| "none".to_owned(), |status| status.to_string()),
            took: call.took,
            retries,
        };
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Counting::Later(kept) if kept.len() < KEPT => kept.push(told),
            Counting::Later(_) => {}
            Counting::In(metrics) => told.count(metrics),
        }
    }
}

impl Told {
    fn count(&self, metrics: &Metrics) {
        let (all, took) = (&metrics.all, self.took.as_secs_f64());
        let (service, operation, status) = (self.service.as_str(), self.operation.as_str(), self.status.as_str());
        let Some(retries) = self.retries else {
            all.sdk_attempts.increment([service, operation, status]);
            all.sdk_attempt_duration.observe([service, operation], took);
            return;
        };
        all.sdk_requests.increment([service, operation, status]);
        all.sdk_request_duration.observe([service, operation], took);
        all.sdk_retries.observe([service, operation], f64::from(retries));
    }
}

impl CallObserver for Calls {
    fn attempted(&self, call: &Call<'_>) {
        self.told(call, None);
    }

    fn finished(&self, call: &Call<'_>, retries: u32) {
        self.told(call, Some(retries));
    }
}

#[cfg(test)]
mod tests {
    use karpenter_model::labels::LabelRules;

    use super::*;

    /// AWS-237: calls of the start count as later ones do.
    #[test]
    fn calls_before_there_are_metrics_count() {
        let (calls, metrics) = (Calls::default(), Arc::new(Metrics::new(&LabelRules::core(), Vec::new())));
        let call = |status| Call { service: "EC2", operation: "DescribeX", status, took: Duration::from_millis(7) };
        let make = || {
            calls.attempted(&call(Some(503)));
            calls.attempted(&call(Some(200)));
            calls.finished(&call(Some(200)), 1);
        };
        for (calls_made, when) in [(1.0, "before"), (2.0, "after")] {
            make();
            calls.count_in(metrics.clone());
            let all = &metrics.all;
            for status in ["503", "200"] {
                assert_eq!(all.sdk_attempts.value(["EC2", "DescribeX", status]), Some(calls_made), "{status} {when}");
            }
            assert_eq!(all.sdk_requests.value(["EC2", "DescribeX", "200"]), Some(calls_made), "{when}");
            assert_eq!(all.sdk_requests.value(["EC2", "DescribeX", "503"]), None, "{when}");
            assert_eq!(all.sdk_attempt_duration.value(["EC2", "DescribeX"]), Some(2.0 * calls_made), "{when}");
            assert_eq!(all.sdk_request_duration.value(["EC2", "DescribeX"]), Some(calls_made), "{when}");
            assert_eq!(all.sdk_retries.value(["EC2", "DescribeX"]), Some(calls_made), "{when}");
        }
        calls.attempted(&call(None));
        assert_eq!(metrics.all.sdk_attempts.value(["EC2", "DescribeX", "none"]), Some(1.0));
    }

    /// However many there are.
    #[test]
    fn what_is_kept_is_bounded() {
        let (calls, metrics) = (Calls::default(), Arc::new(Metrics::new(&LabelRules::core(), Vec::new())));
        let call = Call { service: "EC2", operation: "DescribeX", status: Some(200), took: Duration::ZERO };
        for _ in 0..KEPT + 7 {
            calls.attempted(&call);
        }
        calls.count_in(metrics.clone());
        assert_eq!(metrics.all.sdk_attempts.value(["EC2", "DescribeX", "200"]), Some(2_000.0));
    }
}
