"""What several tests use: nothing in here is a test."""
