//! Lays out a table for a terminal of a given width: text wraps between words, numbers never wrap.

/// Columns between two cells.
const GAP: usize = 2;
/// Least width of a text column, unless all its cells are shorter.
const TEXT_LEAST: usize = 12;
/// Words up to this length stay whole in every terminal. A GUID has 18 characters, a time 24.
const WORD_LEAST: usize = 24;

/// A column of the text form.
pub struct Column {
    /// The title.
    pub title: String,
    /// The cells, one for each row.
    pub cells: Vec<String>,
    /// True if a cell may stand on several lines.
    pub wraps: bool,
}

impl Column {
    /// Returns the width at which no cell wraps.
    fn natural(&self) -> usize {
        let longest = self.cells.iter().map(|cell| chars(cell)).max().unwrap_or(0);
        longest.max(chars(&self.title))
    }

    /// Returns the least useful width of the column in a terminal of `width` columns. Below it, the column is left out.
    fn least(&self, width: usize) -> usize {
        let longest_word = |text: &str| text.split(' ').map(chars).max().unwrap_or(0);
        let title = longest_word(&self.title);
        if !self.wraps {
            return self.cells.iter().map(|cell| chars(cell)).max().unwrap_or(0).max(title);
        }
        let word = self.cells.iter().map(|cell| longest_word(cell)).max().unwrap_or(0);
        let word = word.min(WORD_LEAST.max(width / 2));
        word.max(title).max(self.natural().min(TEXT_LEAST))
    }
}

/// Returns the lines of a table. `leaving` names the columns that may be left out, in this order.
pub fn lines(columns: &[Column], leaving: &[usize], width: Option<usize>) -> Vec<String> {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    let widths: Vec<usize> = match width {
        None => columns.iter().map(Column::natural).collect(),
        Some(width) => {
            let mut leaving = leaving.iter();
            while needed(columns, &kept, width) > width
                && let Some(goes) = leaving.next()
            {
                kept.retain(|at| at != goes);
            }
            shared(columns, &kept, width)
        }
    };
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let of = |text: &dyn Fn(&Column) -> String| -> Vec<String> {
        let wrapped = kept
            .iter()
            .zip(&widths)
            .map(|(&at, &wide)| wrap(&text(&columns[at]), wide));
        side_by_side(&wrapped.collect::<Vec<_>>(), &widths)
    };
    let mut lines = of(&|column| column.title.clone());
    for row in 0..rows {
        lines.extend(of(&|column| column.cells[row].clone()));
    }
    let left_out = (0..columns.len()).filter(|at| !kept.contains(at));
    let left_out: Vec<&str> = left_out.map(|at| columns[at].title.as_str()).collect();
    if let (false, Some(width)) = (left_out.is_empty(), width) {
        let named = left_out.join(", ");
        lines.extend(wrap(
            &format!("left out at {width} columns, --csv has all: {named}"),
            width,
        ));
    }
    lines
}

/// Returns the least width that these columns need together.
fn needed(columns: &[Column], kept: &[usize], width: usize) -> usize {
    let least = kept.iter().map(|&at| columns[at].least(width) + GAP).sum::<usize>();
    // One blank before the first column, none after the last.
    (least + 1).saturating_sub(GAP)
}

/// Returns the width of each kept column: at least its need. Further width goes where it saves most lines.
fn shared(columns: &[Column], kept: &[usize], width: usize) -> Vec<usize> {
    let mut widths: Vec<usize> = kept.iter().map(|&at| columns[at].least(width)).collect();
    let mut rest = width.saturating_sub(needed(columns, kept, width));
    let wish = |i: usize, widths: &[usize]| columns[kept[i]].natural().saturating_sub(widths[i]);
    let mut order: Vec<usize> = (0..kept.len()).collect();
    order.sort_by_key(|&i| wish(i, &widths));
    for (done, &i) in order.iter().enumerate() {
        let share = wish(i, &widths).min(rest / (order.len() - done));
        widths[i] += share;
        rest -= share;
    }
    widths
}

