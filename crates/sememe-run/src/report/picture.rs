//! Small pictures in rows and columns as one PNG.

use base64::Engine;

use super::page::Block;

const GAP: usize = 2;

/// A grid of greyscale or RGB pictures of values in [0, 1] (clipped): `rows[r][c]` is flattened `[C, H, W]`.
pub fn image_grid(rows: &[Vec<Vec<f64>>], [channels, height, width]: [usize; 3], alt: &str, zoom: usize) -> Option<Block> {
    let columns = rows.iter().map(Vec::len).max()?;
    let (full_width, full_height) = (columns * (width + GAP) + GAP, rows.len() * (height + GAP) + GAP);
    let mut pixels = vec![128_u8; full_width * full_height * 3];
    for (r, row) in rows.iter().enumerate() {
        for (c, picture) in row.iter().enumerate() {
            for y in 0..height {
                for x in 0..width {
                    let at = ((GAP + r * (height + GAP) + y) * full_width + GAP + c * (width + GAP) + x) * 3;
                    for channel in 0..3 {
                        let from = (if channels == 3 { channel } else { 0 }) * height * width + y * width + x;
                        pixels[at + channel] = (picture.get(from).copied().unwrap_or(0.5).clamp(0.0, 1.0) * 255.0).round() as u8;
                    }
                }
            }
        }
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, full_width as u32, full_height as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(&pixels).ok()?;
    writer.finish().ok()?;
    Some(Block::Image { base64: base64::engine::general_purpose::STANDARD.encode(&bytes), alt: alt.into(), width: full_width * zoom })
}
