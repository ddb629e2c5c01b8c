//! `selvedge job`: jobs inside the QoS classes in force: start, end, list, and what their processes export.

use clap::{Args, Subcommand};
use selvedge_api::{Job, JobClass, JobEndRequest, JobExplained, JobRequest, JobStarted, Jobs};

use crate::ask::{AskArgs, SocketArgs};
use crate::exit::{CliError, Exit};
use crate::out::{Cell, Format, Grid, Out, count};

/// Start, end and list jobs inside the QoS classes in force
#[derive(Args, Debug)]
pub struct JobArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Start(Box<StartArgs>),
    End(EndArgs),
    List(ListArgs),
    Explain(ExplainArgs),
}

/// Start a job: print its service levels and what its processes must export
///
/// A job asks for a class and for a part of the class's share. The parts of all running jobs of a class are at most its
/// share; a job that does not fit is refused, or waits with --wait.
#[derive(Args, Debug)]
struct StartArgs {
    /// Name of the job, unique among running and waiting jobs
    #[arg(value_name = "ID")]
    id: String,
    /// Hosts of the job: names or GUIDs
    #[arg(long, value_name = "HOST", value_delimiter = ',', required = true)]
    hosts: Vec<String>,
    /// QoS class of the job (default: the default class)
    #[arg(long, value_name = "CLASS")]
    class: Option<String>,
    /// QoS class of messages up to a size, as control:4096
    #[arg(long, value_name = "CLASS:BYTES", value_parser = small)]
    small: Option<(String, u32)>,
    /// Part of a link that the job wants of its class, in percent (default: what other jobs leave)
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    share: Option<u8>,
    /// Give the job a partition of its own
    #[arg(long)]
    isolated: bool,
    /// Let the job's libraries use alternate paths
    #[arg(long)]
    alternates: bool,
    /// Wait until there is room, instead of being refused
    #[arg(long)]
    wait: bool,
    /// Print only what the job's processes must export, for a shell
    #[arg(long, conflicts_with = "json")]
    export: bool,
    #[command(flatten)]
    ask: AskArgs,
}

/// End a running or waiting job, and let waiting jobs run that fit now
#[derive(Args, Debug)]
struct EndArgs {
    /// Name of the job
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    ask: AskArgs,
}

/// List running and waiting jobs, and what they have of each class
#[derive(Args, Debug)]
struct ListArgs {
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    format: Format,
}

/// Show what a job got, and why it waits
#[derive(Args, Debug)]
struct ExplainArgs {
    /// Name of the job
    #[arg(value_name = "ID")]
    id: String,
    /// Print only what the job's processes must export, for a shell
    #[arg(long, conflicts_with = "json")]
    export: bool,
    #[command(flatten)]
    ask: AskArgs,
}

fn small(text: &str) -> Result<(String, u32), String> {
    let (class, bytes) = text.rsplit_once(':').ok_or("want CLASS:BYTES, as control:4096")?;
    let bytes = bytes.parse().map_err(|_| format!("'{bytes}' is no number of bytes"))?;
    Ok((class.to_owned(), bytes))
}

impl JobArgs {
    /// True if errors are printed as JSON.
    pub fn json(&self) -> bool {
        match &self.command {
            Command::Start(args) => args.ask.json(),
            Command::End(args) => args.ask.json(),
            Command::List(args) => args.format.json,
            Command::Explain(args) => args.ask.json(),
        }
    }
}

/// Runs the command.
pub fn run(args: &JobArgs) -> Result<Exit, CliError> {
    match &args.command {
        Command::Start(args) => args.start(),
        Command::End(args) => args.end(),
        Command::List(args) => args.list(),
        Command::Explain(args) => args.explain(),
    }
}

impl StartArgs {
    fn start(&self) -> Result<Exit, CliError> {
        let (small_class, small_bytes) = self.small.clone().unzip();
        let answer = self.ask.client().start_job(&JobRequest {
            id: self.id.clone(),
            hosts: self.hosts.clone(),
            class: self.class.clone(),
            small_class,
            small_bytes,
            share: self.share,
            isolated: self.isolated,
            alternates: self.alternates,
            waits: self.wait,
        })?;
        let exit = match answer.wait {
            None => Exit::Good,
            Some(_) => Exit::NotGood,
        };
        self.ask.print(answer, |answer| match self.export {
            true => exports(&answer.job),
            false => started(answer),
        })?;
        Ok(exit)
    }
}

