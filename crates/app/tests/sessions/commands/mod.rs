//! Commands that inspect, check, import, export or repair, and regression tests.

pub(super) mod archives;
mod checking;
mod doctor;
mod formats;
mod graphs;
mod hardening;
mod importing;
mod inspecting;
mod operating;
mod recovering;
mod removed_store;
