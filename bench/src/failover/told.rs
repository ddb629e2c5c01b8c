//! Figures in Selvedge's log about a fault, beside the packets on the wire: times of planning and judging, and waits
//! for packets in flight. OpenSM logs none of these.

/// Figures since a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Told {
    /// Time of planning, in microseconds; `None`: there was no repair in place, or the time is unknown.
    pub compute_us: Option<f64>,
    /// Time of judging, in microseconds; `None`: there was no repair in place, or the time is unknown.
    pub verify_us: Option<f64>,
    /// Number of waits for packets in flight.
    pub drain_waits: u64,
    /// Number of repairs that were computed before the fault (backups).
    pub known: u64,
}

impl Told {
    /// Reads lines of a log: SLV-SM-0023 has the times of a repair, SLV-SM-0030 reports a wait. Several repairs are
    /// added up.
    #[must_use]
    pub fn read(log: &str) -> Self {
        let mut told = Self::default();
        for line in log.lines() {
            if line.contains("SLV-SM-0023") {
                add(&mut told.compute_us, number_after(line, "planned in "));
                add(&mut told.verify_us, number_after(line, " us, judged in "));
                told.known += u64::from(line.contains("from a backup"));
            }
            told.drain_waits += u64::from(line.contains("SLV-SM-0030"));
        }
        told
    }
}

fn add(sum: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or(0.0) + more);
    }
}

fn number_after(line: &str, words: &str) -> Option<f64> {
    let (_, after) = line.split_once(words)?;
    after.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_are_added_up_and_waits_counted() {
        let check = |log: &str, compute_us: Option<f64>, verify_us: Option<f64>, (drain_waits, known): (u64, u64)| {
            let want = Told {
                compute_us,
                verify_us,
                drain_waits,
                known,
            };
            assert_eq!(Told::read(log), want, "{log}");
        };
        let repair = "INFO SLV-SM-0023 links lost 1, back 0: 7 LFT blocks change, planned in 40 us, judged in 12 us";
        check("", None, None, (0, 0));
        check(repair, Some(40.0), Some(12.0), (0, 0));
        check(&format!("{repair}\n{repair}"), Some(80.0), Some(24.0), (0, 0));
        let known = repair.replace("change,", "change, from a backup,");
        check(&format!("{repair}\n{known}"), Some(80.0), Some(24.0), (0, 1));
        check("x SLV-SM-0030 waiting 5 s\nx SLV-SM-0007 up", None, None, (1, 0));
    }
}
