//! Why a job may not run.

/// The reason why a job is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// SLV-QOS-0060: a job with this name is there already.
    #[error(
        "SLV-QOS-0060: a job called '{id}' runs or waits already, or the name is empty; give each job its own name"
    )]
    SameId {
        /// The name.
        id: String,
    },
    /// SLV-QOS-0061: no job has this name.
    #[error("SLV-QOS-0061: no job called '{id}' runs or waits{meant}")]
    Unknown {
        /// The name.
        id: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
    },
    /// SLV-QOS-0062: the job has no host.
    #[error("SLV-QOS-0062: job {id} names no host; name the hosts that it runs on")]
    NoHost {
        /// The job.
        id: String,
    },
    /// SLV-QOS-0063: a host is not there.
    #[error("SLV-QOS-0063: job {id}: host '{host}' is unknown or has no link; bring it up, or leave it out")]
    HostDown {
        /// The job.
        id: String,
        /// The host.
        host: String,
    },
    /// SLV-QOS-0064: no class has this name.
    #[error("SLV-QOS-0064: no QoS class is called '{name}'{meant}; known: {known}")]
    UnknownClass {
        /// The name.
        name: String,
        /// `; did you mean '…'?`, or empty.
        meant: String,
        /// All classes.
        known: String,
    },
    /// SLV-QOS-0065: the job wants more than its class has.
    #[error(
        "SLV-QOS-0065: job {id} wants {asked} % of a link in class {class}; want 1 to {share}, the share of the class"
    )]
    MoreThanClass {
        /// The job.
        id: String,
        /// The class.
        class: String,
        /// Part that it asks for, in percent.
        asked: u8,
        /// Share of the class, in percent.
        share: u8,
    },
    /// SLV-QOS-0066: the class is used up.
    #[error(
        "SLV-QOS-0066: job {id}: with it the jobs of class {class} would have {sum} % of a link; the class has \
         {share} %, and {before} of its jobs wait; end a job, ask for less, or let the job wait"
    )]
    TooMuch {
        /// The job.
        id: String,
        /// The class.
        class: String,
        /// Parts of the running jobs and of this one, in percent.
        sum: u32,
        /// Share of the class, in percent.
        share: u8,
        /// Jobs of the class that wait.
        before: usize,
    },
    /// SLV-QOS-0067: no P_Key is left for a partition of its own.
    #[error(
        "SLV-QOS-0067: job {id}: all P_Keys for jobs, {first:#06x} to {last:#06x}, are in use; end an isolated job"
    )]
    NoPKey {
        /// The job.
        id: String,
        /// The first one.
        first: u16,
        /// The last one.
        last: u16,
    },
    /// SLV-QOS-0069: there are no classes that a job could be in.
    #[error(
        "SLV-QOS-0069: no plan with QoS classes is in force here; ask the master, and give it classes ([qos] in its \
         configuration)"
    )]
    NoClasses,
    /// SLV-QOS-0074: the list of jobs could not be stored.
    #[error(
        "SLV-QOS-0074: the change is made, but the state folder could not be written, so a restart would forget it; \
         'selvedge health' says what is wrong with the folder"
    )]
    NotStored,
}
