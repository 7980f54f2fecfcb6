"""Reports for people and programs: text for a terminal, sentences, JSON."""
