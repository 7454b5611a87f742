//! Judges the expectations of an experiment, and compares its figures with those of the paper. An
//! axis that a statement does not mention is free, and the statement is evaluated at every value
//! of that axis.
use super::findings::{FiguresAt, Findings};
use crate::experiment::{WORKLOAD, expression::Figure};

/// A list of axes and labels (values) at which a statement is evaluated.
pub type Context = Vec<(String, String)>;

/// Outcome of an expectation over all cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The inequality holds in every case.
    Held,
    /// The inequality fails in at least one case.
    Broken,
    /// The inequality fails in no case, but figures are missing.
    Pending,
}

/// An expectation in one case, which is one combination of the values of its free axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Labels of the expectation's free axes.
    pub at: Context,
    /// Both sides of the inequality, from medians over all rounds, or the reason why a figure is
    /// missing.
    pub sides: Result<(f64, f64), String>,
    /// Whether the inequality holds; `None` if a figure is missing.
    pub holds: Option<bool>,
    /// Number of rounds in which the inequality holds for the figures of the round itself. `None`
    /// if a round lacks a figure.
    pub rounds_held: Option<u32>,
    /// Whether a time in the inequality was measured while other processes used the machine.
    pub disturbed: bool,
}

/// An expectation and the result of judging it.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Source text of the inequality.
    pub that: String,
    /// Reason why the inequality is expected: a source, or an argument.
    pub because: String,
    /// Known reason why the inequality does not hold for measured figures, if there is one.
    pub otherwise: Option<String>,
    /// Outcome over all cases.
    pub outcome: Outcome,
    /// The cases: one for each combination of the values of the free axes. An axis is free if the
    /// inequality does not mention it.
    pub cases: Vec<Case>,
}

/// A figure of a paper, and the measured figure that corresponds to it.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Description of the figure.
    pub what: String,
    /// Labels of the free axes of the measured figure.
    pub at: Context,
    /// The paper's figure.
    pub paper: f64,
    /// Path of the paper's figure in `papers.toml`.
    pub path: String,
    /// The measured figure, or the reason why it is missing.
    pub here: Result<f64, String>,
}

/// Judges every expectation of the experiment.
pub fn verdicts(findings: &Findings) -> Vec<Verdict> {
    let judge = |expect: &crate::experiment::Expect| {
        let comparison = expect.that.get_ref();
        let case = |at: Context| {
            let sides = |round: Option<u32>| {
                let of = FiguresAt(findings, &at, round);
                comparison.left.value(&of).and_then(|left| Ok((left, comparison.right.value(&of)?)))
            };
            let is_so = |(left, right): &(f64, f64)| comparison.sign.holds(*left, *right);
            let in_rounds = (1..=findings.facts.rounds).map(|round| Some(u32::from(is_so(&sides(Some(round)).ok()?))));
            let rounds_held = in_rounds.sum::<Option<u32>>();
            let sides = sides(None);
            let holds = sides.as_ref().ok().map(is_so);
            let disturbed = comparison.figures().iter().any(|figure| findings.is_disturbed(figure, &at));
            Case { at, sides, holds, rounds_held, disturbed }
        };
        let cases: Vec<Case> = contexts(findings, &comparison.figures()).into_iter().map(case).collect();
        let outcome = match () {
            () if cases.iter().any(|case| case.holds == Some(false)) => Outcome::Broken,
            () if cases.iter().all(|case| case.holds == Some(true)) => Outcome::Held,
            () => Outcome::Pending,
        };
        let (because, otherwise) = (expect.because.clone(), expect.otherwise.clone());
        Verdict { that: comparison.text.clone(), because, otherwise, outcome, cases }
    };
    findings.experiment.expect.iter().map(judge).collect()
}

/// Returns all comparisons with the figures of the paper.
pub fn compared(findings: &Findings) -> Vec<Compared> {
    let rows = findings.experiment.compare.iter().flat_map(|compare| {
        let contexts = contexts(findings, &compare.here.get_ref().figures());
        contexts.into_iter().map(move |at| Compared {
            here: compare.here.get_ref().value(&FiguresAt(findings, &at, None)),
            what: compare.what.clone(),
            paper: compare.paper.value,
            path: compare.paper.path.clone(),
            at,
        })
    });
    rows.collect()
}

/// Returns every combination of the values of the free axes. An axis is free if at least one of
/// `figures` does not state its value.
fn contexts(findings: &Findings, figures: &[&Figure]) -> Vec<Context> {
    combinations(findings, |axis| {
        let binds = |figure: &&Figure| {
            figure.along.as_deref() == Some(axis) || figure.at.iter().any(|(known, _)| known == axis)
        };
        !figures.iter().all(binds)
    })
}

