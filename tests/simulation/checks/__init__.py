"""What is promised: checked when an object, a row or a death comes to be, and on the whole archive in the end."""
