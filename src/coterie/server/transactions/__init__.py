"""The transaction coordinator, its states and its markers."""
