//! `study list`: lists the experiments of the study.
use super::{all, pending};
use crate::table;
use anyhow::Result;
use serde_json::json;
use std::io::Write;

/// Lists every experiment with its claim, its source and its default scale.
#[derive(clap::Args)]
pub struct List {
    /// Print JSON, one object per line.
    #[arg(long)]
    json: bool,
}

impl List {
    /// Prints the list.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let mut rows = Vec::new();
        for experiment in all()? {
            let scale = experiment.scale.default;
            let points = experiment.points(scale).map_err(anyhow::Error::msg)?;
            let pending: Vec<&str> = experiment.engines().filter(|name| pending(name).is_some()).collect();
            let cells = points.len() * (experiment.engines().count() - pending.len()) * experiment.rounds as usize;
            if self.json {
                let object = json!({ "name": experiment.name, "title": experiment.title, "source": experiment.source,
                    "question": experiment.question, "scale": scale, "points": points.len(), "cells": cells,
                    "engines": experiment.engines().collect::<Vec<_>>(), "pending": pending });
                writeln!(out, "{object}")?;
            } else {
                let pending = pending.join(" ");
                let counts = [scale.to_string(), points.len().to_string(), cells.to_string()];
                rows.push([vec![experiment.name], counts.into(), vec![experiment.source, pending]].concat());
            }
        }
        if !self.json {
            table::write(out, &["name", "scale", "points", "cells", "source", "pending"], &rows)?;
        }
        Ok(())
    }
}
