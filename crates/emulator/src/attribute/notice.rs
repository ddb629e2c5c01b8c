//! Notice: the agents have no notice queue, so Get returns an empty notice and Set does nothing.

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
