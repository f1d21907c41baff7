//! The page itself: sections of blocks, escaped text, one style, the plotting library embedded once.

use std::fmt::Write;

/// Text of users and data is escaped everywhere but in [`Block::Svg`] and [`Block::Plot`], which this program draws.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

/// A table; the first column is left-aligned.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Column heads.
    pub head: Vec<String>,
    /// Cells.
    pub rows: Vec<Vec<String>>,
    /// Under the table.
    pub note: String,
}

impl Table {
    /// The table as aligned plain text, for the terminal.
    pub fn to_text(&self) -> String {
        let width = |c: usize| {
            self.rows.iter().chain([&self.head]).filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        for row in [&self.head].into_iter().chain(&self.rows) {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(c, (cell, &width))| if c == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") })
                .collect();
            let _ = writeln!(text, "{}", cells.join("  ").trim_end());
        }
        if !self.note.is_empty() {
            let _ = writeln!(text, "{}", self.note);
        }
        text
    }
}

/// One piece of a section.
#[derive(Clone, Debug)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// Figures.
    Table(Table),
    /// A plot, as the plotting library's JSON (data and layout), with a text alternative.
    Plot {
        /// `{"data": …, "layout": …}`.
        json: String,
        /// What it shows.
        alt: String,
    },
    /// A drawing of this program.
    Svg(String),
    /// A PNG picture as base64.
    Image {
        /// Base64.
        base64: String,
        /// What it shows.
        alt: String,
        /// Shown width in pixels.
        width: usize,
    },
    /// Preformatted text behind a fold.
    Details {
        /// The line that is always shown.
        summary: String,
        /// Behind the fold.
        text: String,
    },
    /// Blocks side by side.
    Row(Vec<Block>),
    /// A small heading within a section.
    Heading(String),
    /// Lines of text whose pieces are marked by strength.
    Marked(Vec<MarkedText>),
}

/// A line of text with marks.
#[derive(Clone, Debug)]
pub struct MarkedText {
    /// Before the line.
    pub label: String,
    /// Text, strength of the mark from 0 to 1, and the number behind it.
    pub pieces: Vec<(String, f64, f32)>,
}

fn write_marked(out: &mut String, lines: &[MarkedText]) {
    *out += "<ol class=\"marked\">";
    for line in lines {
        let _ = write!(out, "<li><b>{}</b><span>", escape(&line.label));
        for (text, strength, value) in &line.pieces {
            let shown = escape(&text.replace('\n', "⏎"));
            if *strength > 0.0 {
                let opacity = (0.12 + 0.78 * strength).clamp(0.0, 0.9);
                let _ = write!(out, "<mark style=\"--m:{opacity:.2}\" title=\"{value:.3}\">{shown}</mark>");
            } else {
                *out += &shown;
            }
        }
        *out += "</span></li>";
    }
    *out += "</ol>";
}

/// A heading and what is under it.
#[derive(Clone, Debug)]
pub struct Section {
    /// The heading.
    pub heading: String,
    /// Its blocks.
    pub blocks: Vec<Block>,
}

/// A page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The title.
    pub title: String,
    /// Under the title.
    pub subtitle: String,
    /// Its sections.
    pub sections: Vec<Section>,
}

