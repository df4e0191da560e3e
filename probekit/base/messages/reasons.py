"""What another library's error says, short enough for a message of one's own."""

_LONGEST = 200


def reason_of(error: Exception) -> str:
    """Return an error's type and the beginning of its text: ``ValueError: no such key``."""
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text[:_LONGEST]}"
