//! The sender of a message.

use std::time::Duration;

use selvedge_sim::Time;
use selvedge_wire::Mad;
use selvedge_wire::sa::{Rmpp, RmppFlags, RmppKind, RmppStatus, SA_DATA_LEN};

/// Limits of a [`Sender`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderConfig {
    /// Time after which unacknowledged segments are sent again.
    pub timeout: Duration,
    /// Consecutive repeats before the transfer fails.
    pub retries: u8,
    /// Largest number of segments in flight, whatever the receiver allows; at least 1.
    pub window: u32,
    /// If true, the first segment is repeated like the others. Otherwise only [`Sender::again`] repeats it, when the
    /// client repeats its request. A client that never acknowledges then gets nothing further, not even an abort.
    pub repeat_first: bool,
}

/// State of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The transfer is in progress.
    Going,
    /// All segments are acknowledged.
    Done,
    /// The transfer has ended early. The status may be sent to the other side.
    Failed(RmppStatus),
}

/// A message being sent.
///
/// Its data are added in pieces: while [`Self::wants_more`], the owner calls [`Self::push`] or [`Self::finish`].
/// [`Self::next`] then returns segments while the window is open.
#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    /// Everything except RMPP and data.
    template: Mad,
    /// Unacknowledged data.
    buffer: Vec<u8>,
    finished: bool,
    /// Last segment acknowledged.
    acked: u32,
    /// Last segment that may be sent.
    window_last: u32,
    /// Next segment to send.
    next: u32,
    /// Highest segment ever sent.
    sent: u32,
    due: Option<Time>,
    retries_left: u8,
}

impl Sender {
    /// Returns a sender for datagrams with the header of `template`.
    #[must_use]
    pub fn new(config: SenderConfig, template: &Mad) -> Self {
        Self {
            config,
            template: *template,
            buffer: Vec::new(),
            finished: false,
            acked: 0,
            // Source: IBA vol 1 §13.6.6.2: one segment, until the first acknowledgement states the window.
            window_last: 1,
            next: 1,
            sent: 0,
            due: None,
            retries_left: config.retries,
        }
    }

    /// True if there is not enough data to fill the window.
    #[must_use]
    pub fn wants_more(&self) -> bool {
        // One byte more than the window shows that its last segment is not the last of the message.
        let room = (self.window_last - self.acked) as usize * SA_DATA_LEN;
        !self.finished && self.buffer.len() <= room
    }

    /// True once the client has acknowledged a segment, so that it is alive and supports RMPP.
    #[must_use]
    pub const fn is_heard(&self) -> bool {
        self.acked > 0
    }

    /// Appends data.
    pub fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// Marks the end of the data.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// Returns the next segment, while the window is open and there is data for it.
    pub fn next(&mut self, now: Time) -> Option<Mad> {
        if self.next > self.window_last {
            return None;
        }
        let at = (self.next - self.acked - 1) as usize * SA_DATA_LEN;
        let rest = self.buffer.get(at..)?;
        let is_last = self.finished && rest.len() <= SA_DATA_LEN;
        if !is_last && rest.len() <= SA_DATA_LEN {
            return None;
        }
        if self.next > 1 && rest.is_empty() {
            return None;
        }
        let data = &rest[..rest.len().min(SA_DATA_LEN)];
        let first = self.next == 1;
        let mut flags = RmppFlags(0);
        let mut length = 0;
        if is_last {
            flags = flags.with(RmppFlags::LAST);
            length = Rmpp::HEADER_IN_PAYLOAD + u32::try_from(data.len()).unwrap_or(0);
        }
        if first {
            flags = flags.with(RmppFlags::FIRST);
            length = self.total().unwrap_or(0);
        }
        let mut mad = self.template;
        let place = mad.sa_data_mut();
        place.fill(0);
        place[..data.len()].copy_from_slice(data);
        mad.set_rmpp(Some(Rmpp::data(self.next, flags, length)));
        self.sent = self.sent.max(self.next);
        self.next += 1;
        self.due = Some(now + self.config.timeout);
        Some(mad)
    }

    /// Returns the length of the whole payload, if all data are present and nothing is acknowledged yet.
    fn total(&self) -> Option<u32> {
        if !self.finished || self.acked > 0 {
            return None;
        }
        let segments = self.buffer.len().div_ceil(SA_DATA_LEN).max(1);
        u32::try_from(segments * Rmpp::HEADER_IN_PAYLOAD as usize + self.buffer.len()).ok()
    }

    /// Handles an RMPP message of the receiver.
    pub fn received(&mut self, rmpp: &Rmpp) -> Progress {
        if rmpp.version != 1 {
            return Progress::Failed(RmppStatus::BAD_VERSION);
        }
        match rmpp.kind {
            RmppKind::Ack => self.acknowledged(rmpp.segment, rmpp.length),
            // The receiver has aborted and expects nothing more.
            RmppKind::Stop | RmppKind::Abort => Progress::Failed(RmppStatus::OK),
            RmppKind::Data | RmppKind::Other(_) => Progress::Failed(RmppStatus::BAD_TYPE),
        }
    }

    fn acknowledged(&mut self, segment: u32, window_last: u32) -> Progress {
        if segment > self.sent {
            return Progress::Failed(RmppStatus::BAD_SEGMENT);
        }
        if window_last < segment {
            return Progress::Failed(RmppStatus::BAD_WINDOW);
        }
        if segment < self.acked {
            // An older acknowledgement that arrived late.
            return Progress::Going;
        }
        if segment > self.acked {
            let gone = (segment - self.acked) as usize * SA_DATA_LEN;
            self.buffer.drain(..gone.min(self.buffer.len()));
            self.acked = segment;
            self.retries_left = self.config.retries;
        }
        if self.finished && self.buffer.is_empty() {
            return Progress::Done;
        }
        let own = self.acked.saturating_add(self.config.window.max(1));
        self.window_last = self.window_last.max(window_last.min(own));
        self.next = self.next.max(self.acked + 1);
        Progress::Going
    }

    /// Called when the client repeats its request. If it has acknowledged nothing, it may have missed the first
    /// segment.
    pub fn again(&mut self) {
        if self.acked == 0 {
            self.next = 1;
        }
    }

    /// Returns when [`Self::expired`] is due.
    #[must_use]
    pub const fn next_wake(&self) -> Option<Time> {
        self.due
    }

    /// Handles a time-out: unacknowledged segments are sent again, or the transfer fails.
    pub fn expired(&mut self, now: Time) -> Progress {
        if self.due.is_none_or(|due| due > now) {
            return Progress::Going;
        }
        let silent = self.acked == 0 && !self.config.repeat_first;
        if self.retries_left == 0 {
            return Progress::Failed(if silent {
                RmppStatus::OK
            } else {
                RmppStatus::TOO_MANY_RETRIES
            });
        }
        self.retries_left -= 1;
        if !silent {
            self.next = self.acked + 1;
        }
        self.due = Some(now + self.config.timeout);
        Progress::Going
    }
}
