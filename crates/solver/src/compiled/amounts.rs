//! Resources as positions in lists, with exact amounts.

use karpenter_model::quantity::Quantity;
use karpenter_model::resources::Resources;

/// Amounts by the position of the resource's name; `None` where the list does not name it.
pub(crate) type Amounts = Vec<Option<Quantity>>;

/// The resources that anybody has or asks for. There are few, so looking through them is quickest.
#[derive(Debug, Default)]
pub(crate) struct Names(Vec<String>);

impl Names {
    pub(crate) fn position(&mut self, name: &str) -> usize {
        if let Some(at) = self.0.iter().position(|known| known == name) {
            return at;
        }
        self.0.push(name.to_owned());
        self.0.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn amounts(&mut self, resources: &Resources) -> Amounts {
        let mut amounts = vec![None; self.0.len()];
        for (name, amount) in resources.iter() {
            let at = self.position(name);
            set(&mut amounts, at, amount);
        }
        amounts
    }

    pub(crate) fn resources(&self, amounts: &Amounts) -> Resources {
        let named = self.0.iter().zip(amounts);
        named.filter_map(|(name, amount)| Some((name, (*amount)?))).collect()
    }
}

pub(crate) fn set(amounts: &mut Amounts, at: usize, amount: Quantity) {
    if at >= amounts.len() {
        amounts.resize(at + 1, None);
    }
    amounts[at] = Some(amount);
}

/// Nothing named counts as zero.
pub(crate) fn nanos(amounts: &[Option<Quantity>], at: usize) -> i128 {
    amounts.get(at).copied().flatten().map_or(0, Quantity::nanos)
}

pub(crate) fn add(amounts: &mut Amounts, more: &[Option<Quantity>]) {
    if amounts.len() < more.len() {
        amounts.resize(more.len(), None);
    }
    for (sum, more) in amounts.iter_mut().zip(more) {
        if let Some(more) = more {
            *sum = Some(sum.unwrap_or_default() + *more);
        }
    }
}

/// Keeps exactly what `amounts` names (SCH-66).
pub(crate) fn subtract(amounts: &mut Amounts, less: &[Option<Quantity>]) {
    for (amount, less) in amounts.iter_mut().zip(less) {
        if let (Some(amount), Some(less)) = (amount, less) {
            *amount -= *less;
        }
    }
}

/// Whether `amounts` names all that `more` does.
pub(crate) fn names(amounts: &[Option<Quantity>], more: &[Option<Quantity>]) -> bool {
    more.iter().enumerate().all(|(at, more)| more.is_none() || amounts.get(at).is_some_and(Option::is_some))
}

/// Takes a subtraction back.
pub(crate) fn give_back(amounts: &mut Amounts, more: &[Option<Quantity>]) {
    for (amount, more) in amounts.iter_mut().zip(more) {
        if let (Some(amount), Some(more)) = (amount, more) {
            *amount += *more;
        }
    }
}

/// SCH-64.
pub(crate) fn fits(needed: &[Option<Quantity>], available: &Amounts) -> bool {
    let named = needed.iter().enumerate().filter_map(|(at, amount)| Some((at, (*amount)?)));
    !available.iter().flatten().any(|amount| amount.is_negative())
        && named.into_iter().all(|(at, amount)| amount.nanos() <= nanos(available, at))
}
