//! The one expansion of a shader's text: loops marked `// unroll` over a constant become their bodies, one after the other;
//! those marked `// unroll short` only where they are.
//!
//! Compilers of CPU adapters keep an array in memory when a loop's variable indexes it, and do not unroll. Unmarked and
//! unexpanded the text means the same and is valid WGSL.

use std::collections::BTreeMap;

/// Loops of more rounds than this stay loops: their text would take seconds to compile. The second is that of short ones.
const MOST_ROUNDS: [u32; 2] = [32, 16];

/// The text with some of its constants (`const NAME: u32 = …;`) given another value, and marked loops unrolled.
pub(super) fn specialised(wgsl: &str, constants: &[(&str, u32)]) -> String {
    let mut known = BTreeMap::new();
    let lines: Vec<String> = wgsl.lines().map(|line| constant(line, constants, &mut known)).collect();
    let mut text = String::new();
    unroll(&lines, &known, &mut text);
    text
}

/// A line; if it declares a constant, with the value wanted for it, which is noted.
fn constant(line: &str, wanted: &[(&str, u32)], known: &mut BTreeMap<String, u32>) -> String {
    let Some((name, expression)) = line
        .strip_prefix("const ")
        .and_then(|rest| rest.split_once(": u32 = "))
        .and_then(|(name, rest)| Some((name, rest.strip_suffix(';')?)))
    else {
        return line.to_owned();
    };
    let given = wanted.iter().find(|(wanted, _)| *wanted == name).map(|&(_, value)| value);
    let Some(value) = given.or_else(|| value_of(expression, known)) else {
        return line.to_owned();
    };
    known.insert(name.to_owned(), value);
    if given.is_some() { format!("const {name}: u32 = {value}u;") } else { line.to_owned() }
}

/// A number, a constant, or one of these times or by another.
fn value_of(expression: &str, known: &BTreeMap<String, u32>) -> Option<u32> {
    let term = |text: &str| known.get(text).copied().or_else(|| text.trim_end_matches('u').parse().ok());
    match expression.split(' ').collect::<Vec<_>>()[..] {
        [one] => term(one),
        [left, "*", right] => term(left)?.checked_mul(term(right)?),
        [left, "/", right] => term(left)?.checked_div(term(right)?),
        _ => None,
    }
}

fn unroll(lines: &[String], known: &BTreeMap<String, u32>, text: &mut String) {
    let mut rest = lines;
    while let [line, behind @ ..] = rest {
        let marked = marked_loop(line, known);
        let end =
            marked.as_ref().and_then(|(_, _, indent)| behind.iter().position(|line| *line == format!("{indent}}}")));
        let (Some((variable, rounds, indent)), Some(end)) = (marked, end) else {
            text.push_str(line);
            text.push('\n');
            rest = behind;
            continue;
        };
        for round in 0..rounds {
            *text += &format!("{indent}{{\n{indent}    const {variable} = {round}u;\n");
            unroll(&behind[..end], known, text);
            *text += &format!("{indent}}}\n");
        }
        rest = &behind[end + 1..];
    }
}

/// Variable, rounds and indentation of `for (var x = 0u; x < BOUND; x++) { // unroll`, unless there are too many rounds.
fn marked_loop<'a>(line: &'a str, known: &BTreeMap<String, u32>) -> Option<(&'a str, u32, &'a str)> {
    let long = line.strip_suffix(" { // unroll").map(|head| (head, MOST_ROUNDS[0]));
    let (head, most) = long.or_else(|| Some((line.strip_suffix(" { // unroll short")?, MOST_ROUNDS[1])))?;
    let (indent, head) = head.split_once("for (var ")?;
    let (variable, rest) = head.split_once(" = 0u; ")?;
    let (condition, _) = rest.split_once("; ")?;
    let rounds = value_of(condition.split_once(" < ")?.1, known)?;
    (rounds <= most).then_some((variable, rounds, indent))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "const LANES: u32 = 8u;\nconst HALF: u32 = LANES / 2u;\nfn f() {\n    for (var i = 0u; i < HALF; i++) { // unroll\n        g(i);\n    }\n    h();\n}\n";

    #[test]
    fn a_marked_loop_becomes_its_rounds_and_nothing_else_changes() {
        let unrolled = "const LANES: u32 = 4u;\nconst HALF: u32 = LANES / 2u;\nfn f() {\n    {\n        const i = 0u;\n        g(i);\n    }\n    {\n        const i = 1u;\n        g(i);\n    }\n    h();\n}\n";
        assert_eq!(specialised(TEXT, &[("LANES", 4)]), unrolled);
    }

    #[test]
    fn a_long_loop_stays_a_loop() {
        assert!(specialised(TEXT, &[("LANES", 256)]).contains("for (var i"));
        assert_eq!(specialised(TEXT, &[("LANES", 256)]).lines().count(), TEXT.lines().count());
    }
}
