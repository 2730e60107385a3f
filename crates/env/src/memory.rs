//! How the kernel gives memory to the process.
//!
//! Where memory comes in pages of 2 MiB, a process that touches little of much takes far more than it uses:
//! each thread begins a piece of the allocator's memory, and each piece then has such a page. Pages of 4 KiB
//! cost reads of a large cache time, because the processor looks up more of them. So a process that is small
//! does without huge pages, and one that has become large does not (`PR_SET_THP_DISABLE` in prctl(2)).

use std::io;

/// Whether memory that the process touches first may come in huge pages.
///
/// # Errors
/// When the kernel does not say.
pub fn has_huge_pages() -> io::Result<bool> {
    // SAFETY: the call takes and gives numbers only.
    let disabled = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, 0, 0, 0, 0) };
    if disabled < 0 { Err(io::Error::last_os_error()) } else { Ok(disabled == 0) }
}

/// Says whether memory that the process touches from now on may come in huge pages. What it has stays as it
/// is, until the kernel puts pages together in the background.
///
/// # Errors
/// When the kernel refuses.
pub fn set_huge_pages(may: bool) -> io::Result<()> {
    // SAFETY: the call takes and gives numbers only.
    let outcome = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, libc::c_ulong::from(!may), 0, 0, 0) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Bytes of memory that the process has of its own: pages that are no file's.
///
/// # Errors
/// When `/proc` is not there.
#[allow(clippy::disallowed_methods, reason = "no file of the node: what the kernel says of the process")]
pub fn own_bytes() -> io::Result<u64> {
    // size, resident, shared, all in pages: proc_pid_statm(5).
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let mut pages = text.split_ascii_whitespace().skip(1).map(|number| number.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    // SAFETY: the call takes and gives numbers only.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Ok(resident.saturating_sub(shared) * u64::try_from(page_bytes).unwrap_or(4096))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_touched_is_counted() {
        let before = own_bytes().unwrap();
        let block = vec![1u8; 32 << 20];
        let with = own_bytes().unwrap();
        assert!(with >= before + (24 << 20), "{before} {with} {}", block.len());
    }

    #[test]
    fn huge_pages_are_what_was_said_last() {
        let before = has_huge_pages().unwrap();
        set_huge_pages(false).unwrap();
        assert!(!has_huge_pages().unwrap());
        set_huge_pages(true).unwrap();
        assert!(has_huge_pages().unwrap());
        set_huge_pages(before).unwrap();
    }
}
