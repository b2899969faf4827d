//! Instance types as columns.
//!
//! A row is a type with the offerings that leave pods the same resources; nearly every type is one row. Rows are
//! ordered by type name. What a set of requirements allows is a set of rows, worked out once for each set.

use std::collections::BTreeMap;
use std::sync::Arc;

use karpenter_model::instance_type::{InstanceType, Offering};
use karpenter_model::quantity::Quantity;
use karpenter_model::requirements::Requirements;
use karpenter_model::resources::{HUGEPAGES_PREFIX, MEMORY, Resources};

use super::algebra::{Algebra, KeyId, ReqId, SetId};
use super::amounts::{Amounts, Names, nanos};
use super::bits::Bits;
use super::intern::{Id, NONE, id};
use super::stock::{Order, Row, Sale, Stock};

#[derive(Debug)]
pub(crate) struct Catalogue {
    stock: Arc<Stock>,
    /// Some type has several rows.
    pub(crate) several: bool,
    kinds: Vec<Kind>,
    /// Rows with an offering that is bought from a reservation.
    pub(crate) reserved: Bits,
    /// What the types say about a key, by type; absent when none of them says anything.
    columns: BTreeMap<KeyId, Option<Vec<SetId>>>,
    set_masks: Vec<Option<Bits>>,
    masks: Vec<Option<Masks>>,
    fits: Vec<(Resources, Arc<Vec<Column>>)>,
    /// By price, for each combination of kinds of offerings that is asked for.
    orders: Vec<Arc<Order>>,
    /// By set of requirements: which of them.
    order_of: Vec<Id>,
}

impl std::ops::Deref for Catalogue {
    type Target = Stock;

    fn deref(&self) -> &Stock {
        &self.stock
    }
}

/// Available offerings that ask for the same, and the rows that have one.
#[derive(Debug)]
struct Kind {
    req: ReqId,
    /// One of them.
    requirements: Requirements,
    capacity_type: Option<String>,
    /// Bought from a reservation.
    reserved: bool,
    rows: Bits,
}

/// Rows that a set of requirements allows.
#[derive(Debug)]
pub(crate) struct Masks {
    /// The type meets it.
    pub(crate) types: Bits,
    /// ... and has an offering for it.
    pub(crate) offered: Bits,
}

/// How much of one resource rows have left, ascending, with the rows that have at least as much.
#[derive(Debug, Default)]
pub(crate) struct Column {
    values: Vec<i128>,
    masks: Vec<u64>,
    /// Every row has the least of the values, so that asking for no more changes nothing.
    full: bool,
}

impl Catalogue {
    pub(crate) fn new(types: &Arc<Vec<InstanceType>>, algebra: &mut Algebra, names: &mut Names) -> Self {
        let mut by_name: Vec<usize> = (0..types.len()).collect();
        by_name.sort_by(|a, b| types[*a].name.cmp(&types[*b].name));
        let mut making = Making {
            stock: Stock { rows: Vec::with_capacity(types.len()), types: types.clone(), by_name, ..Stock::default() },
            kinds: Vec::new(),
            reserved: Bits::default(),
        };
        (0..types.len()).for_each(|of| making.add_rows(of, algebra, names));
        let Making { mut stock, kinds, reserved } = making;
        stock.capacity_types = kinds.iter().map(|kind| kind.capacity_type.clone()).collect();
        Self {
            several: stock.rows_of.iter().any(|rows| rows.len() > 1),
            stock: Arc::new(stock),
            kinds,
            reserved,
            columns: BTreeMap::new(),
            set_masks: Vec::new(),
            masks: Vec::new(),
            fits: Vec::new(),
            orders: Vec::new(),
            order_of: Vec::new(),
        }
    }

    /// Rows by what they cost under the requirements.
    pub(crate) fn order(&mut self, req: ReqId, algebra: &Algebra) -> &Arc<Order> {
        let at = req as usize;
        if self.order_of.len() <= at {
            self.order_of.resize(algebra.req_count().max(at + 1), NONE);
        }
        if self.order_of[at] == NONE {
            let offered: Vec<bool> = self.kinds.iter().map(|kind| algebra.offers(req, kind.req)).collect();
            let known = self.orders.iter().position(|order| order.offered == offered);
            if known.is_none() {
                self.orders.push(Arc::new(Order::new(&self.stock, offered, self.orders.last().map(AsRef::as_ref))));
            }
            self.order_of[at] = id(known.unwrap_or(self.orders.len() - 1));
        }
        &self.orders[self.order_of[at] as usize]
    }

    /// A type stays with all its rows, or goes.
    pub(crate) fn close(&self, rows: &mut [u64]) {
        if !self.several {
            return;
        }
        for range in &self.stock.rows_of {
            if range.clone().any(|row| super::bits::has(rows, row)) {
                range.clone().for_each(|row| rows[row / 64] |= 1 << (row % 64));
            }
        }
    }

