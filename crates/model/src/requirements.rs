//! The algebra of label requirements: what values a key may have, and whether two sides can meet.

use std::fmt;

use crate::labels::{self, LabelRules};

mod compatibility;
mod values;
pub use compatibility::{Incompatibility, Undefined};
use values::Values;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
    Gte,
    Lte,
}

impl Operator {
    /// In the order in which the schemas list them (V15-5).
    pub const ALL: [Self; 8] =
        [Self::In, Self::NotIn, Self::Exists, Self::DoesNotExist, Self::Gt, Self::Lt, Self::Gte, Self::Lte];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::Gt => "Gt",
            Self::Lt => "Lt",
            Self::Gte => "Gte",
            Self::Lte => "Lte",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operator| operator.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequirementError {
    #[error("operator {0:?} is not supported; use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte")]
    Operator(String),
    #[error("operator {operator} needs exactly one integer value, got {values:?}")]
    Bound { operator: &'static str, values: Vec<String> },
}

/// One entry as the API writes it: what goes in and, after all intersections, out again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequirementEntry {
    pub key: String,
    pub operator: Operator,
    pub values: Vec<String>,
    pub min_values: Option<u32>,
}

/// The values one key may have (SCH-30).
///
/// With `complement` every value but those in `values` is allowed, and with a bound only integers within it.
/// Without it exactly `values` are. A concrete set never carries bounds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: String,
    complement: bool,
    values: Values,
    at_least: Option<i64>,
    at_most: Option<i64>,
    min_values: Option<u32>,
}

impl Requirement {
    /// SCH-31, with the key normalised (SCH-32).
    pub fn new(
        rules: &LabelRules,
        key: &str,
        operator: Operator,
        values: &[String],
        min_values: Option<u32>,
    ) -> Result<Self, RequirementError> {
        let bound = || match values {
            [one] => one.parse::<i64>().ok(),
            _ => None,
        };
        let bound =
            || bound().ok_or_else(|| RequirementError::Bound { operator: operator.as_str(), values: values.to_vec() });
        let mut requirement = Self {
            key: rules.normalized(key).to_owned(),
            complement: true,
            values: Values::default(),
            at_least: None,
            at_most: None,
            min_values,
        };
        match operator {
            Operator::In => {
                requirement.complement = false;
                requirement.values = values.iter().cloned().collect();
            }
            Operator::NotIn => requirement.values = values.iter().cloned().collect(),
            Operator::Exists => {}
            Operator::DoesNotExist => requirement.complement = false,
            Operator::Gte => requirement.at_least = Some(bound()?),
            Operator::Lte => requirement.at_most = Some(bound()?),
            // Nothing lies beyond the largest and smallest integers (SCH-31).
            Operator::Gt => requirement.at_least = bound()?.checked_add(1),
            Operator::Lt => requirement.at_most = bound()?.checked_sub(1),
        }
        let bounded = requirement.at_least.is_some() || requirement.at_most.is_some();
        if matches!(operator, Operator::Gt | Operator::Lt) && !bounded {
            return Ok(Self::does_not_exist(&requirement.key));
        }
        Ok(requirement)
    }

    pub fn exists(key: &str) -> Self {
        Self {
            key: key.to_owned(),
            complement: true,
            values: Values::default(),
            at_least: None,
            at_most: None,
            min_values: None,
        }
    }

    pub fn does_not_exist(key: &str) -> Self {
        Self { complement: false, ..Self::exists(key) }
    }

    pub fn any_of(key: &str, values: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { complement: false, values: values.into_iter().map(Into::into).collect(), ..Self::exists(key) }
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn min_values(&self) -> Option<u32> {
        self.min_values
    }

    pub fn set_min_values(&mut self, min_values: Option<u32>) {
        self.min_values = min_values;
    }

    /// The listed values: the allowed ones of `In`, the excluded ones of `NotIn`.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.values.iter()
    }

    /// Derived from the representation (SCH-33); bounds do not show in it.
    pub fn operator(&self) -> Operator {
        match (self.complement, self.values.is_empty()) {
            (true, true) => Operator::Exists,
            (true, false) => Operator::NotIn,
            (false, true) => Operator::DoesNotExist,
            (false, false) => Operator::In,
        }
    }

    /// SCH-34.
    pub fn len(&self) -> u64 {
        let listed = self.values.len() as u64;
        if self.complement { i64::MAX as u64 - listed } else { listed }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// SCH-35.
    pub fn has(&self, value: &str) -> bool {
        if self.complement {
            !self.values.contains(value) && self.in_bounds(value)
        } else {
            self.values.contains(value)
        }
    }

    fn in_bounds(&self, value: &str) -> bool {
        if self.at_least.is_none() && self.at_most.is_none() {
            return true;
        }
        value.parse::<i64>().is_ok_and(|number| {
            self.at_least.is_none_or(|bound| number >= bound) && self.at_most.is_none_or(|bound| number <= bound)
        })
    }

    /// The only value that is allowed, when there is just one.
    pub fn single_value(&self) -> Option<&str> {
        if self.complement || self.values.len() != 1 { None } else { self.values.iter().next() }
    }

    /// Some allowed value (SCH-36): the smallest listed one, or the smallest number that is not excluded.
    /// The empty string when nothing is allowed.
    pub fn any(&self) -> String {
        if !self.complement {
            return self.values.iter().next().unwrap_or_default().to_owned();
        }
        let low = self.at_least.unwrap_or(0).max(0);
        let high = self.at_most.unwrap_or(i64::MAX);
        // The excluded values are finitely many, so one of the first |V| + 1 numbers is free if the range holds any.
        let tries = i64::try_from(self.values.len()).unwrap_or(i64::MAX);
        (low..=high.min(low.saturating_add(tries)))
            .map(|number| number.to_string())
            .find(|text| !self.values.contains(text))
            .unwrap_or_default()
    }

    /// SCH-39. The keys are those of one label; the result keeps that of `self`.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let at_least = self.at_least.max(other.at_least);
        let at_most = match (self.at_most, other.at_most) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let mut result = Self {
            key: self.key.clone(),
            complement: self.complement && other.complement,
            values: Values::default(),
            at_least,
            at_most,
            min_values: self.min_values.max(other.min_values),
        };
        if let (Some(low), Some(high)) = (at_least, at_most)
            && low > high
        {
            (result.complement, result.at_least, result.at_most) = (false, None, None);
            return result;
        }
        let (ours, theirs) = (&self.values, &other.values);
        let mut values = match (self.complement, other.complement) {
            (true, true) => ours.union(theirs),
            (true, false) => theirs.filtered(|value| !ours.contains(value)),
            (false, true) => ours.filtered(|value| !theirs.contains(value)),
            (false, false) => ours.filtered(|value| theirs.contains(value)),
        };
        values.retain(|value| result.in_bounds(value));
        result.values = values;
        if !result.complement {
            (result.at_least, result.at_most) = (None, None);
        }
        result
    }

