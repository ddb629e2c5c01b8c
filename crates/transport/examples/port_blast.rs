//! How many MADs a second a port can carry: PortInfo Gets to its own node, a window of them under way.
//!
//! ```text
//! port_blast ibsim:lab/H1 WINDOW COUNT
//! ```
//! The figure is the most that this machine can do at this moment. So measure it before and after the program that is
//! compared with it.

use std::error::Error;
use std::time::{Duration, Instant};

use selvedge_transport::{PortSpec, Role, open};
use selvedge_types::{PortNum, TransactionId};
use selvedge_wire::{Address, Arrival, AttributeId, Datagram, DirectedRoute, Mad, MadPort, Method};

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let spec: PortSpec = words.next().unwrap_or_default().parse()?;
    let window: u64 = words.next().map_or(Ok(16), |word| word.parse())?;
    let count: u64 = words.next().map_or(Ok(100_000), |word| word.parse())?;
    let mut port = open(&spec, Role::Observer)?;
    let exit = port.local().port.max(PortNum::new(1).unwrap_or_default());
    let route = DirectedRoute::LOCAL.then(exit).unwrap_or(DirectedRoute::LOCAL);
    let start = Instant::now();
    let (mut sent, mut answered, mut returned) = (0, 0, 0);
    while answered + returned < count {
        while sent < count && sent - answered - returned < window {
            get_port_info(&mut *port, &route, sent)?;
            sent += 1;
        }
        match port.receive(Duration::from_secs(5))? {
            Some(Arrival::Received(_)) => answered += 1,
            Some(Arrival::Returned(_)) => returned += 1,
            None => return Err(format!("nothing for 5 s after {answered} answers").into()),
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = count as f64 / seconds;
    println!("window {window}: {count} requests, {returned} returned, {seconds:.3} s, {rate:.0} MAD/s");
    Ok(())
}

fn get_port_info(port: &mut dyn MadPort, route: &DirectedRoute, number: u64) -> Result<(), Box<dyn Error>> {
    let mut mad = Mad::directed(Method::Get, AttributeId::PORT_INFO, 1, route);
    mad.set_transaction(TransactionId(number));
    let address = Address::DIRECTED;
    Ok(port.send(&Datagram { address, mad }, Duration::from_secs(1))?)
}