    /// What the types say about the key.
    pub(crate) fn column(&mut self, key: KeyId, algebra: &mut Algebra) -> Option<&Vec<SetId>> {
        if !self.columns.contains_key(&key) {
            let name = algebra.key_name(key).to_owned();
            let mut some = false;
            let mut column = Vec::with_capacity(self.by_name.len());
            for at in &self.by_name {
                let said = self.types[*at].requirements.get(&name);
                some |= said.is_some();
                column.push(said.map_or(NONE, |said| algebra.set(said)));
            }
            self.columns.insert(key, some.then_some(column));
        }
        self.columns.get(&key)?.as_ref()
    }

    fn add_set_mask(&mut self, key: KeyId, set: SetId, algebra: &mut Algebra) {
        let at = set as usize;
        if self.set_masks.len() <= at {
            self.set_masks.resize_with(at + 1, || None);
        }
        if self.set_masks[at].is_some() {
            return;
        }
        let mut mask = Bits::new(self.rows.len());
        let rows: Vec<usize> = self.rows.iter().map(|row| row.of).collect();
        let column = self.column(key, algebra);
        let mut last = (NONE, true);
        for (row, of) in rows.into_iter().enumerate() {
            let said = column.map_or(NONE, |column| column[of]);
            if said != last.0 {
                last = (said, algebra.intersects(said, set));
            }
            if said == NONE || last.1 {
                mask.set(row);
            }
        }
        self.set_masks[at] = Some(mask);
    }

    pub(crate) fn masks(&mut self, req: ReqId, algebra: &mut Algebra) -> &Masks {
        let at = req as usize;
        if self.masks.len() <= at {
            self.masks.resize_with(algebra.req_count().max(at + 1), || None);
        }
        if self.masks[at].is_none() {
            self.masks[at] = Some(self.compile(req, algebra));
        }
        self.masks[at].get_or_insert_with(|| Masks { types: Bits::default(), offered: Bits::default() })
    }

    fn compile(&mut self, req: ReqId, algebra: &mut Algebra) -> Masks {
        let mut types = Bits::new(self.rows.len());
        (0..self.rows.len()).for_each(|row| types.set(row));
        for (key, set) in algebra.pairs(req).to_vec() {
            if self.column(key, algebra).is_none() {
                continue;
            }
            self.add_set_mask(key, set, algebra);
            let mask = self.set_masks[set as usize].iter().flat_map(Bits::words);
            types.words_mut().iter_mut().zip(mask).for_each(|(word, mask)| *word &= mask);
        }
        let mut offered = Bits::new(self.rows.len());
        for kind in &self.kinds {
            if algebra.offers(req, kind.req) {
                offered.union(&kind.rows);
            }
        }
        offered.words_mut().iter_mut().zip(types.words()).for_each(|(word, mask)| *word &= mask);
        Masks { types, offered }
    }

    /// Columns of what is left beside an overhead that is the same on every row.
    pub(crate) fn columns_beside(&mut self, overhead: &Resources, names: &mut Names) -> Arc<Vec<Column>> {
        let wanted = names.len();
        if let Some((_, known)) = self.fits.iter().find(|(known, columns)| known == overhead && columns.len() == wanted)
        {
            return known.clone();
        }
        let amounts = names.amounts(overhead);
        let columns = Arc::new(self.columns_of(names.len(), |_| &amounts));
        self.fits.push((overhead.clone(), columns.clone()));
        columns
    }

    /// Columns of what is left beside the overhead of each row.
    pub(crate) fn columns_of<'a>(&self, resources: usize, overhead: impl Fn(usize) -> &'a Amounts) -> Vec<Column> {
        let whole = |row: &Row| !row.allocatable.iter().flatten().any(|amount| amount.is_negative());
        let usable = self.rows.iter().filter(|row| whole(row)).count();
        let words = self.rows.len().div_ceil(64);
        // A type that has more of one resource has more of the others, as a rule: what is sorted already stays so.
        let mut sorted: Vec<(i128, usize)> =
            (0..self.rows.len()).filter(|row| whole(&self.rows[*row])).map(|row| (0, row)).collect();
        let column = |at: usize| {
            for (left, row) in &mut sorted {
                *left = nanos(&self.rows[*row].allocatable, at) - nanos(overhead(*row), at);
            }
            sorted.sort_by_key(|(left, _)| *left);
            Column::new(&sorted, words, usable == self.rows.len())
        };
        (0..resources).map(column).collect()
    }
}

impl Column {
    fn new(sorted: &[(i128, usize)], words: usize, full: bool) -> Self {
        let mut values: Vec<i128> = sorted.iter().map(|(value, _)| *value).collect();
        values.dedup();
        let mut masks = vec![0; values.len() * words];
        let mut have = Bits::new(words * 64);
        let mut at = values.len();
        for (value, row) in sorted.iter().rev() {
            if values.get(at) != Some(value) {
                if at < values.len() {
                    masks[at * words..(at + 1) * words].copy_from_slice(have.words());
                }
                at -= 1;
            }
            have.set(*row);
        }
        if !values.is_empty() {
            masks[..words].copy_from_slice(have.words());
        }
        Self { values, masks, full }
    }

