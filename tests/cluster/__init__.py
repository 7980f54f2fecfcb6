"""Tests of the emulated cluster, which need root."""
