//! Whether what is asked for can be met: compatibility of requirement sets.

use std::fmt;

use super::{Operator, Requirement, Requirements};
use crate::labels::LabelRules;

/// Which keys may be missing on the node side (SCH-43).
#[derive(Debug, Clone, Copy)]
pub enum Undefined<'a> {
    /// Well-known labels may be missing: claims, offerings, launch.
    WellKnownAllowed(&'a LabelRules),
    /// Nothing may be missing: existing nodes, overlays, topology filters.
    Denied,
}

impl Undefined<'_> {
    fn allows(self, key: &str) -> bool {
        match self {
            Self::WellKnownAllowed(rules) => rules.is_well_known(key),
            Self::Denied => false,
        }
    }
}

/// Why two requirement sets do not meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incompatibility {
    /// The key is not defined on the node side; perhaps `hint` was meant.
    Undefined { key: String, hint: Option<String> },
    /// The values asked for and the values there are have nothing in common.
    Conflict { asked: Requirement, found: Requirement },
}

impl fmt::Display for Incompatibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undefined { key, hint: None } => write!(f, "label {key:?} does not have known values"),
            Self::Undefined { key, hint: Some(hint) } => {
                write!(f, "label {key:?} does not have known values (did you mean {hint:?}?)")
            }
            Self::Conflict { asked, found } => write!(f, "key {}, {asked} not in {found}", asked.key()),
        }
    }
}

impl Requirements {
    /// Whether `incoming` can be satisfied by what `self` (the node side) says (SCH-42): the first undefined key, then
    /// all conflicts (SCH-46). Empty when they are compatible.
    pub fn incompatibilities(&self, incoming: &Self, undefined: Undefined<'_>) -> Vec<Incompatibility> {
        let missing = incoming.iter().find(|asked| {
            !undefined.allows(asked.key())
                && !self.has_key(asked.key())
                && !matches!(asked.operator(), Operator::NotIn | Operator::DoesNotExist)
        });
        let missing = missing.map(|asked| Incompatibility::Undefined {
            key: asked.key().to_owned(),
            hint: self.hint(asked.key(), undefined),
        });
        let conflicts = incoming.iter().filter_map(|asked| {
            let found = self.get(asked.key())?;
            (!found.intersects(asked)).then(|| Incompatibility::Conflict { asked: asked.clone(), found: found.clone() })
        });
        missing.into_iter().chain(conflicts).collect()
    }

    /// [`Self::incompatibilities`] as a plain answer, for hot paths.
    pub fn is_compatible(&self, incoming: &Self, undefined: Undefined<'_>) -> bool {
        incoming.iter().all(|asked| match self.get(asked.key()) {
            Some(found) => found.intersects(asked),
            None => {
                undefined.allows(asked.key()) || matches!(asked.operator(), Operator::NotIn | Operator::DoesNotExist)
            }
        })
    }

    /// Whether the shared keys meet, whatever else either side asks for (SCH-44, SCH-45).
    pub fn intersects(&self, other: &Self) -> bool {
        self.iter().all(|mine| other.get(mine.key()).is_none_or(|theirs| mine.intersects(theirs)))
    }

    /// A known label that the key may be a slip of (SCH-46).
    fn hint(&self, key: &str, undefined: Undefined<'_>) -> Option<String> {
        let well_known: Vec<&str> = match undefined {
            Undefined::WellKnownAllowed(rules) => rules.well_known_keys().collect(),
            Undefined::Denied => Vec::new(),
        };
        let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
        well_known
            .into_iter()
            .chain(self.iter().map(Requirement::key))
            .find(|known| known.contains(key) || known.ends_with(name))
            .map(ToOwned::to_owned)
    }
}
