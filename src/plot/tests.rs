use proptest::prelude::*;
use resvg::usvg::roxmltree::Document;

use super::*;

/// (1, H, Lq, Lk) weights of which each row shares alike.
fn uniform(num_heads: usize, num_queries: usize, num_keys: usize) -> HostTensor {
    let share = 1.0 / num_keys.max(1) as f32;
    let data = vec![share; num_heads * num_queries * num_keys];
    HostTensor::new([1, num_heads, num_queries, num_keys], data).expect("as many numbers")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// The texts of a picture, in order.
fn texts(picture: &Picture) -> Vec<String> {
    let document = Document::parse(picture.svg()).expect("the SVG should be well-formed");
    let texts = document.descendants().filter(|node| node.has_tag_name("text"));
    texts.filter_map(|node| node.text().map(str::to_owned)).collect()
}

fn pixel(picture: &Picture, (x, y): (f64, f64)) -> String {
    let pixmap = picture.rasterise().expect("the SVG should be drawable");
    let scale = f64::from(picture.png_scale());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "points of a small picture")]
    let (x, y) = ((x * scale) as u32, (y * scale) as u32);
    let color = pixmap.pixel(x, y).expect("a pixel of the picture");
    format!("#{:02x}{:02x}{:02x}", color.red(), color.green(), color.blue())
}

/// The layout of maps without words.
fn layout(num_heads: usize, num_queries: usize, num_keys: usize, has_legend: bool) -> Layout {
    let weights = uniform(num_heads, 1, 1);
    Layout::new(Request {
        num_heads,
        num_queries,
        num_keys,
        query_tokens: &[],
        key_tokens: &[],
        head_title_width: AttentionMaps::new(&weights).head_title_width(num_heads),
        title: "",
        caption: "",
        has_legend,
        max_width: f64::INFINITY,
    })
    .expect("a small picture")
}

#[test]
fn every_head_has_a_map_with_labels_on_both_axes() {
    for num_heads in [1, 2, 3, 5, 7, 12, 16, 25] {
        let weights = uniform(num_heads, 2, 3);
        let picture = AttentionMaps {
            query_tokens: &words(&["Q0", "Q1"]),
            key_tokens: &words(&["K0", "K1", "K2"]),
            ..AttentionMaps::new(&weights)
        }
        .draw()
        .expect("a small picture");
        let texts = texts(&picture);
        let count = |wanted: &str| texts.iter().filter(|text| *text == wanted).count();
        for head in 0..num_heads {
            assert_eq!(count(&format!("head {head}")), 1, "{num_heads} heads");
        }
        for label in ["Q0", "Q1", "K0", "K1", "K2"] {
            assert_eq!(count(label), num_heads, "{label} of {num_heads} heads");
        }
        assert!(count("query") > 0 && count("key") > 0);
    }
}

#[test]
fn cells_have_the_colours_of_their_weights() {
    let weights = HostTensor::new([1, 1, 2, 2], vec![0.0, 1.0, f32::NAN, 0.5]).expect("4 numbers");
    let picture = AttentionMaps::new(&weights).draw().expect("a small picture");
    let layout = layout(1, 2, 2, true);
    let (x, y) = layout.origin(0);
    let colors = [(0.5, 0.5), (1.5, 0.5), (0.1, 1.1), (1.5, 1.5)]
        .map(|(column, row)| pixel(&picture, (x + column * layout.panel.cell.0, y + row * layout.panel.cell.1)));
    let expected = [scale::color(0), scale::color(255), theme::INVALID.into(), scale::color(128)];
    assert_eq!(colors, expected);
    let legend = "1 cell is not a weight: NaN, infinite or negative";
    assert!(texts(&picture).iter().any(|text| text == legend));
}

#[test]
fn words_are_escaped_and_drawn() {
    let weights = uniform(1, 1, 1);
    let picture = AttentionMaps {
        query_tokens: &words(&["</text>"]),
        key_tokens: &words(&[""]),
        title: "a < b & \"c\"",
        caption: "on llvmpipe",
        head_notes: &words(&["0 bits"]),
        theme: Theme::Dark,
        ..AttentionMaps::new(&weights)
    }
    .draw()
    .expect("a small picture");
    let texts = texts(&picture);
    for wanted in ["</text>", "∅", "a < b & \"c\"", "on llvmpipe", "0 bits", "attention weight"] {
        assert!(texts.iter().any(|text| text == wanted), "{wanted}: {texts:?}");
    }
}

