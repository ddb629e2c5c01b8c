//! GOAL text traces, the format of LogGOPSim and Schedgen.
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
//! `calc` is in nanoseconds. `cpu` and `nic` are parsed and ignored. After `b irequires a`, `b` may begin when `a`
//! begins. Comments are `/* … */` and `//` to the end of the line; `;` ends an operation as a newline does. `send … to
//! any` and `recv … from any` are refused. Time and memory are linear in the length of the text.
//!
//! A valid trace contains every rank, each send has its receive, no receive is shorter than its message, and no
//! operations wait for each other in a cycle, within a rank or across ranks. A longer receive is legal, as in MPI.

mod messages;

use std::collections::{BTreeMap, BTreeSet};

use self::messages::{Channel, Messages};
use crate::schedule::{COMPUTE_MAX_NS, OpId, Schedule, Work};

/// SLV-WORKLOAD-0006: a line is not GOAL text, or it waits for something that never happens.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SLV-WORKLOAD-0006: line {line}: {what}; want {want}")]
pub struct GoalError {
    /// Line, from 1.
    pub line: usize,
    /// The problem of the line.
    pub what: String,
    /// The expected text.
    pub want: &'static str,
}

/// The expected text for most errors.
const WANT: &str = "GOAL text as LogGOPSim reads it";

/// Largest number of ranks of a trace: more than the LIDs of a subnet.
const RANKS_MAX: u32 = 49_152;

/// Reads a trace.
pub fn read_goal(text: &str) -> Result<Schedule, GoalError> {
    let mut reader = Reader::default();
    for (at, line) in without_comments(text).lines().enumerate() {
        reader.at = at + 1;
        // Text on one line may also be spread over several.
        let parts = line.replace('{', " {\n").replace('}', "\n}\n").replace(';', "\n");
        for part in parts.lines() {
            reader.line(part)?;
        }
    }
    reader.at = text.lines().count();
    reader.finish()
}

/// Replaces comments by blanks; line numbers stay the same.
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

/// A dependency by labels. A label may come later in the text.
struct Wait {
    line: usize,
    op: String,
    before: String,
    kind: WaitKind,
}

/// The awaited moment of another operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitKind {
    /// Waits for the end of the operation: `requires`.
    End,
    /// Waits for the beginning of the operation: `irequires`.
    Start,
}

#[derive(Default)]
struct Reader {
    /// The current line, from 1.
    at: usize,
    schedule: Option<Schedule>,
    rank: Option<u32>,
    /// Ranks read so far.
    begun: BTreeSet<u32>,
    labels: BTreeMap<String, OpId>,
    waits: Vec<Wait>,
    /// Operations of all ranks.
    messages: Messages,
    /// The number of the rank's first operation in `messages`.
    first: u32,
    /// Total nanoseconds of all `calc` so far.
    computed_ns: u64,
}

impl Reader {
    fn wrong(&self, what: impl Into<String>) -> GoalError {
        GoalError {
            line: self.at,
            what: what.into(),
            want: WANT,
        }
    }

