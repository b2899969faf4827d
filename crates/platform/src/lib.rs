//! The seam between decisions and clouds: CloudProvider, Clock, their errors and the contract every provider passes.
