//! Tokens a second of a model up to some layers and as a whole, to be compared with `benches/peers/transformers_forward.py`.
//!
//!     cargo run --release -p sememe-lm --example forward_speed -- models/SmolLM2-135M-Instruct.Q4_1.gguf 4 512
//!
//! The arguments are the model, rows and tokens a row.

use std::time::Instant;

use burn::tensor::Device;
use sememe_lm::{Hook, LmError, Place, Tokens, load_model};

/// Passes of which the fastest and the median are reported.
const PASSES: usize = 5;

fn main() -> Result<(), LmError> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "models/SmolLM2-135M-Instruct.Q4_1.gguf".into());
    let mut number = |default| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (rows, length) = (number(4), number(512));
    let started = Instant::now();
    let model = load_model(&path, &Device::flex())?;
    println!("loaded in {:.2} s; {rows} rows of {length} tokens", started.elapsed().as_secs_f64());
    let vocabulary = model.description().vocabulary;
    let tokens = Tokens::new(
        &(0..rows).map(|row| (0..length).map(|t| ((row * 7919 + t * 104_729) % vocabulary) as u32).collect()).collect::<Vec<_>>(),
    );
    let last = model.description().layers() - 1;
    let time = |name: &str, pass: &dyn Fn() -> Result<(), LmError>| {
        pass()?;
        let mut seconds = Vec::new();
        for _ in 0..PASSES {
            let started = Instant::now();
            pass()?;
            seconds.push(started.elapsed().as_secs_f64());
        }
        seconds.sort_by(f64::total_cmp);
        let count = (rows * length) as f64;
        println!("{name:<28} median {:8.1} tokens/s   best {:8.1}", count / seconds[PASSES / 2], count / seconds[0]);
        Ok::<(), LmError>(())
    };
    for layer in [12, 15, last].into_iter().filter(|&layer| layer <= last) {
        time(&format!("layers 0 to {layer}"), &|| model.read(&tokens, &[Hook::new(layer, Place::ResidPost)]).map(|_| ()))?;
    }
    time("whole, with cross-entropy", &|| model.nats(&tokens).map(|_| ()))
}
