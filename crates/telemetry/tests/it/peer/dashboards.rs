//! The expressions in `packaging/grafana`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/grafana")
}

/// All expressions: of the panels of each dashboard, and of the rules, each with its place.
pub fn expressions() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for name in ["health", "performance", "congestion"] {
        let text = fs::read_to_string(folder().join(format!("{name}.json"))).unwrap();
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = panel["title"].as_str().unwrap();
            let targets = panel["targets"].as_array().unwrap();
            assert!(!targets.is_empty(), "{name}: {title} asks for nothing");
            for target in targets {
                found.push((format!("{name}: {title}"), target["expr"].as_str().unwrap().to_owned()));
            }
        }
    }
    let rules = fs::read_to_string(folder().join("rules.yml")).unwrap();
    for line in rules.lines() {
        if let Some(expression) = line.trim().strip_prefix("expr: ") {
            found.push(("rules".to_owned(), expression.to_owned()));
        }
    }
    found
}
