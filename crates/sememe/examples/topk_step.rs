//! Times of whole training steps of sparse dictionaries beside their encoder's product, in one run.
//!
//! Run beside PyTorch on an otherwise idle machine:
//!
//! `cargo run --release -p sememe --example topk_step; python benches/peers/topk_step.py`
//!
//! Arguments: batch, d, n, k, repetitions (2048 768 8192 32 15), and then a tag to time the steps of one dictionary alone.

use std::time::Instant;

use burn::tensor::{Device, Tensor, TensorData};
use rand_distr::{Distribution, StandardNormal};
use sememe::dictionary::{
    Batch, BatchTopK, Centre, Dictionary, DictionaryKind, DictionaryPlan, JumpRelu, Relu, TopK, Widths, start, train,
};
use sememe::train::{Event, Fit, Flow, Observer};
use sememe_kernels::{Choice, Precision, encode_top};
use sememe_truth::random::stream;

#[global_allocator]
static MEMORY: sememe_kernels::Retaining = sememe_kernels::Retaining::new();

struct Clock {
    last: Instant,
    seconds: Vec<f64>,
    loss: f64,
}

impl Observer<Dictionary> for Clock {
    fn observe(&mut self, event: &Event<'_>, _: &Fit<Dictionary>) -> Flow {
        if let Event::Step { losses, .. } = event {
            self.loss = losses["reconstruction"];
        }
        self.seconds.push(self.last.elapsed().as_secs_f64());
        self.last = Instant::now();
        Flow::Continue
    }
}

/// Median and least, in milliseconds, without the first three.
fn summary(seconds: &[f64]) -> (f64, f64) {
    let mut sorted = seconds[seconds.len().min(3)..].to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| 1e3 * sorted.get(place).copied().unwrap_or(f64::NAN);
    (at(sorted.len() / 2), at(0))
}

fn main() {
    let given: Vec<usize> = std::env::args().skip(1).filter_map(|number| number.parse().ok()).collect();
    let at = |place: usize, default: usize| given.get(place).copied().unwrap_or(default);
    let (rows, d, n, k, repeat) = (at(0, 2048), at(1, 768), at(2, 8192), at(3, 32), at(4, 15));
    let plain = Device::flex();
    let draw = &mut stream(0, "bench");
    let values: Vec<f32> = (0..rows * d).map(|_| StandardNormal.sample(draw)).collect();
    let x = Tensor::<2>::from_data(TensorData::new(values, [rows, d]), &plain);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    println!("batch {rows}, d {d}, n {n}, k {k}, {threads} threads; medians of {repeat}");
    let dictionary = |kind: DictionaryKind| Dictionary::new(kind, Widths::same(d), 0, &plain.clone().autodiff()).expect("a dictionary");
    let weights = dictionary(DictionaryKind::TopK(TopK { n, k, ..TopK::default() })).evaluated();
    let timed = |name: &str, f: &dyn Fn()| {
        let seconds: Vec<f64> = (0..repeat + 3)
            .map(|_| {
                let started = Instant::now();
                f();
                started.elapsed().as_secs_f64()
            })
            .collect();
        let (median, least) = summary(&seconds);
        println!("{name:36} {median:8.1} ms (least {least:.1})");
        (median, least)
    };
    let (w, b, c) = (weights.w_enc.val(), weights.b_enc.val(), weights.b_dec.val());
    let product = timed("encoder product", &|| drop(x.clone().matmul(w.clone().transpose())));
    for (name, choice) in [("topk", Choice::PerRow(k)), ("batchtopk", Choice::WholeBatch(k))] {
        timed(&format!("encoder product and {name} choice"), &|| {
            drop(encode_top(x.clone(), c.clone(), w.clone(), b.clone(), &choice, Precision::Single));
        });
        timed(&format!("the same from bfloat16, {name}"), &|| {
            drop(encode_top(x.clone(), c.clone(), w.clone(), b.clone(), &choice, Precision::Bf16));
        });
    }
    for (kind, precision) in [
        (DictionaryKind::TopK(TopK { n, k, ..TopK::default() }), Precision::Single),
        (DictionaryKind::BatchTopK(BatchTopK { n, k, ..BatchTopK::default() }), Precision::Single),
        (DictionaryKind::TopK(TopK { n, k, ..TopK::default() }), Precision::Bf16),
        (DictionaryKind::BatchTopK(BatchTopK { n, k, ..BatchTopK::default() }), Precision::Bf16),
        (DictionaryKind::Relu(Relu { n, ..Relu::default() }), Precision::Single),
        (DictionaryKind::JumpRelu(JumpRelu { n, ..JumpRelu::default() }), Precision::Single),
    ] {
        if std::env::args().nth(6).is_some_and(|only| only != kind.tag()) {
            continue;
        }
        let name = format!("{} {}", kind.tag(), if precision == Precision::Bf16 { "bfloat16" } else { "" });
        let plan = DictionaryPlan { precision, steps: repeat + 3, warm_up_steps: 1, centre: Centre::Zero, ..DictionaryPlan::default() };
        let mut clock = Clock { last: Instant::now(), seconds: Vec::new(), loss: 0.0 };
        let batch: Batch = x.clone().into();
        let mut batches = |_| Ok(batch.clone());
        let fit = train(start(dictionary(kind), &plan, 0), &mut batches, &plan, &mut clock).expect("trains");
        let (median, least) = summary(&clock.seconds);
        println!(
            "{:36} {median:8.1} ms (least {least:.1})   {:.2} of the product ({:.2} by the least)   loss {:.3} after {} steps",
            format!("{name} step"),
            median / product.0,
            least / product.1,
            clock.loss,
            fit.step
        );
    }
}
