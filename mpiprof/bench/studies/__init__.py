"""The papers' studies, and requirements on an emulated cluster."""
