//! `advise`: says what limits a store, and which option would change that.
mod facts;
mod rules;
mod session;

use crate::args::{Follow, Store};
use anyhow::Result;
use facts::Facts;
use serde_json::{Value, json};
use std::io::Write;

/// Says what limits a store, and which of a few options would change that, by how much and why.
///
/// Reads the store, a sample of its pairs, and the statistics of its last session that wrote to it,
/// from the file LOG. Gives no advice if nothing limits the store.
#[derive(clap::Args)]
pub struct Advise {
    #[command(flatten)]
    store: Store,
    #[command(flatten)]
    follow: Follow,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// One piece of advice.
#[derive(Debug, PartialEq, Eq)]
struct Advice {
    /// What limits the store: a short name for programs.
    limit: &'static str,
    /// The measurements that show the limit.
    evidence: String,
    /// The option or command to use.
    change: String,
    /// The gain and the cost of the change.
    effect: String,
}

impl Advise {
    /// Prints the advice, the most important first.
    pub fn run(&self, out: &mut dyn Write) -> Result<()> {
        let facts = Facts::of(&self.store, &self.follow)?;
        let advice = rules::all(&facts);
        if self.json {
            let list: Vec<Value> = advice
                .iter()
                .map(|advice| {
                    json!({ "limit": advice.limit, "evidence": advice.evidence, "change": advice.change,
                            "effect": advice.effect })
                })
                .collect();
            return Ok(writeln!(out, "{}", json!({ "store": facts.store_json(), "advice": list }))?);
        }
        facts.write(out)?;
        for (number, Advice { evidence, change, effect, .. }) in (1..).zip(&advice) {
            writeln!(out, "\n{number}. {evidence}\n   Change: {change}\n   Effect: {effect}")?;
        }
        if advice.is_empty() {
            writeln!(out, "\nNothing limits this store as far as these numbers show.")?;
        }
        Ok(())
    }
}
