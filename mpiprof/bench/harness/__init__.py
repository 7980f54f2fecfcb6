"""What studies share: cases and calls, times of all ranks, laps, tables and plots."""