#[test]
fn a_png_is_a_png_of_the_promised_size() {
    let weights = uniform(12, 16, 16);
    let tokens = words(&["suitcase"; 16]);
    let picture = AttentionMaps { query_tokens: &tokens, key_tokens: &tokens, ..AttentionMaps::new(&weights) }
        .draw()
        .expect("a usual picture");
    let png = picture.encode(PictureFormat::Png).expect("an encodable picture");
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    let width = u32::from_be_bytes([png[16], png[17], png[18], png[19]]);
    assert!((1800..=2400).contains(&width), "{width} pixels");
}

#[test]
fn only_the_asked_part_is_drawn() {
    let mut weights = uniform(1, 3, 4).into_data();
    weights[11] = f32::NAN; // the last key of the last query
    let weights = HostTensor::new([1, 1, 3, 4], weights).expect("12 numbers");
    let picture = AttentionMaps {
        query_tokens: &words(&["a", "b", "[PAD]"]),
        num_queries: Some(2),
        num_keys: Some(3),
        ..AttentionMaps::new(&weights)
    }
    .draw()
    .expect("a small picture");
    let texts = texts(&picture);
    assert!(!texts.iter().any(|text| text == "[PAD]" || text == "3"), "{texts:?}");
    assert!(!picture.svg().contains(theme::INVALID));
}

#[test]
fn maps_without_cells_are_empty_frames() {
    for (num_queries, num_keys, words) in [(2, 0, "no keys"), (0, 2, "no queries"), (0, 0, "no queries")] {
        let weights = uniform(2, num_queries, num_keys);
        let picture = AttentionMaps::new(&weights).draw().expect("an empty picture");
        assert!(texts(&picture).iter().any(|text| text == words), "{words}");
        picture.encode(PictureFormat::Png).expect("an encodable picture");
    }
}

#[test]
fn long_and_many_maps_are_drawn_or_refused() {
    for (num_heads, num_queries, num_keys) in [(12, 129, 129), (1, 1, 5000), (1, 5000, 1), (96, 8, 8)] {
        let weights = uniform(num_heads, num_queries, num_keys);
        let picture = AttentionMaps::new(&weights).draw().expect("a large picture");
        assert!(picture.width * picture.height <= 24e6);
    }
    let weights = uniform(5, 1000, 1000);
    let error = AttentionMaps::new(&weights).draw().expect_err("too many cells");
    insta::assert_snapshot!(error, @"a picture of 5 maps of 1000×1000 needs 5000000 cells, but the most that a viewer opens is 4194304; draw fewer heads, or fewer queries and keys");
    let weights = uniform(5000, 1, 1);
    assert!(AttentionMaps::new(&weights).draw().is_err(), "absurd area");
}

#[test]
fn what_does_not_fit_together_is_an_error() {
    let weights = uniform(2, 3, 4);
    let sentence = |maps: AttentionMaps<'_>| maps.draw().expect_err("a mistake").to_string();
    let maps = AttentionMaps::new(&weights);
    let two = words(&["a", "b"]);
    assert_eq!(sentence(AttentionMaps { query_tokens: &two, ..maps }), "2 query tokens cannot label 3 queries");
    assert_eq!(sentence(AttentionMaps { num_keys: Some(5), ..maps }), "num_keys is 5, but there are 4");
    assert_eq!(
        sentence(AttentionMaps { batch: 1, ..maps }),
        "batch is 1, but must be below the number of batch entries, 1"
    );
    assert_eq!(
        sentence(AttentionMaps::new(&uniform(0, 3, 4))),
        "attention_weights has shape (1, 0, 3, 4), but at least one head is needed for a picture"
    );
}

/// The estimates that keep labels apart, against the font itself.
#[test]
fn texts_are_not_wider_than_estimated() {
    for text in ["suitcase", "[CLS]", "W@mM#%", "Ġthe", "▁the", "Щука", "∅", "…", "é"] {
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"999\" height=\"99\" font-family=\"'DejaVu Sans'\" \
             font-size=\"100\"><text y=\"90\">{text}</text></svg>"
        );
        let tree = resvg::usvg::Tree::from_str(&svg, &picture::options()).expect("well-formed");
        // Estimates are whole hundredths of the font size, here points.
        let drawn = f64::from(tree.root().bounding_box().width());
        let estimated = text::width(text, 100.0);
        assert!(drawn <= estimated + 1.0, "{text}: drawn {drawn}, estimated {estimated}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_token_breaks_the_picture(tokens in prop::collection::vec(any::<String>(), 1..6), title: String) {
        let weights = uniform(2, tokens.len(), tokens.len());
        let picture = AttentionMaps {
            query_tokens: &tokens,
            key_tokens: &tokens,
            title: &title,
            caption: &title,
            ..AttentionMaps::new(&weights)
        }
        .draw()
        .expect("a small picture");
        prop_assert!(Document::parse(picture.svg()).is_ok());
        prop_assert!(picture.rasterise().is_ok());
    }

    #[test]
    fn no_weight_breaks_the_picture(data in prop::collection::vec(any::<f32>(), 12)) {
        let weights = HostTensor::new([1, 2, 2, 3], data).expect("12 numbers");
        let picture = AttentionMaps::new(&weights).draw().expect("a small picture");
        prop_assert!(picture.rasterise().is_ok());
    }
}

