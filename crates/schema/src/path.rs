use std::fmt::{self, Display, Write as _};

/// One step from a value to a value inside it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// A declared property.
    Field(String),
    /// A key of a map.
    Key(String),
    /// An element of a list.
    Index(usize),
}

/// Where in an object something is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath(Vec<Segment>);

impl FieldPath {
    pub fn root() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        self.with(Segment::Field(name.to_owned()))
    }

    #[must_use]
    pub fn key(&self, name: &str) -> Self {
        self.with(Segment::Key(name.to_owned()))
    }

    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(Segment::Index(index))
    }

    fn with(&self, segment: Segment) -> Self {
        let mut segments = self.0.clone();
        segments.push(segment);
        Self(segments)
    }

    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The path with map keys in brackets, as the API server prints it for CEL rules; `Display` joins them with dots.
    pub fn bracketed(&self) -> String {
        let mut text = String::new();
        for segment in &self.0 {
            match segment {
                Segment::Key(key) => {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "[{key}]");
                }
                other => append(&mut text, other),
            }
        }
        text
    }
}

fn append(text: &mut String, segment: &Segment) {
    match segment {
        Segment::Field(name) | Segment::Key(name) => {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(name);
        }
        Segment::Index(index) => {
            let _ = write!(text, "[{index}]");
        }
    }
}

impl Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        for segment in &self.0 {
            append(&mut text, segment);
        }
        f.write_str(&text)
    }
}
