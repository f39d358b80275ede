"""Usermem: the memory that an AI product has of its users."""
