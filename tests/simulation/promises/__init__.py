"""What is promised: checked at each object, row and death, and on the whole archive in the end."""
