//! What the name of a type says (§3.2).

/// A name such as `m5.large` or `u7i-12tb.224xlarge`, taken apart. A name without exactly one dot has no family, size or
/// generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeName<'a>(pub &'a str);

impl<'a> TypeName<'a> {
    fn parts(self) -> Option<(&'a str, &'a str)> {
        self.0.split_once('.').filter(|(_, size)| !size.contains('.'))
    }

    pub fn family(self) -> Option<&'a str> {
        self.parts().map(|(family, _)| family)
    }

    pub fn size(self) -> Option<&'a str> {
        self.parts().map(|(_, size)| size)
    }

    /// The letters that the name begins with.
    pub fn category(self) -> Option<&'a str> {
        let end = self.0.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(self.0.len());
        Some(&self.0[..end]).filter(|letters| !letters.is_empty())
    }

    /// The first number after the category; the memory of a high memory type (`u-6tb1`) is not it.
    pub fn generation(self) -> Option<&'a str> {
        let (family, _) = self.0.split_once('.')?;
        let rest = &family[self.category()?.len()..];
        let sized = rest.strip_prefix('-').and_then(|size| {
            let (digits, after) = size.split_once("tb")?;
            (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(after)
        });
        let rest = sized.unwrap_or(rest);
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some(&rest[..end]).filter(|digits| !digits.is_empty())
    }

    pub fn is_flex(self) -> bool {
        self.family().is_some_and(|family| family.contains("-flex"))
    }

    pub fn is_metal(self) -> bool {
        self.size().is_some_and(|size| size.contains("metal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AC-131, AC-132, AC-133, AWS-250: names of today and names that nobody has seen.
    #[test]
    fn names_are_taken_apart() {
        for (name, category, generation, family, size) in [
            ("m5.large", "m", "5", "m5", "large"),
            ("u7i-12tb.224xlarge", "u", "7", "u7i-12tb", "224xlarge"),
            ("u-6tb1.metal", "u", "1", "u-6tb1", "metal"),
            ("m7i-flex.large", "m", "7", "m7i-flex", "large"),
            ("inf2.24xlarge", "inf", "2", "inf2", "24xlarge"),
            ("p6-b200.48xlarge", "p", "6", "p6-b200", "48xlarge"),
            ("mac2-m2pro.metal", "mac", "2", "mac2-m2pro", "metal"),
            ("quantum12.metal-7xl", "quantum", "12", "quantum12", "metal-7xl"),
            ("odd", "odd", "", "", ""),
            ("5x.large", "", "", "5x", "large"),
            ("", "", "", "", ""),
        ] {
            let name = TypeName(name);
            let parts = [name.category(), name.generation(), name.family(), name.size()].map(Option::unwrap_or_default);
            assert_eq!(parts, [category, generation, family, size], "{name:?}");
        }
        assert!(TypeName("m7i-flex.large").is_flex() && !TypeName("m5.large").is_flex());
        assert!(TypeName("m8gb.metal-48xl").is_metal() && !TypeName("m5.large").is_metal());
    }
}
