//! Launch templates that exist: used for a minute after their last launch, then deleted (AWS-160 … AWS-162).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::cloud::{ApiError, TemplateRef};

const KEPT: SignedDuration = SignedDuration::from_mins(1);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TemplateCache(BTreeMap<String, (String, Timestamp)>);

impl TemplateCache {
    /// Whether a template of this name exists, as far as is known. Being used keeps it.
    pub fn hit(&mut self, name: &str, now: Timestamp) -> bool {
        match self.0.get_mut(name).filter(|(_, until)| now < *until) {
            Some((_, until)) => {
                *until = end(now);
                true
            }
            None => false,
        }
    }

    /// One was made or found; at the start of a leader, all of the cluster's, so that those of its predecessor go, too.
    pub fn exists(&mut self, template: TemplateRef, now: Timestamp) {
        self.0.insert(template.name, (template.id, end(now)));
    }

    /// EC2 does not know it any more; there is nothing to delete.
    pub fn forget(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Those that nobody used for long enough: they are to be deleted in EC2, by id.
    pub fn expired(&mut self, now: Timestamp) -> Vec<TemplateRef> {
        let mut gone = Vec::new();
        self.0.retain(|name, (id, until)| {
            let lives = now < *until;
            if !lives {
                gone.push(TemplateRef { id: id.clone(), name: name.clone() });
            }
            lives
        });
        gone
    }
}

fn end(now: Timestamp) -> Timestamp {
    now.saturating_add(KEPT).unwrap_or(Timestamp::MAX)
}

/// What to do about a template that is not known, by what EC2 says of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensure {
    Create,
    Adopt(TemplateRef),
    /// As many have that name, which cannot be.
    Ambiguous(usize),
    Failed(ApiError),
}

pub fn ensure(answer: Result<Vec<TemplateRef>, ApiError>) -> Ensure {
    match answer {
        Err(error) if error.is_not_found() => Ensure::Create,
        Err(error) => Ensure::Failed(error),
        Ok(mut found) => match (found.len(), found.pop()) {
            (1, Some(only)) => Ensure::Adopt(only),
            (count, _) => Ensure::Ambiguous(count),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn template(name: &str) -> TemplateRef {
        TemplateRef { id: format!("lt-{name}"), name: name.to_owned() }
    }

    /// AWS-160, AWS-161, AWS-162, AC-181, AC-182: a minute after the last use, by id; what EC2 forgot is not deleted.
    #[test]
    fn a_minute_after_the_last_use() {
        let mut cache = TemplateCache::default();
        assert!(!cache.hit("a", at(0)));
        for name in ["a", "b", "c"] {
            cache.exists(template(name), at(0));
        }
        assert!(cache.hit("a", at(50)));
        cache.forget("c");
        assert_eq!(cache.expired(at(59)), []);
        assert_eq!(cache.expired(at(60)), [template("b")]);
        assert!(!cache.hit("b", at(60)) && !cache.hit("c", at(60)) && cache.hit("a", at(60)));
        assert_eq!(cache.expired(at(120)), [template("a")]);
        cache.exists(template("d"), at(200));
        assert!(!cache.hit("d", at(260)), "over, even if nobody has looked yet");
    }

    /// AWS-160, AC-180: what EC2 says of a name.
    #[test]
    fn names_that_are_not_known() {
        let gone = ApiError::new("InvalidLaunchTemplateName.NotFoundException", "");
        assert_eq!(ensure(Err(gone.clone())), Ensure::Create);
        assert!(gone.is_template_not_found());
        let slow = ApiError::new("RequestLimitExceeded", "");
        assert_eq!(ensure(Err(slow.clone())), Ensure::Failed(slow));
        assert_eq!(ensure(Ok(vec![template("a")])), Ensure::Adopt(template("a")));
        assert_eq!(ensure(Ok(Vec::new())), Ensure::Ambiguous(0));
        assert_eq!(ensure(Ok(vec![template("a"), template("a")])), Ensure::Ambiguous(2));
    }
}
