"""Tests; never installed."""
