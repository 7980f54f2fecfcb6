"""Plans that assign algorithms to calls: written by users, or computed from traces."""