    fn line(&mut self, line: &str) -> Result<(), GoalError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let read = match words[..] {
            [] => Ok(()),
            ["num_ranks", count] => self.num_ranks(count),
            ["rank", rank, "{"] => number(rank).and_then(|rank| self.begin(rank)),
            ["}"] => return self.end_rank(),
            [op, "requires", before] => self.wait(op, before, WaitKind::End),
            [op, "irequires", before] => self.wait(op, before, WaitKind::Start),
            [label, ref op @ ..] if label.ends_with(':') => self.op(Some(label.trim_end_matches(':')), op),
            ref op => self.op(None, op),
        };
        read.map_err(|what| self.wrong(what))
    }

    fn num_ranks(&mut self, count: &str) -> Result<(), String> {
        let count = number(count)?;
        if let Some(schedule) = &self.schedule {
            return Err(format!("a second num_ranks; the first is {}", schedule.ranks()));
        }
        if !(1..=RANKS_MAX).contains(&count) {
            return Err(format!("{count} ranks; want 1 to {RANKS_MAX}"));
        }
        self.schedule = Some(Schedule::new(count));
        Ok(())
    }

    fn begin(&mut self, rank: u32) -> Result<(), String> {
        let ranks = self.schedule.as_ref().map_or(0, Schedule::ranks);
        if self.rank.is_some() {
            return Err("a rank within a rank".to_owned());
        }
        if rank >= ranks {
            return Err(format!("rank {rank}, but num_ranks is {ranks}"));
        }
        if !self.begun.insert(rank) {
            return Err(format!("rank {rank} occurs twice"));
        }
        self.rank = Some(rank);
        self.first = self.messages.next();
        Ok(())
    }

    fn op(&mut self, label: Option<&str>, words: &[&str]) -> Result<(), String> {
        let (Some(rank), Some(schedule)) = (self.rank, &mut self.schedule) else {
            return Err("an operation outside of a rank".to_owned());
        };
        let ranks = schedule.ranks();
        let other = |word: &str| match number(word)? {
            rank if rank < ranks => Ok(rank),
            rank => Err(format!("rank {rank}, but num_ranks is {ranks}")),
        };
        let work = match words {
            ["calc", ns, ..] => {
                let ns = ns.parse().map_err(|_| format!("'{ns}' is no time"))?;
                self.computed_ns = self.computed_ns.saturating_add(ns);
                if self.computed_ns > COMPUTE_MAX_NS {
                    return Err(format!("all calc together take more than {COMPUTE_MAX_NS} ns"));
                }
                Work::Compute { ns }
            }
            ["send", bytes, "to", to, rest @ ..] => {
                let (to, bytes, tag) = (other(to)?, number(bytes.trim_end_matches('b'))?, tag(rest)?);
                if to == rank {
                    return Err("a message to itself".to_owned());
                }
                self.messages.send(Channel { from: rank, to, tag }, bytes);
                Work::Send { to, bytes, tag }
            }
            ["recv", bytes, "from", from, rest @ ..] => {
                let (from, bytes, tag) = (other(from)?, number(bytes.trim_end_matches('b'))?, tag(rest)?);
                self.messages.receive(Channel { from, to: rank, tag }, bytes);
                Work::Receive { from, tag }
            }
            _ => return Err(format!("'{}' is no operation", words.join(" "))),
        };
        self.messages.op(self.at, rank);
        let id = schedule.add(rank, work, &[]);
        match label {
            Some(label) if self.labels.insert(label.to_owned(), id).is_some() => {
                Err(format!("label '{label}' occurs twice"))
            }
            _ => Ok(()),
        }
    }

    fn wait(&mut self, op: &str, before: &str, kind: WaitKind) -> Result<(), String> {
        if self.rank.is_none() {
            return Err("a dependency outside of a rank".to_owned());
        }
        self.waits.push(Wait {
            line: self.at,
            op: op.to_owned(),
            before: before.to_owned(),
            kind,
        });
        Ok(())
    }

    fn end_rank(&mut self) -> Result<(), GoalError> {
        let Some(rank) = self.rank.take() else {
            return Err(self.wrong("'}' without a rank"));
        };
        let labels = core::mem::take(&mut self.labels);
        let mut edges = Vec::with_capacity(self.waits.len());
        for wait in core::mem::take(&mut self.waits) {
            let find = |label: &str| {
                labels.get(label).copied().ok_or_else(|| GoalError {
                    line: wait.line,
                    what: format!("there is no label '{label}'"),
                    want: WANT,
                })
            };
            edges.push(Edge {
                line: wait.line,
                op: find(&wait.op)?,
                before: find(&wait.before)?,
            });
            let edge = &edges[edges.len() - 1];
            self.messages
                .wait(self.first + edge.op.0, self.first + edge.before.0, wait.kind);
            if let Some(schedule) = &mut self.schedule {
                match wait.kind {
                    WaitKind::End => schedule.require(rank, edge.op, edge.before),
                    WaitKind::Start => schedule.require_start(rank, edge.op, edge.before),
                }
            }
        }
        match circle(&edges) {
            None => Ok(()),
            Some(line) => Err(GoalError {
                line,
                what: format!("with this line operations of rank {rank} wait for each other in a circle"),
                want: "operations that wait for earlier ones",
            }),
        }
    }

    fn finish(self) -> Result<Schedule, GoalError> {
        match (self.rank, &self.schedule) {
            (Some(rank), _) => Err(self.wrong(format!("rank {rank} has no end"))),
            (None, None) => Err(self.wrong("no num_ranks")),
            (None, Some(schedule)) => {
                if let Some(missing) = (0..schedule.ranks()).find(|rank| !self.begun.contains(rank)) {
                    return Err(self.wrong(format!(
                        "the trace ends with {} of {} ranks; rank {missing} is missing",
                        self.begun.len(),
                        schedule.ranks()
                    )));
                }
                self.messages.check()?;
                Ok(self.schedule.unwrap_or_default())
            }
        }
    }
}

