//! OpenSM's place: its configuration file and its short flags on `selvedge run`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use selvedge_api as api;
use selvedge_config::{
    ConfigError, Finding, OpenSmConf, Settings, Treatment, read_guids, read_opensm_conf, read_partitions,
};
use selvedge_plan::{PartEnforce, Policy};
use selvedge_types::Guid;

use crate::config::values;
use crate::exit::{CliError, Exit};
use crate::out::{Cell, Format, Grid, Out, count, note};

/// What an OpenSM is started with.
#[derive(Args, Clone, Debug, Default)]
pub struct OpenSmArgs {
    /// Read OpenSM's configuration file instead of a TOML file
    #[arg(short = 'F', long, value_name = "FILE", conflicts_with = "config")]
    pub opensm_conf: Option<PathBuf>,
    /// Start although FILE asks for what Selvedge cannot do; each such option is named
    #[arg(long, requires = "opensm_conf")]
    skip_refused: bool,
    /// Say what the configuration means, each option of FILE explained, and end
    #[arg(long, conflicts_with = "background")]
    pub check_config: bool,
    /// Manage the fabric of the local port with this GUID
    #[arg(short = 'g', long, value_name = "GUID", conflicts_with_all = ["port", "fabric"])]
    pub guid: Option<Guid>,
    /// Keep the LIDs of this file, as OpenSM's /var/cache/opensm/guid2lid; LIDs that ports hold come first
    #[arg(long, value_name = "FILE")]
    pub guid2lid: Option<PathBuf>,
    /// Partitions as in this file, as OpenSM's /etc/opensm/partitions.conf
    #[arg(short = 'P', long, value_name = "FILE")]
    partitions: Option<PathBuf>,
    /// Packets that switches check against partitions in front of hosts (default: off; in OpenSM's file: both)
    #[arg(short = 'Z', long, value_name = "both|in|out|off", visible_alias = "part_enforce")]
    part_enforce: Option<PartEnforce>,
    /// Give all ports new LIDs at the first sweep; DANGER: connections break
    #[arg(short = 'r', long, visible_alias = "reassign_lids")]
    reassign_lids: bool,
    /// GUIDs of ports of compute nodes, one a line: balanced first
    #[arg(short = 'u', long, value_name = "FILE", visible_alias = "cn_guid_file")]
    compute: Option<PathBuf>,
    /// GUIDs of ports of I/O nodes, one a line: balanced after compute nodes
    #[arg(short = 'G', long, value_name = "FILE", visible_alias = "io_guid_file")]
    io: Option<PathBuf>,
    /// GUIDs of ports in the order in which they are routed, one a line
    #[arg(short = 'X', long, value_name = "FILE", visible_alias = "guid_routing_order_file")]
    guid_order: Option<PathBuf>,
    /// OpenSM's log flags: with 0x40 (-D 0x43) all its dump files are written, as opensm.fdbs, not only that of links
    #[arg(short = 'D', long, value_name = "FLAGS", value_parser = log_flags)]
    pub log_flags: Option<u8>,
    /// Go on in the background
    #[arg(short = 'B', long, conflicts_with = "once")]
    pub background: bool,
}

impl OpenSmArgs {
    /// What the file says; `None` without a file.
    pub fn read(&self) -> Result<Option<OpenSmConf>, CliError> {
        Ok(self.opensm_conf.as_deref().map(read_opensm_conf).transpose()?)
    }

    /// What its flags overrule.
    pub fn over(&self, policy: &mut Policy) -> Result<(), ConfigError> {
        if let Some(path) = &self.partitions {
            policy.partitions = Arc::new(read_partitions(path)?);
        }
        policy.part_enforce = self.part_enforce.unwrap_or(policy.part_enforce);
        policy.reassign_lids |= self.reassign_lids;
        let lists = [
            (&self.compute, &mut policy.compute),
            (&self.io, &mut policy.io),
            (&self.guid_order, &mut policy.guid_order),
        ];
        for (path, list) in lists {
            if let Some(path) = path {
                *list = read_guids(path)?;
            }
        }
        Ok(())
    }

