//! Events of a schedule: small values. Their numbers are reduced modulo the size of the fabric, so that the same events
//! make sense on a smaller fabric.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use selvedge_sm::StageName;

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A cable is unplugged.
    Cut,
    /// A cable is plugged in again.
    Restore,
    /// A cable is pulled and plugged in repeatedly.
    Flap,
    /// A switch or host loses its power.
    Die,
    /// A switch or host has power again, and empty tables.
    Revive,
    /// A switch or host loses its power and gets it back at once.
    Reboot,
    /// Two cables change places.
    Swap,
    /// A node shows the GUIDs of another for a time.
    Clone,
    /// An agent takes longer for a time.
    Slow,
    /// An agent does not answer for a time.
    Hang,
    /// For a time, a switch acknowledges tables without storing them.
    Lie,
    /// MADs get lost for a time.
    Lose,
    /// MADs arrive twice for a time.
    Double,
    /// MADs are late for a time.
    Late,
    /// Bits of MADs are flipped for a time.
    Corrupt,
    /// No MAD passes between two parts of the fabric for a time; data does.
    Part,
    /// A manager is killed as by `kill -9`.
    Kill,
    /// A manager that is not running starts.
    Start,
    /// A manager is killed and started again at once.
    Restart,
    /// The operator loads a policy with other engines.
    Engines,
    /// The operator loads a policy with another LMC.
    Lmc,
    /// The operator loads a policy with other port settings.
    Settings,
    /// The operator asks for a sweep.
    Sweep,
    /// The operator drains a switch or link.
    Drain,
    /// The operator isolates a switch or link.
    Isolate,
    /// The operator puts a place back in service.
    Enable,
    /// The operator loads a policy that mostly no engine can plan with or the judge refuses, and corrects it later.
    Refused,
    /// The operator loads a policy with another M_Key.
    MKey,
    /// The operator makes two changes, the second directly after the first.
    Twice,
}

impl Kind {
    /// The kinds that are drawn for every schedule.
    pub const ALL: [Self; 23] = [
        Self::Cut,
        Self::Restore,
        Self::Flap,
        Self::Die,
        Self::Revive,
        Self::Reboot,
        Self::Swap,
        Self::Clone,
        Self::Slow,
        Self::Hang,
        Self::Lie,
        Self::Lose,
        Self::Double,
        Self::Late,
        Self::Corrupt,
        Self::Part,
        Self::Kill,
        Self::Start,
        Self::Restart,
        Self::Engines,
        Self::Lmc,
        Self::Settings,
        Self::Sweep,
    ];

    /// The kinds that are drawn only for schedules with changes.
    pub const CHANGES: [Self; 6] = [
        Self::Drain,
        Self::Isolate,
        Self::Enable,
        Self::Refused,
        Self::MKey,
        Self::Twice,
    ];

    /// Returns the name of the kind.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Restore => "restore",
            Self::Flap => "flap",
            Self::Die => "die",
            Self::Revive => "revive",
            Self::Reboot => "reboot",
            Self::Swap => "swap",
            Self::Clone => "clone",
            Self::Slow => "slow",
            Self::Hang => "hang",
            Self::Lie => "lie",
            Self::Lose => "lose",
            Self::Double => "double",
            Self::Late => "late",
            Self::Corrupt => "corrupt",
            Self::Part => "part",
            Self::Kill => "kill",
            Self::Start => "start",
            Self::Restart => "restart",
            Self::Engines => "engines",
            Self::Lmc => "lmc",
            Self::Settings => "settings",
            Self::Sweep => "sweep",
            Self::Drain => "drain",
            Self::Isolate => "isolate",
            Self::Enable => "enable",
            Self::Refused => "refused",
            Self::MKey => "m_key",
            Self::Twice => "twice",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// When an event happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The event comes this time after the previous event.
    After(Duration),
    /// The event comes this time after any manager next enters the stage, or after half a second at the latest.
    During(StageName, Duration),
    /// The event comes this time after the master next enters the stage. The schedule causes that stage if necessary.
    Amid(StageName, Duration),
}

impl When {
    /// Returns the time that passes after the stage, or the event before.
    pub const fn span_mut(&mut self) -> &mut Duration {
        match self {
            Self::After(span) | Self::During(_, span) | Self::Amid(_, span) => span,
        }
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happening {
    /// The condition or time at which the event happens.
    pub when: When,
    /// The kind of event.
    pub kind: Kind,
    /// Selects the cable, node, manager or amount: reduced modulo the number of choices.
    pub pick: u32,
    /// The other cable or node, or an amount.
    pub other: u32,
    /// How long the event lasts, if it ends by itself.
    pub span: Duration,
}

/// The stages of a manager.
pub const STAGES: [StageName; 8] = [
    StageName::Idle,
    StageName::Discovering,
    StageName::ReadingTables,
    StageName::Planning,
    StageName::Persisting,
    StageName::Applying,
    StageName::LightSweep,
    StageName::Probing,
];

/// Returns a stage as one word.
#[must_use]
pub const fn stage_word(stage: StageName) -> &'static str {
    match stage {
        StageName::Idle => "idle",
        StageName::Discovering => "discovering",
        StageName::ReadingTables => "reading",
        StageName::Planning => "planning",
        StageName::Persisting => "storing",
        StageName::Applying => "applying",
        StageName::LightSweep => "light-sweep",
        StageName::Probing => "probing",
    }
}

impl fmt::Display for Happening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.when {
            When::After(span) => write!(f, "after {}us", span.as_micros())?,
            When::During(stage, span) => write!(f, "during {} {}us", stage_word(stage), span.as_micros())?,
            When::Amid(stage, span) => write!(f, "amid {} {}us", stage_word(stage), span.as_micros())?,
        }
        let (kind, pick, other) = (self.kind, self.pick, self.other);
        write!(f, " {kind} {pick} {other} {}us", self.span.as_micros())
    }
}

/// The form of an event as text, for error messages.
pub(super) const FORM: &str = "after 120us cut 17 0 0us, or during applying 5us hang 3 0 40000us";

impl FromStr for Happening {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (when, rest) = match words[..] {
            ["after", span, ref rest @ ..] => (When::After(micros(span)?), rest),
            [word @ ("during" | "amid"), stage, span, ref rest @ ..] => {
                let stage = STAGES.into_iter().find(|&s| stage_word(s) == stage).ok_or(FORM)?;
                let when = if word == "amid" { When::Amid } else { When::During };
                (when(stage, micros(span)?), rest)
            }
            _ => return Err(FORM),
        };
        let [kind, pick, other, span] = rest else {
            return Err(FORM);
        };
        let mut kinds = Kind::ALL.into_iter().chain(Kind::CHANGES);
        Ok(Self {
            when,
            kind: kinds.find(|k| k.name() == *kind).ok_or(FORM)?,
            pick: pick.parse().map_err(|_| FORM)?,
            other: other.parse().map_err(|_| FORM)?,
            span: micros(span)?,
        })
    }
}

fn micros(word: &str) -> Result<Duration, &'static str> {
    let number = word.strip_suffix("us").and_then(|n| n.parse().ok());
    number.map(Duration::from_micros).ok_or(FORM)
}