/// A dependency: `op` begins after `before` has begun or ended.
struct Edge {
    line: usize,
    op: OpId,
    before: OpId,
}

/// Returns the line that closes a cycle of dependencies; `None` without a cycle.
///
/// Both kinds of dependency (on the begin and on the end of an operation) are treated alike: an operation that has not
/// begun has not ended either.
fn circle(edges: &[Edge]) -> Option<usize> {
    let mut waits: BTreeMap<OpId, usize> = BTreeMap::new();
    let mut after: BTreeMap<OpId, Vec<OpId>> = BTreeMap::new();
    for edge in edges {
        *waits.entry(edge.op).or_default() += 1;
        waits.entry(edge.before).or_default();
        after.entry(edge.before).or_default().push(edge.op);
    }
    let mut free: Vec<OpId> = waits.iter().filter(|&(_, &n)| n == 0).map(|(&op, _)| op).collect();
    while let Some(op) = free.pop() {
        waits.remove(&op);
        for next in after.remove(&op).unwrap_or_default() {
            if let Some(left) = waits.get_mut(&next) {
                *left -= 1;
                if *left == 0 {
                    free.push(next);
                }
            }
        }
    }
    // Each remaining operation waits for a remaining one, so every path back from it ends in a cycle.
    let stuck = edges.iter().rev().filter(|edge| waits.contains_key(&edge.before));
    let back: BTreeMap<OpId, &Edge> = stuck.map(|edge| (edge.op, edge)).collect();
    let mut at = *waits.keys().next()?;
    for _ in 0..waits.len() {
        at = back.get(&at)?.before;
    }
    let (first, mut last) = (at, 0);
    loop {
        let edge = back.get(&at)?;
        last = last.max(edge.line);
        at = edge.before;
        if at == first {
            return Some(last);
        }
    }
}

fn number(word: &str) -> Result<u32, String> {
    word.parse()
        .map_err(|_| format!("'{word}' is no whole number from 0 to {}", u32::MAX))
}

