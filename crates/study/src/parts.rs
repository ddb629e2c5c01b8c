//! The parts into which a fabric falls because no link joins them.

use selvedge_routing::Note;

/// A fabric in several parts, as a routing found it. Ports of different parts cannot talk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Number of parts; 1 of a connected fabric.
    pub count: u64,
    /// The engine's remark about more than one part.
    pub note: Option<Note>,
}

impl Parts {
    /// Returns the parts that the notes of a routing name.
    #[must_use]
    pub fn of(notes: &[Note]) -> Self {
        let found = notes.iter().find_map(|note| match note {
            Note::Components { switches } => Some((switches.len() as u64, note.clone())),
            _ => None,
        });
        match found {
            Some((count, note)) => Self {
                count,
                note: Some(note),
            },
            None => Self { count: 1, note: None },
        }
    }
}