const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1c2024;--soft:#60646c;--line:#d9d9e0;--ground:#fcfcfd;--panel:#f4f4f7;--accent:#0072b2}
@media(prefers-color-scheme:dark){:root{--ink:#edeef0;--soft:#b0b4ba;--line:#3a3f45;--ground:#111315;--panel:#1a1d20;--accent:#56b4e9}}
*{box-sizing:border-box}body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
.page{display:grid;grid-template-columns:13rem minmax(0,1fr);gap:2.5rem;max-width:78rem;margin:0 auto;padding:2.5rem 1.5rem}
nav{position:sticky;top:1.5rem;align-self:start;font-size:.9rem}nav a{display:block;padding:.25rem 0;color:var(--soft);text-decoration:none}nav a:hover,nav a:focus{color:var(--accent)}
h1{font-size:2rem;line-height:1.2;margin:0}h2{font-size:1.25rem;margin:2.8rem 0 .6rem;padding-top:.6rem;border-top:1px solid var(--line)}
p{max-width:44rem;margin:.6rem 0}.subtitle{color:var(--soft)}
.scroll{overflow-x:auto}table{border-collapse:collapse;margin:.8rem 0;font-variant-numeric:tabular-nums;font-size:.93rem}
th,td{padding:.35rem .9rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}th:first-child,td:first-child{text-align:left;padding-left:0}th{color:var(--soft);font-weight:600}
.note{color:var(--soft);font-size:.87rem;max-width:52rem}.row{display:flex;flex-wrap:wrap;gap:1.5rem;align-items:flex-start}.row>*{flex:1 1 20rem;min-width:0}
.plot{min-height:17rem;max-width:46rem}td.words{text-align:left;white-space:normal}td.words:first-child{white-space:nowrap}svg{max-width:100%;height:auto}img{image-rendering:pixelated;max-width:100%;border:1px solid var(--line)}
h3{font-size:1rem;margin:1.6rem 0 .3rem}ol.marked{list-style:none;margin:.3rem 0;padding:0;font-size:.93rem}
ol.marked li{display:flex;gap:.8rem;padding:.28rem 0;border-bottom:1px solid var(--line)}ol.marked b{flex:0 0 3.4rem;text-align:right;color:var(--soft);font-weight:500;font-variant-numeric:tabular-nums}
ol.marked span{overflow-wrap:anywhere;white-space:pre-wrap}mark{color:inherit;border-radius:.15rem;background:rgb(230 159 0/var(--m))}
figure{margin:.8rem 0}figcaption{color:var(--soft);font-size:.87rem}
details{margin:.8rem 0}summary{cursor:pointer;color:var(--accent)}pre{background:var(--panel);padding:1rem;overflow-x:auto;font-size:.85rem}
@media(max-width:60rem){.page{grid-template-columns:1fr}nav{position:static}}@media print{nav{display:none}.page{display:block}}
";

/// Draws every plot with the page's colours, again when they change.
const DRAW: &str = "
const dark=matchMedia('(prefers-color-scheme: dark)');
function draw(){const c=getComputedStyle(document.documentElement),ink=c.getPropertyValue('--ink'),line=c.getPropertyValue('--line');
for(const place of document.querySelectorAll('.plot')){const spec=JSON.parse(place.querySelector('script').textContent);
const axis={gridcolor:line,zerolinecolor:line,linecolor:line,automargin:true};const layout=Object.assign({},spec.layout,{paper_bgcolor:'rgba(0,0,0,0)',plot_bgcolor:'rgba(0,0,0,0)',font:{color:ink,family:'system-ui, sans-serif',size:13}});
for(const k of ['xaxis','yaxis','xaxis2','yaxis2'])layout[k]=Object.assign({},axis,spec.layout[k]||{});
let target=place.querySelector('.target');Plotly.react(target,spec.data,layout,{responsive:true,displayModeBar:false});}}
draw();dark.addEventListener('change',draw);
";

impl Page {
    /// The page as one HTML text without any reference to the network.
    pub fn to_html(&self) -> String {
        let mut body = String::new();
        let mut contents = String::new();
        let mut has_plots = false;
        for (number, section) in self.sections.iter().enumerate() {
            let _ = write!(contents, "<a href=\"#s{number}\">{}</a>", escape(&section.heading));
            let _ = write!(
                body,
                "<section id=\"s{number}\" aria-labelledby=\"h{number}\"><h2 id=\"h{number}\">{}</h2>",
                escape(&section.heading)
            );
            for block in &section.blocks {
                write_block(&mut body, block, &mut has_plots);
            }
            body += "</section>";
        }
        let library = if has_plots { plot_library() } else { String::new() };
        let drawing = if has_plots { format!("<script>{DRAW}</script>") } else { String::new() };
        format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><link rel=\"icon\" href=\"data:,\"><title>{}</title><style>{STYLE}</style>{library}</head>\
             <body><div class=\"page\"><nav aria-label=\"Contents\">{contents}</nav><main><h1>{}</h1><p class=\"subtitle\">{}</p>{body}</main></div>{drawing}</body></html>",
            escape(&self.title),
            escape(&self.title),
            escape(&self.subtitle)
        )
    }
}

/// The plotting library's own script, as the crate ships it, without the typesetting scripts that load from elsewhere.
fn plot_library() -> String {
    let sources = plotly::Plot::offline_js_sources();
    // The crate gives several <script> elements; the plotting library is the largest.
    let largest = sources.split("</script>").max_by_key(|script| script.len()).unwrap_or_default();
    let code = largest.split_once('>').map_or("", |(_, code)| code);
    format!("<script>{code}</script>")
}

fn write_block(out: &mut String, block: &Block, has_plots: &mut bool) {
    match block {
        Block::Text(text) => {
            let _ = write!(out, "<p>{}</p>", escape(text));
        }
        Block::Table(table) => {
            let words = |cell: &str| cell.starts_with(char::is_alphabetic);
            let cells = |row: &[String], tag: &str| {
                let class = |cell: &str| if tag == "td" && words(cell) { " class=\"words\"" } else { "" };
                row.iter().map(|cell| format!("<{tag}{}>{}</{tag}>", class(cell), escape(cell))).collect::<String>()
            };
            let rows: String = table.rows.iter().map(|row| format!("<tr>{}</tr>", cells(row, "td"))).collect();
            let _ = write!(
                out,
                "<div class=\"scroll\"><table><thead><tr>{}</tr></thead><tbody>{rows}</tbody></table></div>",
                cells(&table.head, "th")
            );
            if !table.note.is_empty() {
                let _ = write!(out, "<p class=\"note\">{}</p>", escape(&table.note));
            }
        }
        Block::Plot { json, alt } => {
            *has_plots = true;
            // Within a script element only "</" could end it early.
            let safe = json.replace("</", "<\\/");
            let _ = write!(
                out,
                "<figure class=\"plot\" role=\"img\" aria-label=\"{}\"><div class=\"target\"></div><script type=\"application/json\">{safe}</script></figure>",
                escape(alt)
            );
        }
        Block::Svg(svg) => {
            let _ = write!(out, "<figure>{svg}</figure>");
        }
        Block::Image { base64, alt, width } => {
            let alt = escape(alt);
            let _ = write!(
                out,
                "<figure><img src=\"data:image/png;base64,{base64}\" width=\"{width}\" alt=\"{alt}\"><figcaption>{alt}</figcaption></figure>"
            );
        }
        Block::Details { summary, text } => {
            let _ = write!(out, "<details><summary>{}</summary><pre>{}</pre></details>", escape(summary), escape(text));
        }
        Block::Heading(text) => {
            let _ = write!(out, "<h3>{}</h3>", escape(text));
        }
        Block::Marked(lines) => write_marked(out, lines),
        Block::Row(blocks) => {
            *out += "<div class=\"row\">";
            for block in blocks {
                *out += "<div>";
                write_block(out, block, has_plots);
                *out += "</div>";
            }
            *out += "</div>";
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let plot = Block::Plot { json: "{\"data\":[],\"layout\":{\"title\":\"</script>\"}}".into(), alt: "<b>".into() };
        let table = Table { head: vec!["run".into()], rows: vec![vec!["<script>alert(1)</script>".into()]], note: String::new() };
        Page {
            title: "<script>".into(),
            subtitle: "a & b".into(),
            sections: vec![Section { heading: "One".into(), blocks: vec![Block::Table(table), plot] }],
        }
    }

    #[test]
    fn text_is_escaped_and_nothing_is_loaded_from_elsewhere() {
        let html = page().to_html();
        assert!(html.contains("&lt;script&gt;alert(1)") && !html.contains("<script>alert(1)"));
        let own: String = html.split("<script>").enumerate().filter(|(i, _)| *i != 1).map(|(_, part)| part).collect();
        for reference in ["src=\"http", "href=\"http", "src=\"//", "url(http", "@import"] {
            assert!(!own.contains(reference), "{reference}");
        }
        assert!(html.contains("plotly.js v"), "the plotting library is embedded");
    }
}
