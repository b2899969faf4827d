//! Sets of small numbers.

#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub(crate) fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    pub(crate) fn words(&self) -> &[u64] {
        &self.0
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }

    /// The word, zero beyond the end.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, bit: usize) {
        if bit / 64 >= self.0.len() {
            self.0.resize(bit / 64 + 1, 0);
        }
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    pub(crate) fn clear(&mut self, bit: usize) {
        if let Some(word) = self.0.get_mut(bit / 64) {
            *word &= !(1 << (bit % 64));
        }
    }

    /// Empty, with room for so many.
    pub(crate) fn clear_all(&mut self, len: usize) {
        self.0.clear();
        self.0.resize(len.div_ceil(64), 0);
    }

    pub(crate) fn has(&self, bit: usize) -> bool {
        has(&self.0, bit)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        ones(&self.0)
    }

    pub(crate) fn union(&mut self, other: &Self) {
        if other.0.len() > self.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }
}

pub(crate) fn has(words: &[u64], bit: usize) -> bool {
    words.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
}

/// The numbers in the set, ascending.
pub(crate) fn ones(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(at, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                at * 64 + bit
            })
        })
    })
}
