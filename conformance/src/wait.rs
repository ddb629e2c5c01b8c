//! Waiting for conditions.

use std::time::{Duration, Instant};

use crate::LabError;

/// Time between two checks of a condition.
const STEP: Duration = Duration::from_millis(2);

/// Waits until `look` finds something, at most `limit`. If the time runs out, the error has `what` and the text from
/// `output`.
pub fn until<T>(
    what: &str,
    limit: Duration,
    output: impl Fn() -> String,
    mut look: impl FnMut() -> Result<Option<T>, LabError>,
) -> Result<T, LabError> {
    let start = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if start.elapsed() >= limit {
            return Err(LabError::TimedOut {
                what: what.to_owned(),
                after: limit,
                output: output(),
            });
        }
        std::thread::park_timeout(STEP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_or_explains() {
        let mut looks = 0;
        let found = until("three looks", Duration::from_secs(5), String::new, || {
            looks += 1;
            Ok((looks == 3).then_some(looks))
        });
        assert_eq!(found.unwrap(), 3);
        let never = until(
            "the impossible",
            Duration::ZERO,
            || "said nothing".to_owned(),
            || Ok(None::<()>),
        );
        let text = never.unwrap_err().to_string();
        assert!(
            text.contains("the impossible") && text.contains("said nothing"),
            "{text}"
        );
    }
}
