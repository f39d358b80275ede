"""The product: what is remembered, recalled and forgotten. No web framework below this line."""
