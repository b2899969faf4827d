//! What a catalogue sells, and in which order of price. It never changes, so plans can refer to it.

use std::sync::Arc;

use karpenter_model::instance_type::{InstanceType, Price};

use super::amounts::Amounts;
use super::bits;
use super::intern::{Id, id};

#[derive(Debug, Default)]
pub(crate) struct Stock {
    /// Kept, so that the list is known again by its address.
    pub(crate) types: Arc<Vec<InstanceType>>,
    /// Positions in `types`, by name.
    pub(crate) by_name: Vec<usize>,
    pub(crate) rows: Vec<Row>,
    /// Rows of each type, by its place in `by_name`.
    pub(super) rows_of: Vec<std::ops::Range<usize>>,
    /// Of each kind of offerings.
    pub(super) capacity_types: Vec<Option<String>>,
}

#[derive(Debug)]
pub(crate) struct Row {
    /// A place in `by_name`.
    pub(crate) of: usize,
    pub(crate) allocatable: Amounts,
    pub(super) sales: Vec<Sale>,
}

/// An available offering of a row.
#[derive(Debug)]
pub(super) struct Sale {
    pub(super) kind: usize,
    pub(super) price: Price,
    pub(super) launchable: bool,
}

impl Stock {
    pub(crate) fn known(&self, row: usize) -> &InstanceType {
        self.of(self.rows[row].of)
    }

    /// The type at this place in the order of names.
    pub(crate) fn of(&self, of: usize) -> &InstanceType {
        &self.types[self.by_name[of]]
    }

    /// The types of these rows, by name.
    pub(crate) fn types_of<'a>(&'a self, rows: &'a [u64]) -> impl Iterator<Item = &'a InstanceType> + Clone + 'a {
        let mut last = usize::MAX;
        let firsts: Vec<usize> = bits::ones(rows)
            .filter(|row| {
                let of = self.rows[*row].of;
                std::mem::replace(&mut last, of) != of
            })
            .collect();
        firsts.into_iter().map(|row| self.known(row))
    }
}

/// Rows by what they cost where only some kinds of offerings are asked for, ties by name; those that cannot be had last.
#[derive(Debug)]
pub(crate) struct Order {
    stock: Arc<Stock>,
    pub(super) offered: Vec<bool>,
    rows: Vec<(Price, Id)>,
}

impl Order {
    /// `similar`: another order, which this one will not be far from.
    pub(super) fn new(stock: &Arc<Stock>, offered: Vec<bool>, similar: Option<&Self>) -> Self {
        let price = |row: &Row| {
            let sold = row.sales.iter().filter(|sale| sale.launchable && offered[sale.kind]);
            sold.map(|sale| sale.price).min().unwrap_or(Price::MAX)
        };
        let priced = |at: Id| (price(&stock.rows[at as usize]), at);
        let mut rows: Vec<(Price, Id)> = match similar {
            Some(similar) => similar.rows.iter().map(|(_, at)| priced(*at)).collect(),
            None => (0..id(stock.rows.len())).map(priced).collect(),
        };
        // Rows follow names. What is in order already costs little.
        rows.sort();
        Self { stock: stock.clone(), offered, rows }
    }

    /// What the cheapest of these rows costs.
    pub(crate) fn cheapest(&self, rows: &[u64]) -> Price {
        let first = self.rows.iter().find(|(_, row)| bits::has(rows, *row as usize));
        first.map_or(Price::MAX, |(price, _)| *price)
    }

    /// The types of these rows with what they cost, cheapest first, at most so many (SCH-117).
    pub(crate) fn types(&self, rows: &[u64], most: usize) -> Vec<(Price, &InstanceType)> {
        self.places(rows, most).into_iter().map(|(price, of)| (price, self.stock.of(of))).collect()
    }

    pub(crate) fn places(&self, rows: &[u64], most: usize) -> Vec<(Price, usize)> {
        let mut listed = bits::Bits::new(self.stock.by_name.len());
        let mut types = Vec::new();
        for (price, row) in self.rows.iter().filter(|(_, row)| bits::has(rows, *row as usize)) {
            if types.len() == most {
                break;
            }
            let of = self.stock.rows[*row as usize].of;
            // A type of several rows costs what the cheapest of them does.
            if !listed.has(of) {
                listed.set(of);
                types.push((*price, of));
            }
        }
        types
    }

    /// Names of these types, and the capacity types they can be had in.
    pub(crate) fn named(&self, rows: &[u64], most: usize) -> (Vec<String>, Vec<&str>) {
        let types = self.places(rows, most);
        let mut kinds = vec![false; self.offered.len()];
        for (_, of) in &types {
            let sales = self.stock.rows_of[*of].clone().flat_map(|row| &self.stock.rows[row].sales);
            let sold = sales.filter(|sale| sale.launchable && self.offered[sale.kind]);
            sold.for_each(|sale| kinds[sale.kind] = true);
        }
        let had = self.stock.capacity_types.iter().zip(kinds).filter(|(_, had)| *had);
        let names = types.iter().map(|(_, of)| self.stock.of(*of).name.clone()).collect();
        (names, had.filter_map(|(name, _)| name.as_deref()).collect())
    }
}
