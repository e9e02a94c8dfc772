"""Methods side by side on labels whose truth is known."""