    /// Whether some value satisfies both, without building the intersection (SCH-44).
    fn has_common_value(&self, other: &Self) -> bool {
        match (self.complement, other.complement) {
            (true, true) => {
                let low = self.at_least.max(other.at_least);
                let high = [self.at_most, other.at_most].into_iter().flatten().min();
                !matches!((low, high), (Some(low), Some(high)) if low > high)
            }
            (false, _) => self.values.iter().any(|value| other.has(value)),
            (true, false) => other.values.iter().any(|value| self.has(value)),
        }
    }

    /// SCH-44: a shared value, or both sides are content with the label being absent.
    pub fn intersects(&self, other: &Self) -> bool {
        let may_be_absent = |one: &Self| matches!(one.operator(), Operator::NotIn | Operator::DoesNotExist);
        (may_be_absent(self) && may_be_absent(other)) || self.has_common_value(other)
    }

    /// The API's form (SCH-38). Excluded values are lost where a bound exists, as in the target.
    pub fn entries(&self) -> Vec<RequirementEntry> {
        let entry = |operator, values: Vec<String>| RequirementEntry {
            key: self.key.clone(),
            operator,
            values,
            min_values: self.min_values,
        };
        let bounds: Vec<_> = [(Operator::Gte, self.at_least), (Operator::Lte, self.at_most)]
            .into_iter()
            .filter_map(|(operator, bound)| Some(entry(operator, vec![bound?.to_string()])))
            .collect();
        if bounds.is_empty() {
            vec![entry(self.operator(), self.values().map(ToOwned::to_owned).collect())]
        } else {
            bounds
        }
    }
}

/// SCH-37.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 5;
        write!(f, "{} {}", self.key, self.operator().as_str())?;
        if !self.values.is_empty() {
            let shown: Vec<&str> = self.values().take(SHOWN).collect();
            write!(f, " [{}", shown.join(" "))?;
            if self.values.len() > SHOWN {
                write!(f, " and {} others", self.values.len() - SHOWN)?;
            }
            f.write_str("]")?;
        }
        if let Some(bound) = self.at_least {
            write!(f, " >={bound}")?;
        }
        if let Some(bound) = self.at_most {
            write!(f, " <={bound}")?;
        }
        if let Some(min_values) = self.min_values {
            write!(f, " minValues {min_values}")?;
        }
        Ok(())
    }
}

/// Requirements by key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Requirements(Vec<Requirement>);

impl Requirements {
    pub fn new() -> Self {
        Self::default()
    }

    /// Each label as `In [value]`.
    pub fn from_labels<'a>(rules: &LabelRules, labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let mut set = Self::new();
        for (key, value) in labels {
            set.add(Requirement::any_of(rules.normalized(key), [value.as_str()]));
        }
        set
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|known| known.key.as_str().cmp(key))
    }

    /// A key that is there already is narrowed (SCH-40).
    pub fn add(&mut self, requirement: Requirement) {
        match self.position(requirement.key()) {
            Ok(at) => self.0[at] = self.0[at].intersection(&requirement),
            Err(at) => self.0.insert(at, requirement),
        }
    }

    pub fn add_all(&mut self, other: &Self) {
        for requirement in other.iter() {
            self.add(requirement.clone());
        }
    }

    /// Takes the place of what was required of the key before.
    pub fn replace(&mut self, requirement: Requirement) {
        match self.position(requirement.key()) {
            Ok(at) => self.0[at] = requirement,
            Err(at) => self.0.insert(at, requirement),
        }
    }

    pub fn remove(&mut self, key: &str) {
        if let Ok(at) = self.position(key) {
            self.0.remove(at);
        }
    }

    pub fn get(&self, key: &str) -> Option<&Requirement> {
        self.position(key).ok().map(|at| &self.0[at])
    }

    pub fn has_key(&self, key: &str) -> bool {
        self.position(key).is_ok()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Requirement> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn entries(&self) -> Vec<RequirementEntry> {
        self.iter().flat_map(Requirement::entries).collect()
    }
}

impl FromIterator<Requirement> for Requirements {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        let mut set = Self::new();
        requirements.into_iter().for_each(|requirement| set.add(requirement));
        set
    }
}

/// Sorted, comma-separated, without the host name (SCH-37).
impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> =
            self.iter().filter(|requirement| requirement.key() != labels::HOSTNAME).map(ToString::to_string).collect();
        f.write_str(&shown.join(", "))
    }
}

#[cfg(test)]
mod tests;
