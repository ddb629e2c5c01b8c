//! A pipe between a client and a server of the ibsim protocol: it forwards packets and shows them to an observer.
//!
//! The cost is low: one thread for both directions, and many packets per system call.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use super::batch::{Inbox, Outbox};
use super::protocol::PACKET_LEN;
use super::socket::is_full;
use crate::poll::PollSet;

/// Direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// From the client to the fabric.
    Up,
    /// From the fabric to the client.
    Down,
}

/// Two connected data sockets, and the packets between them.
pub struct Pipe {
    ways: [OneWay; 2],
    poll_set: PollSet,
}

struct OneWay {
    way: Way,
    from: UnixDatagram,
    to: UnixDatagram,
    inbox: Inbox,
    outbox: Outbox,
}

impl Pipe {
    /// Joins the socket that the client is connected to and the socket that is connected to the server.
    ///
    /// # Errors
    /// The error of the operating system, if it cannot duplicate the descriptors.
    pub fn new(client: UnixDatagram, server: UnixDatagram) -> io::Result<Self> {
        client.set_nonblocking(true)?;
        server.set_nonblocking(true)?;
        let one = |way, from, to| OneWay {
            way,
            from,
            to,
            inbox: Inbox::new(),
            outbox: Outbox::new(),
        };
        let (client_too, server_too) = (client.try_clone()?, server.try_clone()?);
        Ok(Self {
            ways: [one(Way::Up, client, server), one(Way::Down, server_too, client_too)],
            poll_set: PollSet::default(),
        })
    }

    /// Waits at most `wait` for packets and forwards them. `look` is called with each batch before it is forwarded.
    ///
    /// If a receiver has no room, its sender must wait, just as without the pipe. If a receiver is gone, packets for it
    /// are dropped.
    ///
    /// # Errors
    /// Waiting failed.
    pub fn turn(&mut self, wait: Duration, look: &mut dyn FnMut(Way, &[u8])) -> io::Result<()> {
        self.poll_set.clear();
        for one in &self.ways {
            match one.outbox.is_empty() {
                true => self.poll_set.readable(one.from.as_raw_fd()),
                false => self.poll_set.writable(one.to.as_raw_fd()),
            }
        }
        self.poll_set.wait(wait)?;
        self.ways.iter_mut().for_each(|one| one.pass_on(look));
        Ok(())
    }
}

impl OneWay {
    fn pass_on(&mut self, look: &mut dyn FnMut(Way, &[u8])) {
        loop {
            match self.outbox.flush(&self.to) {
                Ok(()) => {}
                Err(error) if is_full(&error) => return,
                Err(_) => self.outbox.forget(),
            }
            if self.inbox.fill(&self.from).is_err() {
                return;
            }
            while let Some(bytes) = self.inbox.next() {
                // The receiver would drop an invalid packet anyway.
                let Ok(packet) = <&[u8; PACKET_LEN]>::try_from(bytes) else {
                    continue;
                };
                look(self.way, packet);
                if let Some(place) = self.outbox.place() {
                    *place = *packet;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a hundred packets and receives them at the other end. Returns what the observer saw.
    fn hundred(pipe: &mut Pipe, from: &UnixDatagram, to: &UnixDatagram) -> Vec<(Way, u8)> {
        let (mut sent, mut got, mut seen, mut bytes) = (0, 0, Vec::new(), [0; PACKET_LEN + 1]);
        while got < 100 {
            // Sends until the queue is full.
            while sent < 100 && from.send(&[sent; PACKET_LEN]).is_ok() {
                sent += 1;
            }
            pipe.turn(Duration::ZERO, &mut |way, packet| seen.push((way, packet[0])))
                .unwrap();
            while let Ok(length) = to.recv(&mut bytes) {
                assert_eq!((length, bytes[0], bytes[PACKET_LEN - 1]), (PACKET_LEN, got, got));
                got += 1;
            }
        }
        seen
    }

    #[test]
    fn both_ways_whole_and_in_order() {
        let (client, near) = UnixDatagram::pair().unwrap();
        let (server, far) = UnixDatagram::pair().unwrap();
        for socket in [&client, &server] {
            socket.set_nonblocking(true).unwrap();
        }
        let mut pipe = Pipe::new(near, far).unwrap();
        let want = |way| (0..100).map(|number| (way, number)).collect::<Vec<_>>();
        assert_eq!(hundred(&mut pipe, &client, &server), want(Way::Up));
        assert_eq!(hundred(&mut pipe, &server, &client), want(Way::Down));
        client.send(&[1; 7]).unwrap();
        pipe.turn(Duration::ZERO, &mut |_, _| panic!("seven bytes are no packet"))
            .unwrap();
        drop(server);
        client.send(&[2; PACKET_LEN]).unwrap();
        pipe.turn(Duration::ZERO, &mut |_, _| {}).unwrap();
    }
}
