//! Draws lines and bars as SVG without scripts. The page that contains a picture determines the
//! colour of the picture's text, so black is replaced by that colour.
use anyhow::{Result, anyhow};
use plotters::{
    coord::{
        Shift,
        ranged1d::{Ranged, ValueFormatter},
    },
    prelude::*,
};

/// Colours that most readers can distinguish on light and dark backgrounds (after Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(128, 110, 220),
    RGBColor(140, 140, 140),
];
/// Width and height of a picture with lines, in pixels.
const SIZE: (u32, u32) = (560, 340);
/// Sizes of a picture with bars, in pixels: the height of a bar, the width of the bars without
/// their names, and the approximate width of a character.
const BAR_HEIGHT: u32 = 24;
const BARS_WIDTH: u32 = 340;
const CHARACTER_WIDTH: u32 = 7;
/// Font of all text.
pub const FONT: (&str, u32) = ("sans-serif", 14);

/// A function that formats the numbers on an axis.
type Spelled<'a> = &'a dyn Fn(&f64) -> String;

/// A point of a line: x, the lower end of the interval, the median, and the upper end.
pub type Dot = (f64, f64, f64, f64);

/// One line of a plot.
pub struct Series {
    /// Name in the legend.
    pub engine: String,
    /// Index of the engine. The index determines the colour, so an engine has the same colour in
    /// every picture.
    pub index: usize,
    /// Points from left to right.
    pub dots: Vec<Dot>,
}

/// Returns the colour of the engine with this index.
pub fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// Draws lines along an axis of the experiment. `labels` are the values of the axis: numbers or
/// categories.
pub fn lines(
    series: &[Series],
    axis: &str,
    y_title: &str,
    labels: &[String],
    is_number: bool,
    log: bool,
) -> Result<String> {
    let dots = || series.iter().flat_map(|series| &series.dots);
    let (left, right) = bounds(dots().map(|dot| dot.0));
    let (bottom, top) = bounds(dots().flat_map(|dot| [dot.1, dot.3]));
    let is_log = log && is_number && left > 0.0 && bottom > 0.0;
    let label = |place: &f64| -> String {
        if is_number {
            return if is_log { sparse(place) } else { short_number(place) };
        }
        let at = place.round();
        let near = (place - at).abs() < 0.01 && at >= 0.0;
        near.then(|| labels.get(at as usize).cloned()).flatten().unwrap_or_default()
    };
    let y_label = if is_log { sparse } else { short_number };
    let in_bytes = is_number && labels.iter().any(|label| label.parse::<f64>().is_err());
    let x_title = if in_bytes { format!("{axis} in bytes") } else { axis.to_owned() };
    let names = (x_title.as_str(), y_title);
    draw(SIZE, |root| {
        let mut chart = ChartBuilder::on(root);
        chart.margin(10).x_label_area_size(44).y_label_area_size(64);
        if is_log {
            let x = (left / 1.15..right * 1.15).log_scale();
            let y = powers(bottom, top).log_scale();
            series_on(&mut chart.build_cartesian_2d(x, y).map_err(draw_error)?, series, names, (&label, &y_label))
        } else {
            let slack = ((right - left) * 0.05).max(0.25);
            let coordinates = (left - slack..right + slack, 0.0..(top * 1.1).max(1e-9));
            let (x, y) = coordinates;
            series_on(&mut chart.build_cartesian_2d(x, y).map_err(draw_error)?, series, names, (&label, &y_label))
        }
    })
}

type Chart<'a, 'b, X, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, Y>>;

fn series_on<'a, 'b: 'a, X, Y>(
    chart: &mut Chart<'a, 'b, X, Y>,
    series: &[Series],
    (x_title, y_title): (&str, &str),
    (x_label, y_label): (Spelled<'_>, Spelled<'_>),
) -> Result<()>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .x_desc(x_title)
        .y_desc(y_title)
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(128, 128, 128).mix(0.25))
        .x_label_formatter(&|x| x_label(x))
        .y_label_formatter(&|y| y_label(y))
        .label_style(FONT)
        .axis_desc_style(FONT)
        .draw()
        .map_err(draw_error)?;
    for Series { engine, index, dots } in series {
        let colour = colour(*index);
        let line = LineSeries::new(dots.iter().map(|dot| (dot.0, dot.2)), colour.stroke_width(2));
        let legend = move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2));
        chart.draw_series(line).map_err(draw_error)?.label(engine).legend(legend);
        let circles = dots.iter().map(|dot| Circle::new((dot.0, dot.2), 3, colour.filled()));
        chart.draw_series(circles).map_err(draw_error)?;
        let bars = dots
            .iter()
            .filter(|dot| dot.1 < dot.3)
            .map(|dot| ErrorBar::new_vertical(dot.0, dot.1, dot.2, dot.3, colour.filled(), 8));
        chart.draw_series(bars).map_err(draw_error)?;
    }
    let legend = chart.configure_series_labels().position(SeriesLabelPosition::UpperLeft).label_font(FONT).draw();
    legend.map_err(draw_error)
}

