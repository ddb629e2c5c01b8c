//! Opens a port and reads NodeInfo of its node, and of its neighbour if there is one.
//!
//! ```text
//! probe                  the first active port of the first HCA
//! probe mlx5_0/1         an HCA's port
//! probe ibsim:lab/H1     a node of the simulator that was started with IBSIM_SOCKNAME=lab
//! ```

use std::error::Error;
use std::time::Duration;

use selvedge_transport::{PortSpec, Role, open};
use selvedge_types::{PortNum, TransactionId};
use selvedge_wire::attribute::NodeInfo;
use selvedge_wire::{Address, Arrival, Attribute, AttributeId, Datagram, DirectedRoute, Mad, Method};

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let spec: PortSpec = std::env::args().nth(1).unwrap_or_default().parse()?;
    let mut port = open(&spec, Role::Observer)?;
    let local = port.local();
    println!(
        "port {} of node {}, port GUID {}",
        local.port, local.node_guid, local.port_guid
    );
    let neighbour = DirectedRoute::LOCAL.then(local.port).unwrap_or(DirectedRoute::LOCAL);
    for (number, route) in [(1, DirectedRoute::LOCAL), (2, neighbour)] {
        if number == 2 && local.port == PortNum::MANAGEMENT {
            break; // A switch has no neighbour behind its own port 0.
        }
        let mut mad = Mad::directed(Method::Get, AttributeId::NODE_INFO, 0, &route);
        mad.set_transaction(TransactionId(number));
        let address = Address::DIRECTED;
        port.send(&Datagram { address, mad }, Duration::from_secs(1))?;
        match port.receive(Duration::from_secs(2))? {
            Some(Arrival::Received(answer)) => println!("{route}: {}", NodeInfo::parse(answer.mad.smp_data())?),
            Some(Arrival::Returned(_)) | None => println!("{route}: no answer"),
        }
    }
    Ok(())
}
