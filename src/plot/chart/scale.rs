//! The vertical axis of a chart: round numbers from 0, or decades.

/// Decades of a logarithmic axis that have a label each.
const LABELLED_DECADES: i32 = 6;

/// From numbers to heights.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// Numbers that have a label.
    pub(super) ticks: Vec<f64>,
}

impl Scale {
    pub(super) fn new(numbers: impl Iterator<Item = f64>, logarithmic: bool) -> Self {
        let numbers: Vec<f64> =
            numbers.filter(|number| number.is_finite() && (!logarithmic || *number > 0.0)).collect();
        let largest = numbers.iter().copied().fold(0.0, f64::max);
        let smallest = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        if !logarithmic {
            return Self::linear(largest);
        }
        let decade = |number: f64| if number > 0.0 && number.is_finite() { number.log10() } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, reason = "logarithms of floats are small")]
        let [first, last] = [decade(smallest).floor(), decade(largest).ceil()].map(|decade| decade as i32);
        let last = last.max(first + 1);
        let step = ((last - first) / LABELLED_DECADES + 1).max(1);
        let ticks = (first..=last).filter(|decade| (last - decade) % step == 0).map(|decade| 10_f64.powi(decade));
        Self { low: f64::from(first), high: f64::from(last), logarithmic, ticks: ticks.collect() }
    }

    fn linear(largest: f64) -> Self {
        if largest <= 0.0 {
            return Self { low: 0.0, high: 1.0, logarithmic: false, ticks: vec![0.0, 0.5, 1.0] };
        }
        let unit = 10_f64.powf((largest / 1.02).log10().floor());
        let tops = [
            (1.0, 4.0),
            (1.2, 4.0),
            (1.6, 4.0),
            (2.0, 4.0),
            (3.0, 3.0),
            (4.0, 4.0),
            (6.0, 3.0),
            (8.0, 4.0),
            (10.0, 5.0),
            (12.0, 4.0),
        ];
        let (multiple, parts) =
            tops.into_iter().find(|(multiple, _)| multiple * unit >= largest).unwrap_or((12.0, 4.0));
        let step = multiple * unit / parts;
        let ticks = (0_u8..=10).map(f64::from).take_while(|part| *part <= parts).map(|part| part * step).collect();
        Self { low: 0.0, high: multiple * unit, logarithmic: false, ticks }
    }

    /// The share of the height at which a number stands.
    pub(super) fn share(&self, number: f64) -> f64 {
        let number = if self.logarithmic { number.max(f64::MIN_POSITIVE).log10() } else { number };
        ((number - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }
}

/// Three significant digits at most, exponents beyond a million and below a thousandth.
pub(super) fn number_text(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 {
        "0".into()
    } else if (1e-3..1e6).contains(&size) {
        let digits = if size >= 100.0 {
            0
        } else if size >= 10.0 {
            1
        } else if size >= 1.0 {
            2
        } else {
            3
        };
        let text = format!("{number:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
    } else {
        let text = format!("{number:.1e}");
        text.replace(".0e", "e")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (largest, high) in
            [(0.0, 1.0), (0.7123, 0.8), (1.0, 1.0), (262_144.0, 300_000.0), (131_072.0, 160_000.0), (9.9, 10.0)]
        {
            let scale = Scale::new([largest].into_iter(), false);
            assert!((scale.high / high - 1.0).abs() < 1e-9, "{largest}: {scale:?}");
            assert!((2..=6).contains(&scale.ticks.len()), "{scale:?}");
        }
    }

    #[test]
    fn a_logarithmic_axis_holds_every_positive_number() {
        let scale = Scale::new([0.7123, 2e-7, 0.0, f64::NAN].into_iter(), true);
        assert_eq!((scale.low, scale.high), (-7.0, 0.0));
        assert!((scale.share(1e-7), scale.share(1.0)) == (0.0, 1.0) && scale.share(0.0) == 0.0);
        let nothing = Scale::new(std::iter::empty(), true);
        assert!(nothing.high > nothing.low);
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.7123, 12.34, 262_144.0, 1.5e-7, 67_108_864.0, 1.0].map(number_text);
        assert_eq!(texts, ["0", "0.712", "12.3", "262144", "1.5e-7", "6.7e7", "1"]);
    }
}
