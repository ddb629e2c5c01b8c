//! Notice: the agents keep no notice queue that can be polled; Get finds it empty, Set clears what is not there.

use selvedge_types::Lid;
use selvedge_wire::{Attribute, NOTICE_DETAILS_LEN, Notice, NoticeSource, NoticeType, SmpData};

pub(crate) fn empty() -> SmpData {
    Notice {
        kind: NoticeType::EMPTY,
        source: NoticeSource::Generic { producer: 0, trap: 0 },
        issuer_lid: Lid::NONE,
        toggle: false,
        count: 0,
        details: [0; NOTICE_DETAILS_LEN],
    }
    .emit()
}
