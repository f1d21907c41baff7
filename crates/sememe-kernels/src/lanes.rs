//! Element-wise loops over slices, compiled twice and chosen at run time: for any processor, and for those with AVX2 and FMA.
//!
//! The bodies are plain loops that the compiler vectorises to whatever width
//! the instruction set has; nothing needs to be said at build time.

use crate::Activation;
use crate::activation::for_constant;

/// Declares `pub fn name(args)` with its body compiled for both instruction sets.
macro_rules! wide {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $Type:ty),*) $body:block) => {
        $(#[$meta])*
        #[allow(unsafe_code)]
        pub(crate) fn $name($($arg: $Type),*) {
            #[inline(always)]
            fn portable($($arg: $Type),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn with_avx2($($arg: $Type),*) {
                    portable($($arg),*);
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the only condition of calling it is that the processor has both features, just checked.
                    return unsafe { with_avx2($($arg),*) };
                }
            }
            portable($($arg),*)
        }
    };
}

pub(crate) use wide;

wide! {
    /// `y = φ(u)`.
    fn value(u: &[f32], y: &mut [f32], phi: Activation) {
        for_constant!(phi, PHI => y.iter_mut().zip(u).for_each(|(y, &u)| *y = PHI.value(u)))
    }
}

wide! {
    /// `y = φ′(u)`.
    fn slope(u: &[f32], y: &mut [f32], phi: Activation) {
        for_constant!(phi, PHI => y.iter_mut().zip(u).for_each(|(y, &u)| *y = PHI.slope(u)))
    }
}

wide! {
    /// `y = t · φ′(u)`.
    fn times_slope(t: &[f32], u: &[f32], y: &mut [f32], phi: Activation) {
        for_constant!(phi, PHI => y.iter_mut().zip(t).zip(u).for_each(|((y, &t), &u)| *y = t * PHI.slope(u)))
    }
}

wide! {
    /// `y ← y · φ″(u)`.
    fn by_curvature(u: &[f32], y: &mut [f32], phi: Activation) {
        for_constant!(phi, PHI => y.iter_mut().zip(u).for_each(|(y, &u)| *y *= PHI.curvature(u)))
    }
}

wide! {
    /// `y = a · b`.
    fn product(a: &[f32], b: &[f32], y: &mut [f32]) {
        y.iter_mut().zip(a).zip(b).for_each(|((y, &a), &b)| *y = a * b)
    }
}

wide! {
    /// `y ← y + a · b`.
    fn add_product(a: &[f32], b: &[f32], y: &mut [f32]) {
        y.iter_mut().zip(a).zip(b).for_each(|((y, &a), &b)| *y += a * b)
    }
}
