//! Memory and priority settings: huge pages for large data with random access, keeping freed memory for reuse, and
//! priority of one thread over others.

use std::ops::Range;

/// Size of a huge page, in bytes. On systems other than x86-64 and 64-bit ARM with small pages it may differ; then huge
/// pages are not used.
const HUGE: usize = 2 << 20;

/// Option of the allocator: for how many milliseconds it keeps freed memory before it returns it to the system. Its
/// bindings have no name for it, so it is derived from the next one. Source: `mi_option_e` in mimalloc.h, versions 2
/// and 3.
pub(crate) const PURGE_DELAY: libmimalloc_sys::mi_option_t = libmimalloc_sys::mi_option_use_numa_nodes - 1;

/// Makes the allocator keep freed memory, if it is mimalloc. Returned memory would have to be mapped again page by
/// page, and each page cleared. With 5,832 hosts, this made a repair after a pause 1 to 3 ms slower. The program then
/// keeps as much memory as it has ever used at one time. There are two exceptions: the environment may set another
/// delay (`MIMALLOC_PURGE_DELAY`), and work with a short peak may return its memory ([`GiveBack`](crate::GiveBack)).
pub fn keep_freed_memory() {
    // SAFETY: sets an integer that the allocator reads with every purge.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, -1) }
}

/// Asks the system to back this memory with huge pages at once: all huge pages that lie completely within these
/// addresses. Random access then needs far fewer page-table look-ups.
///
/// Takes some milliseconds for 100 MB. If the system cannot do it (before Linux 6.1, no huge page left, huge pages
/// forbidden), nothing changes and no error is returned, because memory is then only slower.
pub fn use_huge_pages(addresses: &Range<usize>) {
    let first = addresses.start.next_multiple_of(HUGE);
    let end = addresses.end - addresses.end % HUGE;
    if first >= end {
        return;
    }
    // SAFETY: MADV_COLLAPSE changes no byte of any memory, mapped or not, and no access to it: the kernel copies pages
    // and swaps them behind its own locks. Nothing is read or written by these addresses here.
    let _ = unsafe {
        libc::madvise(
            std::ptr::without_provenance_mut(first),
            end - first,
            libc::MADV_COLLAPSE,
        )
    };
}

/// Gives the calling thread priority over others, if the process may do so (`CAP_SYS_NICE`). Without priority, a
/// process that receives a request from this thread may also take over the processor of this thread, in the middle of a
/// batch, at every request. With 5,832 hosts on ibsim and two processors, this made a repair 8 to 19 % slower. Does
/// nothing without the permission.
pub fn prefer_this_thread() {
    /// The highest priority of 40.
    const NICEST_TO_US: libc::c_int = -20;
    // SAFETY: passes numbers; 0 is the calling thread.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICEST_TO_US) };
}

/// Gives all other threads priority over the calling thread, which does work that is not urgent.
pub fn put_this_thread_last() {
    /// The lowest priority of 40.
    const NICEST_TO_OTHERS: libc::c_int = 19;
    lower_to(NICEST_TO_OTHERS);
}

/// Gives an ordinary thread nine times as much of a busy processor as the calling thread, which has work that may wait
/// but must not stop. Source: sched(7): a nice value of 10 weighs 110, one of 0 weighs 1,024.
pub fn put_this_thread_behind() {
    /// A ninth of the weight of an ordinary thread.
    const NICE_TO_OTHERS: libc::c_int = 10;
    lower_to(NICE_TO_OTHERS);
}

/// Sets the nice value of the calling thread.
fn lower_to(nice: libc::c_int) {
    // SAFETY: passes numbers; 0 is the calling thread.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_is_kept() {
        // SAFETY: reads an integer.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert!(delay() >= 10, "this is another option");
        keep_freed_memory();
        assert_eq!(delay(), -1);
        // While two holders exist, freed memory is marked.
        let (first, second) = (crate::GiveBack::begin(), crate::GiveBack::begin());
        assert_eq!(delay(), libc::c_long::from(i32::MAX));
        drop(first);
        assert_eq!(delay(), libc::c_long::from(i32::MAX));
        drop(second);
        assert_eq!(delay(), -1);
    }

    #[test]
    fn a_thread_goes_before_others_if_it_may() {
        // SAFETY: passes numbers; 0 is the calling thread.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = nice();
        let after = std::thread::spawn(move || {
            prefer_this_thread();
            nice()
        });
        let after = after.join().unwrap();
        assert!(after == -20 || after == before, "{before} {after}");
        assert_eq!(nice(), before, "other threads stay where they are");
    }

    #[test]
    fn a_thread_goes_behind_others() {
        // SAFETY: passes numbers; 0 is the calling thread.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let after = std::thread::spawn(move || {
            put_this_thread_behind();
            nice()
        });
        assert_eq!(after.join().unwrap(), 10);
    }

    #[test]
    fn a_thread_goes_after_others() {
        // SAFETY: passes numbers; 0 is the calling thread.
        let nice = || unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
        let before = nice();
        let after = std::thread::spawn(move || {
            put_this_thread_last();
            nice()
        });
        assert_eq!((after.join().unwrap(), nice()), (19, before));
    }

    #[test]
    fn memory_holds_what_it_held() {
        let numbers: Vec<u32> = (0..3_000_000).collect();
        let Range { start, end } = numbers.as_ptr_range();
        let all = start.addr()..end.addr();
        use_huge_pages(&all);
        use_huge_pages(&(all.start..all.start));
        use_huge_pages(&(all.start + 5..all.start + 7));
        assert!(numbers.iter().copied().eq(0..3_000_000));
    }
}