impl EndArgs {
    fn end(&self) -> Result<Exit, CliError> {
        let request = JobEndRequest { id: self.id.clone() };
        let answer = self.ask.client().end_job(&request)?;
        self.ask.print(answer, |answer| {
            let runs = answer.started.iter();
            let runs = runs.map(|job| format!("job {} waited, and runs now", job.request.id));
            std::iter::once(format!("job {} has ended", answer.id))
                .chain(runs)
                .collect()
        })?;
        Ok(Exit::Good)
    }
}

impl ListArgs {
    fn list(&self) -> Result<Exit, CliError> {
        let jobs: Jobs = self.socket.client().get("jobs")?;
        let mut out = Out::new(self.format);
        if self.format.json {
            out.document(jobs)?;
        } else if self.format.csv {
            out.grid(&table(&jobs))?;
        } else {
            out.grid(&classes(&jobs))?;
            out.line("")?;
            out.grid(&table(&jobs))?;
        }
        out.flush()?;
        Ok(Exit::Good)
    }
}

impl ExplainArgs {
    fn explain(&self) -> Result<Exit, CliError> {
        let jobs: Jobs = self.ask.client().get("jobs")?;
        let explained = explained(&jobs, &self.id).ok_or_else(|| CliError::NoSuchJob { id: self.id.clone() })?;
        self.ask.print(explained, |explained| match self.export {
            true => exports(&explained.job),
            false => text(explained),
        })?;
        Ok(Exit::Good)
    }
}

/// Returns a job with its class, and the number of jobs of the class that wait before it.
fn explained(jobs: &Jobs, id: &str) -> Option<JobExplained> {
    let at = jobs.jobs.iter().position(|job| job.request.id == id)?;
    let job = jobs.jobs[at].clone();
    let is_of = |class: &&JobClass| match &job.request.class {
        Some(name) => class.name == *name,
        None => class.is_default,
    };
    let waits = |other: &&Job| other.state == "waiting" && other.request.class == job.request.class;
    Some(JobExplained {
        class: jobs.classes.iter().find(is_of).cloned(),
        before: match job.state.as_str() {
            "waiting" => jobs.jobs[..at].iter().filter(waits).count() as u64,
            _ => 0,
        },
        job,
    })
}

/// Returns the answer to a job that starts as text.
fn started(answer: &JobStarted) -> Vec<String> {
    let id = &answer.job.request.id;
    match &answer.wait {
        Some(wait) => vec![format!(
            "job {id} waits: with it the jobs of its class would have {} % of a link; the class has {} %, and {} \
             before it",
            wait.sum_percent,
            wait.share_percent,
            match wait.before {
                1 => "1 job waits".to_owned(),
                more => format!("{} wait", count(more, "job")),
            },
        )],
        None => std::iter::once(format!("job {id} runs on {}", levels(&answer.job)))
            .chain(exports(&answer.job))
            .collect(),
    }
}

/// Returns a job with its class as text.
fn text(explained: &JobExplained) -> Vec<String> {
    let job = &explained.job;
    let mut lines = vec![format!(
        "job {} is {} on {}",
        job.request.id,
        job.state,
        count(job.request.hosts.len() as u64, "host")
    )];
    match &explained.class {
        Some(class) => {
            let part = match job.request.share {
                Some(share) => format!("{share} % of a link"),
                None => "what other jobs leave".to_owned(),
            };
            lines.push(format!(
                "class {}: it asks for {part}; running jobs have {} of the {} % of the class",
                class.name, class.sum_percent, class.share_percent
            ));
        }
        None => lines.push("the plan in force does not have its class".to_owned()),
    }
    if job.state == "waiting" {
        lines.push(format!(
            "{} of its class before it",
            count(explained.before, "waiting job")
        ));
    } else {
        lines.push(levels(job));
    }
    lines.extend(exports(job));
    lines
}

/// Returns the service levels and the partition of a job in words.
fn levels(job: &Job) -> String {
    let list = |sls: &[u8]| sls.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let mut text = format!("SL {}", list(&job.sls));
    if let Some(bytes) = job.request.small_bytes.filter(|_| !job.small_sls.is_empty()) {
        text += &format!("; messages of up to {bytes} bytes: SL {}", list(&job.small_sls));
    }
    if let Some(pkey) = &job.pkey {
        text += &format!("; P_Key {pkey}");
    }
    text
}

