//! How the kernel treats the threads of the node.
//!
//! Work that somebody waits for takes microseconds; compactions, flushes and whatever else runs on the
//! machine compute for as long as the kernel lets them. A thread that wakes on a busy core is run when what
//! runs there has had its slice: three or four milliseconds with Linux's defaults, and as much again for each
//! thread that waits before it. Since 6.12 a thread can ask for shorter slices than others. It then gets no
//! more time in all, but gets it as soon as it wakes (`PREEMPT_SHORT`,
//! <https://docs.kernel.org/scheduler/sched-eevdf.html>, `sched_runtime` in sched_setattr(2)).

use std::io;
use std::mem;
use std::time::Duration;

/// The slices that a thread for short work asks for: the shortest that the kernel grants.
pub const SHORT_SLICE_NANOS: u64 = 100_000;

/// Asks the kernel for slices of [`SHORT_SLICE_NANOS`] for the calling thread. Kernels before 6.12 take no
/// notice. A thread that was given another scheduling policy than the default from outside keeps that as it
/// is.
///
/// # Errors
/// When the kernel, or what filters its calls, refuses.
pub fn ask_for_short_slices() -> io::Result<()> {
    let attributes = attributes()?;
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    ask_for_slices(attributes, SHORT_SLICE_NANOS)
}

/// Runs `work` with the slices that the kernel gives to all, also on a thread that asked for short ones,
/// which it has again afterwards. Long work with short slices would not make way for those who need them: the
/// kernel lets a thread that wakes go first only if its slices are shorter than those of the thread that
/// runs. Threads that `work` starts are like any other, too.
pub fn with_ordinary_slices<T>(work: impl FnOnce() -> T) -> T {
    let _before = Slices::change_to(0);
    work()
}

/// Runs `work` with slices of [`SHORT_SLICE_NANOS`], where the kernel grants them; the calling thread has its
/// own again afterwards. For long work that yields the processor as often.
pub fn with_short_slices<T>(work: impl FnOnce() -> T) -> T {
    let _before = Slices::change_to(SHORT_SLICE_NANOS);
    work()
}

/// Runs `work` on a single core, the `number`th of those that the calling thread may use, counted round and
/// round. Threads that it starts stay there, too: for threads that take turns, because the next then need not
/// wake another core. Where the kernel refuses, everything stays as it is.
pub fn on_one_core<T>(number: usize, work: impl FnOnce() -> T) -> T {
    let _before = Cores::change_to(number);
    work()
}

/// Lets other threads go first, for as long as the calling one lives: for work that nobody waits for by the
/// millisecond. It gets what they leave, and a little more (nice 15, setpriority(2)).
pub fn give_way() {
    // A kernel that refuses leaves it among equals.
    // SAFETY: the call takes no pointer. On Linux "process 0" is the calling thread.
    let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 15) };
}

/// Processor time that the calling thread has had, in nanoseconds.
pub fn cpu_nanos() -> u64 {
    nanos_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds since some moment in the past that is the same for all threads. For how work shares the
/// processors, which is the kernel's time whatever clock a test has; everything else takes
/// `env::clock::Clock`.
pub fn kernel_nanos() -> u64 {
    nanos_of(libc::CLOCK_MONOTONIC)
}

/// Leaves the processor to others for about so many nanoseconds; returns for how many it was.
#[allow(
    clippy::disallowed_methods,
    reason = "it is the processor that is waited for, and no clock of the node"
)]
pub fn rest(nanos: u64) -> u64 {
    let started = kernel_nanos();
    std::thread::sleep(Duration::from_nanos(nanos));
    kernel_nanos().saturating_sub(started)
}

fn nanos_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is a whole `timespec`, which the kernel writes; it has both clocks and leaves it alone
    // where not.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What the calling thread asked for, and asks for again when this goes, by a panic as well. In nanoseconds;
/// 0: nothing.
struct Slices(u64);

impl Slices {
    /// Where the kernel refuses, or somebody gave the thread another policy, everything stays as it is.
    fn change_to(nanos: u64) -> Option<Slices> {
        let before = attributes().ok().filter(|a| a.sched_policy == libc::SCHED_OTHER as u32)?;
        // Threads that asked for nothing have what the kernel gives to all.
        let asked = if before.sched_runtime == SHORT_SLICE_NANOS { SHORT_SLICE_NANOS } else { 0 };
        ask_for_slices(before, nanos).ok().map(|()| Slices(asked))
    }
}

impl Drop for Slices {
    fn drop(&mut self) {
        let _ = attributes().and_then(|now| ask_for_slices(now, self.0));
    }
}

/// The cores that a thread may use, a bit each.
type CoreBits = [u64; 16];

/// The cores that the calling thread could use, and can again when this goes.
struct Cores(CoreBits);

