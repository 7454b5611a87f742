//! The table of written bytes by layer and cause, for all workloads and engines of a comparison.
use super::{bytes::table, summary::Report};

/// Returns the table of written bytes: a header, and one line per workload and engine.
pub fn of_report(report: &Report) -> Vec<Vec<String>> {
    table(
        report.groups.iter().flat_map(|group| {
            group.lines.iter().map(|line| ([group.workload.clone(), line.engine.clone()], line.bytes))
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cell::Bytes,
        report::tests::{report, sample},
    };

    #[test]
    fn only_columns_with_data_are_shown() {
        let (plan, mut records) = sample(1);
        assert!(of_report(&report(&plan, &records)).is_empty());
        let causes = [("tables".into(), 1 << 20), ("journal".into(), 1 << 19)].into();
        records[0].row.bytes =
            Bytes { user: 1 << 20, device: Some(3 << 19), device_by_cause: Some(causes), ..Bytes::default() };
        let shown = of_report(&report(&plan, &records));
        assert_eq!(shown[0], ["MiB", "", "user", "device", "tables", "journal"]);
        assert_eq!(shown[1], ["fillseq", "a", "1.00", "1.50", "1.00", "0.500"]);
        records[0].row.bytes.nand = Some(3 << 20); // on a virtual drive
        let table = of_report(&report(&plan, &records));
        assert_eq!(table[0], ["MiB", "", "user", "device", "flash", "tables", "journal"]);
        assert_eq!(table[1], ["fillseq", "a", "1.00", "1.50", "3.00", "1.00", "0.500"]);
        assert_eq!(table.len(), 2);
    }
}
