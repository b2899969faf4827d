mod cases;
mod consolidation;
mod drift;
mod emptiness;
mod validation;
