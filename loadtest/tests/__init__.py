"""Tests of the parts of the load test that compute and draw."""
