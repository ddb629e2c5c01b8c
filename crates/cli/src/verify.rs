//! `selvedge verify`: judges any manager's tables on any fabric.

use std::path::PathBuf;

use clap::Args;
use selvedge_config::closest;
use selvedge_daemon::{Names, findings as found_by};
use selvedge_plan::{ServiceLevels, SlToVl};
use selvedge_sim::Par;
use selvedge_topology::DumpWarning;
use selvedge_types::{Sl, Vl};
use selvedge_verify::{JudgeOptions, Kind, Subject, Verdict, verify};

use crate::exit::{CliError, Exit};
use crate::findings::{self, InputWarning, TOP};
use crate::load::{self, NameArgs};
use crate::out::{Format, Out};
use crate::tables;
use crate::tables_io::{guid2lid, lane_maps_and_warnings, service_levels, tables_and_warnings};

/// Judge forwarding tables on a fabric; exit code 1 if the judge finds errors.
#[derive(Args, Debug)]
pub struct VerifyArgs {
    /// The fabric: a file or a generator
    #[arg(long, value_name = "SPEC")]
    fabric: String,
    /// The tables: OpenSM's dump, or the output of ibroute or dump_fts
    #[arg(long, value_name = "FILE")]
    lfts: PathBuf,
    /// The LIDs (guid2lid); ports that it does not have get those that the tables, or else the fabric, name
    #[arg(long, value_name = "FILE")]
    lids: Option<PathBuf>,
    /// The service level of every destination (lines: 0xDLID SL); without it all have 0
    #[arg(long, value_name = "FILE")]
    sls: Option<PathBuf>,
    /// The lane maps of every switch (OpenSM's dump); without it everything is on lane 0, which is the worst case
    #[arg(long, value_name = "FILE")]
    sl2vl: Option<PathBuf>,
    /// Take errors of this kind for warnings; can be given several times
    #[arg(long, value_name = "KIND")]
    accept: Vec<String>,
    /// Findings of each kind that text lists; --json and --csv have more
    #[arg(long, value_name = "N", default_value_t = TOP)]
    top: usize,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    format: Format,
}

/// Runs the command.
pub fn run(args: &VerifyArgs) -> Result<Exit, CliError> {
    let accept = args.accept.iter().map(|name| kind(name)).collect::<Result<_, _>>()?;
    let (fabric, odd) = load::fabric_and_warnings(&args.fabric)?;
    let fabric = load::named(&fabric, &args.names.read()?);
    let mut inputs: Vec<InputWarning> = odd.iter().map(InputWarning::odd).collect();
    let mut note = |warnings: &[DumpWarning]| inputs.extend(warnings.iter().map(InputWarning::of_dump));
    let known = match &args.lids {
        Some(path) => {
            let (lids, warnings) = guid2lid(path)?.on(&fabric);
            note(&warnings);
            Some(lids)
        }
        None => None,
    };
    let dump = tables_and_warnings(&args.lfts, &fabric, known.as_ref())?;
    note(&dump.warnings);
    let service_levels = match &args.sls {
        Some(path) => service_levels(path, &fabric, &dump.lids)?,
        None => ServiceLevels::default(),
    };
    let sl_to_vl = match &args.sl2vl {
        Some(path) => {
            let (map, warnings) = lane_maps_and_warnings(path, &fabric)?;
            note(&warnings);
            map
        }
        None => SlToVl::default(),
    };
    if args.sls.is_none() && tells_levels_apart(&sl_to_vl) {
        let what =
            "--sl2vl puts service levels on different lanes, and without --sls none is known; give both".to_owned();
        return Err(CliError::Usage { what });
    }
    let subject = Subject::tables(&fabric, &dump.lids, &dump.tables, &service_levels, &sl_to_vl);
    let options = JudgeOptions {
        par: Par::Rayon,
        accept,
        ..JudgeOptions::default()
    };
    args.print(&verify(subject, &options), &inputs)
}

/// True if the lane of a packet depends on its service level at any port.
fn tells_levels_apart(map: &SlToVl) -> bool {
    let differs = |lanes: &[Vl; Sl::COUNT]| lanes.iter().any(|lane| *lane != lanes[0]);
    differs(&map.default) || map.exceptions.values().any(differs)
}

fn kind(name: &str) -> Result<Kind, CliError> {
    name.parse().map_err(|cause| {
        // Blanks, capitals and missing hyphens are likely mistakes, and differ more than `closest` accepts.
        let letters = |text: &str| text.to_lowercase().replace(['-', '_', ' '], "");
        let names = || Kind::ALL.iter().filter(|k| k.is_acceptable()).map(|k| k.name());
        let same = names().find(|known| letters(known) == letters(name));
        let meant = same.or_else(|| closest(name, names())).filter(|known| *known != name);
        CliError::UnknownKind {
            cause,
            meant: meant.map_or_else(String::new, |known| format!("; did you mean '{known}'?")),
        }
    })
}

impl VerifyArgs {
    fn print(&self, verdict: &Verdict, inputs: &[InputWarning]) -> Result<Exit, CliError> {
        let mut found = found_by(verdict, &Names::default());
        let groups = findings::with_inputs(&mut found, findings::groups(verdict), inputs);
        let exit = if found.ok { Exit::Good } else { Exit::NotGood };
        let mut out = Out::new(self.format);
        if self.format.json {
            out.document(found)?;
        } else if self.format.csv {
            out.grid(&tables::findings(&found))?;
        } else {
            out.facts(&tables::figures(&verdict.figures))?;
            findings::text(&mut out, &found, &groups, self.top)?;
        }
        out.flush()?;
        Ok(exit)
    }

    /// True if errors are printed as JSON.
    pub const fn json(&self) -> bool {
        self.format.json
    }
}
