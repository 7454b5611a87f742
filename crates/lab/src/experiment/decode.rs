//! Decodes the TOML file of an experiment into its fields, and checks the fields.
use super::{
    definition::{Experiment, ExperimentError, WORKLOAD},
    expression::Figure,
    planned::planned,
    points::{self, located},
};

impl Experiment {
    /// Decodes the text of an experiment's file. `path` is the name of the file in error messages.
    /// `engine_is_known` accepts the names of existing engines. Presets that are only planned are
    /// accepted, too.
    ///
    /// # Errors
    /// The first error in the text, with its line.
    pub fn decode(
        name: &str,
        path: &str,
        text: &str,
        engine_is_known: &dyn Fn(&str) -> Result<(), String>,
    ) -> Result<Experiment, ExperimentError> {
        let parsed: Result<Experiment, toml::de::Error> = toml::from_str(text);
        let mut experiment = parsed.map_err(|error| format!("{path}: {}", error.to_string().trim_end()))?;
        experiment.name = name.into();
        experiment.text = text.into();
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        experiment.check(engine_is_known).map_err(|(at, why)| match at {
            Some(at) => format!("{path}:{}: {why}", line(at)),
            None => format!("{path}: {why}"),
        })?;
        Ok(experiment)
    }

    fn check(&self, engine_is_known: &dyn Fn(&str) -> Result<(), String>) -> Result<(), (Option<usize>, String)> {
        let at = |span: std::ops::Range<usize>| Some(span.start);
        if !(self.scale.default > 0.0 && self.scale.default <= 1.0) {
            let why = format!("scale.default: {} is not in the range above 0 up to 1", self.scale.default);
            return Err((located(&self.text, "scale.default"), why));
        }
        let counts =
            [("engines", self.engines.len()), ("workloads", self.workloads.len()), ("rounds", self.rounds as usize)];
        if let Some((field, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err((located(&self.text, field), format!("{field}: at least one is required")));
        }
        for (index, engine) in self.engines.iter().enumerate() {
            let name = engine.get_ref();
            if planned(name).is_none() {
                engine_is_known(name).map_err(|why| (at(engine.span()), format!("engines: {why}")))?;
            }
            if self.engines().take(index).any(|earlier| earlier == name) {
                return Err((at(engine.span()), format!("engines: {name} is listed twice")));
            }
        }
        for sweep in &self.sweep {
            if sweep.to.is_empty() {
                return Err((at(sweep.set.span()), "sweep: no values".into()));
            }
        }
        for scale in [1.0, self.scale.default] {
            points::points(self, scale)?;
        }
        for plot in &self.plot {
            if let Some(x) = &plot.x
                && (x.get_ref() == WORKLOAD || self.labels(x.get_ref()).is_none())
            {
                return Err((at(x.span()), format!("plot.x: {} is not a sweep", x.get_ref())));
            }
        }
        for expect in &self.expect {
            let wrong = |why| (at(expect.that.span()), format!("expect.that: {why}"));
            expect
                .that
                .get_ref()
                .figures()
                .into_iter()
                .try_for_each(|figure| self.check_figure(figure))
                .map_err(wrong)?;
        }
        for compare in &self.compare {
            let wrong = |why| (at(compare.here.span()), format!("compare.here: {why}"));
            compare
                .here
                .get_ref()
                .figures()
                .into_iter()
                .try_for_each(|figure| self.check_figure(figure))
                .map_err(wrong)?;
        }
        Ok(())
    }

    fn check_figure(&self, figure: &Figure) -> Result<(), String> {
        if !self.engines().any(|engine| engine == figure.engine) {
            return Err(format!("{} is not one of the engines", figure.engine));
        }
        for (axis, label) in &figure.at {
            let labels = self.labels(axis).ok_or_else(|| format!("{axis} is not an axis of this experiment"))?;
            if !labels.contains(label) {
                return Err(format!("{axis} has no value {label}; its values are {}", labels.join(", ")));
            }
        }
        match &figure.along {
            Some(axis) if self.labels(axis).is_none_or(|labels| labels.len() < 3) || axis == WORKLOAD => {
                Err(format!("an exponent along {axis} needs a sweep with at least three values"))
            }
            Some(axis) => self.labels(axis).unwrap_or_default().iter().try_for_each(|label| {
                points::number(label).map(drop).ok_or_else(|| format!("{axis}: {label} is not a number above 0"))
            }),
            None => Ok(()),
        }
    }
}
