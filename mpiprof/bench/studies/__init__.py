"""The papers' studies, and what must hold on an emulated cluster."""
