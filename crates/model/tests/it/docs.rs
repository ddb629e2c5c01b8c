//! `docs/reference/model-rules.md` has each rule by which the model counts.

use selvedge_model::{Manager, RULES};

/// Returns the rules of a manager as a table of that page.
fn table(manager: Manager) -> String {
    let rows = RULES.iter().filter(|rule| rule.manager == manager).map(|rule| {
        format!(
            "| {} | {} | {} | {} | {} |\n",
            rule.method.name(),
            rule.attribute.name(),
            rule.times,
            rule.per.name(),
            rule.why
        )
    });
    let head = "| method | attribute | times | per | why |\n|---|---|---|---|---|\n";
    std::iter::once(head.to_owned()).chain(rows).collect()
}

#[test]
fn every_rule_is_written_down() {
    let page = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/model-rules.md"
    ))
    .expect("the page");
    for manager in Manager::ALL {
        let table = table(manager);
        assert!(
            page.contains(&table),
            "docs/reference/model-rules.md lacks this table:\n{table}"
        );
    }
}
