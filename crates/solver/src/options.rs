//! How a pass plans.

/// What preferences of pods are worth (SCH-95).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preferences {
    /// Treated as required, then given up one by one.
    #[default]
    Respect,
    Ignore,
}

/// What happens when a pool's `minValues` cannot be met (SCH-49).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinValuesPolicy {
    #[default]
    Strict,
    BestEffort,
}

/// What happens when reserved capacity exists but others hold it (SCH-113).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reserved {
    /// The gate is off: reservations are not kept track of.
    Untracked,
    /// The pod waits for another pass, so that what is cheaper is used up first: provisioning.
    #[default]
    Strict,
    /// The pod gets something else: simulations.
    Fallback,
}

/// Who plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Planner {
    /// The specified order, exactly.
    #[default]
    Reference,
    /// The reference, and whatever is cheaper and just as valid.
    Best,
}

impl Planner {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Best => "best",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub preferences: Preferences,
    pub min_values: MinValuesPolicy,
    pub reserved: Reserved,
    /// The most instance types a claim names (API-277).
    pub max_instance_types: usize,
    pub planner: Planner,
    /// Threads that may share the work of one pass (SCH-21). The plan is the same with any number of them (SC-369).
    pub workers: usize,
    /// How much work [`Planner::Best`] may do beyond the reference; a hundred million steps take about a second.
    pub steps: u64,
}

impl Options {
    /// Cheaper plans are looked for: for half a second at most, and only where thousands of pods wait.
    pub fn thorough() -> Self {
        Self { planner: Planner::Best, steps: 50_000_000, ..Self::default() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            preferences: Preferences::Respect,
            min_values: MinValuesPolicy::Strict,
            reserved: Reserved::Strict,
            max_instance_types: 600,
            planner: Planner::Reference,
            workers: 1,
            steps: 200_000_000,
        }
    }
}