/// Returns every combination of the values of the axes that `is_free` selects. `workload` is an
/// axis, too.
pub fn combinations(findings: &Findings, is_free: impl Fn(&str) -> bool) -> Vec<Context> {
    let experiment = &findings.experiment;
    let axes = experiment.sweep.iter().map(|sweep| sweep.axis()).chain([WORKLOAD]);
    let mut contexts: Vec<Context> = vec![Vec::new()];
    for axis in axes.filter(|axis| is_free(axis)) {
        let labels = experiment.labels(axis).unwrap_or_default();
        let longer = |context: &Context| {
            let with = |label: &String| [&context[..], &[(axis.to_owned(), label.clone())]].concat();
            labels.iter().map(with).collect::<Vec<_>>()
        };
        contexts = contexts.iter().flat_map(longer).collect();
    }
    contexts
}

/// Describes the axes and labels of `at` in words. An axis with a single value is omitted. The
/// text is empty if no axis remains.
pub fn describe(findings: &Findings, at: &Context) -> String {
    let several = |axis: &str| findings.experiment.labels(axis).is_some_and(|labels| labels.len() > 1);
    let parts = at.iter().filter(|(axis, _)| several(axis)).map(|(axis, label)| match axis.as_str() {
        WORKLOAD => label.clone(),
        axis => format!("{axis} {label}"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cell::{Amplification, Row},
        experiment::tests::{GOOD, decode},
        plan::results::{Record, Results},
        study::folder::{Facts, Folder},
    };

    /// Returns the results of two engines at the value sizes 100 B and 1 KiB. One engine is pending
    /// and has no figures. On a new drive, WA1 (device bytes per user byte) of the other engine is
    /// 3 at 100 B and 6 at 1 KiB. On a used drive it is 1 more.
    fn findings(out: &std::path::Path, more: &str) -> Findings {
        measured(out, more, &Some)
    }

    /// A function that changes a row (result). It returns `None` to drop the row.
    type Each<'a> = &'a dyn Fn(Row) -> Option<Row>;

    fn measured(out: &std::path::Path, more: &str, each: Each<'_>) -> Findings {
        let experiment = decode(&GOOD.replace("[[expect]]", &format!("{more}\n[[expect]]"))).unwrap();
        let pending = [("terrace:wisckey".to_owned(), "not built".to_owned())].into();
        let facts = Facts { scale: 0.0625, rounds: 3, program: 7, pending, ..Facts::default() };
        let facts = facts.here(&experiment, out).unwrap();
        let folder = Folder::begin(out, &experiment, &facts).unwrap();
        for (index, point) in facts.points(&experiment).unwrap().iter().enumerate() {
            let plan = Folder::plan(&experiment, &facts, point).unwrap().expect("an engine is there");
            assert_eq!(plan.engines(), ["terrace:leveldb"]);
            let mut results = Results::open(Some(&folder.rows()), &plan).unwrap();
            for round in 1..=3 {
                // The figures of the third round are a hundred times as large as those of the first
                // two rounds. The median is not affected by the third round, while a mean would be.
                let wa1 = [0.0, 3.0, 4.0, 6.0, 7.0][index + 1] * [1.0, 1.0, 100.0][round as usize - 1];
                let wa = Amplification { wa1: Some(wa1), ..Amplification::default() };
                let row =
                    Row { name: "terrace:leveldb".into(), workload: "fillrandom".into(), round, wa, ..Row::default() };
                let Some(row) = each(row) else { continue };
                let record = Record { plan: plan.id().into(), step: 0, attempt: 1, others: None, row };
                results.add(record).unwrap();
            }
        }
        Findings::read(&folder, &|_| Ok(())).unwrap()
    }

    fn expect(that: &str) -> String {
        format!("[[expect]]\nthat = \"{that}\"\nbecause = \"a test\"\n")
    }

    /// Tests that a figure of only some rounds is unknown. An engine that fails in one round gets
    /// no verdict from its other rounds. An interrupted study gets no verdict from its finished
    /// part.
    #[test]
    fn a_figure_of_some_rounds_only_is_unknown() {
        let broken_off = |row: Row| (row.round < 3).then_some(row);
        let failed = |row: Row| Some(Row { error: (row.round == 3).then(|| "it crashed".into()), ..row });
        let unknown = |row: Row| {
            let wa = if row.round == 2 { Amplification::default() } else { row.wa };
            Some(Row { wa, ..row })
        };
        let studies: [(Each<'_>, &str); 3] = [
            (&broken_off, "was measured in 2 of 3 rounds"),
            (&failed, "failed in some rounds: it crashed"),
            (&unknown, "is known in 2 rounds only"),
        ];
        for (each, why) in studies {
            let out = tempfile::tempdir().unwrap();
            let findings = measured(out.path(), &expect("wa1(terrace:leveldb, workload=fillrandom) >= 0"), each);
            let verdict = &verdicts(&findings)[0];
            assert_eq!(verdict.outcome, Outcome::Pending, "{why}");
            assert!(
                verdict.cases.iter().all(|case| case.sides.as_ref().is_err_and(|describe| describe.contains(why))),
                "{verdict:?}"
            );
        }
    }

    #[test]
    fn disturbed_times_are_marked_and_counts_are_not() {
        let out = tempfile::tempdir().unwrap();
        let row = |row: Row| {
            let disturbed = Some(row.round == 2 && row.wa.wa1 < Some(5.0));
            Some(Row { seconds: Some(1.0), disturbed, ..row })
        };
        let more = ["wa1", "seconds"].map(|of| expect(&format!("{of}(terrace:leveldb, workload=fillrandom) > 0")));
        let findings = measured(out.path(), &more.concat(), &row);
        let verdicts = verdicts(&findings);
        let disturbed = |at: usize| verdicts[at].cases.iter().map(|case| case.disturbed).collect::<Vec<_>>();
        assert_eq!((disturbed(0), disturbed(1)), (vec![false; 4], vec![true, true, false, false]));
    }

    #[test]
    fn statements_are_judged_at_every_value_of_their_free_axes() {
        let out = tempfile::tempdir().unwrap();
        let more = [
            expect("wa1(terrace:leveldb, workload=fillrandom) >= 3"),
            expect("wa1(terrace:leveldb, workload=fillrandom, state=initial) < 4"),
            expect("wa1(terrace:leveldb, workload=fillrandom, value_size=1KiB) > 5"),
            expect("wa2(terrace:leveldb, workload=fillrandom) > 1"),
            expect(
                "wa1(terrace:leveldb, workload=fillrandom, state=steady) > wa1(terrace:leveldb, workload=fillrandom, state=initial)",
            ),
        ];
        let findings = findings(out.path(), &more.concat());
        let verdicts = verdicts(&findings);
        let outcomes: Vec<Outcome> = verdicts.iter().map(|verdict| verdict.outcome).collect();
        use Outcome::{Broken, Held, Pending};
        assert_eq!(outcomes, [Held, Broken, Held, Pending, Held, Pending]);
        assert_eq!(verdicts[0].cases.len(), 4, "two sizes, two states");
        let broken: Vec<_> = verdicts[1].cases.iter().filter(|case| case.holds == Some(false)).collect();
        assert_eq!((broken.len(), &broken[0].sides), (1, &Ok((6.0, 4.0))));
        assert_eq!(describe(&findings, &broken[0].at), "value_size 1KiB");
        // Each round is also judged by its own figures. The figures of the third round are a
        // hundred times as large as those of the others.
        let in_rounds = |at: usize| verdicts[at].cases.iter().map(|case| case.rounds_held).collect::<Vec<_>>();
        assert_eq!(in_rounds(1), [Some(2), Some(0)], "3 < 4 but not 300; 6 and 600 not");
        assert_eq!((in_rounds(0), in_rounds(3)[0]), (vec![Some(3); 4], None));
        let missing = verdicts[5].cases[0].sides.clone().unwrap_err();
        assert_eq!(missing, "terrace:wisckey is pending: not built");
        assert!(verdicts[3].cases[0].sides.clone().unwrap_err().contains("wa2"), "{:?}", verdicts[3]);
    }

    #[test]
    fn a_run_of_fewer_rounds_is_judged_by_its_own_rounds() {
        let out = tempfile::tempdir().unwrap();
        let three = findings(out.path(), &expect("wa1(terrace:leveldb, workload=fillrandom) < 1000"));
        let facts = Facts { rounds: 1, ..three.facts.clone() };
        let folder = Folder::begin(out.path(), &three.experiment, &facts).unwrap();
        let one = Findings::read(&folder, &|_| Ok(())).unwrap();
        let rounds = one.entries.iter().flat_map(|entry| entry.rows.iter().map(|row| row.round));
        assert_eq!(rounds.collect::<Vec<_>>(), [1; 4], "one at each point");
        assert!(verdicts(&one)[0].cases.iter().all(|case| case.rounds_held == Some(1)));
    }

    #[test]
    fn the_paper_is_compared_wherever_a_figure_was_measured() {
        let out = tempfile::tempdir().unwrap();
        let here = "wa1(terrace:leveldb, workload=fillrandom, value_size=1KiB)";
        let more = format!(
            "[[compare]]\nwhat = \"WA1\"\nhere = \"{here}\"\npaper = \"cascaded.fillrandom_54GB.LevelDB_HDD[0]\"\n"
        );
        let findings = findings(out.path(), &more);
        let compared = compared(&findings);
        let ours: Vec<_> = compared.iter().map(|compared| compared.here.clone().unwrap()).collect();
        assert_eq!((ours, compared[0].paper), (vec![6.0, 7.0], 18.15));
    }
}
