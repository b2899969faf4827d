//! A text as what it has in common with another text, and what it has not.
//!
//! Objects of a kind are alike: of the three kilobytes of a node all but a few hundred bytes stand in every other node too.

/// Shorter pieces are cheaper to write again than to point at.
const SHORTEST: usize = 6;
/// Places that are remembered while packing; of two pieces that meet in a slot the later is found.
const SLOT_BITS: u32 = 12;

/// `text` in terms of `model`: by turns, bytes as they are, and a piece of the model or of the text so far to repeat.
pub(super) fn pack(model: &[u8], text: &[u8]) -> Box<[u8]> {
    let all = [model, text].concat();
    let mut places: Vec<Option<usize>> = vec![None; 1 << SLOT_BITS];
    let mut packed = Vec::with_capacity(text.len() / 4);
    let mut plain_from = model.len();
    for at in 0..all.len() {
        let slot = slot(&all[at..]);
        let place = slot.and_then(|slot| places[slot].replace(at));
        if at < plain_from.max(model.len()) {
            continue;
        }
        let Some(place) = place else { continue };
        let same = all[place..].iter().zip(&all[at..]).take_while(|(one, other)| one == other).count();
        if same >= SHORTEST {
            write_bytes(&mut packed, &all[plain_from..at]);
            write_number(&mut packed, place);
            write_number(&mut packed, same);
            plain_from = at + same;
        }
    }
    write_bytes(&mut packed, &all[plain_from..]);
    packed.into()
}

/// The text that was packed with this model.
pub(super) fn unpack(model: &[u8], mut packed: &[u8]) -> Option<Vec<u8>> {
    let mut all = model.to_vec();
    loop {
        let count = read_number(&mut packed)?;
        let (bytes, rest) = packed.split_at_checked(count)?;
        all.extend_from_slice(bytes);
        packed = rest;
        if packed.is_empty() {
            return Some(all.split_off(model.len()));
        }
        let (place, count) = (read_number(&mut packed)?, read_number(&mut packed)?);
        for at in place..place.checked_add(count)? {
            // A piece may reach into what it makes.
            all.push(*all.get(at)?);
        }
    }
}

/// Where the place of a piece is remembered; `None` for what is too short.
fn slot(piece: &[u8]) -> Option<usize> {
    let mut word = [0; 8];
    word[..SHORTEST].copy_from_slice(piece.get(..SHORTEST)?);
    // Multiplied by an odd number of many bits, the upper ones depend on all bytes.
    let mixed = u64::from_le_bytes(word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    usize::try_from(mixed >> (u64::BITS - SLOT_BITS)).ok()
}

fn write_bytes(into: &mut Vec<u8>, bytes: &[u8]) {
    write_number(into, bytes.len());
    into.extend_from_slice(bytes);
}

/// Seven bits at a time, the lowest first; the eighth says that there are more.
fn write_number(into: &mut Vec<u8>, mut number: usize) {
    while number > 0x7f {
        into.push(0x80 | low_bits(number));
        number >>= 7;
    }
    into.push(low_bits(number));
}

fn low_bits(number: usize) -> u8 {
    u8::try_from(number & 0x7f).unwrap_or_default()
}

fn read_number(from: &mut &[u8]) -> Option<usize> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        number |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if *byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: usize) -> String {
        let labels: Vec<String> =
            (0..30).map(|label| format!("\"example.com/label-{label}\":\"{}\"", label * label)).collect();
        format!(
            "{{\"metadata\":{{\"name\":\"node-{number}\",\"uid\":\"{:032x}\",\"labels\":{{{}}}}},\"spec\":{{\"providerID\":\"x:///node-{number}\"}}}}",
            number.wrapping_mul(2_654_435_761),
            labels.join(",")
        )
    }

    #[test]
    fn texts_come_back_as_they_were() {
        let model = node(1);
        let long = "ab".repeat(100_000);
        let noise: Vec<u8> = (0..5000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()).collect();
        for text in
            ["", "x", "abcabcabcabcabcabcabc", &model, &node(2), &long].map(str::as_bytes).into_iter().chain([&*noise])
        {
            for model in ["", "abc", &model, &long].map(str::as_bytes).into_iter().chain([&*noise]) {
                let packed = pack(model, text);
                assert_eq!(unpack(model, &packed).as_deref(), Some(text));
                assert!(packed.len() <= text.len() + 8, "{} of {}", packed.len(), text.len());
            }
        }
    }

    #[test]
    fn what_is_alike_takes_little_room() {
        let (model, other) = (node(1), node(123_456));
        let packed = pack(model.as_bytes(), other.as_bytes());
        assert!(packed.len() * 8 < other.len(), "{} of {}", packed.len(), other.len());
    }

    /// What is no packed text is none, and nothing worse.
    #[test]
    fn rubbish_is_refused() {
        for rubbish in [&[][..], &[5, 1], &[0, 200, 1, 3], &[0, 1], &[0xff; 20]] {
            assert_eq!(unpack(b"model", rubbish), None, "{rubbish:?}");
        }
    }
}
