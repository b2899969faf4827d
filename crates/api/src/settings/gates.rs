//! Feature gates (API-164 … API-167, V15-13).

use super::reader::boolean;

macro_rules! gates {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $gate:literal = $default:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name { $($(#[$doc])* pub $field: bool,)+ }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl $name {
            /// Names and defaults, in the order in which they are listed everywhere.
            pub const ALL: &'static [(&'static str, bool)] = &[$(($gate, $default),)+];

            /// `Name=bool` separated by commas. Unnamed gates keep their default; unknown names are ignored.
            pub fn parse(text: &str) -> Result<Self, GateError> {
                let mut gates = Self::default();
                for (name, value) in pairs(text)? {
                    match name {
                        $($gate => gates.$field = value,)+
                        _ => {}
                    }
                }
                Ok(gates)
            }
        }
    };
}

gates! {
    /// Gates of the core.
    FeatureGates {
        node_repair: "NodeRepair" = false,
        reserved_capacity: "ReservedCapacity" = true,
        spot_to_spot_consolidation: "SpotToSpotConsolidation" = false,
        node_overlay: "NodeOverlay" = false,
        static_capacity: "StaticCapacity" = false,
        capacity_buffer: "CapacityBuffer" = false,
        terminate_first_drift: "TerminateFirstDrift" = false,
        /// Means something only together with `NodeRepair`.
        terminate_first_repair: "TerminateFirstRepair" = false,
        pod_deletion_cost_management: "PodDeletionCostManagement" = false,
    }
}

gates! {
    /// Gates of the AWS provider.
    AwsFeatureGates {
        node_class_cel: "NodeClassCEL" = false,
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    #[error("{0:?} is not of the form Name=true or Name=false")]
    NoValue(String),
    #[error("gate {name} must be true or false, is {value:?}")]
    NotBoolean { name: String, value: String },
}

fn pairs(text: &str) -> Result<Vec<(&str, bool)>, GateError> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            let (name, value) = item.split_once('=').ok_or_else(|| GateError::NoValue(item.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let parsed = boolean(value);
            let error = || GateError::NotBoolean { name: name.to_owned(), value: value.to_owned() };
            parsed.map(|value| (name, value)).ok_or_else(error)
        })
        .collect()
}
