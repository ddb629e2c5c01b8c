//! Handling of the signal for the file size limit (SIGXFSZ).

/// Makes a write beyond the file size limit (`ulimit -f`) fail with `EFBIG`, like a write to a full disk. Without this
/// call SIGXFSZ ends the process, so a manager could stop because of its log and leave a half-written file.
///
/// The signal gets a handler that does nothing. Child processes start with the default action again, which would not be
/// the case for an ignored signal.
pub fn outlive_file_limit() {
    // SAFETY: zeroes are a valid `sigaction`: no flags, an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` lives through the call, and its handler touches nothing. No older action is asked for.
    let _ = unsafe { libc::sigaction(libc::SIGXFSZ, &raw const action, std::ptr::null_mut()) };
}

extern "C" fn nothing(_signal: libc::c_int) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_does_not_end_the_process() {
        outlive_file_limit();
        for _ in 0..2 {
            // SAFETY: sends a signal to the calling thread.
            assert_eq!(unsafe { libc::raise(libc::SIGXFSZ) }, 0);
        }
    }
}
