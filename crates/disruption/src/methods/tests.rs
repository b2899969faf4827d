mod cases;
mod consolidation;
mod devices;
mod drift;
mod emptiness;
mod validation;
