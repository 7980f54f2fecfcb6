"""Which algorithm runs where: plans written by people, or made from traces."""
