//! A token bucket on the given time.

use jiff::Timestamp;

#[derive(Debug, Clone)]
pub(super) struct TokenBucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    at: Timestamp,
}

impl TokenBucket {
    /// Full.
    pub(super) fn new(per_second: f64, burst: f64, now: Timestamp) -> Self {
        Self { per_second, burst, tokens: burst, at: now }
    }

    pub(super) fn take(&mut self, now: Timestamp) -> bool {
        let passed = now.duration_since(self.at).as_secs_f64().max(0.0);
        self.at = now.max(self.at);
        self.tokens = (self.tokens + passed * self.per_second).min(self.burst);
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        }
        allowed
    }
}
