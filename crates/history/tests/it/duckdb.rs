//! DuckDB reads the files as they are, and finds the same sums.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use selvedge_history::{Files, History, counter_name};
use selvedge_telemetry::{Group, Sample};

use crate::files::{BEGIN, STEP, run, scratch, without_window};
use crate::load::Load;

/// The interpreter that `scripts/setup peers` prepares.
fn python() -> PathBuf {
    let cache = || std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let folder = std::env::var_os("SELVEDGE_PYTHON").map(PathBuf::from);
    let folder = folder.or_else(|| Some(cache().or_else(home)?.join("selvedge/python")));
    folder.expect("HOME is not set").join("bin/python3")
}

/// Returns the rows of a query, a line each.
fn duckdb(query: &str) -> String {
    let program = "import duckdb, sys\n\
        duckdb.sql(\"SET enable_progress_bar = false; SET TimeZone = 'UTC'\")\n\
        for row in duckdb.sql(sys.argv[1]).fetchall(): print(*row, sep='|')";
    let python = python();
    let output = Command::new(&python).args(["-c", program, query]).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}; run scripts/setup peers", python.display()));
    assert!(
        output.status.success(),
        "{query}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn duckdb_finds_the_same_sums() {
    let path = scratch("duckdb");
    let files = Arc::new(Files::open(&path).unwrap());
    let mut history = History::open(files, &path, "fabric 1", without_window())
        .unwrap()
        .history;
    let mut load = Load::new(1_500, STEP, 1);
    let begin = BEGIN / 30;
    let all = run(&mut history, &mut load, begin..begin + 241);
    // The hour in progress is in a journal.
    let stored: Vec<&Sample> = all.iter().filter(|sample| sample.slot.number < begin + 240).collect();
    let from = format!("FROM '{}/PortCountersExtended-*.parquet'", path.display());

    let count = duckdb(&format!(
        "SELECT count(*), count(DISTINCT (node, port, time)), min(time)::VARCHAR {from}"
    ));
    assert_eq!(count.trim(), format!("{0}|{0}|2026-11-29 06:00:00+00", stored.len()));
    let names: Vec<String> = (0..22).map(|counter| counter_name(Group::Extended, counter)).collect();
    let asked: Vec<String> = names.iter().map(|name| format!("sum({name}), count({name})")).collect();
    let found = duckdb(&format!("SELECT {} {from}", asked.join(", ")));
    let sum = |counter: usize| {
        stored
            .iter()
            .map(|sample| u128::from(sample.totals[counter]))
            .sum::<u128>()
    };
    let want: Vec<String> = (0..22)
        .map(|counter| format!("{}|{}", sum(counter), stored.len()))
        .collect();
    assert_eq!(found.trim(), want.join("|"));
    // One port, in order; its GUID as people write it.
    let key = stored[700].key;
    let one = duckdb(&format!(
        "SELECT epoch_us(time), PortXmitData, how {from} WHERE printf('0x%016x', node) = '{}' AND port = {} \
         ORDER BY time",
        key.node, key.port
    ));
    let want = stored.iter().filter(|sample| sample.key == key);
    let want = want.map(|sample| format!("{}|{}|read\n", sample.slot.number * 30_000_000, sample.totals[0]));
    assert_eq!(one, want.collect::<String>());
    // Files are sorted by port and time.
    let sorted = duckdb(&format!(
        "SELECT count(*) FROM (SELECT (node, port, time) <= lag((node, port, time)) OVER (PARTITION BY filename \
         ORDER BY file_row_number) AS back FROM read_parquet('{}/*.parquet', filename = true, file_row_number = true)) \
         WHERE back",
        path.display()
    ));
    assert_eq!(sorted.trim(), "0");
    let about = duckdb(&format!(
        "SELECT DISTINCT compression, encodings FROM parquet_metadata('{}/*T06.parquet') WHERE path_in_schema = \
         'PortXmitData'",
        path.display()
    ));
    assert!(
        about.starts_with("ZSTD|") && about.contains("DELTA_BINARY_PACKED"),
        "{about}"
    );
    drop(history);
    std::fs::remove_dir_all(path).unwrap();
}
