"""Values to text; no arithmetic."""
