//! The language of `[[expect]]` and `[[compare]]` in an experiment: arithmetic and comparisons of
//! figures.
//!
//! ```text
//! comparison  sum (< | <= | > | >=) sum
//! sum         product ((+ | -) product)*
//! product     factor ((* | /) factor)*
//! factor      number | ( sum ) | - factor | (min | max)(sum, sum) | figure
//! figure      METRIC(ENGINE, AXIS=LABEL, …)
//!                 the median over rounds
//!             exponent(METRIC, ENGINE, AXIS, …)
//!                 k of METRIC ~ AXIS^k, fitted over all values of AXIS
//! ```
//! An axis is a field that the experiment varies, or `workload`, whose labels are the names of the
//! rows. An axis that a figure does not mention is free. The expectation or comparison then
//! applies to each value of this axis.
use super::metric::{self, Metric};
use serde::{Deserialize, Deserializer, de::Error};
use std::fmt;

/// An arithmetic expression over figures.
#[derive(Clone, Debug)]
pub enum Expression {
    /// A constant.
    Number(f64),
    /// A measured figure.
    Figure(Figure),
    /// A binary operation of two expressions.
    Operator(Box<Expression>, Operator, Box<Expression>),
}

/// Binary operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Operator {
    Plus,
    Minus,
    Times,
    Over,
    Lower,
    Higher,
}

/// A reference to a measured figure: a metric of an engine at some labels (values) of axes.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The metric.
    pub metric: &'static Metric,
    /// The engine.
    pub engine: String,
    /// The axes that the figure mentions, each with its label (value).
    pub at: Vec<(String, String)>,
    /// The axis along which an exponent is fitted. If it is `None`, the reference is to the metric
    /// itself.
    pub along: Option<String>,
}

/// An inequality of two expressions.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Source text of the inequality.
    pub text: String,
    /// Expression on the left side.
    pub left: Expression,
    /// Comparison operator.
    pub sign: Sign,
    /// Expression on the right side.
    pub right: Expression,
}

/// Comparison operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are self-explanatory")]
pub enum Sign {
    Less,
    AtMost,
    More,
    AtLeast,
}

impl Sign {
    /// Returns whether the comparison is true for these values.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Sign::Less => left < right,
            Sign::AtMost => left <= right,
            Sign::More => left > right,
            Sign::AtLeast => left >= right,
        }
    }
}

impl fmt::Display for Sign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sign::Less => "<",
            Sign::AtMost => "≤",
            Sign::More => ">",
            Sign::AtLeast => "≥",
        })
    }
}

/// A source from which the evaluation of an expression takes figures.
pub trait Lookup {
    /// Returns the value of a figure. The error gives the reason why the figure is missing.
    fn figure(&self, figure: &Figure) -> Result<f64, String>;
}

impl Expression {
    /// Evaluates the expression. If a figure is missing, the error gives the reason.
    pub fn value(&self, of: &dyn Lookup) -> Result<f64, String> {
        let value = match self {
            Expression::Number(number) => *number,
            Expression::Figure(figure) => of.figure(figure)?,
            Expression::Operator(left, join, right) => {
                let (left, right) = (left.value(of)?, right.value(of)?);
                match join {
                    Operator::Plus => left + right,
                    Operator::Minus => left - right,
                    Operator::Times => left * right,
                    Operator::Over => left / right,
                    Operator::Lower => left.min(right),
                    Operator::Higher => left.max(right),
                }
            }
        };
        value.is_finite().then_some(value).ok_or_else(|| "division by zero".into())
    }

    /// Returns every figure in the expression.
    pub fn figures(&self) -> Vec<&Figure> {
        match self {
            Expression::Number(_) => Vec::new(),
            Expression::Figure(figure) => vec![figure],
            Expression::Operator(left, _, right) => [left.figures(), right.figures()].concat(),
        }
    }

    /// Parses an expression. The error names the position in the text.
    pub fn parse(text: &str) -> Result<Expression, String> {
        let mut parser = Parser { text, at: 0 };
        let sum = parser.sum()?;
        parser.end().map(|()| sum)
    }
}

