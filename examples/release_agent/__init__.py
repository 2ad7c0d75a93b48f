"""A release agent that is interrupted in every way there is, and releases once. Run it with ``make demo``."""
