//! A running ibsim.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use crate::process::{Running, command};
use crate::{LabError, until};

/// What ibsim prints before each console command. Its other output does not contain this text.
const PROMPT: &str = "sim> ";
/// How long reading the net file, or a console command, may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Room that ibsim has to make for a net file. Its defaults are small, and it stops reading a net file when they
/// are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetSize {
    /// Nodes of every kind.
    pub nodes: usize,
    /// Switches.
    pub switches: usize,
    /// Ports of every node, port 0 of switches included.
    pub ports: usize,
    /// Entries of each switch's linear forwarding table.
    pub linear_cap: usize,
}

impl NetSize {
    /// Returns the room that a net file needs: its nodes and ports, and four LIDs per end port (LMC 2).
    #[must_use]
    pub fn of(net: &str) -> Self {
        let (mut nodes, mut switches, mut ports) = (0, 0, 0);
        let mut end_ports = 0;
        for line in net.lines() {
            let mut words = line.split_whitespace();
            let kind = words.next().unwrap_or_default().to_ascii_lowercase();
            let is_switch = kind == "switch";
            if !is_switch && !matches!(kind.as_str(), "hca" | "ca" | "rt" | "router") {
                continue;
            }
            let count: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
            nodes += 1;
            switches += usize::from(is_switch);
            ports += count + usize::from(is_switch);
            end_ports += if is_switch { 1 } else { count };
        }
        Self {
            nodes: nodes + 1,
            switches: switches + 1,
            ports: ports + 1,
            // Source: IBA vol 1 §4.1.3: unicast LIDs end at 0xBFFF.
            linear_cap: (end_ports * 4 + 64).next_multiple_of(64).clamp(1024, 0xC000),
        }
    }
}

/// A running ibsim; ends when dropped.
pub struct Ibsim {
    process: Running,
}

impl Ibsim {
    /// Starts ibsim and waits until clients can attach.
    pub(crate) fn start(folder: &Path, base: &str, net: &str, size: NetSize) -> Result<Self, LabError> {
        let file = folder.join("fabric.net");
        fs::write(&file, net).map_err(LabError::io("writing", file.display()))?;
        let mut command = command("ibsim")?;
        let number = |count: usize| count.to_string();
        command
            .arg("-s")
            .args(["-N", &number(size.nodes), "-S", &number(size.switches)]);
        command.args(["-P", &number(size.ports), "-L", &number(size.linear_cap)]);
        command.arg(&file).env("IBSIM_SOCKNAME", base).current_dir(folder);
        let mut simulator = Self {
            process: Running::start(command, folder, "ibsim")?,
        };
        simulator.wait_for_prompts(1)?;
        // The first prompt comes before the sockets are bound (observed with 0.10), an answer to a command after it.
        simulator.console("")?;
        Ok(simulator)
    }

    /// Runs a console command, as in `Unlink "S1"[3]`, and returns its output.
    pub fn console(&mut self, line: &str) -> Result<String, LabError> {
        self.console_all(&[line])
    }

    /// Runs console commands, and returns their output.
    pub fn console_all(&mut self, lines: &[impl AsRef<str>]) -> Result<String, LabError> {
        let before = self.process.stdout();
        let prompts = before.matches(PROMPT).count();
        let text: String = lines.iter().flat_map(|line| [line.as_ref(), "\n"]).collect();
        let input = self.process.input();
        let written = input.map_or(Ok(()), |input| {
            input.write_all(text.as_bytes()).and_then(|()| input.flush())
        });
        let first = lines.first().map_or("", AsRef::as_ref);
        written.map_err(LabError::io("commanding ibsim:", first))?;
        let after = self.wait_for_prompts(prompts + lines.len())?;
        let answer = after.get(before.len()..).unwrap_or_default();
        Ok(answer.strip_suffix(PROMPT).unwrap_or(answer).to_owned())
    }

    /// Returns the attached clients: one line each, from ibsim's own list.
    pub fn attached(&mut self) -> Result<Vec<String>, LabError> {
        let lines = self.console("Attached")?;
        Ok(lines
            .lines()
            .filter(|line| line.starts_with("Client "))
            .map(str::to_owned)
            .collect())
    }

    /// Cuts the cable at a port.
    pub fn unlink(&mut self, node: &str, port: u8) -> Result<(), LabError> {
        self.console(&format!("Unlink \"{node}\"[{port}]")).map(drop)
    }

    /// Plugs the cable in again that [`Self::unlink`] cut at this port.
    pub fn relink(&mut self, node: &str, port: u8) -> Result<(), LabError> {
        self.console(&format!("ReLink \"{node}\"[{port}]")).map(drop)
    }

    /// Returns the process of ibsim.
    #[must_use]
    pub const fn process(&self) -> &Running {
        &self.process
    }

    fn wait_for_prompts(&mut self, count: usize) -> Result<String, LabError> {
        let process = std::cell::RefCell::new(&mut self.process);
        let output = || process.borrow().output_tail();
        until("ibsim's prompt", PATIENCE, output, || {
            process.borrow_mut().must_run()?;
            let text = process.borrow().stdout();
            Ok((text.matches(PROMPT).count() >= count).then_some(text))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let check = |net: &str, want: (usize, usize, usize, usize)| {
            let size = NetSize::of(net);
            assert_eq!((size.nodes, size.switches, size.ports, size.linear_cap), want, "{net}");
        };
        check("", (1, 1, 1, 1024));
        check("# Switch 8 in a comment\n[1] \"Switch\"[2]\n", (1, 1, 1, 1024));
        check(include_str!("../fabrics/two-switches.net"), (7, 3, 23, 1024));
        check("Hca 300 \"a\"\nCa\t2 \"b\"\nSwitch 36 \"s\"", (4, 2, 340, 1280));
        check(&"Switch 36 \"s\"\n".repeat(20_000), (20_001, 20_001, 740_001, 0xC000));
    }
}