/// Returns the lines with which a shell exports what the job's processes need.
fn exports(job: &Job) -> Vec<String> {
    let variables = job.environment.iter();
    variables
        .map(|variable| format!("export {}={}", variable.name, variable.value))
        .collect()
}

fn classes(jobs: &Jobs) -> Grid {
    let mut grid = Grid::new(&["class", "share_percent", "jobs_percent", "running", "waiting"]);
    for class in &jobs.classes {
        grid.row([
            (&class.name).into(),
            Cell::from(u64::from(class.share_percent)),
            u64::from(class.sum_percent).into(),
            class.running.into(),
            class.waiting.into(),
        ]);
    }
    grid
}

fn table(jobs: &Jobs) -> Grid {
    let list = |sls: &[u8]| sls.iter().map(u8::to_string).collect::<Vec<_>>().join(" ");
    let mut grid = Grid::new(&["job", "state", "class", "percent", "hosts", "sl", "p_key"]);
    for job in &jobs.jobs {
        grid.row([
            (&job.request.id).into(),
            (&job.state).into(),
            job.request.class.clone().into(),
            job.request.share.map(u64::from).into(),
            job.request.hosts.len().into(),
            Some(list(&job.sls)).filter(|text| !text.is_empty()).into(),
            job.pkey.clone().into(),
        ]);
    }
    grid
}

#[cfg(test)]
mod tests {
    use selvedge_api::{JobVariable, JobWait};

    use super::*;

    fn job(id: &str, state: &str) -> Job {
        Job {
            request: JobRequest {
                id: id.to_owned(),
                hosts: vec!["n1".to_owned(), "n2".to_owned()],
                class: Some("mpi".to_owned()),
                small_class: Some("control".to_owned()),
                small_bytes: Some(4_096),
                share: Some(30),
                ..JobRequest::default()
            },
            state: state.to_owned(),
            sls: vec![1],
            small_sls: vec![3],
            pkey: Some("0xc000".to_owned()),
            environment: vec![JobVariable {
                name: "UCX_IB_SL".to_owned(),
                value: "1".to_owned(),
            }],
        }
    }

    fn waiting(id: &str) -> Job {
        Job {
            sls: Vec::new(),
            small_sls: Vec::new(),
            pkey: None,
            environment: Vec::new(),
            ..job(id, "waiting")
        }
    }

    #[test]
    fn a_job_says_what_it_got_or_why_it_waits() {
        let runs = JobStarted {
            job: job("a", "running"),
            wait: None,
        };
        let want = [
            "job a runs on SL 1; messages of up to 4096 bytes: SL 3; P_Key 0xc000",
            "export UCX_IB_SL=1",
        ];
        assert_eq!(started(&runs), want);
        let waits = |before| {
            let wait = JobWait {
                sum_percent: 70,
                share_percent: 60,
                before,
            };
            started(&JobStarted {
                job: waiting("b"),
                wait: Some(wait),
            })
        };
        let want = "job b waits: with it the jobs of its class would have 70 % of a link; the class has 60 %, and 1 \
                    job waits before it";
        assert_eq!(waits(1), [want]);
        assert!(waits(2)[0].ends_with("and 2 jobs wait before it"));
    }

    #[test]
    fn an_explanation_counts_the_jobs_before_it() {
        let class = JobClass {
            name: "mpi".to_owned(),
            share_percent: 60,
            sum_percent: 30,
            is_default: false,
            running: 1,
            waiting: 2,
        };
        let jobs = Jobs {
            count: 3,
            jobs: vec![job("a", "running"), waiting("b"), waiting("c")],
            classes: vec![class],
        };
        let want = [
            "job c is waiting on 2 hosts",
            "class mpi: it asks for 30 % of a link; running jobs have 30 of the 60 % of the class",
            "1 waiting job of its class before it",
        ];
        assert_eq!(text(&explained(&jobs, "c").unwrap()), want);
        assert_eq!(explained(&jobs, "d"), None);
        assert_eq!(table(&jobs).csv().lines().count(), 4);
        assert_eq!(classes(&jobs).csv().lines().last(), Some("mpi,60,30,1,2"));
    }

    #[test]
    fn small_messages_need_a_class_and_a_size() {
        assert_eq!(small("control:4096"), Ok(("control".to_owned(), 4_096)));
        for wrong in ["control", "control:", "control:x", "control:-1"] {
            assert!(small(wrong).is_err(), "{wrong}");
        }
    }
}
