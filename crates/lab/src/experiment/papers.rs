//! The figures that the four papers published, which the study compares with measured figures. The
//! file `experiments/papers.toml` contains them, with the source of every table.
use serde::{Deserialize, Deserializer, de::Error};

/// Text of `papers.toml`.
const TEXT: &str = include_str!("../../../../experiments/papers.toml");

/// A number in `papers.toml`.
#[derive(Clone, Debug)]
pub struct PaperFigure {
    /// Path of the number in `papers.toml`, such as `cascaded.fillrandom_54GB.LevelDB_SSD_S[0]`.
    pub path: String,
    /// The number.
    pub value: f64,
}

impl<'de> Deserialize<'de> for PaperFigure {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PaperFigure, D::Error> {
        let path = String::deserialize(deserializer)?;
        let value = look_up(&path).map_err(D::Error::custom)?;
        Ok(PaperFigure { path, value })
    }
}

fn look_up(path: &str) -> Result<f64, String> {
    let table: toml::Table = TEXT.parse().expect("a test reads it");
    let mut value = toml::Value::Table(table);
    for name in path.split('.') {
        let (name, index) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((name, index)) => (name, Some(index)),
            None => (name, None),
        };
        let next = value.get(name).cloned();
        let next = match index {
            Some(index) => next.and_then(|list| list.get(index.parse::<usize>().ok()?).cloned()),
            None => next,
        };
        value = next.ok_or_else(|| format!("papers.toml has no {path}: {name} is missing"))?;
    }
    let number = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
    number.ok_or_else(|| format!("{path} is not a number in papers.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_their_path() {
        assert_eq!(look_up("cascaded.fillrandom_54GB.LevelDB_SSD_S[1]"), Ok(3.39));
        assert_eq!(look_up("noblsm.syncs.count.LevelDB"), Ok(1061.0));
        assert_eq!(look_up("cascaded.value_size_30GB.LevelDB_WA1.100B"), Ok(16.56));
        for bad in ["cascaded.nothing", "noblsm", "cascaded.fillrandom_54GB.LevelDB_SSD_S[7]", "noblsm.source"] {
            assert!(look_up(bad).is_err(), "{bad}");
        }
    }
}
