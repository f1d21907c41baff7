//! The graph of latents of a pair: an edge from latent a that enters a layer to latent b that leaves it, as strong as |J[b, a]|.
//!
//! Of one token, of a context or of a corpus: with `Σ` over the tokens that
//! count, an edge has `strength = Σ|J|/T` (T tokens, 0 where one of the two is
//! inactive), `mean = ΣJ/count` over the `count` tokens at which both are active.
//! J is in units in which both activations have mean norm √d, as in training.

use std::collections::HashMap;
use std::fmt::Write;

use sememe::pair::Blocks;
use sememe_lm::Hook;
use serde::{Deserialize, Serialize};

use crate::report::{Block, escape};

/// An edge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// Latent of what enters.
    pub input: u32,
    /// Latent of what leaves.
    pub output: u32,
    /// Mean over tokens of |J|.
    pub strength: f64,
    /// Mean of J where both are active.
    pub mean: f64,
    /// Tokens at which both are active.
    pub count: u32,
}

/// The strongest edges.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Graph {
    /// Of what.
    pub scope: String,
    /// Tokens that it sums over.
    pub tokens: usize,
    /// Edges that there are in all.
    pub edges_in_all: usize,
    /// The strongest, strongest first.
    pub edges: Vec<Edge>,
}

/// Sums over tokens, an edge at a time.
#[derive(Default)]
pub(super) struct Totals {
    pub tokens: usize,
    edges: HashMap<(u32, u32), (f64, f64, u32)>,
}

impl Totals {
    /// Takes in the blocks of some tokens.
    pub fn add(&mut self, found: &Blocks, values: &[f32]) {
        self.tokens += found.x.rows();
        for token in 0..found.x.rows() {
            let (x, block) = (found.x.row(token), &values[found.starts[token]..found.starts[token + 1]]);
            for (row, &b) in found.y.row(token).iter().enumerate() {
                for (column, &a) in x.iter().enumerate() {
                    let j = f64::from(block[row * x.len() + column]);
                    let edge = self.edges.entry((a, b)).or_default();
                    *edge = (edge.0 + j.abs(), edge.1 + j, edge.2 + 1);
                }
            }
        }
    }

    /// The `most` strongest edges.
    pub fn graph(self, scope: String, most: usize) -> Graph {
        let tokens = self.tokens.max(1) as f64;
        let edges_in_all = self.edges.len();
        let mut edges: Vec<Edge> = self
            .edges
            .into_iter()
            .map(|((input, output), (size, sum, count))| Edge {
                input,
                output,
                strength: size / tokens,
                mean: sum / f64::from(count),
                count,
            })
            .collect();
        edges.sort_by(|a, b| b.strength.total_cmp(&a.strength).then((a.input, a.output).cmp(&(b.input, b.output))));
        edges.truncate(most);
        Graph { scope, tokens: self.tokens, edges_in_all, edges }
    }
}

impl Graph {
    /// Latents of either side, in the order of their strongest edge.
    fn nodes(&self) -> [Vec<u32>; 2] {
        let mut sides = [Vec::new(), Vec::new()];
        for edge in &self.edges {
            for (side, latent) in sides.iter_mut().zip([edge.input, edge.output]) {
                if !side.contains(&latent) {
                    side.push(latent);
                }
            }
        }
        sides
    }

    /// As GraphML, for Gephi, Cytoscape, NetworkX.
    pub fn to_graphml(&self, hooks: &[Hook; 2]) -> String {
        let mut text =
            String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n");
        for (id, of, name, kind) in [
            ("hook", "node", "hook", "string"),
            ("latent", "node", "latent", "int"),
            ("strength", "edge", "strength", "double"),
            ("mean", "edge", "mean", "double"),
            ("count", "edge", "count", "int"),
        ] {
            let _ = writeln!(text, "  <key id=\"{id}\" for=\"{of}\" attr.name=\"{name}\" attr.type=\"{kind}\"/>");
        }
        let _ = writeln!(text, "  <graph edgedefault=\"directed\">\n    <desc>{}</desc>", escape(&self.scope));
        for ((side, hook), letter) in self.nodes().iter().zip(hooks).zip(["x", "y"]) {
            for latent in side {
                let _ = writeln!(
                    text,
                    "    <node id=\"{letter}{latent}\"><data key=\"hook\">{hook}</data><data key=\"latent\">{latent}</data></node>"
                );
            }
        }
        for Edge { input, output, strength, mean, count } in &self.edges {
            let _ = writeln!(
                text,
                "    <edge source=\"x{input}\" target=\"y{output}\"><data key=\"strength\">{strength}</data><data key=\"mean\">{mean}</data><data key=\"count\">{count}</data></edge>"
            );
        }
        text.push_str("  </graph>\n</graphml>\n");
        text
    }

