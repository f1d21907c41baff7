//! Pictures of index sets as SVG: a Venn diagram of two to four sets, an UpSet plot of any other number.
//!
//! A Venn diagram shows every cell, empty ones too, with the names of its
//! latents; an UpSet plot shows one column for each non-empty atom, its size as a bar.
//! Both use `currentColor`, so they read on light and dark pages alike.
//!
//! # Source
//! UpSet: Lex et al. 2014, *UpSet: Visualization of Intersecting Sets*.

use super::{Atom, Group, Latents};

/// One shape of a Venn diagram: an ellipse.
struct Ellipse {
    centre: (f64, f64),
    radii: (f64, f64),
    degrees: f64,
    label: (f64, f64),
}

impl Ellipse {
    fn contains(&self, x: f64, y: f64) -> bool {
        let (sin, cos) = self.degrees.to_radians().sin_cos();
        let (dx, dy) = (x - self.centre.0, y - self.centre.1);
        ((dx * cos + dy * sin) / self.radii.0).powi(2) + ((dy * cos - dx * sin) / self.radii.1).powi(2) <= 1.0
    }
}

/// Okabe–Ito colours, told apart by colour-blind readers.
const COLOURS: [&str; 4] = ["#0072B2", "#E69F00", "#009E73", "#CC79A7"];

fn shapes(sets: usize) -> Vec<Ellipse> {
    let ellipse = |centre, radii, degrees, label| Ellipse { centre, radii, degrees, label };
    match sets {
        2 => vec![ellipse((230.0, 170.0), (130.0, 130.0), 0.0, (150.0, 30.0)), ellipse((370.0, 170.0), (130.0, 130.0), 0.0, (450.0, 30.0))],
        3 => vec![
            ellipse((240.0, 150.0), (120.0, 120.0), 0.0, (130.0, 40.0)),
            ellipse((360.0, 150.0), (120.0, 120.0), 0.0, (470.0, 40.0)),
            ellipse((300.0, 250.0), (120.0, 120.0), 0.0, (300.0, 392.0)),
        ],
        _ => vec![
            ellipse((210.0, 235.0), (175.0, 95.0), 45.0, (70.0, 100.0)),
            ellipse((270.0, 175.0), (175.0, 95.0), 45.0, (160.0, 30.0)),
            ellipse((330.0, 175.0), (175.0, 95.0), -45.0, (440.0, 30.0)),
            ellipse((390.0, 235.0), (175.0, 95.0), -45.0, (530.0, 100.0)),
        ],
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn names(latents: &Latents, factors: &[String]) -> Vec<String> {
    latents.iter().map(|&j| factors.get(j).cloned().unwrap_or_else(|| format!("z{j}"))).collect()
}

/// The picture of `atoms` cut by `groups`; `factors` names the latents (`z0`, `z1`, … where absent).
pub fn draw_sets(groups: &[Group], atoms: &[Atom], factors: &[String]) -> String {
    if (2..=4).contains(&groups.len()) { venn(groups, atoms, factors) } else { upset(groups, atoms, factors) }
}

fn venn(groups: &[Group], atoms: &[Atom], factors: &[String]) -> String {
    let shapes = shapes(groups.len());
    let (width, height) = (600.0, if groups.len() == 2 { 330.0 } else { 410.0 });
    let mut body = String::new();
    for (shape, colour) in shapes.iter().zip(COLOURS) {
        let ((x, y), (rx, ry)) = (shape.centre, shape.radii);
        body += &format!(
            "<ellipse cx=\"{x}\" cy=\"{y}\" rx=\"{rx}\" ry=\"{ry}\" transform=\"rotate({} {x} {y})\" fill=\"{colour}\" fill-opacity=\"0.22\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            shape.degrees
        );
    }
    for ((shape, group), colour) in shapes.iter().zip(groups).zip(COLOURS) {
        body += &format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-weight=\"600\" fill=\"{colour}\">{}</text>",
            shape.label.0,
            shape.label.1,
            escape(&group.name)
        );
    }
    let mut described = Vec::new();
    for atom in atoms {
        let text = names(&atom.latents, factors);
        let inside: Vec<&str> = atom.groups.iter().map(|&k| groups[k].name.as_str()).collect();
        described.push(format!("{}: {}", if inside.is_empty() { "no group".into() } else { inside.join(" and ") }, text.join(", ")));
        let (x, y) = if atom.groups.is_empty() { (width - 60.0, height - 20.0) } else { middle_of(&shapes, &atom.groups, width, height) };
        let lines = if text.len() > 4 { vec![format!("{} latents", text.len())] } else { text };
        let top = y - 7.0 * (lines.len() as f64 - 1.0);
        for (line, name) in lines.iter().enumerate() {
            body += &format!(
                "<text x=\"{x:.0}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"currentColor\">{}</text>",
                top + 14.0 * line as f64 + 4.0,
                escape(name)
            );
        }
    }
    svg(width, height, &format!("Venn diagram. {}", described.join("; ")), &body)
}

/// The point of a cell that is farthest from every other cell, on a grid.
fn middle_of(shapes: &[Ellipse], inside: &[usize], width: f64, height: f64) -> (f64, f64) {
    const STEP: f64 = 6.0;
    let belongs = |x: f64, y: f64| (0..shapes.len()).all(|k| shapes[k].contains(x, y) == inside.contains(&k));
    let grid: Vec<(f64, f64)> =
        (0..(height / STEP) as usize).flat_map(|r| (0..(width / STEP) as usize).map(move |c| (c as f64 * STEP, r as f64 * STEP))).collect();
    let (within, outside): (Vec<_>, Vec<_>) = grid.into_iter().partition(|&(x, y)| belongs(x, y));
    let clearance = |p: &(f64, f64)| outside.iter().map(|q| (p.0 - q.0).powi(2) + (p.1 - q.1).powi(2)).fold(f64::INFINITY, f64::min);
    within.into_iter().max_by(|a, b| clearance(a).total_cmp(&clearance(b))).unwrap_or((width / 2.0, height / 2.0))
}

/// Columns that an UpSet plot shows before it only counts the rest.
const MOST_COLUMNS: usize = 40;

fn upset(groups: &[Group], atoms: &[Atom], factors: &[String]) -> String {
    let shown = &atoms[..atoms.len().min(MOST_COLUMNS)];
    let (left, top, bar, cell) = (120.0, 20.0, 90.0, 22.0);
    let labels = 80.0;
    let width = (left + cell * shown.len() as f64 + 20.0).max(320.0);
    let height = top + bar + 20.0 + cell * groups.len() as f64 + labels;
    let most = shown.iter().map(|atom| atom.latents.len()).max().unwrap_or(1) as f64;
    let row_y = |k: usize| top + bar + 20.0 + cell * (k as f64 + 0.5);
    let mut body = String::new();
    for (k, group) in groups.iter().enumerate() {
        body += &format!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"currentColor\">{}</text>",
            left - 12.0,
            row_y(k) + 4.0,
            escape(&group.name)
        );
    }
    for (column, atom) in shown.iter().enumerate() {
        let x = left + cell * (column as f64 + 0.5);
        let tall = bar * atom.latents.len() as f64 / most;
        let name = names(&atom.latents, factors).join(", ");
        body += &format!(
            "<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{tall}\" fill=\"{}\"/><text x=\"{x}\" y=\"{}\" text-anchor=\"middle\" font-size=\"11\" fill=\"currentColor\">{}</text></g>",
            escape(&name),
            x - 7.0,
            top + bar - tall,
            14,
            COLOURS[0],
            top + bar - tall - 4.0,
            atom.latents.len()
        );
        for k in 0..groups.len() {
            let on = atom.groups.contains(&k);
            body += &format!(
                "<circle cx=\"{x}\" cy=\"{}\" r=\"6\" fill=\"currentColor\" fill-opacity=\"{}\"/>",
                row_y(k),
                if on { 0.9 } else { 0.12 }
            );
        }
        if let (Some(&first), Some(&last)) = (atom.groups.first(), atom.groups.last()) {
            body += &format!(
                "<line x1=\"{x}\" x2=\"{x}\" y1=\"{}\" y2=\"{}\" stroke=\"currentColor\" stroke-width=\"2\" stroke-opacity=\"0.9\"/>",
                row_y(first),
                row_y(last)
            );
        }
        let y = row_y(groups.len());
        let short = if name.chars().count() > 14 { format!("{}…", name.chars().take(13).collect::<String>()) } else { name };
        body += &format!(
            "<text x=\"{x}\" y=\"{y}\" transform=\"rotate(60 {x} {y})\" font-size=\"11\" fill=\"currentColor\">{}</text>",
            escape(&short)
        );
    }
    if atoms.len() > shown.len() {
        body += &format!(
            "<text x=\"{left}\" y=\"{}\" font-size=\"11\" fill=\"currentColor\">and {} more atoms</text>",
            height - 4.0,
            atoms.len() - shown.len()
        );
    }
    svg(width, height, &format!("UpSet plot of {} sets and {} atoms", groups.len(), atoms.len()), &body)
}

