"""Jais 2: Nemotron."""

from nemotron import model