    /// The most that any of these rows has.
    pub(crate) fn most(&self, rows: &[u64]) -> i128 {
        let words = rows.len().max(1);
        let has =
            |at: usize| self.masks[at * words..(at + 1) * words].iter().zip(rows).any(|(mask, row)| mask & row != 0);
        // Every set of rows is in the ones before it.
        let (mut low, mut high) = (0, self.values.len());
        while low < high {
            let middle = low.midpoint(high);
            if has(middle) { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1).map_or(i128::MIN, |at| self.values[at])
    }

    /// Leaves the rows that have at least this much; whether any is left.
    pub(crate) fn keep(&self, rows: &mut [u64], needed: i128) -> bool {
        if self.full && self.values.first().is_some_and(|least| needed <= *least) {
            return true;
        }
        let at = self.values.partition_point(|value| *value < needed);
        let start = at * rows.len();
        let Some(mask) = self.masks.get(start..start + rows.len()).filter(|mask| !mask.is_empty()) else {
            rows.fill(0);
            return false;
        };
        let mut some = 0;
        for (row, mask) in rows.iter_mut().zip(mask) {
            *row &= mask;
            some |= *row;
        }
        some != 0
    }
}

/// What pods can have where no offering differs from its type (API-260); as `InstanceType::allocatable`, without making
/// the lists in between.
fn allocatable(known: &InstanceType, names: &mut Names) -> Amounts {
    let mut amounts = Vec::with_capacity(known.capacity.iter().count());
    let mut huge = Quantity::ZERO;
    for (name, capacity) in known.capacity.iter() {
        super::amounts::set(&mut amounts, names.position(name), capacity);
        if name.starts_with(HUGEPAGES_PREFIX) {
            huge += capacity;
        }
    }
    let overhead = &known.overhead;
    let mut reserved = Amounts::new();
    for list in [&overhead.kube_reserved, &overhead.system_reserved, &overhead.eviction_threshold] {
        for (name, amount) in list.iter() {
            let at = names.position(name);
            let more = reserved.get(at).copied().flatten().unwrap_or(Quantity::ZERO) + amount;
            super::amounts::set(&mut reserved, at, more);
        }
    }
    super::amounts::subtract(&mut amounts, &reserved);
    if !huge.is_zero()
        && let Some(memory) = amounts.get_mut(names.position(MEMORY)).and_then(Option::as_mut)
    {
        *memory = (*memory - huge).max(Quantity::ZERO);
    }
    amounts
}

/// A catalogue being read.
struct Making {
    stock: Stock,
    kinds: Vec<Kind>,
    reserved: Bits,
}

impl Making {
    fn add_rows(&mut self, of: usize, algebra: &mut Algebra, names: &mut Names) {
        let types = self.stock.types.clone();
        let known = &types[self.stock.by_name[of]];
        let start = self.stock.rows.len();
        let plain =
            known.offerings.iter().all(|one| one.overrides.capacity.is_empty() && one.overrides.overhead.is_empty());
        if plain {
            if known.offerings.iter().any(|offering| offering.available) {
                let sales = Vec::with_capacity(known.offerings.len());
                self.stock.rows.push(Row { of, allocatable: allocatable(known, names), sales });
                for offering in known.offerings.iter().filter(|offering| offering.available) {
                    self.add_offering(offering, start, algebra);
                }
            }
        } else {
            for group in known.allocatable_groups().into_iter().filter(|group| !group.offerings.is_empty()) {
                let row = self.stock.rows.len();
                self.stock.rows.push(Row { of, allocatable: names.amounts(&group.allocatable), sales: Vec::new() });
                for offering in group.offerings {
                    self.add_offering(offering, row, algebra);
                }
            }
        }
        self.stock.rows_of.push(start..self.stock.rows.len());
    }

    fn add_offering(&mut self, offering: &Offering, row: usize, algebra: &mut Algebra) {
        let kind = self.kind(offering, row, algebra);
        if self.kinds[kind].reserved {
            self.reserved.set(row);
        }
        self.kinds[kind].rows.set(row);
        self.stock.rows[row].sales.push(Sale { kind, price: offering.price, launchable: offering.is_launchable() });
    }

    fn kind(&mut self, offering: &Offering, row: usize, algebra: &mut Algebra) -> usize {
        // Types list the same offerings in the same order, as a rule.
        let turn = self.stock.rows[row].sales.len();
        let likely = row.checked_sub(1).and_then(|before| self.stock.rows[before].sales.get(turn));
        if let Some(likely) = likely.filter(|likely| self.kinds[likely.kind].requirements == offering.requirements) {
            return likely.kind;
        }
        let req = algebra.intern(&offering.requirements).req;
        if let Some(known) = self.kinds.iter().position(|kind| kind.req == req) {
            return known;
        }
        self.kinds.push(Kind {
            req,
            requirements: offering.requirements.clone(),
            capacity_type: offering.capacity_type().map(ToOwned::to_owned),
            reserved: offering.reservation(algebra.rules()).is_some(),
            rows: Bits::default(),
        });
        self.kinds.len() - 1
    }
}
