"""What is derived from a trace, kept in files, for reports and pages alike."""