    /// Refuses a file that asks for what cannot be done, and names what nobody will notice otherwise.
    pub fn admit(&self, conf: &OpenSmConf) -> Result<(), CliError> {
        let file = self.opensm_conf.clone().unwrap_or_default();
        for finding in conf.unknown() {
            let Finding { line, name, why, .. } = finding;
            note(format!(
                "selvedge: warning: {}, line {line}: '{name}': {why}",
                file.display()
            ));
        }
        let refused: Vec<String> = conf.refused().map(|f| format!("{} {}", f.name, f.value)).collect();
        match refused.is_empty() {
            true => Ok(()),
            false if self.skip_refused => {
                note(format!(
                    "selvedge: warning: {}: goes on without what it cannot do: {}",
                    file.display(),
                    refused.join(", ")
                ));
                Ok(())
            }
            false => Err(CliError::OpenSmRefused {
                path: file,
                options: refused.join(", "),
            }),
        }
    }

    /// Refuses what has come into the file since the start ([`Self::admit`] looks at the start).
    pub fn keep_out(&self, conf: &OpenSmConf) -> Result<(), ConfigError> {
        if self.skip_refused || self.check_config {
            return Ok(());
        }
        conf.refused().next().map_or(Ok(()), |finding| {
            Err(ConfigError::Value {
                path: self.opensm_conf.clone().unwrap_or_default(),
                line: finding.line,
                key: finding.name.clone(),
                want: "a value that can be honoured, as --check-config says (or start with --skip-refused)",
                found: finding.value.clone(),
            })
        })
    }

    /// `--check-config`: what each line of the file becomes, or what the settings are without such a file.
    pub fn check(&self, settings: &Settings, conf: Option<&OpenSmConf>, format: Format) -> Result<Exit, CliError> {
        let mut out = Out::new(format);
        let Some(conf) = conf else {
            match format.json {
                true => out.document(api::Settings {
                    settings: values(settings),
                })?,
                false => out.write(&selvedge_config::print_settings(settings))?,
            }
            out.flush()?;
            return Ok(Exit::Good);
        };
        let exit = match conf.refused().next() {
            None => Exit::Good,
            Some(_) => Exit::NotGood,
        };
        let (shown, plain): (Vec<&Finding>, Vec<&Finding>) = conf
            .findings
            .iter()
            .partition(|f| f.treatment != Treatment::Default || !f.why.is_empty());
        if format.json {
            out.document(api::OpenSmCheck {
                file: self
                    .opensm_conf
                    .as_ref()
                    .map_or(String::new(), |path| path.display().to_string()),
                ok: exit == Exit::Good,
                options: shown.into_iter().map(line).collect(),
                defaults: plain.len() as u64,
                settings: values(settings),
            })?;
        } else {
            out.grid(&grid(&shown))?;
            if format.is_text() {
                let defaults = count(plain.len() as u64, "line");
                out.line(format!("\n{defaults} with OpenSM's default, which holds here too"))?;
                let refused = conf.refused().count() as u64;
                let verdict = match refused {
                    0 => out.good("can take its place"),
                    _ => out.bad(&format!("{} that cannot be done", count(refused, "option"))),
                };
                out.line(verdict)?;
            }
        }
        out.flush()?;
        Ok(exit)
    }
}

fn line(finding: &Finding) -> api::OpenSmLine {
    api::OpenSmLine {
        line: finding.line as u64,
        option: finding.name.clone(),
        value: finding.value.clone(),
        treatment: finding.treatment.name().to_owned(),
        key: finding.key.map(str::to_owned),
        why: finding.why.clone(),
    }
}

fn grid(findings: &[&Finding]) -> Grid {
    let mut grid = Grid::new(&["line", "option", "value", "becomes", "here", "why"]);
    for finding in findings {
        grid.row([
            Cell::id(finding.line as u64),
            (&finding.name).into(),
            (&finding.value).into(),
            finding.treatment.name().into(),
            finding.key.unwrap_or_default().into(),
            (&finding.why).into(),
        ]);
    }
    grid
}

/// As OpenSM reads them: in hexadecimal after 0x, else decimal.
fn log_flags(text: &str) -> Result<u8, String> {
    let flags = match text.strip_prefix("0x") {
        Some(digits) => u8::from_str_radix(digits, 16),
        None => text.parse(),
    };
    flags.map_err(|error| format!("{error}; want 0x00 to 0xff"))
}
