//! A measured value with its unit.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// One measured value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "unit", content = "value")]
pub(crate) enum Figure {
    Seconds(f64),
    Bytes(f64),
    Instructions(f64),
    /// A number of events, such as wake-ups or writes.
    #[serde(rename = "times")]
    Count(f64),
    /// More is better.
    PerSecond(f64),
}

impl Figure {
    /// The time of one event.
    pub(crate) fn per(total: Duration, count: usize) -> Self {
        Self::Seconds(total.as_secs_f64() / count as f64)
    }

    /// The events per second.
    pub(crate) fn rate(count: usize, total: Duration) -> Self {
        Self::PerSecond(count as f64 / total.as_secs_f64())
    }

    pub(crate) fn mib(count: f64) -> Self {
        Self::Bytes(count * 1024.0 * 1024.0)
    }

    pub(crate) fn value(self) -> f64 {
        match self {
            Self::Seconds(value)
            | Self::Bytes(value)
            | Self::Instructions(value)
            | Self::Count(value)
            | Self::PerSecond(value) => value,
        }
    }
}

impl From<Duration> for Figure {
    fn from(length: Duration) -> Self {
        Self::Seconds(length.as_secs_f64())
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match *self {
            Self::Seconds(value) if value < 1e-3 => format!("{:.0} µs", value * 1e6),
            Self::Seconds(value) if value < 1.0 => format!("{:.2} ms", value * 1e3),
            Self::Seconds(value) => format!("{value:.1} s"),
            Self::Bytes(value) => format!("{:.1} MiB", value / (1024.0 * 1024.0)),
            Self::Instructions(value) => format!("{:.0} k instr", value / 1e3),
            Self::Count(value) => format!("{value:.0}"),
            Self::PerSecond(value) => format!("{value:.0} /s"),
        };
        f.pad(&text)
    }
}

/// Returns the median, or zero if there are no values.
pub(crate) fn median(mut lengths: Vec<Duration>) -> Duration {
    lengths.sort();
    lengths.get(lengths.len() / 2).copied().unwrap_or_default()
}
