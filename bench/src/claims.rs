//! Statements of a paper beside what was found.

/// A statement of a paper beside ours.
pub struct Claim {
    /// The statement.
    pub what: String,
    /// The paper's value.
    pub paper: String,
    /// Ours.
    pub ours: String,
    /// Whether ours was fitted or predicted.
    pub how: &'static str,
    /// True if ours is as the paper says.
    pub is_met: bool,
}

impl Claim {
    const fn verdict(&self) -> &'static str {
        if self.is_met { "met" } else { "MISS" }
    }
}

/// Returns a share as a percentage with its sign.
pub fn percent(share: f64) -> String {
    format!("{:+.0} %", 100.0 * share)
}

/// Returns a table.
pub fn markdown(claims: &[Claim]) -> String {
    let mut text = "| statement | paper | ours | how | |\n|---|---|---|---|---|\n".to_owned();
    for claim in claims {
        let Claim {
            what, paper, ours, how, ..
        } = claim;
        text += &format!("| {what} | {paper} | {ours} | {how} | {} |\n", claim.verdict());
    }
    text
}

/// Returns comma-separated values.
pub fn csv(claims: &[Claim]) -> String {
    let mut text = "statement,paper,ours,how,verdict\n".to_owned();
    for claim in claims {
        let Claim {
            what, paper, ours, how, ..
        } = claim;
        let cells = [what.as_str(), paper, ours, how, claim.verdict()].map(|cell| format!("\"{cell}\""));
        text += &(cells.join(",") + "\n");
    }
    text
}

/// Returns a line for each statement that is missed.
pub fn missed(claims: &[Claim]) -> Vec<String> {
    let missed = claims.iter().filter(|claim| !claim.is_met);
    missed
        .map(|claim| format!("{}: paper {}, ours {}", claim.what, claim.paper, claim.ours))
        .collect()
}
