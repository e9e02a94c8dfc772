"""Methods compared on labels whose truth is known."""
