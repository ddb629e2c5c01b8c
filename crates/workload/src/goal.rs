//! GOAL text traces, as LogGOPSim and Schedgen write them.
//!
//! ```text
//! num_ranks 2
//! rank 0 {
//!   l1: calc 100
//!   l2: send 10b to 1 tag 3 cpu 0
//!   l2 requires l1
//! }
//! rank 1 {
//!   recv 10b from 0 tag 3
//! }
//! ```
//! `calc` is in nanoseconds. `cpu` and `nic` are read and play no part. `irequires` (after the start of another
//! operation) counts as `requires` of everything that other one waits for. Comments are `/* … */` and `//` to the end
//! of the line; `;` ends an operation as a line does. `send … to any` and `recv … from any` are refused.

use std::collections::BTreeMap;

use crate::schedule::{OpId, Schedule, Work};

/// SLV-WORKLOAD-0006: a line that is no GOAL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SLV-WORKLOAD-0006: line {line}: {what}; want GOAL text as LogGOPSim reads it")]
pub struct GoalError {
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// Ranks that a trace may have: more than any subnet has LIDs.
const RANKS_MAX: u32 = 49_152;

/// Reads a trace.
pub fn read_goal(text: &str) -> Result<Schedule, GoalError> {
    let mut reader = Reader::default();
    for (at, line) in without_comments(text).lines().enumerate() {
        // What stands on one line may as well stand on several.
        let parts = line.replace('{', " {\n").replace('}', "\n}\n").replace(';', "\n");
        for part in parts.lines() {
            reader.line(part).map_err(|what| GoalError { line: at + 1, what })?;
        }
    }
    let lines = text.lines().count();
    reader.finish().map_err(|what| GoalError { line: lines, what })
}

/// Comments become blanks; lines stay where they are.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        plain.push_str(&rest[..start]);
        let comment = rest[start..].find("*/").map_or(rest.len(), |end| start + end + 2);
        plain.extend(rest[start..comment].chars().filter(|&c| c == '\n'));
        rest = &rest[comment..];
    }
    plain.push_str(rest);
    let uncommented = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    plain.lines().map(uncommented).collect::<Vec<_>>().join("\n")
}

