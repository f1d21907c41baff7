//! Plots as the plotting library's JSON: curves and heat maps.

use std::collections::BTreeMap;

use plotly::common::{ColorBar, ColorScale, ColorScalePalette, DashType, ErrorData, ErrorType, Line, Marker, MarkerSymbol, Mode, Title};
use plotly::layout::{Axis, AxisType, Margin};
use plotly::{Bar, HeatMap, Layout, Plot, Scatter};
use sememe_truth::Matrix;
use serde_json::Value;

use super::page::Block;

/// Okabe–Ito colours, told apart by colour-blind readers.
const COLOURS: [&str; 7] = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#999999"];

/// A named line.
#[derive(Clone, Debug)]
pub struct Curve {
    /// In the legend.
    pub name: String,
    /// Points (x, y).
    pub points: Vec<(f64, f64)>,
}

/// How a curve is drawn: a line through a single point would not be seen.
fn mode_of(points: &[(f64, f64)]) -> Mode {
    if points.len() == 1 { Mode::Markers } else { Mode::Lines }
}

/// Lines over a common x axis; a curve of one point is a mark.
pub fn curves(title: &str, x_label: &str, y_label: &str, log_y: bool, curves: &[Curve]) -> Block {
    let mut plot = Plot::new();
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let (x, y): (Vec<f64>, Vec<f64>) = curve.points.iter().copied().unzip();
        let marker = Marker::new().color(*colour).size(11);
        let line = Line::new().color(*colour).width(2.0);
        plot.add_trace(Scatter::new(x, y).name(&curve.name).mode(mode_of(&curve.points)).line(line).marker(marker));
    }
    let y_axis = Axis::new().title(Title::with_text(y_label));
    let layout = Layout::new()
        .title(Title::with_text(title))
        .height(340)
        .margin(Margin::new().top(48).right(12))
        .x_axis(Axis::new().title(Title::with_text(x_label)))
        .y_axis(if log_y { y_axis.type_(AxisType::Log) } else { y_axis });
    plot.set_layout(layout);
    Block::Plot {
        json: plot.to_json(),
        alt: format!("{title}: {} over {x_label}", curves.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ")),
    }
}

/// Numbers over named settings, with the half-widths of their intervals.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// In the legend.
    pub name: String,
    /// (setting, value, half-width); no half-width for a number taken from elsewhere, which is drawn hollow.
    pub points: Vec<(String, f64, Option<f64>)>,
}

/// Numbers over named settings, one marked line a series.
pub fn comparison(title: &str, x_label: &str, y_label: &str, series: &[Series]) -> Block {
    let mut plot = Plot::new();
    for (one, colour) in series.iter().zip(COLOURS.iter().cycle()) {
        let x: Vec<String> = one.points.iter().map(|point| point.0.clone()).collect();
        let y: Vec<f64> = one.points.iter().map(|point| point.1).collect();
        let widths: Option<Vec<f64>> = one.points.iter().map(|point| point.2).collect();
        let trace = Scatter::new(x, y).name(&one.name).mode(Mode::LinesMarkers);
        plot.add_trace(match widths {
            Some(widths) => trace
                .line(Line::new().color(*colour).width(2.0))
                .marker(Marker::new().size(8))
                .error_y(ErrorData::new(ErrorType::Data).array(widths)),
            None => trace
                .line(Line::new().color("#999999").width(1.0).dash(DashType::Dot))
                .marker(Marker::new().size(8).symbol(MarkerSymbol::CircleOpen)),
        });
    }
    plot.set_layout(
        Layout::new()
            .title(Title::with_text(title))
            .height(420)
            .margin(Margin::new().top(48).right(12))
            .x_axis(Axis::new().title(Title::with_text(x_label)).type_(AxisType::Category))
            .y_axis(Axis::new().title(Title::with_text(y_label))),
    );
    Block::Plot {
        json: plot.to_json(),
        alt: format!("{title}: {} over {x_label}", series.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(", ")),
    }
}

/// Bars over a number.
pub fn bars(title: &str, x_label: &str, y_label: &str, points: Vec<(f64, f64)>) -> Block {
    let (x, y): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
    let mut plot = Plot::new();
    plot.add_trace(Bar::new(x, y).marker(Marker::new().color(COLOURS[0])).show_legend(false));
    plot.set_layout(
        Layout::new()
            .title(Title::with_text(title))
            .height(300)
            .margin(Margin::new().top(48).right(12))
            .x_axis(Axis::new().title(Title::with_text(x_label)))
            .y_axis(Axis::new().title(Title::with_text(y_label))),
    );
    Block::Plot { json: plot.to_json(), alt: format!("{title}: {y_label} over {x_label}") }
}

/// A matrix as colours, rows from top to bottom, zero to `largest` (the matrix's own largest when `None`).
pub fn heatmap(title: &str, matrix: &Matrix, row_names: &[String], column_names: &[String], largest: Option<f64>) -> Block {
    let z: Vec<Vec<f64>> = (0..matrix.nrows()).map(|i| (0..matrix.ncols()).map(|j| matrix[(i, j)]).collect()).collect();
    let top = largest.unwrap_or_else(|| z.iter().flatten().copied().fold(0.0, f64::max)).max(1e-12);
    let trace = HeatMap::new(column_names.to_vec(), row_names.to_vec(), z)
        .zmin(0.0)
        .zmax(top)
        .color_scale(ColorScale::Palette(ColorScalePalette::Viridis))
        .color_bar(ColorBar::new().thickness(12));
    let mut plot = Plot::new();
    plot.add_trace(trace);
    let height = (140 + 22 * matrix.nrows()).clamp(280, 640);
    plot.set_layout(
        Layout::new()
            .title(Title::with_text(title))
            .height(height)
            .margin(Margin::new().top(48).right(12))
            .x_axis(Axis::new().type_(AxisType::Category))
            .y_axis(Axis::new().type_(AxisType::Category).range(vec![matrix.nrows() as f64 - 0.5, -0.5])),
    );
    Block::Plot { json: plot.to_json(), alt: format!("{title}: {} by {} matrix", matrix.nrows(), matrix.ncols()) }
}

/// Loss curves from the lines of `metrics.jsonl`, one plot a quantity.
pub fn loss_plots(lines: &[Value]) -> Vec<Block> {
    let mut by_name: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for line in lines {
        if let (Some(step), Some(losses)) = (line.get("step").and_then(Value::as_f64), line.get("losses").and_then(Value::as_object)) {
            for (name, value) in losses {
                if let Some(value) = value.as_f64() {
                    by_name.entry(name.clone()).or_default().push((step, value));
                }
            }
        }
    }
    by_name
        .into_iter()
        .map(|(name, points)| curves(&name, "step", "", points.iter().all(|p| p.1 > 0.0), &[Curve { name: name.clone(), points }]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is plotted can be seen: single points as marks, several as a line.
    #[test]
    fn a_single_point_is_a_mark() {
        let of = |points: Vec<(f64, f64)>| match curves("t", "x", "y", false, &[Curve { name: "c".into(), points }]) {
            Block::Plot { json, .. } => json,
            _ => String::new(),
        };
        assert!(of(vec![(1.0, 2.0)]).contains("\"mode\":\"markers\""));
        assert!(of(vec![(1.0, 2.0), (2.0, 3.0)]).contains("\"mode\":\"lines\""));
    }
}
