#![no_main]
//! Requests to the embedded API: separated by a byte that no text has, sent one after the other.

#[path = "../../crates/apiserver/tests/it/fuzz/request.rs"]
mod request;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let raws: Vec<_> = bytes.split(|b| *b == 0xff).map(request::Raw::parse).collect();
    request::check_all(&raws);
});
