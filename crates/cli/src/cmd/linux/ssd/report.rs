//! Prints the report of a virtual SSD as text.
use crate::table::{self, size};
use anyhow::Result;
use std::io::Write;
use terrace_device::ssd::{Cause, Counts, Report};

/// Prints the counters of a drive, its bytes by cause, and its recent write amplification.
pub fn write(report: &Report, out: &mut dyn Write) -> Result<()> {
    let Report { profile, counts, .. } = report;
    writeln!(out, "drive            {}", profile.name)?;
    writeln!(out, "capacity         {} ({} B)", size(profile.capacity_bytes), profile.capacity_bytes)?;
    let flash = report.superblocks * profile.superblock_bytes();
    let superblock = size(profile.superblock_bytes());
    writeln!(out, "flash            {} in {} superblocks of {superblock}", size(flash), report.superblocks)?;
    writeln!(out, "holds            {}", size(report.mapped_bytes))?;
    writeln!(out, "erases           {} ({} to {} each)", counts.erases, report.erases.0, report.erases.1)?;
    writeln!(out, "host read        {}", size(counts.read_bytes))?;
    writeln!(out, "host trimmed     {}", size(counts.trimmed_bytes))?;
    writeln!(out, "host flushed     {} times", counts.flushes)?;
    if let Some(seconds) = report.simulated_seconds {
        writeln!(out, "simulated time   {seconds:.3} s")?;
    }
    writeln!(out)?;
    write_cascade(counts, out)?;
    let lately: Vec<String> = report.windows.iter().rev().take(8).rev().map(|w| format!("{:.3}", w.wa2())).collect();
    if !lately.is_empty() {
        let window = size(profile.capacity_bytes / 8);
        writeln!(out, "\nWA2 of the last windows of {window}, newest last: {}", lately.join(" "))?;
    }
    Ok(())
}

/// Prints how host bytes become programmed bytes, by cause (host, garbage collection, wear
/// levelling, padding).
pub fn write_cascade(counts: &Counts, out: &mut dyn Write) -> Result<()> {
    let host = counts.host_bytes;
    let row = |name: String, bytes: u64| {
        let share = if host > 0 { format!("{:.4}", bytes as f64 / host as f64) } else { "-".into() };
        vec![name, bytes.to_string(), size(bytes), share]
    };
    let mut rows = vec![row("host wrote".into(), host), row("programmed".into(), counts.nand_bytes())];
    rows.extend(Cause::ALL.map(|cause| row(format!("  {}", cause.name()), counts.nand(cause))));
    table::write(out, &["", "bytes", "", "per host byte"], &rows)
}