fn svg(width: f64, height: f64, title: &str, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"13\"><title>{}</title>{body}</svg>",
        escape(title)
    )
}

#[cfg(test)]
mod tests {
    use super::super::{atoms, row_groups, support};
    use super::*;

    #[test]
    fn every_cell_of_four_ellipses_exists() {
        for sets in 2..=4 {
            for mask in 1_usize..1 << sets {
                let inside: Vec<usize> = (0..sets).filter(|k| mask >> k & 1 == 1).collect();
                let (x, y) = middle_of(&shapes(sets), &inside, 600.0, 410.0);
                let found: Vec<usize> = (0..sets).filter(|&k| shapes(sets)[k].contains(x, y)).collect();
                assert_eq!(found, inside, "{sets} sets have no cell for {inside:?}");
            }
        }
    }

    #[test]
    fn names_are_escaped_and_the_kind_follows_the_number_of_sets() {
        let s = support(&[&[1, 1, 0], &[0, 1, 1]]);
        let groups = row_groups(&s);
        let Ok(cells) = atoms(&s, &groups) else { panic!("valid groups") };
        let picture = draw_sets(&groups, &cells, &["<script>".into()]);
        assert!(picture.contains("&lt;script&gt;") && !picture.contains("<script>") && picture.contains("Venn"));
        let many = support(&[&[1, 0, 0, 0, 0], &[0, 1, 0, 0, 0], &[0, 0, 1, 0, 0], &[0, 0, 0, 1, 0], &[0, 0, 0, 0, 1]]);
        let groups = row_groups(&many);
        let Ok(cells) = atoms(&many, &groups) else { panic!("valid groups") };
        assert!(draw_sets(&groups, &cells, &[]).contains("UpSet"));
    }
}
