"""What the tool costs: a call, reading, showing, and how well it measures."""
