"""How a program starts with our library put before its MPI; nothing here is slow to import."""
