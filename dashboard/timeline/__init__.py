"""A trace over time: every segment of every rank, and sums of segments at every scale."""
