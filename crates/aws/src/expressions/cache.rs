//! Compiled expressions, kept as long as somebody uses them (AWS-100).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Expression;

/// After their last use.
const KEPT: SignedDuration = SignedDuration::from_hours(12);

/// An expression, or why it is none.
pub type Compiled = Result<Arc<Expression>, String>;

#[derive(Debug, Default)]
pub struct Cache {
    known: BTreeMap<String, (Compiled, Timestamp)>,
}

impl Cache {
    /// Those of these texts, by text.
    pub fn compiled<'a>(&mut self, texts: impl Iterator<Item = &'a str>, now: Timestamp) -> BTreeMap<String, Compiled> {
        self.known.retain(|_, (_, used)| now.duration_since(*used) < KEPT);
        texts
            .map(|text| {
                let known = self.known.entry(text.to_owned());
                let (compiled, used) = known.or_insert_with(|| (Expression::compile(text), now));
                *used = now;
                (text.to_owned(), compiled.clone())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(hours: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours)
    }

    fn get(cache: &mut Cache, hours: i64) -> Arc<Expression> {
        let mut all = cache.compiled(["vcpus"].into_iter(), at(hours));
        all.remove("vcpus").unwrap().unwrap()
    }

    /// AWS-100: each use keeps an expression for twelve more hours.
    #[test]
    fn expressions_are_kept_while_they_are_used() {
        let mut cache = Cache::default();
        let first = get(&mut cache, 0);
        assert!(Arc::ptr_eq(&first, &get(&mut cache, 11)));
        assert!(Arc::ptr_eq(&first, &get(&mut cache, 22)), "used in between");
        assert!(!Arc::ptr_eq(&first, &get(&mut cache, 34)), "not used for twelve hours");
        let all = cache.compiled(["vcpus *"].into_iter(), at(34));
        assert!(all["vcpus *"].is_err(), "also those that are none");
    }
}
