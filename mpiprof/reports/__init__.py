"""What people and programs read: text for a terminal, words, JSON."""