/// Draws one bar per engine, with the interval of its figure.
pub fn bars(series: &[Series]) -> Result<String> {
    let top = series.iter().flat_map(|series| &series.dots).map(|dot| dot.3).fold(1e-9, f64::max) * 1.1;
    let names_width = names_width(series.iter().map(|series| &*series.engine));
    let slots = series.len().max(2); // an axis with one category would have no length
    let label = |place: &SegmentValue<usize>| match place {
        SegmentValue::CenterOf(at) => {
            series.get(slots - 1 - at).map_or_else(String::new, |series| series.engine.clone())
        }
        _ => String::new(),
    };
    let size = (width_with_names(names_width), 46 + BAR_HEIGHT * slots as u32);
    draw(size, |root| {
        let mut chart = ChartBuilder::on(root)
            .margin(10)
            .x_label_area_size(26)
            .y_label_area_size(names_width)
            .build_cartesian_2d(0.0..top, (0..slots - 1).into_segmented())
            .map_err(draw_error)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(128, 128, 128).mix(0.25))
            .x_labels(5)
            .y_labels(slots)
            .x_label_formatter(&short_number)
            .y_label_formatter(&|y| label(y))
            .label_style(FONT)
            .draw()
            .map_err(draw_error)?;
        for (place, one) in series.iter().enumerate().map(|(at, one)| (slots - 1 - at, one)) {
            let (_, low, middle, high) = one.dots[0];
            let corners = [(0.0, SegmentValue::Exact(place)), (middle, SegmentValue::Exact(place + 1))];
            let mut bar = Rectangle::new(corners, colour(one.index).filled());
            bar.set_margin(3, 3, 0, 0);
            chart.draw_series([bar]).map_err(draw_error)?;
            let at = SegmentValue::CenterOf(place);
            let interval = (low < high).then(|| ErrorBar::new_horizontal(at, low, middle, high, BLACK.filled(), 8));
            chart.draw_series(interval).map_err(draw_error)?;
        }
        Ok(())
    })
}

/// Returns the width of a column that has room for these names.
pub fn names_width<'a>(names: impl Iterator<Item = &'a str>) -> u32 {
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0) as u32;
    16 + longest * CHARACTER_WIDTH
}

/// Returns the width of a picture that begins with a column of names.
pub fn width_with_names(names_width: u32) -> u32 {
    SIZE.0.max(names_width + BARS_WIDTH)
}

/// Calls `onto` with an empty picture of `size`, then returns the picture as SVG.
pub fn draw(size: (u32, u32), onto: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        onto(&root)?;
        root.present().map_err(draw_error)?;
    }
    // The page determines the size of the picture and the colour of its text. The fixed size is
    // therefore removed, and black is replaced by the page's text colour.
    let fixed = format!("width=\"{}\" height=\"{}\" ", size.0, size.1);
    Ok(svg.replacen(&fixed, "class=\"plot\" role=\"img\" ", 1).replace("#000000", "currentColor"))
}

/// Converts an error of the drawing library.
pub fn draw_error(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("draw a plot: {error}")
}

