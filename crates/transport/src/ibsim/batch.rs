//! Sends and receives many packets in one system call, because entering the kernel is most of the cost of a packet on a
//! busy socket.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixDatagram;

use super::protocol::PACKET_LEN;

/// Packets per call. Linux queues ten unread datagrams per socket by default (`net.unix.max_dgram_qlen`), so more would
/// rarely fit.
const BATCH: usize = 16;
/// Most packets waiting to be sent; each is 288 bytes.
const WAITING_MAX: usize = 1024;
/// One byte more than a packet, so that a longer datagram is recognised as invalid.
const ROOM: usize = PACKET_LEN + 1;

/// Packets that were read together and are returned one by one.
pub(super) struct Inbox {
    packets: Box<[[u8; ROOM]; BATCH]>,
    lengths: [usize; BATCH],
    next: usize,
    filled: usize,
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self {
            packets: Box::new([[0; ROOM]; BATCH]),
            lengths: [0; BATCH],
            next: 0,
            filled: 0,
        }
    }

    /// Returns the next packet that was read.
    #[inline]
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        if self.next >= self.filled {
            return None;
        }
        let at = self.next;
        self.next += 1;
        Some(&self.packets[at][..self.lengths[at].min(ROOM)])
    }

    /// Reads the packets that have arrived, after all earlier ones have been returned. An error of kind `WouldBlock`
    /// means that none has arrived.
    pub(super) fn fill(&mut self, socket: &UnixDatagram) -> io::Result<()> {
        self.next = 0;
        self.filled = 0;
        self.filled = receive(socket.as_raw_fd(), &mut self.packets, &mut self.lengths)?;
        Ok(())
    }
}

/// A ring of packets waiting to be sent, several at once.
pub(super) struct Outbox {
    packets: Vec<[u8; PACKET_LEN]>,
    first: usize,
    waiting: usize,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self {
            packets: vec![[0; PACKET_LEN]; WAITING_MAX],
            first: 0,
            waiting: 0,
        }
    }

    /// True if a full batch is waiting.
    pub(super) const fn is_crowded(&self) -> bool {
        self.waiting >= BATCH
    }

    /// True if no packet is waiting.
    pub(super) const fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Drops the waiting packets, because the receiver is gone.
    pub(super) const fn forget(&mut self) {
        self.waiting = 0;
    }

    /// Returns the place for one more packet; `None` if the ring is full.
    pub(super) fn place(&mut self) -> Option<&mut [u8; PACKET_LEN]> {
        if self.waiting >= WAITING_MAX {
            return None;
        }
        let at = (self.first + self.waiting) % WAITING_MAX;
        self.waiting += 1;
        Some(&mut self.packets[at])
    }

    /// Sends the waiting packets. An error of kind `WouldBlock` or `ENOBUFS` means that there is not enough room; the
    /// remaining packets keep waiting.
    pub(super) fn flush(&mut self, socket: &UnixDatagram) -> io::Result<()> {
        while self.waiting > 0 {
            let end = (self.first + self.waiting.min(BATCH)).min(WAITING_MAX);
            let sent = send(socket.as_raw_fd(), &self.packets[self.first..end])?;
            self.first = (self.first + sent) % WAITING_MAX;
            self.waiting -= sent;
        }
        Ok(())
    }
}

/// Reads at most [`BATCH`] datagrams. Returns their number, at least 1.
fn receive(fd: RawFd, packets: &mut [[u8; ROOM]; BATCH], lengths: &mut [usize; BATCH]) -> io::Result<usize> {
    let mut parts: [libc::iovec; BATCH] = std::array::from_fn(|i| libc::iovec {
        iov_base: packets[i].as_mut_ptr().cast(),
        iov_len: ROOM,
    });
    let mut messages: [libc::mmsghdr; BATCH] = std::array::from_fn(|i| message(&raw mut parts[i]));
    // SAFETY: every message has one part, which points to ROOM bytes of `packets`, borrowed exclusively for the call;
    // `messages` has BATCH entries; a null time-out means none.
    let read = unsafe {
        let none = std::ptr::null_mut();
        libc::recvmmsg(
            fd,
            messages.as_mut_ptr(),
            BATCH as libc::c_uint,
            libc::MSG_DONTWAIT,
            none,
        )
    };
    let read = usize::try_from(read).map_err(|_| io::Error::last_os_error())?;
    for (length, message) in lengths.iter_mut().zip(&messages[..read]) {
        *length = message.msg_len as usize;
    }
    Ok(read)
}

