"""What every room may use: files that are whole or not there."""
