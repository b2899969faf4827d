//! Which version of Bottlerocket an instance will run (AWS-181).

use karpenter_api::kinds::ec2nodeclass::{Ami, AmiSelectorTerm};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImageVersion {
    /// Whatever is newest.
    Latest,
    Known {
        major: u32,
        minor: u32,
    },
    #[default]
    Unknown,
}

impl ImageVersion {
    /// From 1.46.0 on the image knows itself what belongs on local disks.
    pub fn knows_what_to_bind(self) -> bool {
        match self {
            Self::Latest => true,
            Self::Known { major, minor } => (major, minor) >= (1, 46),
            Self::Unknown => false,
        }
    }

    fn parse(text: &str) -> Self {
        if text == "latest" {
            return Self::Latest;
        }
        let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
        match (parts.next().map(str::parse), parts.next().map(str::parse), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(_)) => Self::Known { major, minor },
            _ => Self::Unknown,
        }
    }

    /// The part of an image's name such as `bottlerocket-aws-k8s-1.31-x86_64-v1.46.0-0f0f0f`.
    fn in_name(name: &str) -> Option<Self> {
        name.split('-').find(|part| part.starts_with('v') && part.contains('.')).map(Self::parse)
    }
}

/// From the first that tells: an alias, the name that is selected by, the name of an image selected by id, any image.
pub fn image_version(terms: &[AmiSelectorTerm], images: &[Ami]) -> ImageVersion {
    let alias = || {
        let aliases = terms.iter().filter_map(|term| term.alias.as_deref()?.split_once('@'));
        aliases.map(|(_, version)| ImageVersion::parse(version)).next()
    };
    let by_name = || terms.iter().filter_map(|term| term.name.as_deref()).find_map(ImageVersion::in_name);
    let named = |id: &str| images.iter().find(|image| image.id == id)?.name.as_deref();
    let by_id = || terms.iter().filter_map(|term| named(term.id.as_deref()?)).find_map(ImageVersion::in_name);
    let any = || {
        let names = images.iter().filter_map(|image| image.name.as_deref());
        names.filter(|name| name.contains("bottlerocket")).find_map(ImageVersion::in_name)
    };
    alias().or_else(by_name).or_else(by_id).or_else(any).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, name: &str) -> Ami {
        Ami { id: id.to_owned(), name: Some(name.to_owned()), ..Ami::default() }
    }

    /// AWS-181.
    #[test]
    fn where_the_version_comes_from() {
        let term = AmiSelectorTerm::default;
        let alias = |text: &str| AmiSelectorTerm { alias: Some(text.to_owned()), ..term() };
        let name = |text: &str| AmiSelectorTerm { name: Some(text.to_owned()), ..term() };
        let id = |text: &str| AmiSelectorTerm { id: Some(text.to_owned()), ..term() };
        let images = [
            image("ami-1", "bottlerocket-aws-k8s-1.31-x86_64-v1.45.2-0f0f0f"),
            image("ami-2", "bottlerocket-aws-k8s-1.31-x86_64-v1.46.1-0f0f0f"),
        ];
        let known = |major, minor| ImageVersion::Known { major, minor };
        for (terms, images, want) in [
            (vec![alias("bottlerocket@latest")], &images[..], ImageVersion::Latest),
            (vec![alias("bottlerocket@v1.46.0")], &images, known(1, 46)),
            (vec![alias("bottlerocket@1.45.0")], &images, known(1, 45)),
            (vec![alias("bottlerocket@1.46")], &images, ImageVersion::Unknown),
            (vec![alias("bottlerocket@v1.x.0")], &images, ImageVersion::Unknown),
            (vec![name("bottlerocket-aws-k8s-*-v1.50.0-*")], &images, known(1, 50)),
            (vec![name("bottlerocket-*"), id("ami-2")], &images, known(1, 46)),
            (vec![id("ami-9")], &images, known(1, 45)),
            (vec![term()], &[], ImageVersion::Unknown),
            (vec![id("ami-3")], &[image("ami-4", "other-v9.9.9")], ImageVersion::Unknown),
        ] {
            assert_eq!(image_version(&terms, images), want, "{terms:?}");
        }
        for (version, want) in [(known(1, 45), false), (known(1, 46), true), (known(2, 0), true)] {
            assert_eq!(version.knows_what_to_bind(), want);
        }
        assert!(ImageVersion::Latest.knows_what_to_bind() && !ImageVersion::Unknown.knows_what_to_bind());
    }
}