#[derive(Default)]
struct Reader {
    schedule: Option<Schedule>,
    rank: Option<u32>,
    labels: BTreeMap<String, OpId>,
    /// (operation, the one it waits for, true if only for its start), by label.
    waits: Vec<(String, String, bool)>,
    /// What each operation waits for.
    before: BTreeMap<OpId, Vec<OpId>>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => Ok(()),
            ["num_ranks", count] => {
                let count = number(count)?;
                if !(1..=RANKS_MAX).contains(&count) {
                    return Err(format!("{count} ranks; want 1 to {RANKS_MAX}"));
                }
                self.schedule = Some(Schedule::new(count));
                Ok(())
            }
            ["rank", rank, "{"] => self.begin(number(rank)?),
            ["}"] => self.end_rank(),
            [op, "requires", before] => self.wait(op, before, false),
            [op, "irequires", before] => self.wait(op, before, true),
            [label, ref op @ ..] if label.ends_with(':') => self.op(Some(label.trim_end_matches(':')), op),
            ref op => self.op(None, op),
        }
    }

    fn begin(&mut self, rank: u32) -> Result<(), String> {
        let ranks = self.schedule.as_ref().map_or(0, Schedule::ranks);
        if self.rank.is_some() {
            return Err("a rank within a rank".to_owned());
        }
        if rank >= ranks {
            return Err(format!("rank {rank}, but num_ranks says {ranks}"));
        }
        self.rank = Some(rank);
        Ok(())
    }

    fn op(&mut self, label: Option<&str>, words: &[&str]) -> Result<(), String> {
        let (Some(rank), Some(schedule)) = (self.rank, &mut self.schedule) else {
            return Err("an operation outside of a rank".to_owned());
        };
        let ranks = schedule.ranks();
        let other = |word: &str| match number(word)? {
            rank if rank < ranks => Ok(rank),
            rank => Err(format!("rank {rank}, but num_ranks says {ranks}")),
        };
        let work = match words {
            ["calc", ns, ..] => Work::Compute {
                ns: ns.parse().map_err(|_| format!("'{ns}' is no time"))?,
            },
            ["send", bytes, "to", to, rest @ ..] => Work::Send {
                to: other(to)?,
                bytes: number(bytes.trim_end_matches('b'))?,
                tag: tag(rest)?,
            },
            ["recv", bytes, "from", from, rest @ ..] => {
                number(bytes.trim_end_matches('b'))?;
                Work::Receive {
                    from: other(from)?,
                    tag: tag(rest)?,
                }
            }
            _ => return Err(format!("'{}' is no operation", words.join(" "))),
        };
        if matches!(work, Work::Send { to, .. } if to == rank) {
            return Err("a message to itself".to_owned());
        }
        let id = schedule.add(rank, work, &[]);
        match label {
            Some(label) if self.labels.insert(label.to_owned(), id).is_some() => {
                Err(format!("label '{label}' stands there twice"))
            }
            _ => Ok(()),
        }
    }

    fn wait(&mut self, op: &str, before: &str, start: bool) -> Result<(), String> {
        if self.rank.is_none() {
            return Err("a dependency outside of a rank".to_owned());
        }
        self.waits.push((op.to_owned(), before.to_owned(), start));
        Ok(())
    }

    fn end_rank(&mut self) -> Result<(), String> {
        let (Some(rank), Some(schedule)) = (self.rank.take(), &mut self.schedule) else {
            return Err("'}' without a rank".to_owned());
        };
        let labels = core::mem::take(&mut self.labels);
        let find = |label: &str| {
            labels
                .get(label)
                .copied()
                .ok_or_else(|| format!("there is no label '{label}'"))
        };
        let waits = core::mem::take(&mut self.waits);
        let mut before: BTreeMap<OpId, Vec<OpId>> = core::mem::take(&mut self.before);
        for (op, other, _) in waits.iter().filter(|(.., start)| !start) {
            before.entry(find(op)?).or_default().push(find(other)?);
        }
        for (op, other, _) in waits.iter().filter(|(.., start)| *start) {
            let inherited = before.get(&find(other)?).cloned().unwrap_or_default();
            before.entry(find(op)?).or_default().extend(inherited);
        }
        if has_circle(&before) {
            return Err(format!("operations of rank {rank} wait for each other"));
        }
        for (op, others) in before {
            for other in others {
                schedule.require(rank, op, other);
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<Schedule, String> {
        match (self.rank, self.schedule) {
            (Some(rank), _) => Err(format!("rank {rank} has no end")),
            (None, None) => Err("no num_ranks".to_owned()),
            (None, Some(schedule)) => Ok(schedule),
        }
    }
}

/// True if some operation waits for itself, by way of others.
fn has_circle(before: &BTreeMap<OpId, Vec<OpId>>) -> bool {
    let mut waits: BTreeMap<OpId, usize> = BTreeMap::new();
    let mut after: BTreeMap<OpId, Vec<OpId>> = BTreeMap::new();
    for (&op, others) in before {
        *waits.entry(op).or_default() += others.len();
        for &other in others {
            waits.entry(other).or_default();
            after.entry(other).or_default().push(op);
        }
    }
    let mut free: Vec<OpId> = waits.iter().filter(|&(_, &n)| n == 0).map(|(&op, _)| op).collect();
    let mut done = 0;
    while let Some(op) = free.pop() {
        done += 1;
        for next in after.remove(&op).unwrap_or_default() {
            if let Some(left) = waits.get_mut(&next) {
                *left -= 1;
                if *left == 0 {
                    free.push(next);
                }
            }
        }
    }
    done < waits.len()
}

fn number(word: &str) -> Result<u32, String> {
    word.parse()
        .map_err(|_| format!("'{word}' is no whole number from 0 to {}", u32::MAX))
}

/// The tag among `tag N`, `cpu N`, `nic N`; 0 if there is none.
fn tag(words: &[&str]) -> Result<u32, String> {
    let mut tag = 0;
    for pair in words.chunks(2) {
        match pair {
            ["tag", value] => tag = number(value)?,
            ["cpu" | "nic", value] => drop(number(value)?),
            _ => {
                return Err(format!(
                    "'{}' is neither tag, cpu nor nic with a number",
                    pair.join(" ")
                ));
            }
        }
    }
    Ok(tag)
}

#[cfg(test)]
mod tests {
    use selvedge_dataplane::Workload;

    use super::*;
    use crate::Program;

    #[test]
    fn a_trace_is_read() {
        let text = "num_ranks 2\n/* two\n lines */ rank 0 {\nl1: calc 100 cpu 1\n\
                    l2: send 10b to 1 tag 3\n\
                    l3: calc 7 // idle\nl2 requires l1\nl3 irequires l2\n}\n\
                    rank 1 { \nrecv 10b from 0 tag 3 nic 0\n}\n";
        let schedule = read_goal(text).unwrap();
        assert_eq!((schedule.ranks(), schedule.ops()), (2, 4));
        let mut program = Program::new(schedule);
        let message = program.next(0, 0).unwrap();
        assert_eq!((message.at, message.bytes, message.to), (100_000, 10, 1));
        // Only the send and its receive are left: l3 began when l2 could.
        assert_eq!(program.left(), 2);
    }

    #[test]
    fn one_line_is_enough() {
        let text =
            "num_ranks 2; rank 0 { a: send 1b to 1 tag 0; b: calc 5; b requires a } rank 1 {recv 1b from 0 tag 0}";
        let schedule = read_goal(text).unwrap();
        assert_eq!((schedule.ranks(), schedule.ops()), (2, 3));
    }

    #[test]
    fn what_is_no_goal_is_refused_with_its_line() {
        let check = |text: &str, line: usize, want: &str| {
            let error = read_goal(text).unwrap_err();
            assert!(error.line == line && error.what.contains(want), "{error}");
        };
        check("", 0, "no num_ranks");
        check("num_ranks 0", 1, "want 1 to");
        check("num_ranks 2\nrank 2 {\n}", 2, "num_ranks says 2");
        check("num_ranks 2\nrank 0 {\nsend 1b to 5 tag 0\n}", 3, "rank 5");
        check("num_ranks 2\nrank 0 {\nsend 1b to 0\n}", 3, "itself");
        check("num_ranks 2\nrank 0 {\na: calc 1\na requires b\n}", 5, "no label 'b'");
        check(
            "num_ranks 2\nrank 0 {\na: calc 1\na requires a\n}",
            5,
            "wait for each other",
        );
        check("num_ranks 2\nrank 0 {\na: calc 1\na: calc 1\n}", 4, "twice");
        check("num_ranks 2\nrank 0 {\nsleep 3\n}", 3, "no operation");
        check("num_ranks 2\ncalc 3", 2, "outside");
        check("num_ranks 2\nrank 0 {", 2, "no end");
        check("num_ranks 2\n}", 2, "without a rank");
        check("num_ranks 2\nrank 0 {\nrecv 1b from 1 tag x\n}", 3, "'x'");
    }
}
