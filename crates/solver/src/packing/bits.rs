//! A set of small numbers.

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    /// The empty set of numbers below `size`.
    pub(crate) fn new(size: usize) -> Self {
        Self(vec![0; size.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    pub(crate) fn contains(&self, index: usize) -> bool {
        self.0.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn is_subset(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a & !b == 0)
    }

    pub(crate) fn intersect(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a &= b);
    }

    /// In ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros();
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    index * 64 + bit as usize
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_more_than_one_word() {
        let set = |members: &[usize]| {
            let mut bits = Bits::new(130);
            for member in members {
                bits.insert(*member);
            }
            bits
        };
        let mut some = set(&[0, 63, 64, 129]);
        assert_eq!(some.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert!(set(&[64]).is_subset(&some) && !set(&[65]).is_subset(&some));
        assert!(some.contains(129) && !some.contains(128) && !some.contains(1000));
        some.intersect(&set(&[1, 63]));
        assert_eq!(some, set(&[63]));
        assert!(!some.is_empty() && set(&[]).is_empty());
    }
}
