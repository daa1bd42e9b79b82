"""What is shown of every result: titles, texts, tables and curves, decided before anybody draws them."""
