//! Finds misplaced words in a chart's SVG, for the tests of every chart.
//!
//! [`misfits`] reads plotters' output: each text has a position, anchor and size. Misfits are words outside the
//! picture, overlapping words in one line, and neighbouring ticks with the same number.

use std::collections::BTreeMap;

use crate::axis::{SVG_SHRINKS, width};

/// Overlap of words in pixels that is tolerated, because [`width`] rounds up.
const SLACK: f64 = 1.0;

/// A text in a picture.
#[derive(Debug)]
struct Text {
    words: String,
    /// Left end, right end and line. For vertical text, these are given as if it were horizontal.
    left: f64,
    right: f64,
    line: i64,
    anchor: String,
    is_upright: bool,
}

/// Returns the misfits of a picture that plotters has drawn; empty if there are none.
#[must_use]
pub fn misfits(svg: &str) -> Vec<String> {
    let size = |name| attribute(svg, name)?.parse::<f64>().ok();
    let (Some(wide), Some(high)) = (size("width"), size("height")) else {
        return vec!["no size of the picture".to_owned()];
    };
    let texts: Vec<Text> = svg.split("<text ").skip(1).filter_map(text).collect();
    let mut found = Vec::new();
    let mut lines: BTreeMap<(bool, i64), Vec<&Text>> = BTreeMap::new();
    for text in &texts {
        let (low, high) = if text.is_upright { (-high, 0.0) } else { (0.0, wide) };
        if text.left < low || text.right > high {
            let (left, right) = (text.left.round(), text.right.round());
            found.push(format!("'{}' from {left} to {right} leaves the picture", text.words));
        }
        lines.entry((text.is_upright, text.line)).or_default().push(text);
    }
    for line in lines.values_mut() {
        line.sort_by(|a, b| a.left.total_cmp(&b.left));
        for pair in line.windows(2) {
            if pair[0].right > pair[1].left + SLACK {
                found.push(format!("'{}' lies on '{}'", pair[0].words, pair[1].words));
            }
        }
        // Ticks of vertical axes in panels side by side have another anchor: their text ends at the axis.
        found.extend(repeated(line.iter().copied().filter(|text| text.anchor == "middle")));
    }
    // Ticks of one vertical axis end at the same x.
    let mut columns: BTreeMap<i64, Vec<&Text>> = BTreeMap::new();
    for text in texts.iter().filter(|text| text.anchor == "end" && !text.is_upright) {
        columns.entry(text.right.round() as i64).or_default().push(text);
    }
    for column in columns.values_mut() {
        column.sort_by_key(|text| text.line);
        found.extend(repeated(column.iter().copied()));
    }
    found
}

/// Returns two neighbouring numbers with the same text.
fn repeated<'a>(texts: impl Iterator<Item = &'a Text>) -> Vec<String> {
    let is_number = |words: &str| {
        words
            .chars()
            .all(|letter| letter.is_ascii_digit() || "-,.".contains(letter))
    };
    let ticks: Vec<&Text> = texts.filter(|text| is_number(&text.words)).collect();
    let same = ticks.windows(2).filter(|pair| pair[0].words == pair[1].words);
    same.map(|pair| format!("two ticks read '{}'", pair[0].words)).collect()
}

/// Parses the text that follows `<text `.
fn text(from: &str) -> Option<Text> {
    let (head, rest) = from.split_once('>')?;
    let words = rest.split("</text>").next()?.trim();
    let words = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ]
    .into_iter()
    .fold(words.to_owned(), |words, (from, to)| words.replace(from, to));
    let number = |name| attribute(head, name)?.parse::<f64>().ok();
    let (x, y) = (number("x")?, number("y")?);
    let size = number("font-size")? * SVG_SHRINKS;
    let wide = f64::from(width(&words, size.round() as u32));
    let is_upright = attribute(head, "transform").is_some_and(|turn| turn.starts_with("rotate(270"));
    // A text turned by 270° reads upwards: further right means higher.
    let (along, line) = if is_upright { (-y, x) } else { (x, y) };
    let anchor = attribute(head, "text-anchor")?.to_owned();
    let left = match &anchor[..] {
        "start" => along,
        "middle" => along - wide / 2.0,
        _ => along - wide,
    };
    Some(Text {
        words,
        left,
        right: left + wide,
        line: line.round() as i64,
        anchor,
        is_upright,
    })
}

/// Returns the value of the first attribute with this name.
fn attribute<'a>(of: &'a str, name: &str) -> Option<&'a str> {
    let value = of.split_once(&format!(" {name}=\"")).or_else(|| {
        let rest = of.strip_prefix(name)?.strip_prefix("=\"")?;
        Some(("", rest))
    });
    value?.1.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misfits_are_found() {
        let check = |texts: &[(&str, i32, &str)], want: &[&str]| {
            let mut svg = "<svg width=\"200\" height=\"100\" viewBox=\"0 0 200 100\">".to_owned();
            for (words, x, anchor) in texts {
                svg +=
                    &format!("<text x=\"{x}\" y=\"50\" text-anchor=\"{anchor}\" font-size=\"10\">\n{words}\n</text>");
            }
            let found = misfits(&svg);
            assert_eq!(found.len(), want.len(), "{found:?}");
            assert!(
                found.iter().zip(want).all(|(found, want)| found.contains(want)),
                "{found:?}"
            );
        };
        check(&[("0", 50, "middle"), ("1", 70, "middle")], &[]);
        check(&[("2", 50, "middle"), ("2", 70, "middle")], &["two ticks read '2'"]);
        check(&[("a long word", 150, "start")], &["leaves the picture"]);
        check(&[("1500", 195, "middle")], &["leaves the picture"]);
        check(&[("1500", 198, "end")], &[]);
        check(
            &[("first", 10, "start"), ("second", 20, "start")],
            &["'first' lies on 'second'"],
        );
        assert_eq!(misfits("").len(), 1);
    }

    #[test]
    fn upright_words_are_measured_upwards() {
        let svg = |y: i32| {
            format!(
                "<svg width=\"200\" height=\"100\"><text x=\"10\" y=\"{y}\" text-anchor=\"middle\" font-size=\"10\" \
                 transform=\"rotate(270, 10, {y})\">\nwords of an axis\n</text>"
            )
        };
        assert_eq!(misfits(&svg(50)), [] as [&str; 0]);
        assert_eq!(misfits(&svg(20)).len(), 1);
    }
}
