"""Pages as matplotlib figures. Each picture is laid out first, in inches, and then drawn."""
