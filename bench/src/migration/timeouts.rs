//! Which local ACK time-out is too short for the manager's repair: every cable between switches is cut once.

use selvedge_study::migration::Mode;
use selvedge_workload::Pattern;

use super::single::one_fault;
use super::{Args, Case, REPAIR_US, Variant, answer};
use crate::error::BenchError;

/// What all cuts did with one time-out.
pub struct TimeOut {
    ack_timeout: u8,
    cables: usize,
    /// Cuts that lost a packet.
    with_effect: usize,
    /// Cuts after which queue pairs were in ERR.
    with_errors: usize,
    qp_errors: u64,
    /// Messages sent, and those that have arrived.
    sent: u64,
    arrived: u64,
}

/// Time-outs around the repair time: with seven retries 4 lasts 524 µs, 5 outlasts 570 µs. Shorter ones end before a
/// message of 8 KiB is acknowledged at 1x SDR. The last one is what programs use: 67 ms.
const TIME_OUTS: [u8; 5] = [4, 5, 6, 7, 14];

/// Messages of each sender. At 1x SDR they take more than 1 ms, so they are under way from before the cut until after
/// the repair; afterwards a run has nothing to do but wait.
const MESSAGES: u32 = 32;
/// Time for all messages, in addition to that of the retries.
const SENDING_NS: u64 = 20_000_000;

/// Cuts each cable between switches, for these time-outs and that of the arguments, with the manager's repair only. A
/// run lasts longer than all retries.
pub fn measure(variant: &Variant, args: &Args) -> Result<Vec<TimeOut>, BenchError> {
    let case = Case::new("repair", Mode::Off, Some(REPAIR_US));
    let given = Some(args.ack_timeout).filter(|given| !TIME_OUTS.contains(given));
    let time_out = |ack_timeout| {
        let args = Args {
            ack_timeout,
            ..args.clone()
        };
        let mut found = TimeOut {
            ack_timeout,
            cables: 0,
            with_effect: 0,
            with_errors: 0,
            qp_errors: 0,
            sent: 0,
            arrived: 0,
        };
        for cable in variant.between() {
            let mut question = one_fault(variant, &args, &case, cable)?;
            question.program.messages = Some(MESSAGES);
            question.settings.duration_ns += SENDING_NS;
            if let Pattern::Pairs(pairs) = &question.pattern {
                found.sent += pairs.len() as u64 * u64::from(MESSAGES);
            }
            let run = answer(&question)?.run;
            found.arrived += run.messages;
            found.cables += 1;
            found.with_effect += usize::from(run.packets_lost > 0);
            found.with_errors += usize::from(run.qp_errors > 0);
            found.qp_errors += run.qp_errors;
        }
        Ok(found)
    };
    TIME_OUTS.into_iter().chain(given).map(time_out).collect()
}

/// Returns a table.
pub fn markdown(rows: &[TimeOut], retries: u8) -> String {
    let mut text = format!(
        "| time-out | {retries} retries last at least, µs | cables | cuts that lost packets \
         | cuts with queue pairs in ERR | queue pairs in ERR | messages | that did not arrive |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for row in rows {
        let lasts = f64::from(u32::from(retries) + 1) * 4.096 * f64::from(1_u32 << row.ack_timeout);
        text += &format!(
            "| {} | {lasts:.0} | {} | {} | {} | {} | {} | {} |\n",
            row.ack_timeout,
            row.cables,
            row.with_effect,
            row.with_errors,
            row.qp_errors,
            row.sent,
            row.sent.saturating_sub(row.arrived)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outs_that_end_before_the_repair_are_too_short() {
        let variants = Variant::of("karytree:k=3,n=2").unwrap();
        let args = Args::quick();
        let rows = measure(&variants[0], &args).unwrap();
        assert!(rows.iter().all(|row| row.cables == 9), "all cables between switches");
        let of = |ack_timeout| {
            let row = rows.iter().find(|row| row.ack_timeout == ack_timeout).unwrap();
            (row.qp_errors, row.sent - row.arrived)
        };
        assert!(rows.iter().all(|row| row.with_effect == 9 && row.sent > 9 * 32));
        let (errors, missing) = of(4);
        assert!(errors > 0 && missing > 0, "524 µs are shorter than the repair");
        for longer in [5, 6, 7, 14] {
            assert_eq!(of(longer), (0, 0), "{longer}");
        }
    }
}
