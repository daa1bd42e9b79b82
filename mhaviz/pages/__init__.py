"""What is shown of every record: titles, texts, tables and curves, decided before anybody draws them."""
