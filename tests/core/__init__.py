"""Tests of C functions of the recorder, called through ctypes or small programs."""
