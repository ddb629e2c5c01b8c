//! Tables of typed cells: a terminal and a program get the same figures, each in its own form.

use selvedge_experiment::axis::thousands;
use selvedge_types::printable_lines;

use super::layout;

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// No value: `-` in text, empty in CSV.
    None,
    /// A value that no agent or file stated: `unknown` in text, empty in CSV.
    Unknown,
    /// A text that is printed alike in text and in CSV.
    Text(String),
    /// The name of a row: words in text, a snake_case key in CSV.
    Label {
        /// The key, for CSV.
        key: String,
        /// The words, for text.
        words: String,
    },
    /// A count: `1,234` in text, `1234` in CSV.
    Count(u64),
    /// A number used as a name, as a port number: without separators in both forms.
    Id(u64),
    /// A measured number: rounded to these decimals in text, with all digits in CSV.
    Real(f64, usize),
    /// `yes` or `no` in text, `true` or `false` in CSV.
    Flag(bool),
}

impl Cell {
    /// Returns a row's name.
    pub fn label(key: &str, words: &str) -> Self {
        Self::Label {
            key: key.to_owned(),
            words: words.to_owned(),
        }
    }

    /// Returns a number used as a name.
    pub fn id(number: impl Into<u64>) -> Self {
        Self::Id(number.into())
    }

    /// Returns the cell as text.
    pub fn text(&self) -> String {
        match self {
            Self::None => "-".to_owned(),
            Self::Unknown => "unknown".to_owned(),
            Self::Text(text) | Self::Label { words: text, .. } => printable_lines(text).into_owned(),
            Self::Count(number) => thousands(*number),
            Self::Id(number) => number.to_string(),
            Self::Real(value, digits) => format!("{value:.digits$}"),
            Self::Flag(true) => "yes".to_owned(),
            Self::Flag(false) => "no".to_owned(),
        }
    }

