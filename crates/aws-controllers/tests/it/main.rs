//! The controllers of AWS, running, on an API in the process and with an account in memory.

mod account;
mod classes;
mod desk;
mod interruptions;
mod provider;
mod upkeep;
