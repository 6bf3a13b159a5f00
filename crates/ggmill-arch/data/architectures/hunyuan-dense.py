"""Hunyuan: the text model of Hunyuan VL."""

from hunyuan_vl import model
