//! What-if questions about a fabric, and their answers.
//!
//! Each study is a module with a `Question`, an `Answer`, and `Question::answer`. Questions hold values only: fabric,
//! LIDs, options. This crate reads no file and no clock, prints nothing, and keeps nothing between calls, so the
//! command line and a server can use the same functions. Types that callers show to users are in [`selvedge_api`].
//!
//! | module | question |
//! |---|---|
//! | [`measure`] | Which tables does an engine make, what is the judge's verdict on them, how long does it take? |
//! | [`compare`] | How do engines compare on one fabric, whole and with links lost? |
//! | [`backups`] | What would be done about each single fault? |
//! | [`alternates`] | Which pairs have alternate paths, and which single fault breaks both? |
//! | [`failures`] | How many links can be lost, one after another and without being restored? |
//! | [`transition`] | In which steps and with which waits would tables be changed under traffic? |
//! | [`found`] | Which engine made the tables that switches hold, and what would an own engine make? |
//! | [`simulate`] | What would this traffic do, packet by packet? |
//! | [`messages`] | What does quality of service do to messages of two clusters under load? |
//! | [`storm`] | Do classes get what they were promised while a job storms? |
//! | [`migration`] | What do faults do to reliable connections, with the repair, with path migration, with both? |
//! | [`model`] | What would bring-up and faults cost, ours and OpenSM's? |
//! | [`published`] | Where does the published model differ from its own tables? |
//!
//! - **Progress.** A study reports to a [`Watch`]: the stage, the work that is done, the work in all.
//! - **Cancelling.** A study asks [`Watch::is_cancelled`] between two pieces of work. It then ends with
//!   [`StudyError::Cancelled`]. One piece is a routing, a judgement or a single fault; none is broken off half-way.
//! - **Times.** A study that measures asks a [`Meter`] for the time; [`NoMeter`] measures nothing.
//! - **Same answer.** One question has one answer on any number of threads, except for what a [`Meter`] measured.

pub mod alternates;
pub mod backups;
pub mod compare;
mod cuts;
mod damage;
mod error;
pub mod failures;
pub mod found;
mod in_force;
pub mod measure;
pub mod messages;
mod meter;
pub mod migration;
pub mod model;
mod parts;
pub mod published;
pub mod simulate;
pub mod storm;
#[cfg(test)]
mod testing;
mod threads;
pub mod transition;
mod trial;
mod watch;

pub use error::StudyError;
pub use meter::{Meter, NoMeter};
pub use parts::Parts;
pub use threads::Threads;
pub use watch::{NoWatch, Progress, Stage, Watch};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_can_hand_questions_to_a_thread_and_answers_back() {
        fn values<T: Send + Sync + 'static>() {}
        values::<(alternates::Question, alternates::Answer)>();
        values::<(backups::Question, backups::Answer)>();
        values::<(compare::Question, compare::Answer)>();
        values::<(failures::Question, failures::Answer)>();
        values::<(found::Question, Option<selvedge_api::FoundTables>)>();
        values::<(migration::Question, selvedge_api::Migration)>();
        values::<(measure::Question, measure::Answer)>();
        values::<(model::Question, selvedge_api::Model)>();
        values::<(simulate::Question, simulate::Answer)>();
        values::<(transition::Question, transition::Answer)>();
        values::<(Progress, StudyError)>();
    }
}
