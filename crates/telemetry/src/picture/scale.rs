//! The colours of shares and the escaping of names.

use core::fmt::Write as _;

/// Returns the colour of a share from 0 to 1: from light yellow over orange to dark blue, which colour-blind people can
/// distinguish as well, because it also gets darker. Source: points of ColorBrewer's "viridis"-like ramp, reversed.
pub(super) fn colour(share: f64) -> String {
    const POINTS: [(u8, u8, u8); 5] = [
        (255, 247, 214),
        (254, 204, 92),
        (240, 120, 60),
        (178, 42, 92),
        (61, 12, 94),
    ];
    let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
    let at = share * (POINTS.len() - 1) as f64;
    let low = (at as usize).min(POINTS.len() - 2);
    let part = at - low as f64;
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * part).round() as u8;
    let (a, b) = (POINTS[low], POINTS[low + 1]);
    format!("#{:02x}{:02x}{:02x}", mix(a.0, b.0), mix(a.1, b.1), mix(a.2, b.2))
}

/// Returns a text for XML: `&`, `<`, `>` and quotation marks are escaped, control characters dropped.
pub(super) fn xml(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => {}
            c => escaped.push(c),
        }
    }
    escaped
}

/// Returns a text for a quoted string of Graphviz.
pub(super) fn quoted(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                // Writing to a String cannot fail.
                let _ = write!(escaped, "\\{c}");
            }
            c if c.is_control() => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_get_darker() {
        let light = |share| {
            let colour = colour(share);
            let part = |at: usize| u32::from_str_radix(&colour[at..at + 2], 16).expect("hexadecimal");
            299 * part(1) + 587 * part(3) + 114 * part(5)
        };
        let steps: Vec<u32> = (0..=20).map(|i| light(f64::from(i) / 20.0)).collect();
        assert!(steps.windows(2).all(|pair| pair[1] < pair[0]), "{steps:?}");
        assert_eq!((colour(-1.0), colour(f64::NAN)), (colour(0.0), colour(0.0)));
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(xml("a<\"b\">&\n"), "a&lt;&quot;b&quot;&gt;&amp;");
        assert_eq!(quoted("a\"\\\n"), "a\\\"\\\\");
    }
}
