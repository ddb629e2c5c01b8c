//! What happens to them, and what must hold when all is well again.

use super::*;

impl Stage {
    pub fn happen(&mut self) {
        let below = |rng: &mut Rng, count: usize| rng.below(count as u64) as usize;
        let links: Vec<_> = self.fabric.links().collect();
        let link = links[below(&mut self.rng, links.len())];
        let link = self.fabric.port_name(link.a);
        let seats: Vec<NodeIdx> = self
            .desks
            .iter()
            .map(|desk| self.chassis().port_ref(desk.seat).node)
            .collect();
        let nodes: Vec<_> = self
            .fabric
            .nodes()
            .indices()
            .filter(|node| !seats.contains(node))
            .collect();
        let node = nodes[below(&mut self.rng, nodes.len())];
        let node = format!("\"{}\"", self.fabric.node(node).description);
        let (host, which) = (below(&mut self.rng, self.hosts.len()), below(&mut self.rng, 2));
        match self.rng.below(12) {
            0..=2 => self.fault(&format!("cut {link}")),
            3 | 4 => self.fault(&format!("restore {link}")),
            5 => self.fault(&format!("reboot {node}")),
            6 => self.fault(&format!("kill {node}")),
            7 => self.fault(&format!("revive {node}")),
            8 => self.hosts[host].wants[which] ^= true,
            _ if self.desks[which].runs => {
                self.kill(which);
                if self.rng.below(2) == 0 {
                    self.start(which);
                }
            }
            _ => self.start(which),
        }
    }

    pub fn fault(&mut self, text: &str) {
        self.note(text.to_owned());
        self.world.fault(&text.parse().unwrap()).unwrap();
    }

    /// All is well, for the fabric and for each host.
    pub fn is_well(&self) -> bool {
        let masters = self.desks.iter().filter(|desk| {
            let view = self.world.view(desk.id);
            view.is_some_and(|view| view.role == Role::Master && view.is_up())
        });
        let is_content = |host: &Host| host.has == host.wants && is_active(self.chassis(), host.at);
        masters.count() == 1 && self.world.is_quiet() && self.hosts.iter().all(is_content)
    }

    pub fn settle(&mut self) -> Result<(), Wrong> {
        let end = self.world.now() + PATIENCE;
        while self.world.now() < end {
            // Not in step with polls.
            self.run(Duration::from_millis(970));
            if self.is_well() {
                return Ok(());
            }
        }
        let hosts = self.hosts.iter().filter(|host| host.has != host.wants).count();
        let log: Vec<String> = self
            .world
            .log_text()
            .lines()
            .rev()
            .take(12)
            .map(str::to_owned)
            .collect();
        Err(Wrong::Unsettled(format!(
            "{hosts} hosts are not served; {}",
            log.join("\n")
        )))
    }

    /// The master knows what hosts were told, and answers as planned.
    pub fn check(&mut self) -> Result<(), Wrong> {
        let role = |desk: &Desk| self.world.view(desk.id).map(|view| view.role);
        let master = self
            .desks
            .iter()
            .position(|desk| role(desk) == Some(Role::Master))
            .unwrap();
        let text = self.desks[master].sa.registrations().to_text();
        for host in &self.hosts {
            for (what, word) in ["member", "subscription"].into_iter().enumerate() {
                let guid = host.guid.to_string();
                let is_known = text.lines().any(|line| line.starts_with(word) && line.contains(&guid));
                // Who was told so once and has lost its link since may still be known: that does no harm.
                if host.has[what] && !is_known {
                    return Err(Wrong::Forgotten(format!("{word} {guid}, by manager {master}")));
                }
            }
        }
        let plan = self.world.view(self.desks[master].id).unwrap().plan.unwrap();
        for number in 0..self.hosts.len() {
            let other = self.rng.below(self.hosts.len() as u64) as usize;
            let (from, to) = (self.lid(self.hosts[number].at), self.lid(self.hosts[other].at));
            let answer = self.ask(number, path(from, to), None);
            let level = answer.filter(|mad| mad.status() == Status::OK);
            let level = level.map(|mad| records::path::SL.get(mad.sa_data()));
            if level != Some(u64::from(plan.told_levels().to(to).get())) {
                return Err(Wrong::Stale(format!("from {from} to {to}: {level:?}")));
            }
        }
        Ok(())
    }

    /// Subscribers are told that a host went and came back.
    pub fn check_reports(&mut self) -> Result<(), Wrong> {
        self.hosts.iter_mut().for_each(|host| host.reports.clear());
        let gone = self.rng.below(self.hosts.len() as u64) as usize;
        let name = format!("\"{}\"", self.fabric.node(self.hosts[gone].node).description);
        self.fault(&format!("kill {name}"));
        self.run(Duration::from_secs(25));
        self.fault(&format!("revive {name}"));
        self.settle()?;
        let told = |host: &Host| host.reports.contains(&64) && host.reports.contains(&65);
        let deaf = self.hosts.iter().enumerate();
        let deaf = deaf
            .filter(|(number, host)| *number != gone && host.wants[1] && !told(host))
            .count();
        match deaf {
            0 => Ok(()),
            _ => Err(Wrong::Unreported(format!("{deaf} subscribers were not told of {name}"))),
        }
    }
}
