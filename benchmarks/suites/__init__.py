"""The suites: what is measured on each kind of device, as data."""
