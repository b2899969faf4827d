//! The families of images and what differs between them (AWS-121, AWS-129).

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AmiFamily {
    Al2,
    Al2023,
    Bottlerocket,
    Windows2019,
    Windows2022,
    Windows2025,
    Custom,
}

/// A device that the images of a family expect, all of them gp3 and encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultDevice {
    pub name: &'static str,
    pub gib: i64,
}

const fn device(name: &'static str, gib: i64) -> DefaultDevice {
    DefaultDevice { name, gib }
}

impl AmiFamily {
    pub const ALL: [Self; 7] = [
        Self::Al2,
        Self::Al2023,
        Self::Bottlerocket,
        Self::Windows2019,
        Self::Windows2022,
        Self::Windows2025,
        Self::Custom,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Al2 => "AL2",
            Self::Al2023 => "AL2023",
            Self::Bottlerocket => "Bottlerocket",
            Self::Windows2019 => "Windows2019",
            Self::Windows2022 => "Windows2022",
            Self::Windows2025 => "Windows2025",
            Self::Custom => "Custom",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.as_str() == text)
    }

    pub const fn is_windows(self) -> bool {
        self.windows_build().is_some()
    }

    /// AWS-44.
    pub const fn windows_build(self) -> Option<&'static str> {
        match self {
            Self::Windows2019 => Some("10.0.17763"),
            Self::Windows2022 => Some("10.0.20348"),
            Self::Windows2025 => Some("10.0.26100"),
            _ => None,
        }
    }

    /// Each pod has an address of the node's interfaces, so these limit how many there can be.
    pub const fn pods_by_interfaces(self) -> bool {
        !self.is_windows()
    }

    pub const fn honours_pods_per_core(self) -> bool {
        !matches!(self, Self::Bottlerocket)
    }

    /// What its images keep back for the kubelet follows from the interfaces of the type, whatever the class says about
    /// pods; the others go by the pods that the node really takes.
    pub const fn reserves_by_interfaces(self) -> bool {
        matches!(self, Self::Al2 | Self::Al2023 | Self::Custom)
    }

    /// The device that pods write to.
    pub const fn ephemeral_device(self) -> Option<&'static str> {
        match self {
            Self::Al2 | Self::Al2023 => Some("/dev/xvda"),
            Self::Bottlerocket => Some("/dev/xvdb"),
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => Some("/dev/sda1"),
            Self::Custom => None,
        }
    }

    /// What is attached when the class names no devices; the image decides for `Custom`.
    pub const fn default_devices(self) -> &'static [DefaultDevice] {
        const LINUX: &[DefaultDevice] = &[device("/dev/xvda", 20)];
        const BOTTLEROCKET: &[DefaultDevice] = &[device("/dev/xvda", 4), device("/dev/xvdb", 20)];
        const WINDOWS: &[DefaultDevice] = &[device("/dev/sda1", 50)];
        match self {
            Self::Al2 | Self::Al2023 => LINUX,
            Self::Bottlerocket => BOTTLEROCKET,
            Self::Windows2019 | Self::Windows2022 | Self::Windows2025 => WINDOWS,
            Self::Custom => &[],
        }
    }

    /// The size of the device that pods write to, where nobody says otherwise.
    pub fn default_storage_gib(self) -> i64 {
        let own = self.default_devices().iter().find(|device| Some(device.name) == self.ephemeral_device());
        own.map_or(20, |device| device.gib)
    }
}

impl fmt::Display for AmiFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