/// Sends as many of `packets` as there is room for. Returns their number, at least 1.
fn send(fd: RawFd, packets: &[[u8; PACKET_LEN]]) -> io::Result<usize> {
    let count = packets.len().min(BATCH);
    let mut parts: [libc::iovec; BATCH] = std::array::from_fn(|i| libc::iovec {
        // The kernel only reads this memory.
        iov_base: packets[i.min(count - 1)].as_ptr().cast_mut().cast(),
        iov_len: PACKET_LEN,
    });
    let mut messages: [libc::mmsghdr; BATCH] = std::array::from_fn(|i| message(&raw mut parts[i]));
    // SAFETY: every message has one part, which points to PACKET_LEN bytes of `packets`, borrowed for the call; `count`
    // is at most BATCH, the number of `messages`.
    let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count as libc::c_uint, libc::MSG_DONTWAIT) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Returns a message of one part without an address, because the sockets are connected.
fn message(part: *mut libc::iovec) -> libc::mmsghdr {
    // SAFETY: all fields of `mmsghdr` are numbers or pointers, for which zero bytes are a value.
    let mut message: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_hdr.msg_iov = part;
    message.msg_hdr.msg_iovlen = 1;
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UnixDatagram, UnixDatagram) {
        let (a, b) = UnixDatagram::pair().unwrap();
        a.set_nonblocking(true).unwrap();
        b.set_nonblocking(true).unwrap();
        (a, b)
    }

    /// Returns the next packet, already read or read now.
    fn next<'a>(inbox: &'a mut Inbox, socket: &UnixDatagram) -> Option<&'a [u8]> {
        if inbox.next >= inbox.filled {
            inbox.fill(socket).ok()?;
        }
        inbox.next()
    }

    #[test]
    fn packets_arrive_in_order_and_whole() {
        let (a, b) = pair();
        let (mut inbox, mut outbox) = (Inbox::new(), Outbox::new());
        let error = inbox.fill(&b).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        for round in 0..3 {
            for i in 0..5 {
                outbox.place().unwrap().fill(round * 5 + i);
            }
            outbox.flush(&a).unwrap();
            assert_eq!(outbox.waiting, 0);
            for i in 0..5 {
                assert_eq!(next(&mut inbox, &b).unwrap(), [round * 5 + i; PACKET_LEN]);
            }
            assert!(next(&mut inbox, &b).is_none());
        }
    }

    #[test]
    fn odd_lengths_are_seen() {
        let (a, b) = pair();
        let mut inbox = Inbox::new();
        for length in [0, 1, PACKET_LEN - 1, PACKET_LEN + 1, PACKET_LEN + 100] {
            a.send(&vec![7; length]).unwrap();
        }
        for length in [0, 1, PACKET_LEN - 1, ROOM, ROOM] {
            assert_eq!(next(&mut inbox, &b).unwrap().len(), length);
        }
    }

    #[test]
    fn what_finds_no_room_waits_in_order() {
        let (a, b) = pair();
        let (mut inbox, mut outbox) = (Inbox::new(), Outbox::new());
        let (mut queued, mut seen) = (0_usize, 0_usize);
        let mark = |number: usize| [number.to_le_bytes()[0]; PACKET_LEN];
        let mut was_full = false;
        // Enough to go around the ring twice.
        while seen < 2 * WAITING_MAX + 7 {
            while let Some(place) = outbox.place() {
                *place = mark(queued);
                queued += 1;
            }
            match outbox.flush(&a) {
                Ok(()) => {}
                Err(error) => was_full |= super::super::socket::is_full(&error),
            }
            while let Some(packet) = next(&mut inbox, &b) {
                assert_eq!(packet, mark(seen));
                seen += 1;
            }
        }
        assert!(was_full && queued - seen <= WAITING_MAX);
    }
}
