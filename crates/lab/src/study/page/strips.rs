//! Draws curves over time in strips. Each engine has its own strip, and all strips have the same
//! scales. In one common frame, the curves of the engines would hide each other.
use super::chart::{
    FONT, bounds, colour, draw, draw_error, names_width, powers, short_number, sparse, width_with_names,
};
use anyhow::Result;
use plotters::{
    coord::ranged1d::{Ranged, ValueFormatter},
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

const STRIP_HEIGHT: u32 = 46;
/// Space around the strips in pixels: the height below the last strip, and the width to the left
/// of each strip.
const X_AXIS_HEIGHT: u32 = 44;
const Y_LABELS_WIDTH: u32 = 52;

/// A curve: pieces from left to right, with gaps between the pieces. Each point is (time, figure).
pub type Curve = Vec<Vec<(f64, f64)>>;

/// The strip of one engine.
pub struct Strip {
    /// Name of the engine.
    pub engine: String,
    /// Index of the engine, which determines the colour.
    pub index: usize,
    /// Curves of the engine. The first curve is drawn with a thick line, the others with thin
    /// lines.
    pub curves: Vec<Curve>,
}

/// Draws the strips from top to bottom. The vertical axis of each strip starts at 0, unless it is
/// logarithmic.
pub fn strips(strips: &[Strip], x_title: &str, log: bool) -> Result<String> {
    let dots = || strips.iter().flat_map(|strip| strip.curves.iter().flatten().flatten());
    let (_, right) = bounds(dots().map(|dot| dot.0));
    let (bottom, top) = bounds(dots().map(|dot| dot.1));
    let x = 0.0..(right * 1.02).max(1e-9);
    let names_width = names_width(strips.iter().map(|strip| &*strip.engine));
    let size = (width_with_names(names_width), STRIP_HEIGHT * strips.len() as u32 + X_AXIS_HEIGHT);
    draw(size, |root| {
        let cuts: Vec<u32> = (1..strips.len() as u32).map(|at| at * STRIP_HEIGHT).collect();
        let areas = root.split_by_breakpoints(&[] as &[u32], &cuts);
        for (at, (strip, area)) in strips.iter().zip(&areas).enumerate() {
            let place = Pos::new(HPos::Right, VPos::Center);
            let style = FONT.into_text_style(area).pos(place);
            let left = names_width as i32;
            area.draw_text(&strip.engine, &style, (left - 8, STRIP_HEIGHT as i32 / 2)).map_err(draw_error)?;
            let is_last = at + 1 == strips.len();
            let mut chart = ChartBuilder::on(area);
            chart.margin_top(4).margin_bottom(4).margin_right(10).margin_left(names_width);
            chart.y_label_area_size(Y_LABELS_WIDTH).x_label_area_size(if is_last { X_AXIS_HEIGHT } else { 0 });
            let x_title = if is_last { x_title } else { "" };
            if log && bottom > 0.0 {
                let y = powers(bottom, top).log_scale();
                let mut chart = chart.build_cartesian_2d(x.clone(), y).map_err(draw_error)?;
                curves_on(&mut chart, strip, x_title, sparse)?;
            } else {
                let y = 0.0..(top * 1.1).max(1e-9);
                let mut chart = chart.build_cartesian_2d(x.clone(), y).map_err(draw_error)?;
                curves_on(&mut chart, strip, x_title, short_number)?;
            }
        }
        Ok(())
    })
}

fn curves_on<'a, X, Y>(
    chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    strip: &Strip,
    x_title: &str,
    y_label: fn(&f64) -> String,
) -> Result<()>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut mesh = chart.configure_mesh();
    mesh.x_desc(x_title).y_labels(3).x_label_formatter(&short_number).y_label_formatter(&y_label);
    mesh.light_line_style(TRANSPARENT).bold_line_style(RGBColor(128, 128, 128).mix(0.25));
    mesh.label_style(FONT).axis_desc_style(FONT).draw().map_err(draw_error)?;
    let colour = colour(strip.index);
    let styles = [colour.stroke_width(2)].into_iter().chain(std::iter::repeat(colour.mix(0.5).stroke_width(1)));
    for (curve, style) in strip.curves.iter().zip(styles) {
        for piece in curve {
            if let [dot] = piece[..] {
                chart.draw_series([Circle::new(dot, 2, style.filled())]).map_err(draw_error)?;
            }
            chart.draw_series(LineSeries::new(piece.iter().copied(), style)).map_err(draw_error)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_its_name_and_its_curves() {
        for log in [false, true] {
            // All heights are between the same two powers of ten.
            let curve = |height: f64| vec![vec![(0.5, height), (1.5, height + 1.0), (2.5, height)]];
            let one = |index, engine: &str, curves| Strip { engine: engine.into(), index, curves };
            let all = [
                one(0, "terrace", vec![curve(2.0), curve(5.0)]),
                one(1, "leveldb", vec![curve(2.5)]),
                one(2, "short", vec![vec![vec![(0.1, 6.0)]]]),
            ];
            let svg = strips(&all, "seconds", log).expect("a picture");
            for name in ["terrace", "leveldb", "short", "seconds"] {
                assert_eq!(svg.matches(&format!("\n{name}\n")).count(), 1, "{name}: {svg}");
            }
            let colours = |index| {
                let RGBColor(red, green, blue) = colour(index);
                svg.matches(&format!("stroke=\"#{red:02X}{green:02X}{blue:02X}\"")).count()
            };
            assert_eq!((colours(0), colours(1)), (2, 1), "{svg}");
            assert_eq!(svg.matches("<circle").count(), 1, "a piece of one dot: {svg}");
            let label = if log { "\n10.0\n" } else { "\n5\n" };
            assert_eq!(svg.matches(label).count(), all.len(), "each axis has a number: {svg}");
        }
    }
}