    /// Returns the CSV form of the cell, not yet quoted.
    pub fn plain(&self) -> String {
        match self {
            Self::None | Self::Unknown => String::new(),
            Self::Text(text) => text.clone(),
            Self::Label { key, .. } => key.clone(),
            Self::Count(number) | Self::Id(number) => number.to_string(),
            Self::Real(value, _) if !value.is_finite() => String::new(),
            Self::Real(value, _) => value.to_string(),
            Self::Flag(flag) => flag.to_string(),
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Cell {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<bool> for Cell {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Self::Count(count.into())
    }
}

impl From<u16> for Cell {
    fn from(count: u16) -> Self {
        Self::Count(count.into())
    }
}

impl From<u8> for Cell {
    fn from(count: u8) -> Self {
        Self::Count(count.into())
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// A table. Each column has one name: its key in CSV, shown in capitals with blanks as text.
#[derive(Clone, Debug)]
pub struct Grid {
    keys: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// Columns that a narrow terminal leaves out first, in this order.
    dispensable: Vec<String>,
}

impl Grid {
    /// Returns an empty table with these columns.
    pub fn new(keys: &[&str]) -> Self {
        Self::named(keys.iter().map(|key| (*key).to_owned()).collect())
    }

    /// Returns an empty table with columns that are known only when the program runs.
    pub fn named(keys: Vec<String>) -> Self {
        Self {
            keys: keys.iter().map(|key| snake_case(key)).collect(),
            rows: Vec::new(),
            dispensable: Vec::new(),
        }
    }

    /// Names the columns that a narrow terminal leaves out first, in this order.
    pub fn lose_first(mut self, keys: &[&str]) -> Self {
        self.dispensable = keys.iter().map(|key| (*key).to_owned()).collect();
        self
    }

    /// Adds a row to a table from [`Self::named`]; it needs one cell for each column.
    pub fn add(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Adds a row; it needs one cell for each column.
    pub fn row<const N: usize>(&mut self, cells: [Cell; N]) {
        self.rows.push(cells.into());
    }

    /// Adds a row with as many cells as there are columns.
    pub fn row_of(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Returns true if the table has no row.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table as CSV of RFC 4180: a header of keys, plain numbers.
    pub fn csv(&self) -> String {
        let header = self.keys.iter().map(|key| quoted(key)).collect::<Vec<_>>();
        header.join(",") + "\n" + &self.csv_rows()
    }

    /// Returns the table in CSV without its header.
    pub fn csv_rows(&self) -> String {
        let plain = |row: &Vec<Cell>| row.iter().map(|cell| quoted(&cell.plain())).collect::<Vec<_>>();
        self.rows.iter().map(|row| plain(row).join(",") + "\n").collect()
    }

    /// Returns the table in Markdown, with cells as in text.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        let head = line(self.keys.iter().map(|key| key.replace('_', " ")).collect());
        let rule = format!("{}|", "|---".repeat(self.keys.len()));
        let cell = |cell: &Cell| cell.text().replace('|', "\\|");
        let rows = self.rows.iter().map(|row| line(row.iter().map(cell).collect()));
        [head, rule].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
    }

    /// Returns the lines of the table. A line is longer than `width` only if a single word is. Columns that do not fit
    /// are left out, and a last line names them.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let columns = (0..self.keys.len()).map(|at| layout::Column {
            title: self.keys[at].replace('_', " ").to_uppercase(),
            cells: self.rows.iter().filter_map(|row| row.get(at)).map(Cell::text).collect(),
            wraps: self.wraps(at),
        });
        let columns: Vec<layout::Column> = columns.collect();
        layout::lines(&columns, &self.leaving_order(), width)
    }

    /// Returns true if a cell of the column may stand on several lines.
    fn wraps(&self, at: usize) -> bool {
        let mut cells = self.rows.iter().filter_map(|row| row.get(at));
        cells.any(|cell| matches!(cell, Cell::Text(_) | Cell::Label { .. }))
    }

    /// Returns columns in the order in which they are left out if the terminal is too narrow: first the columns that
    /// were named for this, then columns of numbers from the right, then columns of text from the right. The first
    /// column always stays.
    fn leaving_order(&self) -> Vec<usize> {
        let named = self.dispensable.iter();
        let mut order: Vec<usize> = named
            .filter_map(|key| self.keys.iter().position(|of| of == key))
            .collect();
        for wraps in [false, true] {
            let rest = (1..self.keys.len()).rev();
            let rest: Vec<usize> = rest
                .filter(|at| self.wraps(*at) == wraps && !order.contains(at))
                .collect();
            order.extend(rest);
        }
        order
    }
}

/// A list of figures. Text shows words and values. CSV has the columns `figure` and `value`, with one number in each
/// row.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    rows: Vec<Fact>,
}

#[derive(Clone, Debug)]
struct Fact {
    words: String,
    text: String,
    values: Vec<(String, Cell)>,
}

impl Facts {
    /// Returns an empty list.
    pub const fn new() -> Self {
        Self { rows: Vec::new() }
    }

    /// Adds a figure. Its words are its key, with blanks instead of underscores.
    pub fn add(&mut self, key: &str, value: impl Into<Cell>) {
        self.named(key, &key.replace('_', " "), value);
    }

    /// Adds a figure with different words.
    pub fn named(&mut self, key: &str, words: &str, value: impl Into<Cell>) {
        let value = value.into();
        self.several(words, value.text(), [(key, value)]);
    }

    /// Adds a line of text that holds several figures. CSV has a row for each figure.
    pub fn several<const N: usize>(&mut self, words: &str, text: String, values: [(&str, Cell); N]) {
        self.rows.push(Fact {
            words: words.to_owned(),
            text,
            values: values.map(|(key, cell)| (snake_case(key), cell)).into(),
        });
    }

    /// Adds the figures of another list.
    pub fn append(&mut self, mut more: Self) {
        self.rows.append(&mut more.rows);
    }

    /// Returns the table for text.
    pub fn shown(&self) -> Grid {
        let mut grid = Grid::new(&["figure", "value"]);
        for fact in &self.rows {
            grid.row([fact.words.as_str().into(), fact.text.as_str().into()]);
        }
        grid
    }

    /// Returns the table for CSV.
    pub fn plain(&self) -> Grid {
        let mut grid = Grid::new(&["figure", "value"]);
        for (key, value) in self.rows.iter().flat_map(|fact| &fact.values) {
            grid.row([key.as_str().into(), value.clone()]);
        }
        grid
    }
}

/// Returns a name as a key: lower-case letters and digits, joined by `_`.
fn snake_case(name: &str) -> String {
    let letters = name.to_lowercase();
    let words = letters.split(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

fn quoted(cell: &str) -> String {
    match cell.contains(['"', ',', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    }
}

/// Returns `1 link`, `2 links`. Only for words with a regular plural.
pub fn count(number: u64, one: &str) -> String {
    let plural = match one.strip_suffix("ch") {
        _ if number == 1 => return format!("1 {one}"),
        Some(_) => "es",
        None => "s",
    };
    format!("{} {one}{plural}", thousands(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_for_people() {
        assert_eq!(count(0, "host"), "0 hosts");
        assert_eq!(count(1, "switch"), "1 switch");
        assert_eq!(count(2_000, "switch"), "2,000 switches");
    }

    #[test]
    fn csv_is_quoted_where_it_must_be() {
        let mut grid = Grid::new(&["name", "port"]);
        grid.row(["a \"b\", c".into(), Cell::id(1_u8)]);
        assert_eq!(grid.csv(), "name,port\n\"a \"\"b\"\", c\",1\n");
    }

    #[test]
    fn a_cell_has_two_forms() {
        let check = |cell: Cell, text: &str, plain: &str| assert_eq!((&*cell.text(), &*cell.plain()), (text, plain));
        check(104_652_u64.into(), "104,652", "104652");
        check(Cell::id(10_241_u16), "10241", "10241");
        check(Cell::Real(1.0 / 8.0, 2), "0.12", "0.125");
        check(Cell::Real(f64::NAN, 2), "NaN", "");
        check(true.into(), "yes", "true");
        check(None::<u64>.into(), "-", "");
        check(Cell::Unknown, "unknown", "");
        check(Cell::label("load_max", "busiest link"), "busiest link", "load_max");
    }

    #[test]
    fn a_header_is_snake_case_whatever_names_it() {
        let keys = ["latency_ns.p99", "deadlock?", "dead-time", "Max Load"].map(str::to_owned);
        let grid = Grid::named(keys.into());
        assert_eq!(grid.csv(), "latency_ns_p99,deadlock,dead_time,max_load\n");
    }

    #[test]
    fn a_line_of_several_figures_is_a_row_for_each_in_csv() {
        let mut facts = Facts::new();
        facts.add("switches", 1_296_u64);
        let pairs = [("host_pairs_reached", Cell::Count(2)), ("host_pairs", Cell::Count(6))];
        facts.several("host pairs that reach each other", "2 of 6".to_owned(), pairs);
        let want = "figure,value\nswitches,1296\nhost_pairs_reached,2\nhost_pairs,6\n";
        assert_eq!(facts.plain().csv(), want);
        let shown = facts.shown().lines(None).join("\n");
        assert!(shown.contains("1,296") && shown.contains("2 of 6"), "{shown}");
    }
}
