//! Draws an SVG picture of the bytes that one engine wrote at each layer: user, engine, device,
//! flash, from top to bottom. Each layer is a horizontal bar whose length is proportional to the
//! layer's bytes. A wedge between two bars shows the factor from the upper layer to the lower one.
use crate::{cell::Bytes, ledger::CAUSES, report::figure};
use std::fmt::Write;
use terrace_device::ssd::Cause;

/// Width of a bar of full length, in SVG units.
const WIDTH: f64 = 560.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 132.0;
const BAR: f64 = 26.0;
const STEP: f64 = 58.0;
/// Purpose of writes in the engine's own count. Only the bytes of this purpose are also divided by
/// output level.
const COMPACTION: &str = "compaction";

/// A layer of the picture: one bar.
struct Layer {
    name: &'static str,
    /// The names and bytes of the parts into which the bar is divided, such as the causes of
    /// device bytes. The names are also CSS classes.
    parts: Vec<(String, u64)>,
}

impl Layer {
    fn bytes(&self) -> u64 {
        self.parts.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// Returns the SVG picture of `bytes`. A bar of full length represents `longest` bytes. Returns
/// `None` if the user wrote nothing, or if no layer except `user` has a known number of bytes.
pub fn picture(bytes: &Bytes, longest: u64) -> Option<String> {
    let layers = layers(bytes);
    if layers.len() < 2 || bytes.user == 0 {
        return None;
    }
    let height = STEP * (layers.len() - 1) as f64 + BAR + 4.0;
    let unit = WIDTH / longest.max(1) as f64;
    let mut svg = format!(
        "<svg class=\"cascade\" viewBox=\"0 0 {:.0} {height:.0}\" role=\"img\" aria-label=\"bytes from the user down\">\n",
        LEFT + WIDTH + RIGHT
    );
    for (at, layer) in layers.iter().enumerate() {
        let (top, width) = (2.0 + STEP * at as f64, layer.bytes() as f64 * unit);
        if let Some(below) = layers.get(at + 1) {
            between(&mut svg, layer, below, top + BAR, unit);
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            top + 17.0,
            layer.name
        );
        let mut x = LEFT;
        for (part, sum) in &layer.parts {
            let wide = *sum as f64 * unit;
            let _ = writeln!(
                svg,
                "<rect class=\"part {part}\" x=\"{x:.2}\" y=\"{top:.1}\" width=\"{wide:.2}\" height=\"{BAR}\"><title>{part}: {}</title></rect>",
                mebibytes(*sum)
            );
            // The name of the part is written into the bar if it fits. A letter needs about 6.6
            // units.
            if wide > part.len() as f64 * 6.6 + 8.0 && layer.parts.len() > 1 {
                let _ = writeln!(svg, "<text class=\"in\" x=\"{:.1}\" y=\"{:.1}\">{part}</text>", x + 5.0, top + 17.0);
            }
            x += wide;
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            LEFT + width + 8.0,
            top + 17.0,
            mebibytes(layer.bytes())
        );
    }
    svg += "</svg>\n";
    Some(svg)
}

/// Draws the wedge from the layer `upper` to the layer `lower`, with the ratio of their bytes.
fn between(svg: &mut String, upper: &Layer, lower: &Layer, top: f64, unit: f64) {
    let (wide, wider) = (upper.bytes() as f64 * unit, lower.bytes() as f64 * unit);
    let bottom = top + STEP - BAR;
    let _ = writeln!(
        svg,
        "<polygon class=\"wedge\" points=\"{LEFT},{top:.1} {:.2},{top:.1} {:.2},{bottom:.1} {LEFT},{bottom:.1}\"/>",
        LEFT + wide,
        LEFT + wider
    );
    let factor = figure(Some(lower.bytes() as f64 / upper.bytes() as f64));
    let _ = writeln!(
        svg,
        "<text class=\"factor\" x=\"{:.1}\" y=\"{:.1}\">× {factor}</text>",
        LEFT + 6.0,
        (top + bottom) / 2.0 + 5.0
    );
}

/// Returns the layers with a known number of bytes, from the user's layer down. Layers with zero
/// bytes are left out.
fn layers(bytes: &Bytes) -> Vec<Layer> {
    let one = |name: &'static str, sum| Layer { name, parts: vec![(name.to_owned(), sum)] };
    let several = |name, mut parts: Vec<(String, u64)>| {
        parts.retain(|(_, sum)| *sum > 0);
        Layer { name, parts }
    };
    let mut layers = vec![one("user", bytes.user)];
    match &bytes.engine_by_purpose {
        Some(purposes) => {
            let parts = purposes.iter().flat_map(|(name, sum)| match &bytes.engine_compaction_by_level {
                Some(levels) if name == COMPACTION => {
                    levels.iter().map(|(level, sum)| (format!("{COMPACTION} L{level}"), *sum)).collect()
                }
                _ => vec![(name.clone(), *sum)],
            });
            layers.push(several("engine", parts.collect()));
        }
        None => layers.extend(bytes.engine.map(|sum| one("engine", sum))),
    }
    match (&bytes.device_by_cause, bytes.device) {
        (Some(causes), _) => {
            let known = CAUSES.iter().filter_map(|cause| Some(((*cause).to_owned(), *causes.get(*cause)?)));
            layers.push(several("device", known.collect()));
        }
        (None, Some(sum)) => layers.push(one("device", sum)),
        (None, None) => layers.extend(bytes.process.map(|sum| one("process", sum))),
    }
    match &bytes.nand_by_cause {
        Some(causes) => {
            let known =
                Cause::ALL.iter().filter_map(|cause| Some((cause.name().to_owned(), *causes.get(cause.name())?)));
            layers.push(several("flash", known.collect()));
        }
        None => layers.extend(bytes.nand.map(|sum| one("flash", sum))),
    }
    layers.retain(|layer| layer.bytes() > 0);
    layers
}

/// Returns the number of bytes of the layer with the most bytes.
pub fn longest(bytes: &Bytes) -> u64 {
    layers(bytes).iter().map(Layer::bytes).max().unwrap_or(0)
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", figure(Some(bytes as f64 / f64::from(1 << 20))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_to_scale_with_factors_between_them() {
        let causes = [("tables".to_owned(), 3 << 20), ("journal".to_owned(), 1 << 20)].into();
        let bytes = Bytes {
            user: 1 << 20,
            engine: Some(2 << 20),
            engine_by_purpose: Some([("wal".to_owned(), 1 << 20), ("flush".to_owned(), 1 << 20)].into()),
            device: Some(4 << 20),
            device_by_cause: Some(causes),
            nand: Some(8 << 20),
            nand_by_cause: Some([("gc".to_owned(), 3 << 20), ("host".to_owned(), 5 << 20)].into()),
            ..Bytes::default()
        };
        assert_eq!(longest(&bytes), 8 << 20);
        let svg = picture(&bytes, longest(&bytes)).unwrap();
        assert_eq!(svg.matches("× 2.00").count(), 3, "{svg}");
        assert!(svg.contains("class=\"part user\" x=\"64.00\" y=\"2.0\" width=\"70.00\""), "{svg}");
        assert!(svg.contains("<title>tables: 3.00 MiB</title>") && svg.contains(">8.00 MiB</text>"), "{svg}");
        assert!(svg.contains("<title>host: 5.00 MiB</title>") && svg.contains("<title>gc: 3.00 MiB</title>"), "{svg}");
        let purposes = [("wal".to_owned(), 1 << 20), (COMPACTION.to_owned(), 1 << 20)].into();
        let levels = [("1".to_owned(), 3 << 18), ("2".to_owned(), 1 << 18)].into();
        let bytes = Bytes { engine_by_purpose: Some(purposes), engine_compaction_by_level: Some(levels), ..bytes };
        let svg = picture(&bytes, longest(&bytes)).unwrap();
        assert!(svg.contains("<title>compaction L1: 0.750 MiB</title>"), "{svg}");
        assert!(svg.contains("class=\"part compaction L2\"") && !svg.contains("<title>compaction: "), "{svg}");
        assert!(svg.contains(">2.00 MiB</text>"), "no more than it was: {svg}");
        assert!(picture(&Bytes { user: 5, ..Bytes::default() }, 5).is_none());
    }
}
