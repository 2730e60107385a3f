//! Reads into memory that nobody has written yet.
//!
//! A page that goes to a cache lies in memory of its own, and zeroing that before the system fills it takes a
//! third of what the copy does (bench/notes/what-does-a-cache-miss-cost.md). The safe calls for several
//! pieces of memory want all of them initialised.

use rustix::io::{Errno, ReadWriteFlags};
use std::fs::File;
use std::os::fd::AsRawFd;

/// Reads from `offset` on: the first `len` bytes to the end of `bytes`, as many as come, and those behind to
/// `after`. Gives how many came.
pub(super) fn read(
    file: &File,
    offset: u64,
    bytes: &mut Vec<u8>,
    len: usize,
    after: &mut [u8],
    flags: ReadWriteFlags,
) -> Result<usize, Errno> {
    bytes.reserve_exact(len);
    let spare = &mut bytes.spare_capacity_mut()[..len];
    let pieces = [
        libc::iovec { iov_base: spare.as_mut_ptr().cast(), iov_len: spare.len() },
        libc::iovec { iov_base: after.as_mut_ptr().cast(), iov_len: after.len() },
    ];
    let count = if after.is_empty() { 1 } else { 2 };
    let offset = libc::off64_t::try_from(offset).map_err(|_| Errno::INVAL)?;
    // SAFETY: the call writes at most `iov_len` bytes to each piece, all of which are ours alone until it
    // returns.
    let got = unsafe {
        libc::preadv2(file.as_raw_fd(), pieces.as_ptr(), count, offset, flags.bits() as libc::c_int)
    };
    let got = usize::try_from(got)
        .map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))?;
    // SAFETY: `spare` has room for `len` bytes, and of those the call has filled the first `got`.
    unsafe { bytes.set_len(bytes.len() + got.min(len)) };
    Ok(got)
}
