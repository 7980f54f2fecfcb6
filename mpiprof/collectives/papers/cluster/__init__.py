"""A small cluster emulated on one machine."""
