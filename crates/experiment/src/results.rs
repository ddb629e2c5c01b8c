//! Results: a file with a line for each run, written as soon as the run is done.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json, json};

use crate::error::ResultsError;
use crate::matrix::Run;

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Figures. Objects may be nested; their numbers are named `outer.inner` in tables.
    Figures(Map<String, Json>),
    /// The run is not possible, for this reason. That is a result as well, and is not tried again.
    Refused(String),
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Settings as stored.
    pub cell: Map<String, Json>,
    /// Seed.
    pub seed: u64,
    /// The result.
    pub outcome: Outcome,
}

impl Record {
    fn key(&self) -> String {
        format!("{} {}", Json::Object(self.cell.clone()), self.seed)
    }

    pub(crate) fn line(&self) -> String {
        let mut object = Map::new();
        object.insert("cell".to_owned(), Json::Object(self.cell.clone()));
        object.insert("seed".to_owned(), self.seed.into());
        match &self.outcome {
            Outcome::Figures(figures) => object.insert("figures".to_owned(), Json::Object(figures.clone())),
            Outcome::Refused(why) => object.insert("refused".to_owned(), why.as_str().into()),
        };
        Json::Object(object).to_string()
    }

    pub(crate) fn parse(line: &str) -> Result<Self, String> {
        let mut object = match serde_json::from_str(line).map_err(|error| error.to_string())? {
            Json::Object(object) => object,
            _ => return Err("no object".to_owned()),
        };
        let cell = match object.remove("cell") {
            Some(Json::Object(cell)) => cell,
            _ => return Err("'cell' is missing".to_owned()),
        };
        let seed = object.get("seed").and_then(Json::as_u64).ok_or("'seed' is missing")?;
        let outcome = match (object.remove("figures"), object.remove("refused")) {
            (Some(Json::Object(figures)), None) => Outcome::Figures(figures),
            (None, Some(Json::String(why))) => Outcome::Refused(why),
            _ => return Err("want 'figures' or 'refused'".to_owned()),
        };
        Ok(Self { cell, seed, outcome })
    }
}

/// A file of results, open for adding further ones.
#[derive(Debug)]
pub struct ResultsFile {
    path: PathBuf,
    file: File,
    records: BTreeMap<String, Record>,
}

impl ResultsFile {
    /// Opens a file of results, or creates it. `maker` identifies the program that makes the results (a version, a
    /// commit); results of another program are refused. If the last line is incomplete, a crash interrupted its run:
    /// the line is removed, and the run is repeated.
    pub fn open(path: &Path, maker: &str) -> Result<Self, ResultsError> {
        let io = |operation| {
            let path = path.to_owned();
            move |cause: io::Error| ResultsError::Io { operation, path, cause }
        };
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path)
            .map_err(io("open"))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io("read"))?;
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        file.set_len(whole as u64).map_err(io("cut"))?;
        file.seek(SeekFrom::End(0)).map_err(io("read"))?;
        let line = |number: usize, what: String| ResultsError::Line {
            path: path.to_owned(),
            line: number + 1,
            what,
        };
        let text = std::str::from_utf8(&bytes[..whole]).map_err(|error| line(0, error.to_string()))?;
        let mut lines = text.lines().enumerate();
        let mut results = Self {
            path: path.to_owned(),
            file,
            records: BTreeMap::new(),
        };
        match lines.next() {
            None => results.append(&json!({ "results": 1, "maker": maker }).to_string())?,
            Some((number, head)) => {
                let head: Json = serde_json::from_str(head).map_err(|error| line(number, error.to_string()))?;
                let found = head.get("maker").and_then(Json::as_str);
                let found = found.ok_or_else(|| line(number, "want '{\"results\":1,\"maker\":…}'".to_owned()))?;
                if found != maker {
                    return Err(ResultsError::Foreign {
                        path: path.to_owned(),
                        found: found.to_owned(),
                        want: maker.to_owned(),
                    });
                }
            }
        }
        for (number, text) in lines {
            let record = Record::parse(text).map_err(|what| line(number, what))?;
            results.records.insert(record.key(), record);
        }
        Ok(results)
    }

    /// Returns the stored result of a run, if there is one.
    #[must_use]
    pub fn get(&self, run: &Run) -> Option<&Record> {
        self.records.get(&run.key())
    }

    /// Adds the result of a run; when this returns, the end of this process does not lose it.
    pub fn add(&mut self, run: &Run, outcome: Outcome) -> Result<(), ResultsError> {
        let cell = match run.cell.json() {
            Json::Object(cell) => cell,
            _ => Map::new(),
        };
        let record = Record {
            cell,
            seed: run.seed,
            outcome,
        };
        self.append(&record.line())?;
        self.records.insert(record.key(), record);
        Ok(())
    }

    fn append(&mut self, line: &str) -> Result<(), ResultsError> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.map_err(|cause| ResultsError::Io {
            operation: "write",
            path: self.path.clone(),
            cause,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::matrix::Cell;
    use crate::schema::Value;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("selvedge-experiment-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        path
    }

    fn run_of(vls: i64, seed: u64) -> Run {
        let cell = Cell {
            settings: [("vls".to_owned(), Value::Whole(vls))].into(),
            ..Cell::default()
        };
        Run { cell, seed }
    }

    fn figures(load: f64) -> Outcome {
        Outcome::Figures([("load".to_owned(), load.into())].into_iter().collect())
    }

    #[test]
    fn a_crash_costs_the_run_that_was_written() {
        let path = scratch("crash");
        let mut results = ResultsFile::open(&path, "me").unwrap();
        results.add(&run_of(1, 7), figures(0.5)).unwrap();
        results.add(&run_of(1, 8), Outcome::Refused("no".into())).unwrap();
        drop(results);
        let whole = fs::read_to_string(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut results = ResultsFile::open(&path, "me").unwrap();
            for (run, outcome) in [
                (run_of(1, 7), figures(0.5)),
                (run_of(1, 8), Outcome::Refused("no".into())),
            ] {
                if results.get(&run).is_none() {
                    results.add(&run, outcome).unwrap();
                }
            }
            assert_eq!(fs::read_to_string(&path).unwrap(), whole, "cut at {cut}");
        }
        let results = ResultsFile::open(&path, "me").unwrap();
        assert_eq!(results.get(&run_of(1, 7)).unwrap().outcome, figures(0.5));
        assert!(results.get(&run_of(2, 7)).is_none());
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_is_not_ours_is_refused_and_kept() {
        let check = |name: &str, text: &str, want: &str| {
            let path = scratch(name);
            fs::write(&path, text).unwrap();
            let error = ResultsFile::open(&path, "me").unwrap_err().to_string();
            assert!(error.contains(want), "{error:?} has no {want:?}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            fs::remove_file(path).unwrap();
        };
        let head = "{\"maker\":\"me\",\"results\":1}\n";
        check("other", "{\"maker\":\"you\",\"results\":1}\n", "SLV-EXPERIMENT-0011");
        check("text", "hello\n", "line 1");
        check("nohead", "{}\n", "want '{\"results\":1");
        check("nocell", &format!("{head}{{}}\n"), "line 2: 'cell' is missing");
        check("noseed", &format!("{head}{{\"cell\":{{}}}}\n"), "'seed' is missing");
        check(
            "noresult",
            &format!("{head}{{\"cell\":{{}},\"seed\":1}}\n"),
            "'figures' or 'refused'",
        );
    }
}