    /// A drawing: latents that enter on the left, those that leave on the right; blue for J above 0, red below.
    pub fn to_svg(&self, names: [&str; 2]) -> String {
        let sides = self.nodes();
        let rows = sides.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let (width, row, top) = (760.0, 18.0, 40.0);
        let height = top + row * rows as f64 + 10.0;
        let largest = self.edges.iter().map(|edge| edge.strength).fold(f64::MIN_POSITIVE, f64::max);
        let y = |side: usize, latent: u32| {
            let at = sides[side].iter().position(|&known| known == latent).unwrap_or(0) as f64;
            // The shorter side is spread over the height of the longer.
            top + row * (at + 0.5) * rows as f64 / sides[side].len().max(1) as f64
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" style=\"max-width:{width}px\" role=\"img\" aria-label=\"Graph of the {} strongest edges\" font-family=\"sans-serif\" font-size=\"11\" fill=\"currentColor\">",
            self.edges.len()
        );
        let _ = write!(
            svg,
            "<text x=\"110\" y=\"20\" text-anchor=\"end\" font-weight=\"bold\">{}</text><text x=\"{}\" y=\"20\" font-weight=\"bold\">{}</text>",
            escape(names[0]),
            width - 110.0,
            escape(names[1])
        );
        for edge in self.edges.iter().rev() {
            let share = edge.strength / largest;
            let (from, to) = (y(0, edge.input), y(1, edge.output));
            let colour = if edge.mean < 0.0 { "#c0392b" } else { "#2471a3" };
            let _ = write!(
                svg,
                "<path d=\"M120 {from:.1} C 320 {from:.1}, {} {to:.1}, {} {to:.1}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{:.2}\" stroke-opacity=\"{:.2}\"><title>{} → {}: |J| {:.4}, mean {:.4}, {} tokens</title></path>",
                width - 320.0,
                width - 120.0,
                0.6 + 5.0 * share,
                0.25 + 0.7 * share,
                edge.input,
                edge.output,
                edge.strength,
                edge.mean,
                edge.count
            );
        }
        for (side, (x, anchor)) in [(110.0, "end"), (width - 110.0, "start")].into_iter().enumerate() {
            for &latent in &sides[side] {
                let _ = write!(svg, "<text x=\"{x}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{latent}</text>", y(side, latent) + 4.0);
            }
        }
        svg.push_str("</svg>");
        svg
    }

    /// The drawing and what it shows, for a report.
    pub(super) fn blocks(&self, names: [&str; 2]) -> Vec<Block> {
        vec![
            Block::Text(format!(
                "{}: the {} strongest of {} edges between latents that were active together. Thickness: mean over tokens of |J|; blue: J is positive on average, red: negative.",
                self.scope,
                self.edges.len(),
                self.edges_in_all
            )),
            Block::Svg(self.to_svg(names)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, Tensor};
    use sememe_kernels::Pattern;
    use std::sync::Arc;

    fn graph() -> Graph {
        let found = Blocks {
            entries: Tensor::from_floats([1.0, -2.0, 0.5], &Device::flex()),
            starts: vec![0, 2, 3],
            x: Arc::new(Pattern::new(vec![0, 2, 3], vec![3, 5, 5], 6)),
            y: Arc::new(Pattern::new(vec![0, 1, 2], vec![7, 7], 8)),
        };
        let mut totals = Totals::default();
        totals.add(&found, &[1.0, -2.0, 0.5]);
        totals.graph("a <test>".into(), 10)
    }

    #[test]
    fn strengths_by_hand() {
        let graph = graph();
        assert_eq!((graph.tokens, graph.edges_in_all), (2, 2));
        assert_eq!(graph.edges[0], Edge { input: 5, output: 7, strength: 1.25, mean: -0.75, count: 2 });
        assert_eq!(graph.edges[1], Edge { input: 3, output: 7, strength: 0.5, mean: 1.0, count: 1 });
    }

    #[test]
    fn files_are_well_formed() {
        let hooks = ["3.mlp_in", "3.mlp_out"].map(|hook| hook.parse().unwrap_or_else(|error| panic!("{error}")));
        let text = graph().to_graphml(&hooks);
        assert!(text.contains("a &lt;test&gt;") && text.contains("<edge source=\"x5\" target=\"y7\">"), "{text}");
        assert_eq!(text.matches("<node ").count(), 3);
        let svg = graph().to_svg(["in", "out"]);
        assert_eq!((svg.matches("<path ").count(), svg.matches("<text ").count()), (2, 5));
    }
}