/// A figure with one panel of each kind.
fn figure(theme: Theme) -> Picture {
    let series = |name: &str, numbers: [f64; 2]| Series { name: name.into(), numbers: numbers.map(Some).to_vec() };
    let chart = LineChart {
        title: "a chart".into(),
        places: words(&["one", "two"]),
        series: vec![series("first", [0.25, f64::NAN]), series("second", [0.5, 0.75])],
        with_numbers: true,
        ..LineChart::default()
    };
    let cell = HeatCell { number: 0.5, words: "prev\n0.50".into(), tip: "layer 0, head 0".into() };
    let table = HeatTable {
        title: "a table".into(),
        columns: words(&["0", "1"]),
        rows: words(&["layer 0"]),
        cells: vec![Some(cell), None],
        ..HeatTable::default()
    };
    let value =
        ShapeBox { op: "matmul".into(), name: "scores".into(), shape: "(10, 4, 6)".into(), ..ShapeBox::default() };
    let shapes = ShapeColumn { title: "shapes".into(), values: vec![value] };
    let weights = uniform(2, 3, 9);
    let maps = AttentionMaps { theme, title: "maps", max_width: Figure::INNER_WIDTH, ..AttentionMaps::new(&weights) };
    let maps = maps.draw().expect("a small picture");
    assert!(maps.width <= Figure::INNER_WIDTH, "{}", maps.width);
    let panels = vec![Panel::Lines(chart), Panel::Table(table), Panel::Shapes(shapes), Panel::Picture(maps)];
    Figure { title: "all kinds", caption: "small print", panels, columns: 2, theme }.draw().expect("a small figure")
}

#[test]
fn a_figure_has_all_of_its_panels() {
    for theme in [Theme::Light, Theme::Dark] {
        let picture = figure(theme);
        let texts = texts(&picture);
        for wanted in [
            "all kinds",
            "a chart",
            "first",
            "0.75",
            "a table",
            "prev",
            "shapes",
            "(10, 4, 6)",
            "maps",
            "head 1",
            "small print",
        ] {
            assert!(texts.iter().any(|text| text == wanted), "{wanted}: {texts:?}");
        }
        assert_eq!(picture.svg().matches("<title>layer 0, head 0</title>").count(), 1, "what a pointer shows");
        assert!(!picture.svg().contains(" id="), "two drawings may stand in one document");
        assert!(picture.svg().contains("<title>second, two: 0.75</title>") && !picture.svg().contains("NaN"));
        let png = picture.encode(PictureFormat::Png).expect("an encodable picture");
        assert_eq!(u32::from_be_bytes([png[16], png[17], png[18], png[19]]), 1800, "three pixels for a point");
    }
    assert_ne!(figure(Theme::Light), figure(Theme::Dark));
}

#[test]
fn a_place_without_a_number_stays_empty_and_nan_does_not() {
    let drawn = |second: Option<f64>| {
        let cell = |number: f64| HeatCell { number, words: format!("{number:.1}"), tip: String::new() };
        let table = HeatTable {
            columns: words(&["0", "1"]),
            rows: words(&["a"]),
            cells: vec![Some(cell(0.5)), second.map(cell)],
            ..HeatTable::default()
        };
        let panels = vec![Panel::Table(table)];
        let figure = Figure { title: "", caption: "", panels, columns: 1, theme: Theme::Light };
        figure.draw().expect("a small figure").svg().to_owned()
    };
    let rectangles = |svg: &str| svg.matches("<rect").count();
    assert_eq!(rectangles(&drawn(None)) + 1, rectangles(&drawn(Some(0.0))));
    assert!(!drawn(None).contains(theme::INVALID) && drawn(Some(f64::NAN)).contains(theme::INVALID));
}

#[test]
fn a_figure_that_no_viewer_opens_is_refused() {
    let table = HeatTable { rows: vec![String::new(); 1000], ..HeatTable::default() };
    let figure = Figure { title: "", caption: "", panels: vec![Panel::Table(table)], columns: 0, theme: Theme::Light };
    insta::assert_snapshot!(figure.draw().expect_err("too high"), @"the figure needs 27096 points in height, but the most that a viewer opens is 20000; give fewer cases at once");
}
