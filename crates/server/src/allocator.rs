//! The allocator of the process: mimalloc.
//!
//! mimalloc's functions that are told an alignment take several times as long as those of C, and give what is
//! longer than a kibibyte a block with room to shift it. Nearly everything that Rust allocates is aligned as
//! all blocks of `malloc` are, so those are asked for whatever needs no more.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mimalloc;

/// mimalloc, as the allocator of a Rust program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

/// Whether a block that is asked for without an alignment is aligned well enough. Blocks of 16 bytes and more
/// are aligned to 16, shorter ones to 8 (`MI_MAX_ALIGN_SIZE` in mimalloc/types.h); of the two only the
/// smaller is relied on.
const fn is_ordinary(layout: &Layout) -> bool {
    layout.align() <= 8
}

// SAFETY: every block comes from mimalloc with at least the size and the alignment of its layout, goes back
// to it, and is nobody else's meanwhile. All its functions may be called on one another's blocks, and none of
// them unwinds.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: an alignment is a power of two.
        unsafe {
            match is_ordinary(&layout) {
                true => mimalloc::mi_malloc(layout.size()).cast(),
                false => mimalloc::mi_malloc_aligned(layout.size(), layout.align()).cast(),
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        unsafe {
            match is_ordinary(&layout) {
                true => mimalloc::mi_zalloc(layout.size()).cast(),
                false => mimalloc::mi_zalloc_aligned(layout.size(), layout.align()).cast(),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller has the block from this allocator.
        unsafe { mimalloc::mi_free(block.cast()) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller has the block from this allocator, with this layout.
        unsafe {
            match is_ordinary(&layout) {
                true => mimalloc::mi_realloc(block.cast(), size).cast(),
                false => mimalloc::mi_realloc_aligned(block.cast(), size, layout.align()).cast(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_size_and_alignment_are_aligned_and_keep_their_bytes() {
        for align in [1, 2, 4, 8, 16, 32, 64, 4_096] {
            for size in (1..80).chain([127, 128, 1_000, 1_024, 1_025, 1_432, 5_000, 70_000, 3 << 20]) {
                let layout = Layout::from_size_align(size, align).unwrap();
                let longer = size + size / 2 + 1;
                // SAFETY: blocks are written and read within their layouts, and freed once with the layout
                // they have last.
                unsafe {
                    let block = Allocator.alloc(layout);
                    assert!(!block.is_null() && block.addr().is_multiple_of(align), "{size} {align}");
                    block.write_bytes(7, size);
                    let block = Allocator.realloc(block, layout, longer);
                    assert!(!block.is_null() && block.addr().is_multiple_of(align), "{longer} {align}");
                    assert!(std::slice::from_raw_parts(block, size).iter().all(|byte| *byte == 7));
                    Allocator.dealloc(block, Layout::from_size_align(longer, align).unwrap());
                    let block = Allocator.alloc_zeroed(layout);
                    assert!(!block.is_null() && block.addr().is_multiple_of(align), "{size} {align}");
                    assert!(std::slice::from_raw_parts(block, size).iter().all(|byte| *byte == 0));
                    Allocator.dealloc(block, layout);
                }
            }
        }
    }
}
