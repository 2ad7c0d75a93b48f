"""The refund desk: what ``examples/fastapi_app.py`` serves."""
