"""The AWS APIs that tests run against: moto, with what it lacks."""
