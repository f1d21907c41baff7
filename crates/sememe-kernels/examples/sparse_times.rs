//! Times of the parts of a sparse dictionary's step, in one run: `cargo run --release -p sememe-kernels --example sparse_times`.

use std::sync::Arc;
use std::time::Instant;

use burn::tensor::{Device, Distribution, Tensor};
use sememe_kernels::{Choice, Precision, encode_top, sparse_decode, sparse_encode};

#[global_allocator]
static MEMORY: sememe_kernels::Retaining = sememe_kernels::Retaining::new();

const SIZES: (usize, usize, usize, usize) = (2048, 768, 8192, 32);

fn timed<T>(name: &str, mut f: impl FnMut() -> T) {
    let mut seconds: Vec<f64> = (0..9)
        .map(|_| {
            let start = Instant::now();
            std::hint::black_box(f());
            start.elapsed().as_secs_f64()
        })
        .collect();
    seconds.sort_by(f64::total_cmp);
    println!("{name:44} {:8.2} ms (best {:.2})", 1e3 * seconds[4], 1e3 * seconds[0]);
}

fn main() {
    let (rows, d, n, k) = SIZES;
    let plain = Device::flex();
    let draw = |shape: [usize; 2]| Tensor::<2>::random(shape, Distribution::Normal(0.0, 0.1), &plain);
    let (x, weight, zero, bias) = (draw([rows, d]), draw([n, d]), Tensor::<1>::zeros([d], &plain), Tensor::<1>::zeros([n], &plain));
    println!("batch {rows}, d {d}, n {n}, k {k}, {} threads", std::thread::available_parallelism().map_or(1, usize::from));
    timed("encoder product alone", || x.clone().matmul(weight.clone().transpose()));
    let with = |choice, precision| encode_top(x.clone(), zero.clone(), weight.clone(), bias.clone(), &choice, precision);
    let top = |choice| with(choice, Precision::Single);
    timed("encoder product and k largest a row", || top(Choice::PerRow(k)));
    timed("encoder product and k·N largest of the batch", || top(Choice::WholeBatch(k)));
    timed("the same from operands in bfloat16", || with(Choice::WholeBatch(k), Precision::Bf16));
    let (pattern, known) = top(Choice::PerRow(k));
    timed("decode", || sparse_decode(known.clone(), weight.clone(), &pattern));
    timed("encode at active latents", || sparse_encode(x.clone(), zero.clone(), weight.clone(), bias.clone(), &pattern, None));
    let tracked = |t: Tensor<2>| Tensor::from_inner(t).require_grad();
    let (enc, dec) = (tracked(weight.clone()), tracked(weight.clone()));
    let vector = |t: Tensor<1>| Tensor::from_inner(t).require_grad();
    let (bias, centre) = (vector(bias.clone()), vector(zero.clone()));
    let target = Tensor::<2>::from_inner(x.clone());
    timed("forward and backward after the choice", || {
        let fresh = Arc::new(sememe_kernels::Pattern::new(pattern.starts().to_vec(), pattern.latents().to_vec(), n));
        let values = sparse_encode(target.clone(), centre.clone(), enc.clone(), bias.clone(), &fresh, Some(known.clone()));
        let error = sparse_decode(values, dec.clone(), &fresh) - target.clone();
        (error.clone() * error).mean().backward()
    });
}