/// Returns the minimum and the maximum of `values`.
pub fn bounds(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// Returns the range of a logarithmic axis for values from `bottom` to `top`. The range is
/// slightly wider than the values. It includes a power of ten, because only powers of ten have
/// labels.
pub fn powers(bottom: f64, top: f64) -> std::ops::Range<f64> {
    let (low, high) = ((bottom / 1.3).log10(), (top * 1.3).log10());
    let power = low.ceil();
    if power <= high {
        return 10f64.powf(low)..10f64.powf(high);
    }
    // Extends the range to the nearest power of ten.
    let below = power - 1.0;
    if low - below < power - high { 10f64.powf(below)..10f64.powf(high) } else { 10f64.powf(low)..10f64.powf(power) }
}

/// Formats a number on a logarithmic axis. In each decade, only the multiples 1, 2 and 5 have a
/// text.
pub fn sparse(value: &f64) -> String {
    let first = *value / 10f64.powf(value.log10().floor());
    let shown = [1.0, 2.0, 5.0, 10.0].iter().any(|digit| (first - digit).abs() < 0.01);
    if shown { short_number(value) } else { String::new() }
}

/// Formats a number on an axis in a short form. A multiple of 1024 or of one of its powers has the
/// suffix `Ki`, `Mi` or `Gi`.
pub fn short_number(value: &f64) -> String {
    let value = *value;
    for (shift, unit) in [(30, "Gi"), (20, "Mi"), (10, "Ki")] {
        let scaled = value / f64::from(1u32 << shift);
        if scaled >= 1.0 && scaled.fract() == 0.0 {
            return format!("{scaled}{unit}");
        }
    }
    crate::report::figure(Some(value)).trim_end_matches(".00").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws a picture with bars for `engines`. Returns the heights of the bars, and the number of
    /// names.
    fn drawn(engines: &[&str]) -> (Vec<f64>, usize) {
        let of = |engine: &&str| Series { engine: (*engine).into(), index: 0, dots: vec![(0.0, 1.0, 2.0, 3.0)] };
        let svg = bars(&engines.iter().map(of).collect::<Vec<_>>()).expect("a picture");
        let heights = svg.split("<rect ").skip(1).filter_map(|rect| {
            let height = rect.split("height=\"").nth(1)?.split('"').next()?;
            height.parse().ok()
        });
        (heights.collect(), engines.iter().filter(|engine| svg.contains(&format!("\n{engine}\n"))).count())
    }

    #[test]
    fn every_engine_has_a_bar_and_its_name() {
        for engines in
            [&["one"][..], &["one", "two"], &["one", "two", "three", "terrace:leveldb+durability=journal-bpf"]]
        {
            let (heights, names) = drawn(engines);
            assert_eq!((heights.len(), names), (engines.len(), engines.len()));
            assert!(heights.iter().all(|height| (12.0..24.0).contains(height)), "{heights:?}");
        }
    }

    #[test]
    fn intervals_are_drawn_and_axes_and_lines_named() {
        let series = |spread: f64| {
            let dots = [100.0, 1024.0].map(|x| (x, 5.0 - spread, 5.0, 5.0 + spread)).to_vec();
            // The two pictures must have the same bounds, so that their axes and grids are equal.
            let wide = Series { engine: "wide".into(), index: 1, dots: vec![(512.0, 1.0, 5.0, 9.0)] };
            [Series { engine: "one".into(), index: 0, dots }, wide]
        };
        let strokes = |svg: &str| svg.matches("<line ").count() + svg.matches("<polyline ").count();
        let labels = ["100B", "1KiB"].map(String::from);
        for log in [false, true] {
            let drawn =
                |spread| lines(&series(spread), "value_size", "time in µs", &labels, true, log).expect("a picture");
            assert_eq!(strokes(&drawn(1.0)) - strokes(&drawn(0.0)), 2 * 3, "for each dot a bar with two ends");
            for words in ["value_size in bytes", "time in µs", "one"] {
                assert!(drawn(0.0).contains(&format!("\n{words}\n")), "{words}");
            }
        }
        let drawn = |spread| bars(&series(spread)).expect("a picture");
        assert_eq!(strokes(&drawn(1.0)) - strokes(&drawn(0.0)), 3);
    }

    #[test]
    fn a_logarithmic_axis_has_a_power_of_ten() {
        for (bottom, top) in [(15.0, 60.0), (2.0, 5.0), (0.02, 0.05), (9.0, 11.0), (1.0, 1000.0), (3.0, 3.0)] {
            let axis = powers(bottom, top);
            assert!(axis.start < bottom && axis.end > top && axis.end / axis.start < 20.0 * top / bottom, "{axis:?}");
            let power = 10f64.powf((axis.start.log10() - 1e-9).ceil());
            assert!(power <= axis.end * 1.000_001, "{bottom} to {top}: {axis:?}");
        }
    }

    #[test]
    fn numbers_on_axes_are_short() {
        let shown = [0.0, 0.5, 4.0, 100.0, 4096.0, 65536.0, 1_048_576.0, 2000.0].map(|value| short_number(&value));
        assert_eq!([0.2, 90.0, 100.0, 5e6, 7e6].map(|value| sparse(&value)), ["0.200", "", "100", "5000000", ""]);
        assert_eq!(shown, ["0", "0.500", "4", "100", "4Ki", "64Ki", "1Mi", "2000"]);
    }
}
