"""XVERSE: a Llama."""

from ernie4_5 import model
