//! The table: each value, what it is compared with, its bar (the promised limit), and whether the bar is met.

use std::fmt;

use serde::Serialize;

use crate::figure::Figure;

/// One line of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) ours: Figure,
    /// What the value is compared with.
    #[serde(rename = "peer")]
    pub(crate) baseline: Option<Baseline>,
    /// The ratio to the baseline. It may be a median of ratios, which is not the ratio of the two medians.
    pub(crate) ratio: Option<f64>,
    pub(crate) bar: Bar,
}

/// What a value is compared with.
#[derive(Debug, Serialize)]
pub(crate) struct Baseline {
    pub(crate) figure: Figure,
    pub(crate) what: String,
}

/// The promised limit.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bar {
    /// None: the value is for comparing versions.
    None,
    /// At most this many times the baseline.
    #[serde(rename = "times")]
    AtMostTimes(f64),
    /// At least this many times the baseline, where more is better.
    #[serde(rename = "share")]
    AtLeastTimes(f64),
    /// At most this much.
    AtMost(Figure),
}

impl Row {
    pub(crate) fn new(name: impl Into<String>, ours: impl Into<Figure>) -> Self {
        Self { name: name.into(), ours: ours.into(), baseline: None, ratio: None, bar: Bar::None }
    }

    pub(crate) fn against(self, what: impl Into<String>, figure: impl Into<Figure>) -> Self {
        let figure = figure.into();
        let ratio = Some(self.ours.value() / figure.value());
        Self { baseline: Some(Baseline { figure, what: what.into() }), ratio, ..self }
    }

    /// Sets a ratio that is the median of many, instead of that of the two values.
    pub(crate) fn ratio(self, ratio: f64) -> Self {
        Self { ratio: Some(ratio), ..self }
    }

    pub(crate) fn bar(self, bar: Bar) -> Self {
        Self { bar, ..self }
    }

    fn is_met(&self) -> Option<bool> {
        match self.bar {
            Bar::None => None,
            Bar::AtMostTimes(times) => Some(self.ratio? <= times),
            Bar::AtLeastTimes(share) => Some(self.ratio? >= share),
            Bar::AtMost(most) => Some(self.ours.value() <= most.value()),
        }
    }
}

/// All rows, and the machine.
#[derive(Debug, Serialize)]
pub(crate) struct Table {
    machine: String,
    /// The load when the benchmark began: values of a loaded machine are worth less.
    load: String,
    pub(crate) rows: Vec<Row>,
}

impl Table {
    pub(crate) fn begin() -> Self {
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or("unknown").to_owned();
        Self { machine: machine(), load, rows: Vec::new() }
    }
}

/// Returns processor, cores, kernel and file system.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown processor");
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let directory = std::env::temp_dir();
    let magic = rustix::fs::statfs(&directory).map(|stat| stat.f_type as u32).unwrap_or_default();
    let kind = match magic {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x794c_7630 => "overlayfs",
        0x0102_1994 => "tmpfs, WHERE SYNCING COSTS NOTHING: set TMPDIR to a directory on a disk",
        _ => "another file system",
    };
    let model = model.trim_start_matches([' ', '\t', ':']);
    format!("{model}, {cores} cores, Linux {kernel}, {kind}")
}

const HEAD: [&str; 6] = ["what", "ours", "against", "ratio", "bar", ""];

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}; load {} at the beginning\n", self.machine, self.load)?;
        let head = HEAD.map(str::to_owned);
        let rule = HEAD.map(|_| "---".to_owned());
        let cells: Vec<_> = [head, rule].into_iter().chain(self.rows.iter().map(cells)).collect();
        let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        for row in &cells {
            let padded = row.iter().zip(widths).map(|(cell, width)| format!(" {cell:<width$} "));
            writeln!(f, "|{}|", padded.collect::<Vec<_>>().join("|"))?;
        }
        Ok(())
    }
}

fn cells(row: &Row) -> [String; 6] {
    let against = row.baseline.as_ref().map(|baseline| format!("{} {}", baseline.figure, baseline.what));
    let bar = match row.bar {
        Bar::None => String::new(),
        Bar::AtMostTimes(times) => format!("≤ {times} ×"),
        Bar::AtLeastTimes(share) => format!("≥ {share} ×"),
        Bar::AtMost(most) => format!("≤ {most}"),
    };
    let result = match row.is_met() {
        None => "",
        Some(true) => "met",
        Some(false) => "MISSED",
    };
    [
        row.name.clone(),
        row.ours.to_string(),
        against.unwrap_or_default(),
        row.ratio.map(|ratio| format!("{ratio:.2} ×")).unwrap_or_default(),
        bar,
        result.to_owned(),
    ]
}
