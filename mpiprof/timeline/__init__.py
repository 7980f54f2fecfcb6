"""A trace over time: every segment of every rank, and sums of them at every scale."""