impl Comparison {
    /// Parses a comparison. The error names the position in the text.
    pub fn parse(text: &str) -> Result<Comparison, String> {
        let mut parser = Parser { text, at: 0 };
        let left = parser.sum()?;
        let signs = [("<=", Sign::AtMost), (">=", Sign::AtLeast), ("<", Sign::Less), (">", Sign::More)];
        let sign = signs.into_iter().find(|(sign, _)| parser.take(sign)).map(|(_, sign)| sign);
        let sign = sign.ok_or_else(|| parser.wrong("one of < <= > >="))?;
        let right = parser.sum()?;
        parser.end()?;
        Ok(Comparison { text: text.into(), left, sign, right })
    }

    /// Returns every figure on both sides.
    pub fn figures(&self) -> Vec<&Figure> {
        [self.left.figures(), self.right.figures()].concat()
    }
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Expression, D::Error> {
        Expression::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Comparison {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Comparison, D::Error> {
        Comparison::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.rest().starts_with(sign);
        self.at += if found { sign.len() } else { 0 };
        found
    }

    fn expect(&mut self, sign: &str, called: &str) -> Result<(), String> {
        if self.take(sign) { Ok(()) } else { Err(self.wrong(called)) }
    }

    fn wrong(&mut self, wanted: &str) -> String {
        let rest = self.rest();
        let found = if rest.is_empty() { "the end".into() } else { format!("{rest:?}") };
        format!("expected {wanted}, found {found}")
    }

    fn end(&mut self) -> Result<(), String> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.wrong("the end")) }
    }

    /// Parses a sequence of operands that one of two operators joins, from left to right. The
    /// operands are products for `+` and `-`, and factors for `*` and `/`.
    fn left_associative(
        &mut self,
        operators: [(&str, Operator); 2],
        next: fn(&mut Self) -> Result<Expression, String>,
    ) -> Result<Expression, String> {
        let mut left = next(self)?;
        while let Some((_, join)) = operators.iter().find(|(sign, _)| self.take(sign)) {
            left = Expression::Operator(Box::new(left), *join, Box::new(next(self)?));
        }
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expression, String> {
        self.left_associative([("+", Operator::Plus), ("-", Operator::Minus)], Parser::product)
    }

    fn product(&mut self) -> Result<Expression, String> {
        self.left_associative([("*", Operator::Times), ("/", Operator::Over)], Parser::factor)
    }

    fn factor(&mut self) -> Result<Expression, String> {
        if self.take("-") {
            let zero = Box::new(Expression::Number(0.0));
            return Ok(Expression::Operator(zero, Operator::Minus, Box::new(self.factor()?)));
        }
        if self.take("(") {
            let sum = self.sum()?;
            return self.expect(")", "a closing parenthesis").map(|()| sum);
        }
        let rest = self.rest();
        let len = |is: fn(char) -> bool| rest.find(|c| !is(c)).unwrap_or(rest.len());
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            let digits = &rest[..len(|c| c.is_ascii_digit() || c == '.')];
            self.at += digits.len();
            return digits.parse().map(Expression::Number).map_err(|_| format!("{digits:?} is not a number"));
        }
        let name = &rest[..len(|c| c.is_ascii_alphanumeric() || c == '_')];
        if name.is_empty() {
            return Err(self.wrong("a number or a figure"));
        }
        self.at += name.len();
        self.expect("(", "an opening parenthesis after the name of a figure")?;
        if let Some((_, join)) =
            [("min", Operator::Lower), ("max", Operator::Higher)].iter().find(|(word, _)| *word == name)
        {
            return self.min_or_max(*join);
        }
        let rest = self.rest();
        let close = rest.find(')').ok_or_else(|| format!("the parenthesis after {name} is not closed"))?;
        self.at += close + 1;
        figure(name, rest[..close].split(',').map(str::trim).collect()).map(Expression::Figure)
    }

    /// Parses the arguments of `min` or `max` after the opening parenthesis.
    fn min_or_max(&mut self, join: Operator) -> Result<Expression, String> {
        let first = self.sum()?;
        self.expect(",", "a comma")?;
        let second = self.sum()?;
        self.expect(")", "a closing parenthesis")?;
        Ok(Expression::Operator(Box::new(first), join, Box::new(second)))
    }
}

