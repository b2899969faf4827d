//! How much of a shared device a request takes.

use std::collections::BTreeMap;

use karpenter_model::devices::{Device, DeviceCapacity, ValidAmounts};
use karpenter_model::quantity::Quantity;

/// Per dimension; `None` when the device cannot be asked for that much, or lacks a dimension (SCH-209).
pub(super) fn consumption(device: &Device, asked: &BTreeMap<String, Quantity>) -> Option<BTreeMap<String, Quantity>> {
    if asked.keys().any(|name| !device.capacity.contains_key(name)) {
        return None;
    }
    let one = |(name, capacity): (&String, &DeviceCapacity)| {
        let amount = match asked.get(name) {
            // The default is always right, whatever amounts are valid.
            None => capacity.default.unwrap_or(capacity.value),
            Some(asked) => rounded(*asked, &capacity.valid)?,
        };
        Some((name.clone(), amount))
    };
    device.capacity.iter().map(one).collect()
}

fn rounded(asked: Quantity, valid: &ValidAmounts) -> Option<Quantity> {
    match valid {
        ValidAmounts::Any => Some(asked),
        ValidAmounts::Listed(all) => all.iter().copied().find(|listed| *listed >= asked),
        ValidAmounts::Range { min, max, step } => {
            let above = asked.max(*min);
            let amount = match step.filter(|step| *step > Quantity::ZERO) {
                Some(step) => stepped(above, *min, step),
                None => above,
            };
            max.is_none_or(|max| amount <= max).then_some(amount)
        }
    }
}

/// The next amount that is a whole number of steps above the least one.
fn stepped(amount: Quantity, min: Quantity, step: Quantity) -> Quantity {
    let beyond = amount.nanos() - min.nanos();
    let rest = beyond.rem_euclid(step.nanos());
    if rest == 0 { amount } else { amount + step - amount_of(rest) }
}

fn amount_of(nanos: i128) -> Quantity {
    // A remainder of a step is below it, and steps are quantities themselves.
    Quantity::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gi(amount: i64) -> Quantity {
        Quantity::bytes(amount << 30)
    }

    fn listed() -> ValidAmounts {
        ValidAmounts::Listed(vec![gi(4), gi(8), gi(16)])
    }

    fn range() -> ValidAmounts {
        ValidAmounts::Range { min: gi(4), max: Some(gi(72)), step: Some(gi(4)) }
    }

    /// SC-307, SC-310, SCH-209: capacity, default, what is valid, what is asked, what is taken.
    #[test]
    fn amounts_are_rounded() {
        for (id, default, valid, asked, want) in [
            ("SC-310 list", None, listed(), Some(gi(5)), Some(gi(8))),
            ("SC-310 list", None, listed(), Some(gi(32)), None),
            ("SC-310 list", None, listed(), Some(gi(4)), Some(gi(4))),
            ("SC-310 range", None, range(), Some(gi(5)), Some(gi(8))),
            ("SC-310 range", None, range(), Some(gi(1)), Some(gi(4))),
            ("SC-310 range", None, range(), Some(gi(72)), Some(gi(72))),
            ("SC-310 range", None, range(), Some(gi(76)), None),
            ("no step", None, ValidAmounts::Range { min: gi(4), max: None, step: None }, Some(gi(5)), Some(gi(5))),
            (
                "no sense",
                None,
                ValidAmounts::Range { min: gi(4), max: None, step: Some(gi(0)) },
                Some(gi(5)),
                Some(gi(5)),
            ),
            ("SC-310 default", Some(gi(9)), range(), None, Some(gi(9))),
            ("SC-307 no default", None, ValidAmounts::Any, None, Some(gi(80))),
            ("as asked", None, ValidAmounts::Any, Some(gi(3)), Some(gi(3))),
        ] {
            let capacity = DeviceCapacity { value: gi(80), default, valid };
            let device = Device { capacity: BTreeMap::from([("memory".to_owned(), capacity)]), ..Device::default() };
            let asked = asked.map(|amount| ("memory".to_owned(), amount)).into_iter().collect();
            let taken = consumption(&device, &asked).map(|all| all["memory"]);
            assert_eq!(taken, want, "{id}");
        }
        let unknown = BTreeMap::from([("memory".to_owned(), gi(1))]);
        assert_eq!(consumption(&Device::default(), &unknown), None, "SC-307: a dimension that it lacks");
        assert_eq!(consumption(&Device::default(), &BTreeMap::new()), Some(BTreeMap::new()));
    }
}