/// Returns the lines of a row.
fn side_by_side(cells: &[Vec<String>], widths: &[usize]) -> Vec<String> {
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    let line = |at: usize| {
        let mut line = String::new();
        for (cell, &wide) in cells.iter().zip(widths) {
            let text = cell.get(at).map_or("", String::as_str);
            line.push_str(if line.is_empty() { " " } else { "  " });
            line.push_str(text);
            line.extend(std::iter::repeat_n(' ', wide.saturating_sub(chars(text))));
        }
        line.trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

/// Breaks a text between words. Only a word longer than the line is itself broken.
fn wrap(text: &str, width: usize) -> Vec<String> {
    if chars(text) <= width {
        return text.split('\n').map(str::to_owned).collect();
    }
    let mut lines = vec![String::new()];
    for word in text.split([' ', '\n']) {
        let mut word: Vec<char> = word.chars().collect();
        let used = lines.last().map_or(0, |line| chars(line));
        if used > 0 && used + 1 + word.len() > width {
            lines.push(String::new());
        } else if let Some(line) = lines.last_mut().filter(|line| !line.is_empty()) {
            line.push(' ');
        }
        while word.len() > width.max(1) {
            let rest = word.split_off(width.max(1));
            if let Some(line) = lines.last_mut() {
                line.extend(word);
            }
            lines.push(String::new());
            word = rest;
        }
        if let Some(line) = lines.last_mut() {
            line.extend(word);
        }
    }
    lines
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(title: &str, cells: &[&str], wraps: bool) -> Column {
        Column {
            title: title.to_owned(),
            cells: cells.iter().map(|cell| (*cell).to_owned()).collect(),
            wraps,
        }
    }

    fn table() -> Vec<Column> {
        let long = "a lost link is answered by the sweep that follows it, 0x025e1e0100000000 says";
        vec![
            column("ENGINE", &["fat-tree", "minhop"], true),
            column("MAX LOAD", &["1,234,567", "0.500"], false),
            column("SHIFT MAX", &["18.25", "104,652"], false),
            column("WHY", &[long, "-"], true),
        ]
    }

    #[test]
    fn nothing_wraps_where_there_is_room() {
        let lines = lines(&table(), &[2, 1], None);
        assert_eq!(lines.len(), 3);
        assert!(
            lines[0].starts_with(" ENGINE    MAX LOAD   SHIFT MAX  WHY"),
            "{}",
            lines[0]
        );
        assert_eq!(super::lines(&table(), &[2, 1], Some(200)), lines);
    }

    #[test]
    fn a_word_is_whole_at_every_width() {
        let words: Vec<String> = lines(&table(), &[2, 1], None)
            .iter()
            .flat_map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .collect();
        for width in 20..140 {
            let narrow = lines(&table(), &[2, 1], Some(width));
            let end = narrow.iter().position(|line| line.starts_with("left out"));
            for line in &narrow[..end.unwrap_or(narrow.len())] {
                assert!(line.chars().count() <= width.max(42), "{width}: {line}");
                for word in line.split_whitespace() {
                    assert!(
                        words.iter().any(|of| of == word),
                        "{width}: {word} in\n{}",
                        narrow.join("\n")
                    );
                }
            }
        }
    }

    #[test]
    fn columns_that_are_left_out_are_named() {
        let narrow = lines(&table(), &[2, 1], Some(40)).join(" ");
        assert!(
            narrow.contains("left out at 40 columns, --csv has all: SHIFT MAX"),
            "{narrow}"
        );
        assert!(!narrow.contains("104,652") && narrow.contains("fat-tree"), "{narrow}");
    }

    #[test]
    fn a_word_longer_than_its_column_is_broken() {
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("a bcdefgh", 3), ["a", "bcd", "efg", "h"]);
        assert_eq!(wrap("one two", 3), ["one", "two"]);
        assert_eq!(wrap("", 3), [""]);
    }
}