fn figure(name: &str, mut arguments: Vec<&str>) -> Result<Figure, String> {
    let fits = name == "exponent";
    let mut next = |what: &str| {
        // An argument is `AXIS=LABEL` if it contains `=`. The name of an engine may also contain
        // `=`, in the form `terrace:PRESET+OPTION=VALUE`, but then a `+` precedes it.
        let is_place = |argument: &str| argument.split_once('=').is_some_and(|(axis, _)| !axis.contains('+'));
        let has = arguments.first().is_some_and(|first| !first.is_empty() && !is_place(first));
        if has { Ok(arguments.remove(0)) } else { Err(format!("{name}: {what} is missing")) }
    };
    let metric = metric::find(if fits { next("the metric")? } else { name })?;
    let engine = next("the engine")?.to_owned();
    let along = if fits { Some(next("the axis")?.to_owned()) } else { None };
    let at = arguments.iter().map(|argument| {
        let (axis, label) = argument.split_once('=').ok_or_else(|| format!("{argument:?} is not AXIS=LABEL"))?;
        Ok((axis.trim().to_owned(), label.trim().to_owned()))
    });
    Ok(Figure { metric, engine, along, at: at.collect::<Result<_, String>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct FixedFigures;

    impl Lookup for FixedFigures {
        fn figure(&self, figure: &Figure) -> Result<f64, String> {
            match figure.engine.as_str() {
                "leveldb" => Ok(10.0),
                "terrace:bolt" => Ok(4.0 + figure.at.len() as f64),
                other => Err(format!("{other} is not here")),
            }
        }
    }

    #[test]
    fn operators_have_the_usual_precedence() {
        let value = |text: &str| Expression::parse(text).unwrap().value(&FixedFigures);
        assert_eq!(value("1 + 2 * 3 - 4 / 2"), Ok(5.0));
        assert_eq!(value("2 - 1 - 1"), Ok(0.0));
        assert_eq!(value("-(1 + 2) * 2"), Ok(-6.0));
        assert_eq!(
            value("1 - wa1(terrace:bolt, workload=write-delete-write:10/write, x = 1KiB) / wa1(leveldb)"),
            Ok(0.4)
        );
        assert_eq!(value("min(2 * wa1(leveldb), 7) + max(1, 2)"), Ok(9.0));
        assert_eq!(value("1 / (1 - 1)"), Err("division by zero".into()));
        assert_eq!(value("wa(redb) * 2"), Err("redb is not here".into()));
    }

    #[test]
    fn comparisons_evaluate_both_sides() {
        for (text, holds) in [
            ("wa1(terrace:bolt) < 0.4 * wa1(leveldb)", false),
            ("wa1(terrace:bolt) <= 0.4 * wa1(leveldb)", true),
            ("1 > 2", false),
            ("2 >= 2", true),
        ] {
            let comparison = Comparison::parse(text).unwrap();
            let [left, right] = [&comparison.left, &comparison.right].map(|side| side.value(&FixedFigures).unwrap());
            assert_eq!(comparison.sign.holds(left, right), holds, "{text}");
        }
        assert_eq!(Comparison::parse("wa(leveldb) < wa(terrace:bolt) + 1").unwrap().figures().len(), 2);
        let options = Expression::parse("wa(terrace:bolt+allow_mmap_reads=true+x=1, workload=fillseq)").unwrap();
        let figure = options.figures()[0];
        assert_eq!((&*figure.engine, figure.at.len()), ("terrace:bolt+allow_mmap_reads=true+x=1", 1));
    }

    #[test]
    fn syntax_errors_name_their_position() {
        for (text, word) in [
            ("", "expected a number or a figure, found the end"),
            ("1 +", "the end"),
            ("(1 < 2", "closing parenthesis"),
            ("1 2 < 3", "\"2 < 3\""),
            ("wa3(leveldb) < 1", "unknown metric \"wa3\""),
            ("wa1 < 1", "opening parenthesis"),
            ("wa1() < 1", "engine is missing"),
            ("wa1(x=1) < 1", "engine is missing"),
            ("wa1(a, b) < 1", "AXIS=LABEL"),
            ("exponent(wa1, a) < 1", "axis is missing"),
            ("min(1) < 2", "expected a comma"),
            ("max(1, 2 < 2", "closing parenthesis"),
            ("1 = 2", "one of < <= > >="),
        ] {
            let error = Comparison::parse(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
