//! `sememe structure FILE [--groups K,V]`: what a dependency structure lets one identify, latent by latent, with a drawing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use sememe_run::source;
use sememe_truth::structure::{Group, Support, Threshold, Verdict, atoms, compare, diversity, draw_sets, row_groups, verdicts};
use serde_json::json;

use super::{Context, file_link};

/// Arguments of `structure`.
#[derive(Args)]
pub struct StructureCommand {
    /// A matrix [observed, latents] of 0 and 1, or of real dependencies with --threshold (.csv, .npy, .npz, .safetensors), or a run's folder (its learned structure).
    file: PathBuf,
    /// Two or more groups of observed variables, counted from 0: `--groups 0-3,4-7` or `--groups 0+2+5,1+3`.
    #[arg(long)]
    groups: Option<String>,
    /// An entry counts as a dependency above this fraction of its row's largest.
    #[arg(long)]
    threshold: Option<f64>,
    /// Where the drawing goes [default: next to FILE, with .svg].
    #[arg(long)]
    draw: Option<PathBuf>,
}

/// `0-3` or `0+2+5` as indices.
fn parse_group(name: &str, text: &str) -> Result<Group> {
    let mut observed = Vec::new();
    for part in text.split('+') {
        let number =
            |text: &str| text.trim().parse::<usize>().with_context(|| format!("--groups: `{text}` is no index; write 0-3,4-7 or 0+2,1+3"));
        match part.split_once('-') {
            Some((first, last)) => {
                let (first, last) = (number(first)?, number(last)?);
                if last < first {
                    bail!("--groups: the range {part} runs backwards");
                }
                observed.extend(first..=last);
            }
            None => observed.push(number(part)?),
        }
    }
    Ok(Group { name: name.into(), observed })
}

fn list(latents: &BTreeSet<usize>) -> String {
    if latents.is_empty() {
        "∅".into()
    } else {
        format!("{{{}}}", latents.iter().map(|j| format!("z{j}")).collect::<Vec<_>>().join(", "))
    }
}

impl StructureCommand {
    fn support(&self) -> Result<Support> {
        let (path, threshold) = if self.file.is_dir() {
            (self.file.join("arrays").join("dependency.npy"), Some(self.threshold.unwrap_or(0.1)))
        } else {
            (self.file.clone(), self.threshold)
        };
        match threshold {
            None => Ok(source::read_support(&path)?),
            Some(fraction) if fraction > 0.0 && fraction < 1.0 => {
                Ok(Support::from_dependency(&source::read(&path, None)?.matrix, Threshold::OfRow(fraction))?)
            }
            Some(fraction) => bail!("--threshold is {fraction}; give a fraction above 0 and below 1"),
        }
    }

    /// Prints the analysis and writes the drawing.
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let support = self.support()?;
        let named: Vec<Group> = match &self.groups {
            None => Vec::new(),
            Some(text) => text.split(',').enumerate().map(|(k, part)| parse_group(&group_name(k), part)).collect::<Result<_>>()?,
        };
        if named.len() == 1 {
            bail!("--groups: one group; give two or more, separated by commas");
        }
        let groups = if named.is_empty() { row_groups(&support) } else { named.clone() };
        let cells = atoms(&support, &groups)?;
        let (forms, verdicts) = (diversity(&support), verdicts(&support));
        let mut text = format!(
            "{} observed variables, {} latents, {:.0} % of the entries are dependencies\n\n",
            support.rows(),
            support.latents(),
            100.0 * support.density()
        );
        if support.rows() <= 40 {
            text += &format!("{support}\n");
        }
        text += "latent  identified\n";
        for (j, verdict) in verdicts.iter().enumerate() {
            let said = match verdict {
                Verdict::Alone => "alone".into(),
                Verdict::Block(block) => format!("only as the block {}: the same observed variables depend on each", list(block)),
                Verdict::Entangled { with, .. } => format!("up to mixing in {}: whatever depends on z{j} depends on these too", list(with)),
                Verdict::Unseen => "not at all: no observed variable depends on it".into(),
            };
            text += &format!("z{j:<6} {said}\n");
        }
        text += "\nlatent  sufficient diversity (form, witness set A of observed variables)\n";
        for (j, witnesses) in forms.iter().enumerate() {
            let said = witnesses.iter().map(|w| {
                let rows = w.rows.iter().map(|i| format!("x{i}")).collect::<Vec<_>>().join(", ");
                let k = w.k.map_or(String::new(), |k| format!(", k = x{k}"));
                format!("form {} by {{{rows}}}{k}", w.form.number())
            });
            let said = said.collect::<Vec<_>>().join("; ");
            text += &format!("z{j:<6} {}\n", if said.is_empty() { "none".into() } else { said });
        }
        text += &format!("\n{} atoms\n", cells.len());
        for cell in &cells {
            let inside = cell.groups.iter().map(|&k| groups[k].name.as_str()).collect::<Vec<_>>().join(" ∩ ");
            text += &format!("  {} in {}\n", list(&cell.latents), if inside.is_empty() { "no group".into() } else { inside });
        }
        let mut comparisons = Vec::new();
        for a in 0..named.len() {
            for b in a + 1..named.len() {
                let c = compare(&support, &named[a], &named[b])?;
                let (k, v) = (&named[a].name, &named[b].name);
                text += &format!(
                    "\nI_{k} = {}, I_{v} = {}\n  I_{k} ∩ I_{v} = {}\n  I_{k} \\ I_{v} = {}\n  I_{v} \\ I_{k} = {}\n  I_{k} △ I_{v} = {}\n",
                    list(&c.index_k),
                    list(&c.index_v),
                    list(&c.intersection),
                    list(&c.only_k),
                    list(&c.only_v),
                    list(&c.symmetric_difference)
                );
                comparisons.push(json!({"groups": [k, v], "intersection": c.intersection, "only_first": c.only_k, "only_second": c.only_v, "symmetric_difference": c.symmetric_difference}));
            }
        }
        let drawing = self
            .draw
            .clone()
            .unwrap_or_else(|| if self.file.is_dir() { self.file.join("structure.svg") } else { self.file.with_extension("svg") });
        sememe_run::atomic::write(&drawing, draw_sets(&groups, &cells, &[]).as_bytes())
            .with_context(|| format!("{}: cannot write the drawing", drawing.display()))?;
        text += &format!("\ndrawing: {}\n", file_link(&drawing));
        let object = json!({
            "observed": support.rows(), "latents": support.latents(),
            "alone": verdicts.iter().enumerate().filter(|(_, v)| **v == Verdict::Alone).map(|(j, _)| j).collect::<Vec<_>>(),
            "forms": forms.iter().map(|ws| ws.iter().map(|w| json!({"form": w.form.number(), "rows": w.rows, "k": w.k})).collect::<Vec<_>>()).collect::<Vec<_>>(),
            "atoms": cells.iter().map(|cell| json!({"groups": cell.groups.iter().map(|&k| &groups[k].name).collect::<Vec<_>>(), "latents": cell.latents})).collect::<Vec<_>>(),
            "comparisons": comparisons, "drawing": drawing,
        });
        context.result(&text, &object);
        Ok(ExitCode::SUCCESS)
    }
}

/// K and V for the first two groups, then G2, G3, …
fn group_name(k: usize) -> String {
    match k {
        0 => "K".into(),
        1 => "V".into(),
        k => format!("G{k}"),
    }
}
