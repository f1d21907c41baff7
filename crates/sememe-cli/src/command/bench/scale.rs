//! `sememe bench scale`: what a token costs, and how much memory training takes, as the number of latents grows.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use burn::tensor::{Device, Tensor, TensorData};
use clap::Args;
use rand_distr::{Distribution, StandardNormal};
use sememe::dictionary::{Batch, Centre, Dictionary, DictionaryKind, DictionaryPlan, TopK, Widths, start, train};
use sememe_run::report::{Block, Curve, Page, Section, Table, curves};
use sememe_truth::random::stream;
use serde_json::{Value, json};

use super::dictionary::Clock;
use super::median;
use crate::command::{Context, file_link};

/// Arguments of `bench scale`.
#[derive(Args)]
pub struct Scale {
    /// Numbers of latents.
    #[arg(long, value_delimiter = ',', default_values_t = [2048, 4096, 8192, 16_384, 32_768, 65_536])]
    n: Vec<usize>,
    /// Tokens a batch.
    #[arg(long, default_value_t = 4096)]
    batch: usize,
    /// Width of the activations.
    #[arg(long, default_value_t = 576)]
    d: usize,
    /// Active latents a token.
    #[arg(long, default_value_t = 32)]
    k: usize,
    /// Steps, after two that are not counted.
    #[arg(long, default_value_t = 4)]
    repeat: usize,
    /// Also write the table with plots to this page.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Time the one given n in this process, and print JSON.
    #[arg(long, hide = true)]
    one: bool,
}

/// Steps that are not counted.
const WARM: usize = 2;
const GIB: f64 = 1024.0 * 1024.0 * 1024.0;

impl Scale {
    /// Times each n in a process of its own, so that the peaks of memory are apart.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        if self.one {
            println!("{}", self.here()?);
            return Ok(ExitCode::SUCCESS);
        }
        let lines: Vec<Value> = self.n.iter().map(|&n| self.child(n)).collect::<Result<_>>()?;
        let number = |line: &Value, key: &str| line[key].as_f64().unwrap_or(f64::NAN);
        let rows = lines.iter().map(|line| {
            let n = number(line, "n");
            vec![
                format!("{n}"),
                format!("{:.1}", number(line, "step_ms")),
                format!("{:.1}", number(line, "us_per_token")),
                format!("{:.2}", 1e3 * number(line, "us_per_token") / n),
                format!("{:.2}", number(line, "peak_bytes") / GIB),
                format!("{:.2}", self.bound(n as usize) / GIB),
            ]
        });
        let table = Table {
            head: ["n", "step, ms", "µs a token", "ns a token and latent", "peak memory, GiB", "4 copies + B·n + 1, GiB"]
                .map(String::from)
                .to_vec(),
            rows: rows.collect(),
            note: format!("TopK, d {}, k {}, batch {}, f32; whole steps, a process for each n.", self.d, self.k, self.batch),
        };
        let mut text = table.to_text();
        if let Some(out) = &self.out {
            let curve = |name: &str, key: &str, unit: f64| Curve {
                name: name.into(),
                points: lines.iter().map(|line| (number(line, "n"), number(line, key) / unit)).collect(),
            };
            let bound = Curve { name: "bound".into(), points: self.n.iter().map(|&n| (n as f64, self.bound(n) / GIB)).collect() };
            let blocks = vec![
                Block::Table(table),
                curves("Cost of a token", "n", "µs", false, &[curve("step", "us_per_token", 1.0)]),
                curves("Peak memory", "n", "GiB", false, &[curve("peak", "peak_bytes", GIB), bound]),
            ];
            let sections = vec![Section { heading: "Latents".into(), blocks }];
            let page = Page { title: "Cost over the number of latents".into(), subtitle: String::new(), sections };
            sememe_run::atomic::write(out, page.to_html().as_bytes())?;
            text += &format!("page: {}\n", file_link(out));
        }
        context.result(&text, &json!({ "lines": lines }));
        Ok(ExitCode::SUCCESS)
    }

    /// Four copies of the parameters (weights, gradients, two moments), a batch of pre-activations, and 1 GiB.
    fn bound(&self, n: usize) -> f64 {
        let parameters = n * (2 * self.d + 1) + self.d;
        4.0 * (4 * parameters + self.batch * n) as f64 + GIB
    }

    fn child(&self, n: usize) -> Result<Value> {
        let numbers = [("--n", n), ("--batch", self.batch), ("--d", self.d), ("--k", self.k), ("--repeat", self.repeat)];
        let arguments = numbers.iter().flat_map(|(name, number)| [(*name).to_string(), number.to_string()]);
        let program = std::env::current_exe().context("this program's own path")?;
        let output = Command::new(program).args(["bench", "scale", "--one"]).args(arguments).output()?;
        if !output.status.success() {
            bail!("n {n}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        serde_json::from_slice(&output.stdout).with_context(|| format!("n {n}: no result"))
    }

    fn here(&self) -> Result<Value> {
        let (n, plain) = (self.n[0], Device::flex());
        let draw = &mut stream(0, "bench");
        let values: Vec<f32> = (0..self.batch * self.d).map(|_| StandardNormal.sample(draw)).collect();
        let batch: Batch = Tensor::<2>::from_data(TensorData::new(values, [self.batch, self.d]), &plain).into();
        let kind = DictionaryKind::TopK(TopK { n, k: self.k, ..TopK::default() });
        let dictionary = Dictionary::new(kind, Widths::same(self.d), 0, &plain.autodiff())?;
        let plan = DictionaryPlan { steps: self.repeat + WARM, warm_up_steps: 1, centre: Centre::Zero, ..DictionaryPlan::default() };
        let mut clock = Clock { last: Instant::now(), seconds: Vec::new() };
        train(start(dictionary, &plan, 0), &mut |_| Ok(batch.clone()), &plan, &mut clock)?;
        let step_ms = median(clock.seconds.split_off(WARM));
        // Where the system does not say, the peak is absent.
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<u64>().ok());
        Ok(json!({"n": n, "step_ms": step_ms, "us_per_token": 1e3 * step_ms / self.batch as f64, "peak_bytes": peak.map(|kib| kib * 1024)}))
    }
}
