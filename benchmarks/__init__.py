"""Measurements that are too slow, or too soft, to be tests."""
