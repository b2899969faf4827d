//! A stop for loops that let no time pass. On virtual time such a loop would hang for ever instead of failing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::Timestamp;

/// Counts requests at one instant.
#[derive(Debug)]
pub(crate) struct Guard {
    limit: Option<usize>,
    instant: Timestamp,
    count: usize,
    seen: BTreeMap<String, usize>,
    report: Option<String>,
}

impl Guard {
    pub(crate) fn new(limit: Option<usize>) -> Self {
        Self { limit, instant: Timestamp::MIN, count: 0, seen: BTreeMap::new(), report: None }
    }

    /// Whether this request is one too many.
    pub(crate) fn exceeded(&mut self, now: Timestamp, what: impl FnOnce() -> String) -> bool {
        let Some(limit) = self.limit else { return false };
        if now != self.instant {
            self.instant = now;
            self.count = 0;
            self.seen.clear();
        }
        self.count += 1;
        // The second half tells enough of what goes round.
        if self.count * 2 > limit {
            *self.seen.entry(what()).or_default() += 1;
        }
        if self.count <= limit {
            return false;
        }
        if self.report.is_none() {
            self.report = Some(self.describe(limit));
        }
        true
    }

    pub(crate) fn report(&self) -> Option<&str> {
        self.report.as_deref()
    }

    fn describe(&self, limit: usize) -> String {
        let mut often: Vec<(&String, &usize)> = self.seen.iter().collect();
        often.sort_by_key(|(what, count)| (std::cmp::Reverse(**count), (*what).clone()));
        let mut text = format!("more than {limit} requests at {} without time passing; most of all:", self.instant);
        for (what, count) in often.iter().take(10) {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n  {count} x {what}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_reported_once_it_exceeds_the_limit() {
        let mut guard = Guard::new(Some(10));
        let at = |s| Timestamp::from_second(s).unwrap();
        for second in 0..100 {
            assert!(!guard.exceeded(at(second), || "get Pod a".to_owned()));
        }
        let hits = (0..20).filter(|_| guard.exceeded(at(200), || "patch Node n".to_owned())).count();
        assert_eq!(hits, 10);
        assert!(guard.report().unwrap().contains("x patch Node n"), "{:?}", guard.report());
        assert!(!guard.exceeded(at(201), || "get Pod a".to_owned()));
    }
}
