//! Names in the shortest form: a large cluster has 300,000 pods, and every byte of theirs counts as many times.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A name that many say, such as a namespace's or a node's: one pointer for each, one text for all who got it from the
/// same place. The box is there because a pointer to a text alone takes twice the room in each pod.
#[derive(Clone)]
pub struct Text(Arc<Box<str>>);

/// A name that nobody else has.
#[derive(Clone)]
pub struct Name(Box<str>);

impl Text {
    /// Whether both are one text in memory, which is more than being equal.
    pub fn is_one_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How many owners the text has.
    pub fn owners(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl From<Box<str>> for Text {
    fn from(text: Box<str>) -> Self {
        Self(Arc::new(text))
    }
}

impl From<Box<str>> for Name {
    fn from(text: Box<str>) -> Self {
        Self(text)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.is_one_with(other) || **self == **other
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// Both are read, compared and hashed as the text that they are.
macro_rules! is_text {
    ($($type:ident),+) => { $(
        impl $type {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $type {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                self
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                self
            }
        }

        impl Default for $type {
            fn default() -> Self {
                Box::<str>::default().into()
            }
        }

        impl From<&str> for $type {
            fn from(text: &str) -> Self {
                Box::<str>::from(text).into()
            }
        }

        impl From<String> for $type {
            fn from(text: String) -> Self {
                text.into_boxed_str().into()
            }
        }

        impl From<&String> for $type {
            fn from(text: &String) -> Self {
                text.as_str().into()
            }
        }

        impl From<$type> for String {
            fn from(text: $type) -> Self {
                text.as_str().into()
            }
        }

        impl From<&$type> for String {
            fn from(text: &$type) -> Self {
                text.as_str().into()
            }
        }

        impl Eq for $type {}

        impl PartialEq<str> for $type {
            fn eq(&self, other: &str) -> bool {
                **self == *other
            }
        }

        impl PartialEq<&str> for $type {
            fn eq(&self, other: &&str) -> bool {
                **self == **other
            }
        }

        impl PartialEq<String> for $type {
            fn eq(&self, other: &String) -> bool {
                **self == **other
            }
        }

        impl PartialEq<$type> for str {
            fn eq(&self, other: &$type) -> bool {
                *self == **other
            }
        }

        impl PartialEq<$type> for String {
            fn eq(&self, other: &$type) -> bool {
                **self == **other
            }
        }

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $type {
            fn cmp(&self, other: &Self) -> Ordering {
                (**self).cmp(&**other)
            }
        }

        impl Hash for $type {
            fn hash<H: Hasher>(&self, state: &mut H) {
                (**self).hash(state);
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, f)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&**self, f)
            }
        }
    )+ };
}

is_text!(Text, Name);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_texts() {
        let (one, other, same) = (Text::from("a"), Text::from("b".to_owned()), Text::from("a"));
        assert!(one == same && !one.is_one_with(&same) && one.is_one_with(&one.clone()));
        let owned = String::from(&same);
        assert!(one < other);
        assert_eq!(one, "a");
        assert_ne!(one, *"b");
        assert_eq!(one, owned);
        assert_eq!(owned, one);
        assert_eq!((one.to_string(), format!("{other:?}"), one.len()), ("a".to_owned(), "\"b\"".to_owned(), 1));
        assert_eq!(
            (Name::from("x").as_str(), Name::default().is_empty(), String::from(Name::from("y"))),
            ("x", true, "y".to_owned())
        );
        assert_eq!((size_of::<Option<Text>>(), size_of::<Name>()), (8, 16));
    }
}