impl Cores {
    fn change_to(number: usize) -> Option<Cores> {
        let before = cores().ok()?;
        let is_in = |core: &usize| before[core / 64] & 1 << (core % 64) != 0;
        let usable: Vec<usize> = (0..before.len() * 64).filter(is_in).collect();
        let core = *usable.get(number.checked_rem(usable.len())?)?;
        let mut bits = CoreBits::default();
        bits[core / 64] = 1 << (core % 64);
        set_cores(&bits).ok().map(|()| Cores(before))
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        let _ = set_cores(&self.0);
    }
}

fn cores() -> io::Result<CoreBits> {
    let mut bits = CoreBits::default();
    // SAFETY: the kernel writes at most as many bytes as it is told of; 0 is the calling thread.
    let outcome =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, mem::size_of_val(&bits), bits.as_mut_ptr()) };
    if outcome >= 0 { Ok(bits) } else { Err(io::Error::last_os_error()) }
}

fn set_cores(bits: &CoreBits) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as it is told of; 0 is the calling thread.
    let outcome =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, mem::size_of_val(bits), bits.as_ptr()) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks for slices of `nanos` for the calling thread, whose other attributes stay as they are; 0: those of
/// all threads.
fn ask_for_slices(mut attributes: libc::sched_attr, nanos: u64) -> io::Result<()> {
    attributes.sched_runtime = nanos;
    // SAFETY: the attributes are a whole `sched_attr` that names its own size, which the kernel reads and
    // does not keep; 0 is the calling thread.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How the calling thread is scheduled.
fn attributes() -> io::Result<libc::sched_attr> {
    let size = mem::size_of::<libc::sched_attr>() as u32;
    let mut attributes = libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes at most the `size` bytes that it is told of; 0 is the calling thread.
    let outcome = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
    if outcome == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "threads and waits of a test")]
mod tests {
    use super::*;

    #[test]
    fn a_thread_asks_for_itself_and_keeps_its_policy_and_nice_value() {
        let outer = attributes().unwrap();
        std::thread::spawn(move || {
            ask_for_short_slices().unwrap();
            let inner = attributes().unwrap();
            assert_eq!((inner.sched_policy, inner.sched_nice), (outer.sched_policy, outer.sched_nice));
            // Kernels that know no slices of threads say 0.
            if outer.sched_runtime != 0 {
                assert_eq!(inner.sched_runtime, SHORT_SLICE_NANOS);
            }
        })
        .join()
        .unwrap();
        assert_eq!(attributes().unwrap().sched_runtime, outer.sched_runtime);
    }

    #[test]
    fn long_work_has_ordinary_slices_and_its_thread_has_short_ones_again_after_it() {
        let slice = || attributes().unwrap().sched_runtime;
        let ordinary = slice();
        let inner = std::thread::spawn(move || {
            ask_for_short_slices().unwrap();
            let short = slice();
            let of_a_new_thread = || std::thread::spawn(slice).join().unwrap();
            let meanwhile = with_ordinary_slices(|| (slice(), of_a_new_thread()));
            assert_eq!(meanwhile, (ordinary, ordinary));
            assert_eq!(slice(), short);
            let panicked =
                std::panic::catch_unwind(|| with_ordinary_slices(|| panic!("in the middle of it")));
            assert!(panicked.is_err());
            assert_eq!(slice(), short);
        });
        inner.join().unwrap();
        assert_eq!(with_ordinary_slices(slice), ordinary);
    }

    #[test]
    fn work_on_one_core_keeps_its_threads_there_and_gives_the_others_back() {
        let count = |bits: CoreBits| bits.iter().map(|word| word.count_ones()).sum::<u32>();
        let before = cores().unwrap();
        let of_a_new_thread = || std::thread::spawn(|| cores().unwrap()).join().unwrap();
        let each: Vec<CoreBits> = (0..count(before) as usize * 2)
            .map(|number| on_one_core(number, || (cores().unwrap(), of_a_new_thread())))
            .inspect(|(own, new)| assert_eq!((own, count(*own)), (new, 1)))
            .map(|(own, _)| own)
            .collect();
        let (first, again) = each.split_at(each.len() / 2);
        assert_eq!(first, again);
        let together = first
            .iter()
            .fold(CoreBits::default(), |all, one| std::array::from_fn(|word| all[word] | one[word]));
        assert_eq!((together, cores().unwrap()), (before, before));
        assert!(std::panic::catch_unwind(|| on_one_core(0, || panic!("in the middle of it"))).is_err());
        assert_eq!(cores().unwrap(), before);
    }

    #[test]
    fn long_work_in_short_turns_has_short_slices_and_its_thread_what_it_had_after_it() {
        let slice = || attributes().unwrap().sched_runtime;
        let ordinary = slice();
        let short = with_short_slices(slice);
        assert!(short == SHORT_SLICE_NANOS || short == ordinary);
        assert_eq!(slice(), ordinary);
        assert_eq!(with_short_slices(|| with_ordinary_slices(slice)), ordinary);
        assert_eq!(with_ordinary_slices(|| with_short_slices(slice)), short);
        assert_eq!(slice(), ordinary);
    }
}
