"""The schema's history. Run by `usermem migrate`, and by itself only on the embedded Postgres."""
