//! Arbitrary bytes as a manifest: `cargo +nightly fuzz run manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| karpenter_cli::fuzz_manifest(bytes));
