//! A real Prometheus (Debian's), which scrapes pages that our code made; a real VictoriaMetrics, to which they are
//! written.

mod dashboards;
mod page;
mod server;
mod victoria;

use selvedge_telemetry::Wall;
use selvedge_telemetry::exposition::remote_write::{HEADERS, bodies};

use self::page::Page;
use self::server::{Peer, get, post, wait_for};

/// Every expression of dashboards and rules returns data, so none of them names a metric or a label that is not there.
#[test]
fn every_expression_returns_data() {
    let peer = Peer::start();
    let all = dashboards::expressions();
    assert!(all.len() >= 30, "{}", all.len());
    for (at, expression) in all {
        wait_for(&format!("{at}: {expression}"), || !peer.query(&expression).is_empty());
    }
    // Both formats were understood; a page that cannot be parsed counts as down.
    for job in ["text", "openmetrics"] {
        let up = peer.query(&format!("up{{job=\"{job}\"}}"));
        assert_eq!(up.len(), 1, "{job}");
        assert_eq!(up[0]["value"][1], "1", "{job}: {}", peer.targets());
    }
    // The rules have been loaded and evaluated without an error.
    let rules = peer.get("/api/v1/rules");
    assert!(
        rules.contains("InfinibandLinkFlaps") && !rules.contains("\"health\":\"err\""),
        "{rules}"
    );
    wait_for("an alert", || {
        peer.get("/api/v1/alerts").contains("InfinibandPortErrors")
    });
}

/// An expression with a name that does not exist would be found.
#[test]
fn an_expression_without_data_is_noticed() {
    let peer = Peer::start();
    wait_for("a scrape", || !peer.query("infiniband_port_state").is_empty());
    assert!(peer.query("infiniband_port_state_typo").is_empty());
    assert!(peer.query("infiniband_port_state{prt=\"1\"}").is_empty());
}

#[test]
fn remote_write_stores_the_same_series() {
    let peer = Peer::start();
    let text = Page::at(5).text();
    let at = Wall(peer.now_ns());
    let bodies = bodies(&text, at, &[("job", "pushed")], 100).unwrap();
    assert!(bodies.len() > 3);
    for body in &bodies {
        let status = post(peer.port, "/api/v1/write", &HEADERS, body);
        assert!(status.starts_with("HTTP/1.1 204"), "{status}");
    }
    let samples = text.lines().filter(|line| !line.starts_with('#')).count().to_string();
    wait_for("all series", || {
        peer.query("count({job=\"pushed\"})")
            .first()
            .is_some_and(|all| all["value"][1] == samples.as_str())
    });
    let line = text
        .lines()
        .find(|line| line.starts_with("infiniband_switch_port_transmit_data_bytes_total{"))
        .unwrap();
    let (series, value) = line.rsplit_once(' ').unwrap();
    let found = peer.query(&series.replace('}', ",job=\"pushed\"}"));
    assert_eq!(found.len(), 1, "{series}");
    assert_eq!(found[0]["value"][1], value);
    // A body that is not snappy is refused, so the peer does look at it.
    let status = post(peer.port, "/api/v1/write", &HEADERS, b"no snappy");
    assert!(status.starts_with("HTTP/1.1 400"), "{status}");
    assert!(get(peer.port, "/-/healthy").contains("200 OK"));
}

#[test]
fn promtool_finds_nothing_to_improve() {
    let text = Page::at(1).text();
    let (code, said) = server::promtool(&["check", "metrics"], &text);
    assert_eq!(code, Some(0), "{said}");
    // The same tool does find a counter without `_total`.
    let (code, said) = server::promtool(&["check", "metrics"], "# HELP a b\n# TYPE a counter\na 1\n");
    assert_ne!(code, Some(0), "{said}");
    let rules = dashboards::folder().join("rules.yml");
    let (code, said) = server::promtool(&["check", "rules", &rules.display().to_string()], "");
    assert_eq!(code, Some(0), "{said}");
}
