"""Models behind vendors' packages. Nothing here imports one before it is used."""
