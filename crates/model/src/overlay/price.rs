//! What an overlay does to a price.

use crate::instance_type::Price;

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PriceChange {
    /// This much, whatever it was.
    Set(Price),
    /// This much more or less, never below zero.
    Add(f64),
    /// This percentage more or less, never below zero.
    Percent(f64),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a price nor a signed amount or percentage")]
pub struct PriceChangeError(String);

impl PriceChange {
    /// A price, a signed amount or a signed percentage; an empty text changes nothing (SCH-176).
    pub fn parse(text: &str) -> Result<Option<Self>, PriceChangeError> {
        let error = || PriceChangeError(text.to_owned());
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(error);
        if text.is_empty() {
            return Ok(None);
        }
        if !text.starts_with(['+', '-']) {
            return Price::new(number(text)?).map(|price| Some(Self::Set(price))).map_err(|_| error());
        }
        Ok(Some(match text.strip_suffix('%') {
            Some(percent) => Self::Percent(number(percent)?),
            None => Self::Add(number(text)?),
        }))
    }

    #[must_use]
    pub fn apply(self, price: Price) -> Price {
        let changed = match self {
            Self::Set(price) => return price,
            Self::Add(amount) => price.per_hour() + amount,
            Self::Percent(percent) => price.per_hour() * (1.0 + percent / 100.0),
        };
        // Beyond what a number can say, the price stays what it was.
        Price::new(changed.max(0.0)).unwrap_or(price)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SC-257, SCH-176, API-87.
    #[test]
    fn arithmetic() {
        for (price, change, want) in [
            (10.0, "-10%", 9.0),
            (10.0, "+10%", 11.0),
            (10.0, "-50%", 5.0),
            (10.0, "+100%", 20.0),
            (10.0, "-100%", 0.0),
            (10.0, "-200%", 0.0),
            (10.0, "+0", 10.0),
            (10.0, "+5", 15.0),
            (10.0, "-2.5", 7.5),
            (10.0, "-10", 0.0),
            (10.0, "-15", 0.0),
            (10.0, "", 10.0),
            (1.5, "-25%", 1.125),
            (1.25, "+0.75", 2.0),
            (0.001, "+100", 100.001),
            (82781.0, "80", 80.0),
            (f64::MAX, "+100%", f64::MAX),
        ] {
            let base = Price::new(price).unwrap();
            let changed = PriceChange::parse(change).unwrap().map_or(base, |change| change.apply(base));
            assert!((changed.per_hour() - want).abs() < 1e-9, "{price} {change} is {changed}, not {want}");
        }
    }

    /// SCH-164: what cannot be read is an error that names it.
    #[test]
    fn texts_that_say_nothing() {
        for text in ["+", "-%", "x", "+x%", "10%", "NaN", "inf", "--1", "+inf", "1e999"] {
            assert_eq!(PriceChange::parse(text), Err(PriceChangeError(text.to_owned())));
        }
    }
}
