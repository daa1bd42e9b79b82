"""What commands share: options, sentences, files, and how results are delivered."""
