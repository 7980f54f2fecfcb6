"""A trace as one self-contained page to mail: no script, no network, no other file."""
