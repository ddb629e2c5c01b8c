//! The JSON of every response stays as it is: field names, order, units.
use selvedge_api::{
    Document, ErrorKind, Event, Events, Fabric, FaultRequest, Severity, count_reasons, links, nodes, ports,
};
use selvedge_fabric::{FabricBuilder, Node};
use selvedge_types::{Guid, Lid, LidRange, NodeKind, PhysState, PortNum, PortState};

fn check(found: &str, want: &str) {
    assert_eq!(found, want);
}

fn pair() -> selvedge_fabric::Fabric {
    let port = |n| PortNum::new(n).unwrap();
    let mut builder = FabricBuilder::new();
    let mut switch = Node::new(NodeKind::Switch, Guid(0x10), 2, "spine 1");
    switch.port_mut(port(0)).unwrap().settings.lids = LidRange::single(Lid(1));
    let mut host = Node::new(NodeKind::Ca, Guid(0x20), 1, "host 1");
    for (node, number) in [(&mut switch, 2), (&mut host, 1)] {
        let link = &mut node.port_mut(port(number)).unwrap().link;
        (link.phys, link.state) = (PhysState::LinkUp, PortState::Active);
    }
    host.port_mut(port(1)).unwrap().guid = Guid(0x21);
    let (s, h) = (builder.add(switch), builder.add(host));
    builder.link((s, port(2)), (h, port(1))).unwrap();
    builder.finish().unwrap()
}

#[test]
fn fabric_document() {
    check(
        &Document::new(Fabric::of(&pair())).to_json(),
        concat!(
            r#"{"schema":"selvedge.fabric","version":1,"switches":1,"hosts":1,"routers":0,"links":1,"#,
            r#""links_active":1,"ports":{"down":0,"init":0,"armed":0,"active":2,"unknown":0},"#,
            r#""rates":[{"rate":"4xSDR","links":1}]}"#,
        ),
    );
}

#[test]
fn inventory_documents() {
    let fabric = pair();
    let list = nodes(&fabric);
    check(
        &serde_json::to_string(&list.nodes[0]).unwrap(),
        concat!(
            r#"{"guid":"0x0000000000000010","name":"spine 1","kind":"switch","#,
            r#""system_guid":"0x0000000000000010","lid":1,"ports":2,"ports_active":1,"vendor_id":0,"#,
            r#""device_id":0}"#,
        ),
    );
    let list = ports(
        &fabric,
        |_| true,
        |at| (at.port.get() == 1 && at.node.0 == 0).then(|| ("SLV-PORTSTATE-0001", "no link".to_owned())),
    );
    assert_eq!(list.ports.len(), 4);
    check(
        &serde_json::to_string(&list.ports[1]).unwrap(),
        concat!(
            r#"{"node_guid":"0x0000000000000010","node_name":"spine 1","port":1,"guid":"0x0000000000000000","#,
            r#""lid":0,"lmc":0,"state":"down","phys_state":"polling","width":null,"speed":null,"#,
            r#""mtu_bytes":256,"peer":null,"reason_code":"SLV-PORTSTATE-0001","reason":"no link"}"#,
        ),
    );
    check(
        &Document::new(links(&fabric)).to_json(),
        concat!(
            r#"{"schema":"selvedge.links","version":2,"links":[{"a":{"node_guid":"0x0000000000000010","#,
            r#""node_name":"spine 1","port":2},"b":{"node_guid":"0x0000000000000020","node_name":"host 1","#,
            r#""port":1},"state_a":"active","state_b":"active","rate":"4xSDR"}]}"#,
        ),
    );
}

/// Values that an agent never stated are null, not the defaults of an unconfigured port.
#[test]
fn unread_ports_are_unknown() {
    let fabric = pair();
    let mut builder = FabricBuilder::new();
    let keys: Vec<_> = fabric.nodes().iter().map(|node| builder.add(node.clone())).collect();
    let link = fabric.links().next().unwrap();
    let end = |at: selvedge_fabric::PortRef| (keys[at.node.0 as usize], at.port);
    builder.link(end(link.a), end(link.b)).unwrap();
    *builder.node_mut(keys[1]).port_mut(link.b.port).unwrap() = selvedge_fabric::Port {
        unread: true,
        ..selvedge_fabric::Port::default()
    };
    let mut fabric = builder.finish().unwrap();
    let host = |list: &selvedge_api::Ports| serde_json::to_string(list.ports.last().unwrap()).unwrap();
    let all = |fabric: &_| ports(fabric, |_| true, |_| None);
    check(
        &host(&all(&fabric)),
        concat!(
            r#"{"node_guid":"0x0000000000000020","node_name":"host 1","port":1,"guid":null,"lid":null,"lmc":null,"#,
            r#""state":null,"phys_state":null,"width":null,"speed":null,"mtu_bytes":null,"#,
            r#""peer":{"node_guid":"0x0000000000000010","node_name":"spine 1","port":2},"#,
            r#""reason_code":null,"reason":null}"#,
        ),
    );
    let links = links(&fabric);
    assert_eq!(
        (links.links[0].state_a, links.links[0].state_b),
        (Some(PortState::Active), None)
    );
    assert_eq!(nodes(&fabric).nodes[1].lid, None);
    let figures = Fabric::of(&fabric);
    assert_eq!((figures.hosts, figures.ports.down, figures.ports.unknown), (1, 0, 1));
    // Once the port is read, all its values are known.
    fabric.set_port(
        link.b,
        selvedge_fabric::LinkState::default(),
        selvedge_fabric::PortSettings::default(),
    );
    assert!(host(&all(&fabric)).contains(r#""state":"down""#));
    assert_eq!(nodes(&fabric).nodes[1].lid, Some(0));
}

#[test]
fn events_and_errors() {
    let event = Event {
        number: 7,
        time_ms: 1_000,
        uptime_ns: 5,
        severity: Severity::Warning,
        code: "SLV-SM-0010".to_owned(),
        text: "no answer".to_owned(),
    };
    let events = Events {
        last: 7,
        dropped: 0,
        events: vec![event],
    };
    check(
        &Document::new(events).to_json(),
        concat!(
            r#"{"schema":"selvedge.events","version":1,"last":7,"dropped":0,"events":[{"number":7,"#,
            r#""time_ms":1000,"uptime_ns":5,"severity":"warning","code":"SLV-SM-0010","text":"no answer"}]}"#,
        ),
    );
    check(
        &Document::new(ErrorKind::NoEmulator.error("no emulator here")).to_json(),
        concat!(
            r#"{"schema":"selvedge.error","version":1,"code":"SLV-API-0003","message":"no emulator here","#,
            r#""advice":"faults need 'selvedge run --fabric SPEC' or 'selvedge emulate'"}"#,
        ),
    );
}

#[test]
fn faults_are_read_strictly() {
    let read = |text: &str| serde_json::from_str::<FaultRequest>(text);
    let cut = FaultRequest {
        fault: "cut a[1]".to_owned(),
    };
    assert_eq!(read(r#"{"fault":"cut a[1]"}"#).unwrap(), cut);
    assert!(read(r#"{"fault":"cut a[1]","extra":1}"#).is_err());
    assert!(read("{}").is_err());
}

#[test]
fn reasons_are_summed_up() {
    let ports = (0..6).map(|i| (format!("p{i}"), "SLV-PORTSTATE-0001", "no link".to_owned()));
    let counts = count_reasons(ports);
    assert_eq!(counts.len(), 1);
    assert_eq!((counts[0].ports, counts[0].examples.len()), (6, 4));
}
