//! Things that go wrong on purpose: per verb, kind, name and nth call.

use std::time::Duration;

use crate::request::Verb;
use crate::status::Failure;

/// What happens to a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Refused; nothing is written.
    Error(Failure),
    /// 409, as if somebody else had written in between.
    Conflict,
    /// 429 with `Retry-After`.
    Throttled { retry_after_seconds: u64 },
    /// Handled later.
    Latency(Duration),
    /// The connection breaks before the request is handled.
    RequestLost,
    /// Handled, but the connection breaks before the answer arrives.
    AnswerLost,
    /// Never answered and never handled: the world stops before this call.
    StopBefore,
    /// Handled and never answered: the world stops after this call.
    StopAfter,
    /// A watch that breaks off after so many events.
    DropWatch { after_events: usize },
    /// A watch whose events come late.
    StaleWatch { late: Duration },
    /// 410 as after a compaction; for watches as an event.
    Expired,
}

/// Which requests are meant. Whatever is not said fits.
#[derive(Debug, Clone)]
pub struct Rule {
    pub verb: Option<Verb>,
    /// `Pod`; the version does not matter.
    pub kind: Option<String>,
    /// With `*` for any text.
    pub name: Option<String>,
    /// `status` and the like; an empty text means the object itself.
    pub subresource: Option<String>,
    /// Calls that fit are counted from 1: the first that is hit.
    pub first: u64,
    /// How many calls are hit from then on.
    pub times: u64,
    pub fault: Fault,
}

impl Rule {
    /// Hits every request; the other methods narrow it down.
    pub fn new(fault: Fault) -> Self {
        Self { verb: None, kind: None, name: None, subresource: None, first: 1, times: u64::MAX, fault }
    }

    #[must_use]
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    #[must_use]
    pub fn kind(mut self, kind: &str) -> Self {
        self.kind = Some(kind.to_owned());
        self
    }

    #[must_use]
    pub fn name(mut self, pattern: &str) -> Self {
        self.name = Some(pattern.to_owned());
        self
    }

    #[must_use]
    pub fn subresource(mut self, name: &str) -> Self {
        self.subresource = Some(name.to_owned());
        self
    }

    /// Only the nth call that fits.
    #[must_use]
    pub fn nth(mut self, nth: u64) -> Self {
        (self.first, self.times) = (nth, 1);
        self
    }

    /// At most so many calls.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    fn fits(&self, asked: &Asked<'_>) -> bool {
        self.verb.is_none_or(|verb| verb == asked.verb)
            && self.kind.as_deref().is_none_or(|kind| kind == asked.kind)
            && self.name.as_deref().is_none_or(|pattern| matches(pattern, asked.name))
            && self.subresource.as_deref().is_none_or(|name| name == asked.subresource)
    }
}

/// What rules look at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) verb: Verb,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
    pub(crate) subresource: &'a str,
}

/// The rules in force, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<(u64, Rule, u64)>,
    next: u64,
}

impl Faults {
    pub(crate) fn add(&mut self, rule: Rule) -> u64 {
        self.next += 1;
        self.rules.push((self.next, rule, 0));
        self.next
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.rules.retain(|(rule, _, _)| *rule != id);
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// Counts the request for every rule that it fits and returns what is to happen to it.
    pub(crate) fn hit(&mut self, asked: &Asked<'_>) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (_, rule, calls) in &mut self.rules {
            if !rule.fits(asked) {
                continue;
            }
            *calls += 1;
            if *calls >= rule.first && *calls - rule.first < rule.times {
                faults.push(rule.fault.clone());
            }
        }
        faults
    }
}

/// `*` stands for any text.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => {
            let Some(text) = text.strip_prefix(start) else { return false };
            text.char_indices().map(|(i, _)| i).chain([text.len()]).any(|i| matches(rest, &text[i..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(verb: Verb, kind: &'static str, name: &'static str) -> Asked<'static> {
        Asked { verb, kind, name, subresource: "" }
    }

    #[test]
    fn the_nth_call_is_hit() {
        let mut faults = Faults::default();
        faults.add(Rule::new(Fault::Conflict).verb(Verb::Update).kind("Node").name("n-*").nth(2));
        let hits: Vec<usize> = [
            asked(Verb::Update, "Node", "n-1"),
            asked(Verb::Get, "Node", "n-1"),
            asked(Verb::Update, "Node", "m-1"),
            asked(Verb::Update, "Pod", "n-1"),
            asked(Verb::Update, "Node", "n-2"),
            asked(Verb::Update, "Node", "n-3"),
        ]
        .iter()
        .map(|a| faults.hit(a).len())
        .collect();
        assert_eq!(hits, [0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn patterns_match() {
        for (pattern, text, want) in [
            ("a", "a", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c", "ab", false),
            ("*", "", true),
            ("a*b*c", "axbyc", true),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
    }
}
