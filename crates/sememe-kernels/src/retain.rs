//! A global allocator that keeps large freed blocks mapped, since a training step asks for the same sizes again and again.
//!
//! The system hands large blocks back when they are freed, so every step pays
//! for mapping and clearing the same pages anew: on a gradient of 25 MB that
//! costs more than computing it. Blocks of 1 MiB and more go to a small list
//! here instead, and are given out again for a request of the same size. What
//! is kept never exceeds the most that was ever in use at once, or 256 MiB.
//!
//! A program opts in: `#[global_allocator] static MEMORY: sememe_kernels::Retaining = sememe_kernels::Retaining::new();`

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::{Mutex, PoisonError};

/// Smallest block that is kept.
const LARGE: usize = 1 << 20;
/// Sizes are rounded up to this, so that nearly equal requests match.
const STEP: usize = 1 << 16;
/// Bytes that may always be kept.
const ALWAYS: usize = 256 << 20;
const SLOTS: usize = 128;

#[derive(Clone, Copy)]
struct Kept {
    address: usize,
    size: usize,
    align: usize,
    /// When it was freed.
    age: u64,
}

struct State {
    kept: [Option<Kept>; SLOTS],
    kept_bytes: usize,
    used_bytes: usize,
    most_used_bytes: usize,
    clock: u64,
}

/// The system's allocator with a list of kept blocks; see the head of this file.
pub struct Retaining {
    state: Mutex<State>,
}

impl Default for Retaining {
    fn default() -> Self {
        Self::new()
    }
}

impl Retaining {
    /// An allocator that keeps nothing yet.
    pub const fn new() -> Self {
        Self { state: Mutex::new(State { kept: [None; SLOTS], kept_bytes: 0, used_bytes: 0, most_used_bytes: 0, clock: 0 }) }
    }

    /// A kept block of exactly this layout, which is then in use.
    fn take(&self, layout: Layout) -> Option<*mut u8> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.used_bytes += layout.size();
        state.most_used_bytes = state.most_used_bytes.max(state.used_bytes);
        let fits = |kept: &Kept| kept.size == layout.size() && kept.align == layout.align();
        // The one freed last is the likeliest to be in a cache.
        let slot =
            (0..SLOTS).filter(|&slot| state.kept[slot].as_ref().is_some_and(fits)).max_by_key(|&slot| state.kept[slot].map(|k| k.age))?;
        let kept = state.kept[slot].take()?;
        state.kept_bytes -= kept.size;
        Some(std::ptr::with_exposed_provenance_mut(kept.address))
    }

    /// Keeps the block, and returns blocks to the system while too much is kept.
    fn keep(&self, block: *mut u8, layout: Layout) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.used_bytes = state.used_bytes.saturating_sub(layout.size());
        state.clock += 1;
        let most = state.most_used_bytes.max(ALWAYS);
        loop {
            let free = state.kept.iter().position(Option::is_none);
            if let (Some(slot), true) = (free, state.kept_bytes + layout.size() <= most) {
                let age = state.clock;
                state.kept[slot] = Some(Kept { address: block.expose_provenance(), size: layout.size(), align: layout.align(), age });
                state.kept_bytes += layout.size();
                return;
            }
            let oldest = (0..SLOTS).filter(|&slot| state.kept[slot].is_some()).min_by_key(|&slot| state.kept[slot].map(|k| k.age));
            let Some(kept) = oldest.and_then(|slot| state.kept[slot].take()) else { break };
            state.kept_bytes -= kept.size;
            if let Ok(of_kept) = Layout::from_size_align(kept.size, kept.align) {
                // SAFETY: the block came from `System` with this layout, and it was in the list alone.
                unsafe { System.dealloc(std::ptr::with_exposed_provenance_mut(kept.address), of_kept) };
            }
        }
        // SAFETY: the caller hands over a block that `System` gave for this layout.
        unsafe { System.dealloc(block, layout) };
    }
}

/// The layout under which a large block is asked for; `None` for a small one.
fn rounded(layout: Layout) -> Option<Layout> {
    (layout.size() >= LARGE).then(|| Layout::from_size_align(layout.size().next_multiple_of(STEP), layout.align()).ok()).flatten()
}

// SAFETY: every block comes from `System` under the layout that `rounded` gives for the request (or the request's own), and goes
// back under the same one; a kept block is in the list or in use, never both.
unsafe impl GlobalAlloc for Retaining {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match rounded(layout) {
            Some(large) => self.take(large).unwrap_or_else(|| unsafe { System.alloc(large) }),
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match rounded(layout) {
            Some(large) => match self.take(large) {
                Some(block) => {
                    // SAFETY: the block has at least this size.
                    unsafe { block.write_bytes(0, layout.size()) };
                    block
                }
                None => unsafe { System.alloc_zeroed(large) },
            },
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match rounded(layout) {
            Some(large) => self.keep(block, large),
            None => unsafe { System.dealloc(block, layout) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block that was freed is given out again, cleared when asked so, and only for its own size.
    #[test]
    fn a_block_comes_back() {
        let memory = Retaining::new();
        let layout = Layout::from_size_align(3 * LARGE, 64).expect("a layout");
        let other = Layout::from_size_align(4 * LARGE, 64).expect("a layout");
        // SAFETY: every block is used within its size and freed once, with its layout.
        unsafe {
            let first = memory.alloc(layout);
            first.write_bytes(7, layout.size());
            memory.dealloc(first, layout);
            let of_other_size = memory.alloc(other);
            assert_ne!(of_other_size, first);
            let again = memory.alloc_zeroed(layout);
            assert_eq!(again, first);
            assert_eq!((*again, *again.add(layout.size() - 1)), (0, 0));
            memory.dealloc(again, layout);
            memory.dealloc(of_other_size, other);
        }
        let state = memory.state.lock().expect("not poisoned");
        assert_eq!(state.kept_bytes, layout.size() + other.size());
        assert_eq!(state.used_bytes, 0);
    }

    /// What is kept stays within its bound.
    #[test]
    fn too_much_goes_back() {
        let memory = Retaining::new();
        let layout = Layout::from_size_align(ALWAYS / 4, 8).expect("a layout");
        // SAFETY: as above; the pages are never touched.
        unsafe {
            let blocks: Vec<_> = (0..4).map(|_| memory.alloc(layout)).collect();
            blocks.into_iter().for_each(|block| memory.dealloc(block, layout));
            let larger = Layout::from_size_align(ALWAYS / 2, 8).expect("a layout");
            let block = memory.alloc(larger);
            memory.dealloc(block, larger);
        }
        assert!(memory.state.lock().expect("not poisoned").kept_bytes <= ALWAYS);
    }
}