/// Returns the tag among `tag N`, `cpu N`, `nic N`; 0 if there is none.
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
        check("num_ranks 2\nrank 2 {\n}", 2, "num_ranks is 2");
        check("num_ranks 2\nrank 0 {\nsend 1b to 5 tag 0\n}", 3, "rank 5");
        check("num_ranks 2\nrank 0 {\nsend 1b to 0\n}", 3, "itself");
        check("num_ranks 2\nrank 0 {\na: calc 1\na requires b\n}", 4, "no label 'b'");
        check(
            "num_ranks 2\nrank 0 {\na: calc 1\na requires a\n}",
            4,
            "wait for each other",
        );
        check("num_ranks 2\nrank 0 {\n}\nnum_ranks 1", 4, "the first is 2");
        check("num_ranks 2\nrank 0 {\nnum_ranks 2\n}", 3, "a second num_ranks");
        check("num_ranks 2\nrank 0 {\n}\nrank 0 {\n}", 4, "rank 0 occurs twice");
        check("num_ranks 2\nrank 0 {\na: calc 1\na: calc 1\n}", 4, "twice");
        check("num_ranks 2\nrank 0 {\nsleep 3\n}", 3, "no operation");
        check("num_ranks 2\ncalc 3", 2, "outside");
        check("num_ranks 2\nrank 0 {", 2, "no end");
        check(
            "num_ranks 3\nrank 1 {\n}\nrank 0 {\n}\n",
            5,
            "2 of 3 ranks; rank 2 is missing",
        );
        check("num_ranks 1\n", 1, "rank 0 is missing");
        check("num_ranks 2\n}", 2, "without a rank");
        check("num_ranks 2\nrank 0 {\nrecv 1b from 1 tag x\n}", 3, "'x'");
    }

    /// Returns a rank with operations `a`, `b`, `c`, with their dependencies from line 6 on.
    fn three(waits: &str) -> String {
        format!("num_ranks 1\nrank 0 {{\na: calc 1\nb: calc 1\nc: calc 1\n{waits}\n}}")
    }

    #[test]
    fn circles_are_refused_with_the_line_that_closes_them() {
        let check = |waits: &str, want: Option<usize>| {
            let found = read_goal(&three(waits)).err().map(|error| error.line);
            assert_eq!(found, want, "{waits}");
        };
        check("a irequires b\nb irequires a", Some(7));
        check("a irequires a", Some(6));
        check("a irequires b\nb requires a\nc requires a", Some(7));
        check("c requires a\na irequires b\nb requires c\na requires b", Some(8));
        // Only operations in the cycle count, not those that wait for one of them.
        check("a requires b\nb irequires a\nc requires b", Some(7));
        check("b requires a\nb irequires a\nc irequires b\nc requires a", None);
    }

    /// Returns a trace with ranks that do these operations.
    fn ranks(of: &[&str]) -> String {
        let mut text = format!("num_ranks {}\n", of.len());
        for (rank, ops) in of.iter().enumerate() {
            text += &format!("rank {rank} {{\n{ops}\n}}\n");
        }
        text
    }

    fn refused(of: &[&str]) -> (usize, String) {
        let error = read_goal(&ranks(of)).unwrap_err();
        (error.line, error.to_string())
    }

    #[test]
    fn sends_and_receives_pair_up() {
        let check = |of: &[&str], line: usize, want: &str| {
            let (found, text) = refused(of);
            assert!(found == line && text.contains(want), "{text}");
        };
        check(&["send 1b to 1", ""], 3, "this send has no receive");
        check(&["", "recv 1b from 0"], 6, "this receive has no send");
        // Another tag, another direction, one too many.
        check(
            &["send 1b to 1 tag 1", "recv 1b from 0 tag 2"],
            3,
            "to rank 1 with tag 1, sends: 1, receives: 0",
        );
        check(&["send 1b to 1", "send 1b to 0"], 3, "this send has no receive");
        check(&["send 1b to 1\nsend 1b to 1", "recv 1b from 0"], 4, "sends: 2");
        check(&["send 1b to 1", "recv 1b from 0\nrecv 1b from 0"], 7, "receives: 2");
        check(&["recv 1b from 0"], 3, "this receive has no send");
        // Sizes, in the order of the text.
        check(
            &["send 4096b to 1", "recv 100b from 0"],
            6,
            "receives 100 bytes, but the send on line 3 has 4096",
        );
        check(
            &["send 1b to 1\nsend 9b to 1", "recv 9b from 0\nrecv 8b from 0"],
            8,
            "line 4 has 9",
        );
        assert!(read_goal(&ranks(&["send 100b to 1", "recv 4096b from 0"])).is_ok());
    }

    #[test]
    fn circles_across_ranks_are_refused_with_their_first_line() {
        let wait = |other: u32| format!("a: recv 1b from {other}\nb: send 1b to {other}\nb requires a");
        let (line, text) = refused(&[&wait(1), &wait(0)]);
        assert!(line == 3 && text.contains("4 operations of 2 ranks"), "{text}");
        assert!(text.contains("lines 3, 4, 8, 9; want"), "{text}");
        // A cycle of three ranks. A send that waits for the beginning of a receive does not wait for its message.
        let around = |from: u32, to: u32| format!("a: recv 1b from {from}\nb: send 1b to {to}\nb irequires a");
        assert!(read_goal(&ranks(&[&wait(1), &around(0, 0)])).is_ok());
        let pass = |from: u32, to: u32| around(from, to).replace("irequires", "requires");
        let (line, text) = refused(&[&pass(2, 1), &pass(0, 2), &pass(1, 0)]);
        assert!(line == 3 && text.contains("6 operations of 3 ranks"), "{text}");
        // One rank sends first, so all can continue.
        let first = "a: send 1b to 1\nb: recv 1b from 1\nb requires a";
        assert!(read_goal(&ranks(&[first, &wait(0)])).is_ok());
        // Operations that only wait for the cycle are not part of it.
        let late = "x: calc 1\na: recv 1b from 1\nb: send 1b to 1\nb requires a\nc: calc 1\nc requires a";
        assert_eq!(refused(&[late, &wait(0)]).0, 4);
    }

    #[test]
    fn long_traces_are_read_in_linear_time() {
        // Messages back and forth: each of 40,000 operations waits for the previous one.
        let mut of = [String::new(), String::new()];
        for n in 0..20_000 {
            let (wait, back) = (n.max(1) - 1, 1 - n % 2);
            of[n % 2] += &format!("s{n}: send 1b to {back}\n");
            of[back] += &format!("r{n}: recv 1b from {}\n", n % 2);
            if n > 0 {
                of[n % 2] += &format!("s{n} requires r{wait}\n");
            }
        }
        let [first, second] = &of;
        assert_eq!(read_goal(&ranks(&[first, second])).unwrap().ops(), 40_000);
    }

    #[test]
    fn beginnings_pass_on_without_ends() {
        // c begins with b, and b with a: all three are ready together, and run in turn on the one processor.
        let mut program = Program::new(read_goal(&three("c irequires b\nb irequires a")).unwrap());
        assert_eq!(program.done_at(), Some(vec![3_000]));
        assert_eq!(program.next(0, 0), None);
        let text = "num_ranks 2\nrank 0 {\na: send 1b to 1\nb: calc 5\nc: calc 7\nb irequires a\nc requires a\n}\n\
                    rank 1 {\nrecv 1b from 0\n}";
        let program = Program::new(read_goal(text).unwrap());
        // b ends before the message of a arrives; c waits for the message.
        assert_eq!(program.left(), 3);
    }

    #[test]
    fn memory_is_linear_in_the_text() {
        // Every beginning depends on the two before: resolved to ends, that would be more than 2^80 dependencies.
        let mut text = "num_ranks 1\nrank 0 {\n".to_owned();
        text.extend((0..120).map(|op| format!("l{op}: calc 1\n")));
        for op in 2..120 {
            for before in [op - 1, op - 2] {
                text += &format!("l{op} requires l{before}\nl{op} irequires l{before}\n");
            }
        }
        let program = Program::new(read_goal(&(text + "}")).unwrap());
        assert_eq!(program.done_at(), Some(vec![120_000]));
    }

    #[test]
    fn time_that_cannot_be_counted_is_refused() {
        let check = |calc: &str, want: Option<usize>| {
            let ranks = if calc.contains("rank 1") { 2 } else { 1 };
            let found = read_goal(&format!("num_ranks {ranks}\nrank 0 {{\ncalc {calc}\n}}")).err();
            assert_eq!(found.map(|error| error.line), want, "{calc}");
        };
        check("18446744073709551615", Some(3));
        check("18446744073709551616", Some(3));
        check("4611686018427387", None);
        check("4611686018427388", Some(3));
        check("4611686018427387\ncalc 0\ncalc 1", Some(5));
        // All ranks count together, because they may wait for each other.
        check("4611686018427387\n}\nrank 1 {\ncalc 1", Some(6));
        let last = read_goal("num_ranks 1\nrank 0 {\na: calc 4611686018427387\nb: calc 0\nb requires a\n}");
        assert_eq!(
            Program::new(last.unwrap()).done_at(),
            Some(vec![4_611_686_018_427_387_000])
        );
    }
}
